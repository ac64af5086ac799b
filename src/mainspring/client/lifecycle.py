"""The life of a Scheduler's worker in this process: start, stop, and run until a signal."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from mainspring.client.core import Core
from mainspring.client.drafting import Drafts
from mainspring.client.jobs import Jobs
from mainspring.client.namespaces.schedules import StoredSchedules
from mainspring.client.per_store import PerStore
from mainspring.client.registry import Declared
from mainspring.client.scheduling import Scheduling, Transactions
from mainspring.engine.limits.job_gates import Limits
from mainspring.errors import ConfigurationError, InvalidSchedule, MainspringError, ScheduleNotFound, Unavailable
from mainspring.model.jobs.draft import OPTIONS
from mainspring.model.jobs.retention import Keep, Retention
from mainspring.model.jobs.retry import Retry
from mainspring.model.schedules.schedule import Spec, check_repeated, make_spec

if TYPE_CHECKING:
    from mainspring.engine.run.context_backend import ChildScheduling
    from mainspring.engine.services.change_feed import ChangeFeed
    from mainspring.engine.worker import Worker

logger = logging.getLogger("mainspring")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_LAST_CALLBACKS = 5.0
"""Seconds that async callbacks may take to end when the Scheduler stops."""
_KEPT = (
    "kept and still fires: delete it with `mainspring schedules delete`, or give each program that declares "
    "schedules "
    'a name of its own, as in Scheduler(app="billing")'
)


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """The parts of a worker, beside the shared collaborators in `Core`."""

    scheduling: Scheduling
    drafts: Drafts
    transactions: Transactions
    schedules: StoredSchedules
    limits: Limits
    retry: Retry
    retention: tuple[Keep, ...]


class Lifecycle:
    """Starts the worker of one Scheduler, and stops it together with everything that this process has open."""

    def __init__(self, core: Core, parts: WorkerParts, jobs: Jobs, feed: PerStore[ChangeFeed]) -> None:
        self._core = core
        self._parts = parts
        self._jobs = jobs
        self._feed = feed
        self._stopping: Worker | None = None
        self._starting: int | None = None
        """The process that is starting a worker; after a fork, that is the parent."""
        self._hooks_run = 0
        """How many start hooks have run; none runs twice when the start is retried."""
        self._at_once = False
        self._drained: asyncio.Task[None] | None = None

    # -- starting --------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the worker, and return once it is up."""
        if self._core.worker.current is not None or self._starting == os.getpid():
            raise MainspringError("This scheduler is already running.")
        self._starting = os.getpid()
        try:
            self._core.worker.put(await self._start_worker())
        finally:
            self._starting = None
        self._core.link.watch_over()
        self._core.events.emit("scheduler:start")

    async def try_start(self) -> bool:
        """Start the worker. Return False if MongoDB is not available now."""
        try:
            await self.start()
        except Unavailable as error:
            logger.warning("MongoDB is unavailable, so no jobs run yet; the start is retried: %s", error)
            return False
        return True

    async def _start_worker(self) -> Worker:
        # A program that only stores jobs needs no part of a worker.
        from mainspring.engine.run.judge import Policies
        from mainspring.engine.worker import Worker

        core, parts, registry = self._core, self._parts, self._core.registry
        settings = core.link.settings
        store = await core.store()
        parts.transactions.check_handlers(store)
        await self._store_declared()
        await store.alerts.open(core.handlers.alerts)
        for hook in registry.start_hooks[self._hooks_run :]:
            await _maybe_await(hook())
            self._hooks_run += 1
        worker = Worker(
            store=store,
            settings=settings,
            handlers=core.handlers,
            policies=Policies(core.handlers, parts.retry, settings.timeout),
            events=core.events,
            enqueuer=self.child_scheduling(),
            limits=parts.limits,
            retention=Retention(parts.retention, settings.keep_finished, settings.keep_failed),
            archive=registry.archive,
            secrecy=core.privacy,
            middleware=registry.middleware,
            observers=registry.observers,
            version=_version(),
            drained=self._on_drained,
            id=os.environ.get("MAINSPRING_WORKER_ID"),
        )
        await worker.start()
        return worker

    def child_scheduling(self) -> ChildScheduling:
        """The functions by which handlers schedule child jobs."""
        from mainspring.engine.run.context_backend import ChildScheduling

        scheduling = self._parts.scheduling
        return ChildScheduling(
            scheduling.schedule_child,
            scheduling.draft_of_child,
            self._core.announce,
            scheduling.drafts_of_children,
            scheduling.announce_children,
            scheduling.draft_of_node,
        )

    async def _store_declared(self) -> None:
        """Store the schedules that are declared in code, and report those that the code no longer declares."""
        settings = self._core.link.settings
        specs = [self._declared_spec(declared) for declared in self._core.registry.declared]  # check all first
        store = await self._core.store()
        for spec in specs:
            self._parts.transactions.check_guarantee(store, spec.draft)
        for spec in specs:
            await self._parts.schedules.put(spec, settings.app)
        for schedule_id in await store.schedules.undeclared(settings.app, [spec.id for spec in specs]):
            if settings.undeclared == "remove":
                with suppress(ScheduleNotFound):  # another process of this app was faster
                    await store.schedules.delete(schedule_id)
            logger.warning(
                "Schedule %s was declared by app %r and is no longer in its code; it is %s",
                schedule_id,
                settings.app,
                "deleted" if settings.undeclared == "remove" else _KEPT,
            )
            self._core.events.emit("schedule:undeclared", schedule_id)

    def _declared_spec(self, declared: Declared) -> Spec:
        registry = self._core.registry
        job_options = {key: value for key, value in declared.options.items() if key in OPTIONS}
        options = {key: value for key, value in declared.options.items() if key not in OPTIONS}
        schedule_id = registry.identity(declared)
        try:
            draft = self._parts.drafts.draft(registry.handled_by(declared), declared.data, job_options)
            check_repeated(draft, None)
            return make_spec(schedule_id, draft, declared.rule, options)
        except ConfigurationError as error:  # it is raised far from the declaration, which it has to name
            raise InvalidSchedule(f"The declared schedule {schedule_id!r}: {error}") from error

    # -- stopping --------------------------------------------------------------------------------------------------

    async def stop(self, grace: float) -> None:
        """Stop the worker, whose handlers have `grace` seconds to finish, and close everything that is open."""
        self._hooks_run = 0
        worker = self._core.worker.take()
        try:
            if self._drained is not None:
                await asyncio.wait({self._drained})
            if worker is not None:
                await self._stop_worker(worker, grace)
        finally:
            await self._core.events.settle(_LAST_CALLBACKS)
            await self._core.secret_uses.close()
            self._jobs.close()
            if (feed := self._feed.take()) is not None:
                await feed.close()
            await self._core.link.close()

    async def stop_worker(self, grace: float) -> None:
        """Stop the worker alone. The Scheduler itself goes on, and keeps its connection."""
        self._hooks_run = 0
        worker = self._core.worker.take()
        if worker is not None:
            await self._stop_worker(worker, grace)

    async def _stop_worker(self, worker: Worker, grace: float) -> None:
        self._stopping = worker
        try:
            await worker.stop(0.0 if self._at_once else grace)
        finally:
            self._stopping, self._at_once = None, False
            try:
                for hook in self._core.registry.stop_hooks:
                    await _maybe_await(hook())
            finally:
                self._core.events.emit("scheduler:stop")

    def _on_drained(self) -> None:
        """Stop the worker, which an operator has drained. The Scheduler itself goes on."""
        worker = self._core.worker.take()
        if worker is not None:
            self._hooks_run = 0
            self._drained = asyncio.create_task(self._stop_worker(worker, self._core.link.settings.grace))
            self._drained.add_done_callback(self._after_drain)

    def _after_drain(self, ended: asyncio.Task[None]) -> None:
        self._drained = None
        if not ended.cancelled() and (error := ended.exception()) is not None:
            logger.error("The drained worker did not stop cleanly", exc_info=error)

    def stop_now(self) -> None:
        """Stop without waiting for handlers: applies to a stop that is under way, or to the next one."""
        self._at_once = True
        if self._stopping is not None:
            self._stopping.stop_now()

    # -- running ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run jobs until SIGTERM or SIGINT, then stop within the grace time, or at once at a second signal."""
        loop = asyncio.get_running_loop()
        told = asyncio.Event()

        def on_signal() -> None:
            if told.is_set():
                self.stop_now()
            told.set()

        def drained(_: str) -> None:
            told.set()

        handled = [signal.SIGTERM, signal.SIGINT]
        for number in handled:
            _handle_signal(loop, number, on_signal)
        self._core.events.on("worker:stop", drained)
        try:
            pauses = start_pauses()
            while not told.is_set() and not await self.try_start():
                with suppress(TimeoutError):
                    async with asyncio.timeout(next(pauses)):
                        await told.wait()
            await told.wait()
        finally:
            self._core.events.off("worker:stop", drained)
            await self.stop(self._core.link.settings.grace)
            for number in handled:
                with suppress(NotImplementedError):
                    loop.remove_signal_handler(number)


def start_pauses() -> Iterator[float]:
    """Yield the seconds to wait before each further try to start."""
    pause = _FIRST_PAUSE
    while True:
        yield random.uniform(0.5, 1.5) * pause
        pause = min(2 * pause, _LONGEST_PAUSE)


@functools.cache
def _version() -> str:
    """The version of this package; to find it, the metadata of all installed packages may have to be searched."""
    try:
        return version("mainspring")
    except PackageNotFoundError:
        return "0"


def _handle_signal(loop: asyncio.AbstractEventLoop, number: signal.Signals, callback: Callable[[], None]) -> None:
    try:
        loop.add_signal_handler(number, callback)
    except NotImplementedError:  # an event loop without signals, as on Windows
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(callback))


async def _maybe_await(outcome: Any) -> None:
    if asyncio.iscoroutine(outcome) or isinstance(outcome, asyncio.Future):
        await outcome
