"""The guardian: a small process, in a session of its own, that owns the mongod of one folder.

A user starts it (`launch.py`) and hands it the lock `guardian.lock`. It belongs to no user: it serves while any process
holds `users.lock`, restarts a mongod that dies, and stops it when no user is left. It keeps true:

- one guardian per folder, because the starter hands the lock over and it is never free in between;
- once the guardian has begun to stop it holds `users.lock` exclusively: a new user waits until it is gone, and a user
  that took the lock before keeps it from stopping;
- it releases `guardian.lock` before `users.lock`: a new user never mistakes a stopping guardian for a running one.

It imports the standard library only, and nothing else of Mainspring: it starts in 50 ms and takes about 10 MB.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

from mainspring.mongod import ports
from mainspring.mongod.failures import data_in_use, explain, explain_no_start
from mainspring.mongod.folder import Folder, Phase, State, folder_error
from mainspring.mongod.locks import FileLock
from mainspring.mongod.process import Mongod

TICK = 0.1
START_TICK = 0.01
LINGER = 1.0
FAILED_LINGER = 1.0
PORT_TRIES = 5
PORT_PATIENCE = 0.5
FAILING_AFTER = 3
LONGEST_DELAY = 5.0
STEADY_AFTER = 10.0
ORPHAN_PATIENCE = 10.0
STRANGER_PATIENCE = 2.0
LOG_CHECK_INTERVAL = 30.0


class CannotStart(Exception):
    """mongod cannot be started; the users raise an error with this message."""


class PortTaken(CannotStart):
    """mongod cannot be started on this port; another port may work."""


class _TimeToStop(Exception):
    """No user is left, the folder is gone, or this process received SIGTERM."""


class Guardian:
    """One guardian: it starts mongod, keeps it running and stops it."""

    def __init__(self, folder: Folder, binary: str, run: str, cache_gb: str, lock: FileLock) -> None:
        self._folder = folder
        self._binary = binary
        self._cache_gb = cache_gb
        self._lock = lock
        self._users = FileLock(folder.users_lock)
        self._before = folder.read_state()
        self._run = run
        self._port = self._before.port
        self._mongod: Mongod | None = None
        self._empty_since: float | None = None
        self._told_to_stop = False

    def run(self) -> None:
        """Serve until it is time to stop."""
        self._heed_signals()
        try:
            self._await_previous()
            self._start()
            self._serve()
        except _TimeToStop:
            self._say("stopping")
        except CannotStart as failure:
            self._say("failed", str(failure))
            self._let_users_read()
        finally:
            self._leave()

    def _heed_signals(self) -> None:
        if hasattr(signal, "pthread_sigmask"):  # the starter's thread may have blocked some, for itself only
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for name in ("SIGINT", "SIGHUP", "SIGQUIT", "SIGTSTP", "SIGPIPE"):
            if number := getattr(signal, name, None):
                signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._stop_soon)

    def _stop_soon(self, *_: object) -> None:
        self._told_to_stop = True

    # Starting

    def _await_previous(self) -> None:
        """Wait for a mongod whose guardian was killed, and which is still stopping."""
        if sys.platform == "win32":
            return
        started = time.monotonic()
        while self._data_is_locked():
            waited = time.monotonic() - started
            owner = self._folder.mongod_lock_owner()
            ours = owner is not None and owner == self._before.mongod
            if waited > STRANGER_PATIENCE and not ours:
                raise CannotStart(data_in_use(self._folder.data, owner))
            if waited > ORPHAN_PATIENCE and owner is not None:
                os.kill(owner, signal.SIGKILL)
            self._say("starting", "the previous mongod is still stopping")
            self._pause(TICK)

    def _data_is_locked(self) -> bool:
        if not self._folder.mongod_lock.exists():
            return False
        lock = FileLock(self._folder.mongod_lock)
        try:
            return not lock.try_exclusive()
        finally:
            lock.close()

    def _start(self) -> None:
        """Start mongod, on the port of the last run if it is free."""
        self._await_port()
        for tries_left in reversed(range(PORT_TRIES)):
            self._port = ports.choose_port(self._port)
            if self._port is None:
                raise CannotStart(
                    "There is no free port on 127.0.0.1 between 20000 and 32000 for the embedded mongod; "
                    "stop some of the programs that listen there."
                )
            try:
                self._launch("starting", self._port)
                break
            except PortTaken:
                self._port = None
                if not tries_left:
                    raise

    def _await_port(self) -> None:
        """Wait a moment for the port of the last run to become free: running users may be connected to it."""
        until = time.monotonic() + PORT_PATIENCE
        while self._port and not ports.is_free(self._port) and time.monotonic() < until:
            self._pause(START_TICK)

    def _launch(self, phase: Phase, port: int) -> None:
        """Start mongod and wait until it accepts connections."""
        unclean = self._folder.was_left_unclean()
        try:
            self._mongod = mongod = Mongod(self._folder, self._binary, port, self._cache_gb)
        except OSError as error:
            raise CannotStart(self._explain_no_start(error)) from error
        self._say(phase, "it recovers after an unclean stop" if unclean else "mongod starts")
        while not ports.answers(port):
            self._pause(START_TICK)
            self._check_alive(mongod)
        # Another program may have answered on that port, and mongod may be about to end because of it.
        self._check_alive(mongod)
        self._say("running")

    def _explain_no_start(self, error: OSError) -> str:
        in_folder = error.filename is not None and str(error.filename).startswith(str(self._folder.path))
        return str(folder_error(self._folder.path, error)) if in_folder else explain_no_start(self._binary, error)

    def _check_alive(self, mongod: Mongod) -> None:
        if mongod.ended():
            ending = mongod.ending()
            raise (PortTaken if ending.port_taken else CannotStart)(explain(ending))

    # Serving

    def _serve(self) -> NoReturn:
        """Watch mongod, and restart it on its port, after a growing pause, each time it dies."""
        failures = 0
        while True:
            began = time.monotonic()
            sentence = self._watch()
            failures = 1 if time.monotonic() - began > STEADY_AFTER else failures + 1
            self._say("failing" if failures >= FAILING_AFTER else "restarting", sentence)
            self._wait(min(TICK * 2**failures, LONGEST_DELAY))

    def _watch(self) -> str:
        """Run mongod until it dies; return the sentence that says why."""
        try:
            if self._mongod is None or self._mongod.ended():
                assert self._port is not None
                self._launch("restarting", self._port)
            next_log_check = 0.0
            while True:
                self._pause(TICK)
                assert self._mongod is not None
                self._check_alive(self._mongod)
                if time.monotonic() >= next_log_check:
                    next_log_check = time.monotonic() + LOG_CHECK_INTERVAL
                    self._mongod.keep_log_small()
        except CannotStart as failure:
            return str(failure)

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._pause(TICK)

    def _pause(self, seconds: float) -> None:
        """Sleep, and raise when it is time to stop."""
        time.sleep(seconds)
        if self._told_to_stop or self._lock.orphaned or self._is_unused():
            raise _TimeToStop

    def _is_unused(self) -> bool:
        """Whether there has been no user for a while; if so, no user can join from now on."""
        if not self._users.try_exclusive():
            self._empty_since = None
            return False
        now = time.monotonic()
        self._empty_since = self._empty_since or now
        if now - self._empty_since >= LINGER:
            return True
        self._users.unlock()
        return False

    # Reporting and leaving

    def _say(self, phase: Phase, detail: str = "") -> None:
        mongod = self._mongod.pid if self._mongod else self._before.mongod
        state = State(phase, self._run, self._port, os.getpid(), mongod, detail)
        try:
            self._folder.write_state(state)
        except OSError:
            pass  # A full disk or a removed folder: the users notice it by themselves.

    def _let_users_read(self) -> None:
        """Stay for a moment, so that all waiting users read why mongod failed before one of them tries again."""
        until = time.monotonic() + FAILED_LINGER
        while time.monotonic() < until and not self._users.try_exclusive():
            time.sleep(START_TICK)

    def _leave(self) -> None:
        if self._mongod:
            self._end_mongod(self._mongod)
        self._lock.close()
        self._users.close()

    def _end_mongod(self, mongod: Mongod) -> None:
        if self._lock.orphaned:
            mongod.kill()
        else:
            mongod.stop()


def main(arguments: list[str]) -> None:
    """Run the guardian described by the command line that `launch.py` wrote."""
    path, binary, run, cache_gb, lock_fd = arguments
    folder = Folder(Path(path))
    lock = FileLock(folder.guardian_lock, int(lock_fd)) if lock_fd else _own_lock(folder)
    if lock:
        os.umask(0o077)
        os.set_inheritable(lock.fileno(), False)
        Guardian(folder, binary, run, cache_gb, lock).run()


def _own_lock(folder: Folder) -> FileLock | None:
    """Take the lock on Windows, where it cannot be handed over; None if another guardian has it."""
    lock = FileLock(folder.guardian_lock)
    for _ in range(100):
        if lock.try_exclusive():
            return lock
        time.sleep(START_TICK)
    return None
