"""The supervisor of `mainspring worker`, which keeps a number of worker processes alive.

It replaces a worker that ends unasked, after a pause that grows with each such end; a worker that an operator has
drained is not replaced. It knows for sure that the process is dead, so that it rescues the worker's jobs at once,
instead of waiting for the leases to run out. If a worker cannot start because of its settings, or if the starts fail
repeatedly, the supervisor ends; in an outage of the database it does not. With `--reload`, it replaces all workers when
a file of the application changes, and waits for a change where they cannot start.

At the first signal the workers drain, at the second they stop at once, at the third they are killed. The supervisor
also kills a worker that has not ended some time after its grace. If the supervisor itself is killed, its workers notice
and drain.
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
from collections.abc import Mapping
from typing import Any

from mainspring.cli.supervision.channel import STOP, STOP_NOW
from mainspring.cli.supervision.child import Child
from mainspring.cli.supervision.metrics_port import address_of
from mainspring.cli.supervision.watching import WATCH_EVERY, Watched
from mainspring.cli.supervision.worker_process import KILL_MARGIN, UNAVAILABLE
from mainspring.cli.support.exit_codes import RUNTIME_FAILURE, TO_BE_CHANGED, say
from mainspring.client.scheduler import Scheduler
from mainspring.clock import monotonic
from mainspring.config.settings import without_password
from mainspring.engine.service import cancel_task
from mainspring.errors import MainspringError, Unavailable

logger = logging.getLogger("mainspring")

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 30.0
_LIVED_LONG = 30.0
_MOST_FAILED_STARTS = 5
_HURRY_MARGIN = 10.0
# A write of the dead worker may arrive after its death; a single rescue might miss it.
_RESCUE_PAUSES = (0.0, 1.0, 4.0)


class Supervisor:
    """Supervises the worker processes of one target, or of webhooks and email.

    `scheduler` is this process's own, for the rescue of dead workers' jobs; `uri` is the database that the user gave to
    the command, if any; `metrics` the address at which the first worker serves its metrics. A worker ends for good
    after `max_jobs` jobs; with `reload`, all are replaced when a file of the application changes.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        target: str | None,
        options: Mapping[str, Any],
        processes: int,
        uri: str | None = None,
        metrics: tuple[str, int] | None = None,
        *,
        max_jobs: int | None = None,
        reload: bool = False,
    ) -> None:
        self._scheduler = scheduler
        self._target = target
        self._options = options
        self._uri = uri
        self._metrics = metrics
        self._processes = processes
        self._max_jobs = max_jobs
        self._watched = Watched() if reload else None
        self._changed = asyncio.Event()
        self._children: set[Child] = set()
        self._rescues: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._signals = 0
        self._failed_starts = 0
        self._exit_code = 0
        self._last_words: str | None = None

    async def run(self) -> int:
        """Supervise until a signal, or until the workers cannot be started, and return the exit code."""
        loop = asyncio.get_running_loop()
        for wanted in _SIGNALS:
            loop.add_signal_handler(wanted, self._on_signal)
        try:
            if await self._connect():
                watching = asyncio.create_task(self._watch())
                async with asyncio.TaskGroup() as group:
                    for number in range(1, self._processes + 1):
                        group.create_task(self._keep(number))
                await cancel_task(watching)
        finally:
            self._kill_all()
            await self._finish_rescues()
            await self._scheduler.stop()
        if self._last_words is not None:
            say(self._last_words)
        return self._exit_code

    async def _connect(self) -> bool:
        """Connect before any worker is started, so that an error is reported once. Return False after a signal."""
        stopping = asyncio.create_task(self._stopping.wait())
        connecting = asyncio.create_task(self._until_connected())
        await asyncio.wait({connecting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not connecting.done():
            await cancel_task(connecting)
            return False
        await connecting
        logger.info(
            "%d worker process%s for %s on %s",
            *(self._processes, "" if self._processes == 1 else "es"),
            *(self._target or "webhooks and email", self._place),
        )
        return not self._stopping.is_set()

    async def _until_connected(self) -> None:
        """Connect, and wait for a MongoDB that cannot be reached yet."""
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._scheduler.connect()
                return
            except Unavailable as error:
                logger.warning("Waiting for MongoDB at %s, which cannot be reached: %s", self._place, error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    @property
    def _place(self) -> str:
        return without_password(self._scheduler.uri or "a client of its own")

    # -- one worker after the other --------------------------------------------------------------------------------

    async def _keep(self, number: int) -> None:
        """Keep a worker of this number alive until the supervisor stops."""
        short_lives = 0
        while not self._stopping.is_set():
            started = monotonic()
            child = await self._run_child(number)
            if self._stopping.is_set():
                self._after_stop(child)
                return
            if child.reloading:
                if child.code != 0 and child.ready:
                    self._rescue(child)
                continue
            if child.drained and child.code == 0:
                logger.info("Worker %d (pid %d) was drained and is not replaced", child.number, child.pid)
                return
            self._after_death(child)
            short_lives = 0 if monotonic() - started >= _LIVED_LONG else short_lives + 1
            if self._watched is not None and not child.ready:
                await self._until_changed(child)
            elif not self._stopping.is_set():
                await self._pause_before_next(child, short_lives)

    async def _run_child(self, number: int) -> Child:
        """Start a worker and wait for its end."""
        child = Child(number, self._on_ready)
        self._children.add(child)
        try:
            await child.start(self._target, self._options, self._uri, address_of(number, self._metrics), self._max_jobs)
            if self._stopping.is_set():
                child.tell(STOP)
            await child.ended()
        except OSError as error:
            child.last_words = f"A worker process cannot be started: {error}"
        finally:
            self._children.discard(child)
        return child

    def _on_ready(self, child: Child) -> None:
        self._failed_starts = 0
        logger.info("Worker %d is up (pid %d)", child.number, child.pid)

    def _after_stop(self, child: Child) -> None:
        """Rescue the jobs of a worker that failed while all are stopping. A worker that was still starting has none."""
        if child.ready and child.code != 0:
            logger.error("Worker %d (pid %d) %s instead of draining", child.number, child.pid, child.how_it_ended())
            self._exit_code = self._exit_code or RUNTIME_FAILURE
            child.kill_relatives()
            self._rescue(child)

    def _after_death(self, child: Child) -> None:
        """Rescue the jobs of a worker that ended unasked, or count its failed start."""
        child.kill_relatives()
        if child.ready:
            self._rescue(child)
        elif self._watched is not None:
            return  # the next change of a file may mend it
        elif child.code == TO_BE_CHANGED:
            self._give_up(TO_BE_CHANGED, child.last_words or f"A worker process {child.how_it_ended()}.")
        elif child.code != UNAVAILABLE:
            self._failed_starts += 1
            if self._failed_starts >= _MOST_FAILED_STARTS:
                said = child.last_words or f"the last one {child.how_it_ended()}"
                self._give_up(RUNTIME_FAILURE, f"{_MOST_FAILED_STARTS} worker processes failed to start: {said}")

    async def _pause_before_next(self, child: Child, short_lives: int) -> None:
        longest = _FIRST_PAUSE * 2 ** min(max(0, short_lives - 1), 20)
        pause = random.uniform(0.5, 1.5) * min(longest, _LONGEST_PAUSE)
        words = f": {child.last_words}" if child.last_words else ""
        logger.warning(
            "Worker %d (pid %d) %s%s; its replacement starts in %.1f s",
            *(child.number, child.pid, child.how_it_ended(), words, pause),
        )
        await self._unless_stopping(pause)

    # -- reloading -------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Replace the workers when a file of the application changes."""
        if self._watched is None:
            return
        logger.info("Watching the files of the application for changes (%d)", len(self._watched))
        while not self._stopping.is_set():
            await asyncio.sleep(WATCH_EVERY)
            path = self._watched.changed()
            if path is not None:
                logger.info("%s has changed; restarting the workers", path)
                self._changed.set()
                for child in self._children:
                    child.reloading = True
                    child.tell(STOP_NOW)

    async def _until_changed(self, child: Child) -> None:
        """Wait for a change of the application that cannot start."""
        logger.error("The worker cannot start: %s", child.last_words or child.how_it_ended())
        self._changed.clear()
        stopping = asyncio.create_task(self._stopping.wait())
        changed = asyncio.create_task(self._changed.wait())
        await asyncio.wait({stopping, changed}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        changed.cancel()

    # -- rescuing the jobs of dead workers -------------------------------------------------------------------------

    def _rescue(self, child: Child) -> None:
        rescue = asyncio.create_task(self._rescue_from(child.worker_id))
        self._rescues.add(rescue)
        rescue.add_done_callback(self._rescues.discard)

    async def _rescue_from(self, worker_id: str) -> None:
        """Rescue the jobs of a dead worker; in an outage, try until it is over or the leases have run out."""
        until = monotonic() + self._scheduler.settings.lease
        for pause in _RESCUE_PAUSES:
            await self._unless_stopping(pause)
            while not await self._try_to_rescue(worker_id) and monotonic() < until and not self._stopping.is_set():
                await self._unless_stopping(1.0)

    async def _try_to_rescue(self, worker_id: str) -> bool:
        try:
            await self._scheduler.workers.rescue(worker_id)
            return True
        except MainspringError as error:
            logger.warning("The jobs of the worker %s cannot be released now (%s)", worker_id, error)
            return False

    async def _finish_rescues(self) -> None:
        if self._rescues:
            self._stopping.set()
            await asyncio.wait(list(self._rescues))

    # -- stopping --------------------------------------------------------------------------------------------------

    def _on_signal(self) -> None:
        self._signals += 1
        if self._signals == 1:
            grace = self._scheduler.settings.grace
            logger.info("Stopping; running jobs have %g s to finish (a second signal stops at once)", grace)
            self._stop()
        elif self._signals == 2:
            logger.info("Stopping at once; running jobs are cancelled and released")
            self._tell_all(STOP_NOW)
            asyncio.get_running_loop().call_later(_HURRY_MARGIN, self._kill_all)
        else:
            self._kill_all()

    def _give_up(self, code: int, last_words: str) -> None:
        if not self._stopping.is_set():
            self._exit_code, self._last_words = code, last_words
            self._stop()

    def _stop(self) -> None:
        self._stopping.set()
        self._tell_all(STOP)
        asyncio.get_running_loop().call_later(self._scheduler.settings.grace + KILL_MARGIN, self._kill_all)

    def _tell_all(self, word: str) -> None:
        for child in self._children:
            child.tell(word)

    def _kill_all(self) -> None:
        for child in self._children:
            child.kill()

    async def _unless_stopping(self, seconds: float) -> None:
        """Wait, but no longer than until the supervisor stops."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass
