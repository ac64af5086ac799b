"""What is left after a crash: it comes back by itself, or with the next `ensure()` or `open_server()`."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socketserver
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.errors import OperationFailure

from mainspring.mongod import ports
from mainspring.mongod.binary import find_mongod
from mainspring.mongod.folder import Folder, State
from mainspring.mongod.process import LOG_LIMIT
from mainspring.mongod.server import open_server

IsAlive = Callable[[int], bool]
Eventually = Callable[..., None]

KEY_NOT_FOUND = 211


def connect(uri: str) -> MongoClient[dict[str, Any]]:
    return MongoClient(uri, w="majority", journal=True)


@contextlib.contextmanager
def taken(port: int) -> Iterator[None]:
    """Another program listens on the port, and hangs up on every client."""
    socketserver.TCPServer.allow_reuse_address = True
    with socketserver.TCPServer((ports.HOST, port), socketserver.BaseRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def test_a_killed_mongod_comes_back_on_its_port_with_what_was_written(
    folder: Path, is_alive: IsAlive, eventually: Eventually
) -> None:
    with open_server(folder) as server, connect(server.uri) as client:
        killed, uri = server.pid, server.uri
        client.test.things.insert_one({"_id": 1})
        os.kill(killed, signal.SIGKILL)
        time.sleep(0.3)
        eventually(lambda: _count(client) == 1)
        assert server.ensure() is True
        assert (server.uri, is_alive(killed)) == (uri, False)
        assert server.pid != killed


def _count(client: MongoClient[Any]) -> int | None:
    """The number of things; None while the server, which has just started, cannot read the keys of its cluster yet."""
    try:
        return client.test.things.count_documents({})
    except OperationFailure as error:
        assert error.code == KEY_NOT_FOUND, error
        return None


def test_a_mongod_that_keeps_dying_is_reported_and_started_again_when_it_can(
    folder: Path, fake_mongod: Callable[[str], Path], eventually: Eventually
) -> None:
    real = _real_mongod()
    script = f'[ -e broken ] && echo "No space left on device" && exit 14\nexec "{real}" "$@"\n'
    fake_mongod(script)
    with open_server(folder) as server:
        (folder / "broken").touch()
        os.kill(server.pid, signal.SIGKILL)
        eventually(lambda: Folder(folder).read_state().phase == "failing")
        assert "no space left" in Folder(folder).read_state().detail
        (folder / "broken").unlink()
        eventually(lambda: Folder(folder).read_state().phase == "running")
        assert server.ensure() is True


def test_mongod_dies_with_a_killed_guardian_and_ensure_brings_both_back(
    folder: Path, is_alive: IsAlive, eventually: Eventually
) -> None:
    with open_server(folder) as server, connect(server.uri) as client:
        client.test.things.insert_one({"_id": 1})
        mongod, guardian, uri = server.pid, server.guardian_pid, server.uri
        os.kill(guardian, signal.SIGKILL)
        eventually(lambda: not is_alive(guardian))
        assert server.ensure() is True
        assert not is_alive(mongod)
        assert server.uri == uri
        assert server.guardian_pid != guardian
        assert client.test.things.count_documents({}) == 1


def test_a_killed_guardian_leaves_no_mongod_behind_and_the_next_user_starts_anew(
    folder: Path, is_alive: IsAlive, eventually: Eventually
) -> None:
    server = open_server(folder)
    os.kill(server.guardian_pid, signal.SIGKILL)
    server.close()
    eventually(lambda: not is_alive(server.pid), 60)
    with open_server(folder) as again:
        assert again.uri == server.uri


def test_a_guardian_told_to_end_stops_its_mongod_cleanly(
    folder: Path, is_alive: IsAlive, eventually: Eventually
) -> None:
    with open_server(folder) as server:
        os.kill(server.guardian_pid, signal.SIGTERM)
        eventually(lambda: not is_alive(server.guardian_pid), 60)
        assert not is_alive(server.pid)
        assert not Folder(folder).was_left_unclean()


def test_where_the_kernel_cannot_tie_mongod_to_its_guardian_a_leash_does(
    folder: Path, is_alive: IsAlive, eventually: Eventually
) -> None:
    script = """
        import sys
        from pathlib import Path
        from mainspring.mongod import ports, process
        from mainspring.mongod.folder import Folder
        process._tie_to_this_process = lambda: None
        folder = Folder(Path(sys.argv[1]))
        folder.prepare()
        mongod = process.Mongod(folder, sys.argv[2], ports.choose_port(None), "0.25")
        while not ports.answers(mongod.port):
            pass
        print(mongod.pid, flush=True)
        sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(folder), _real_mongod()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout
        mongod = int(owner.stdout.readline())
        owner.kill()
        eventually(lambda: not is_alive(mongod), 60)


def test_an_unclean_stop_of_everything_recovers_on_the_next_open(
    folder: Path, is_alive: IsAlive, eventually: Eventually
) -> None:
    with open_server(folder) as server, connect(server.uri) as client:
        client.test.things.insert_many([{"_id": number} for number in range(100)])
        os.kill(server.guardian_pid, signal.SIGSTOP)
        os.kill(server.pid, signal.SIGKILL)
        os.kill(server.guardian_pid, signal.SIGKILL)
    eventually(lambda: not is_alive(server.guardian_pid))
    assert Folder(folder).was_left_unclean()
    with open_server(folder) as server, connect(server.uri) as client:
        assert client.test.things.count_documents({}) == 100


def test_files_left_by_a_crash_confuse_nobody(folder: Path) -> None:
    folder.mkdir()
    left = Folder(folder)
    left.data.mkdir()
    left.mongod_lock.write_text(f"{os.getpid()}\n")
    left.write_state(State("running", "an earlier run", 20999, os.getpid(), os.getpid()))
    with open_server(folder) as server:
        assert server.port == 20999
        assert server.pid != os.getpid()


def test_a_state_that_cannot_be_read_is_no_obstacle(folder: Path) -> None:
    folder.mkdir()
    (folder / "state.json").write_text('{"phase": "runn')
    with open_server(folder) as server:
        assert server.port


def test_when_its_port_is_taken_the_server_moves_to_another_and_keeps_its_data(
    folder: Path, is_alive: IsAlive, eventually: Eventually
) -> None:
    with open_server(folder) as first, connect(first.uri) as client:
        client.test.things.insert_one({"_id": 1})
    eventually(lambda: not is_alive(first.pid) and ports.is_free(first.port), 60)
    with taken(first.port), open_server(folder) as second, connect(second.uri) as client:
        assert second.port != first.port
        assert client.test.things.count_documents({}) == 1
        client.test.things.insert_one({"_id": 2})


def test_when_the_folder_is_removed_nothing_runs_on(folder: Path, is_alive: IsAlive, eventually: Eventually) -> None:
    with open_server(folder) as server:
        gone = server.pid
        folder.rename(folder.with_name("removed"))
        shutil.rmtree(folder.with_name("removed"), ignore_errors=True)
        eventually(lambda: not is_alive(gone) and not is_alive(server.guardian_pid), 60)
        assert not folder.exists()
        assert server.ensure() is True
        assert is_alive(server.pid)


def test_a_large_log_is_set_aside(folder: Path) -> None:
    folder.mkdir()
    with (folder / "mongod.log").open("wb") as log:
        log.truncate(LOG_LIMIT)
    with open_server(folder):
        assert (folder / "mongod.log.1").stat().st_size == LOG_LIMIT
        assert 0 < (folder / "mongod.log").stat().st_size < LOG_LIMIT


def _real_mongod() -> str:
    return str(find_mongod())
