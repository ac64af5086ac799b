"""Scheduler: the user's face. Registers handlers, schedules and queries jobs, starts and stops the worker.

It connects lazily, on the event loop that first uses it; everything but running jobs works before `start()`. What it
does itself is little: it checks arguments, hands over to the store's verbs, and owns the worker's life.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType
from typing import Any, Self, TypeVar

from mainspring.access import AccessVerbs
from mainspring.calendars import CalendarVerbs
from mainspring.clock import Clock, ServerClock
from mainspring.config import Settings, choose_uri, make_settings
from mainspring.creations import CreationVerbs
from mainspring.dead_letters import DeadLetterVerbs
from mainspring.engine.agent import Enqueuer
from mainspring.engine.backlog import Backlogs
from mainspring.engine.chores.rescue_lost import announce_rescue
from mainspring.engine.counting import Counting
from mainspring.engine.limits import Limits
from mainspring.engine.policy import Policies
from mainspring.engine.secrecy import Secrecy
from mainspring.engine.worker import Worker
from mainspring.errors import (
    ConfigurationError,
    MainspringError,
    ScheduleNotFound,
    Unavailable,
)
from mainspring.explaining import ExplainVerbs
from mainspring.flow import FlowVerbs
from mainspring.handlers import Handler
from mainspring.jobs import JobVerbs
from mainspring.keyring import find_keys
from mainspring.link import Link
from mainspring.model.draft import (
    OPTIONS,
    check_retry,
)
from mainspring.model.job import Job
from mainspring.model.retention import Keep, Retention, check_retention
from mainspring.model.retry import Retry, Seconds, seconds
from mainspring.model.schedule import Spec, check_repeated, make_spec
from mainspring.observing import ObserveVerbs
from mainspring.overview import OverviewVerbs
from mainspring.registration import Declared
from mainspring.scheduling import SchedulingVerbs
from mainspring.searching import SearchVerbs
from mainspring.secret_store import SecretVerbs
from mainspring.store import Store
from mainspring.store.connection import Document
from mainspring.store.sealing import Sealer
from mainspring.store.watch import Hint

logger = logging.getLogger("mainspring")

F = TypeVar("F", bound=Callable[..., Any])


def _version() -> str:
    try:
        return version("mainspring")
    except PackageNotFoundError:
        return "0"


class Scheduler(
    SchedulingVerbs,
    JobVerbs,
    ExplainVerbs,
    FlowVerbs,
    DeadLetterVerbs,
    AccessVerbs,
    SearchVerbs,
    OverviewVerbs,
    SecretVerbs,
    ObserveVerbs,
    CreationVerbs,
    CalendarVerbs,
):
    """Schedules jobs on MongoDB and, once started, runs them.

    With no URI it looks at MAINSPRING_URI, MONGODB_URI and MONGO_URI, and else starts an embedded mongod in
    `./.mainspring` (`embedded:PATH` chooses another folder). An AsyncMongoClient of yours may be handed in instead.
    `handler` receives every job that has no handler of its own. `keys` are those for encrypted data, by their ids; the
    first one seals, and without them MAINSPRING_KEYS and MAINSPRING_KEYS_FILE count. The other options are listed in
    `config.Settings`.
    """

    def __init__(
        self,
        uri: str | None = None,
        *,
        client: Any = None,
        handler: Callable[..., Any] | None = None,
        retry: Retry | int | None = None,
        retention: Sequence[Keep] = (),
        keys: Mapping[str, bytes | str] | None = None,
        clock: Clock | None = None,
        **options: Any,
    ) -> None:
        self.settings: Settings = make_settings(options)
        self._clock: Clock = clock or ServerClock()
        sealer = Sealer(find_keys(keys))
        self._link = Link(uri if client is not None else choose_uri(uri), client, self.settings, self._clock, sealer)
        super().__init__()
        self._secrecy = Secrecy(self._handlers, sealer, self.settings)
        self._events.fit = self._secrecy.announced
        self._retry = check_retry(retry) if retry is not None else Retry()
        self._retention = check_retention(retention)
        self._policies = Policies(self._handlers, self._retry, self.settings.timeout)
        self._limits = Limits(self._handlers, self._queue_limits)
        self._backlogs = Backlogs(self._bounds)
        if handler is not None:
            self._handlers.catch_all = Handler("*", handler)
        self._worker: Worker | None = None
        self._stopping: Worker | None = None
        self._starting = False
        self._hurried = False
        self._process = os.getpid()

    def configure(self, uri: str | None = None, **options: Any) -> Self:
        """Change the URI or settings after all; only before the first connection. The command line does so."""
        if self._worker is not None or self._link.connected:
            raise ConfigurationError("This scheduler is connected already; call configure() before it is used.")
        self.settings = make_settings({**asdict(self.settings), **options})
        self._secrecy.configure(self.settings)
        self._check_encrypted()
        self._link = self._link.changed(self.settings, None if uri is None else choose_uri(uri))
        self._policies = Policies(self._handlers, self._retry, self.settings.timeout)
        return self

    # -- the connection --------------------------------------------------------------------------------------------

    async def connect(self) -> Self:
        """Connect now instead of at the first use."""
        await self._store()
        return self

    @property
    def uri(self) -> str | None:
        """The URI in use, for any MongoDB client; before the embedded server is started, `embedded:` and its folder."""
        return self._link.uri

    def now(self) -> datetime:
        """The database's clock, as far as this process knows it."""
        return self._clock.now()

    @property
    def client(self) -> Any:
        """The AsyncMongoClient in use; for `session=`, and to look inside."""
        return self._link.open_store().connection.client

    async def _store(self) -> Store:
        self._leave_parent()
        store = await self._link.store()
        if self._waiting is not None and self._waiting.store is not store:
            self._waiting = None
        with suppress(Unavailable):  # what is asked for next will tell
            await store.connection.keep_clock()
        return store

    def _announce(self, document: Document, job: Job) -> None:
        if self._events.wanted("job:created"):
            self._events.emit("job:created", job)
        self._due(document)

    def _due(self, document: Document) -> None:
        if self._worker is not None:
            self._worker.hint(Hint(document["_id"], document["queue"], document["run_at"], raw=False))

    def _wake(self) -> None:
        if self._worker is not None:
            self._worker.wake()

    def _schedules_changed(self) -> None:
        if self._worker is not None:
            self._worker.schedules_changed()

    def _look(self) -> None:
        if self._worker is not None:
            self._worker.look()

    def _controls_changed(self) -> None:
        if self._worker is not None:
            self._worker.controls_changed()

    async def _store_declared(self) -> None:
        """Store the schedules that are declared in code, and tell of those that were and are no more."""
        app = self.settings.app
        specs = [self._declared_spec(declared) for declared in self._declared]  # all are checked first
        store = await self._store()
        for spec in specs:
            self._check_guarantee(store, spec.draft)
        for spec in specs:
            await self._put_schedule(spec, app)
        for schedule_id in await store.schedules.undeclared(app, [spec.id for spec in specs]):
            if self.settings.undeclared == "remove":
                with suppress(ScheduleNotFound):  # another process of this app was faster
                    await self.delete_schedule(schedule_id)
            logger.warning(
                "Schedule %s was declared by app %r and is not in its code any more; it is %s",
                schedule_id,
                app,
                "deleted" if self.settings.undeclared == "remove" else "kept, and fires on",
            )
            self._events.emit("schedule:undeclared", schedule_id)

    def _declared_spec(self, declared: Declared) -> Spec:
        job_options = {key: value for key, value in declared.options.items() if key in OPTIONS}
        options = {key: value for key, value in declared.options.items() if key not in OPTIONS}
        draft = self._draft(self._handled_by(declared), declared.data, job_options)
        check_repeated(draft, None)
        return make_spec(self._identity(declared), draft, declared.rule, options)

    def _leave_parent(self) -> None:
        """After a fork, the worker and the waits are the parent's: this process has none of its own yet."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._worker = self._stopping = self._waiting = self._hub = None
            self._starting = False

    # -- the worker's life -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start running jobs in this process, on this event loop. Returns once the worker is up."""
        self._leave_parent()
        if self._worker is not None or self._starting:
            raise MainspringError("This scheduler is running already.")
        self._starting = True
        try:
            self._worker = await self._start_worker()
        finally:
            self._starting = False
        self._link.watch_over()
        self._events.emit("scheduler:start")

    async def _start_worker(self) -> Worker:
        store = await self._store()
        self._check_handlers(store)
        await self._store_declared()
        await store.alerts.open(self._handlers.alerts)
        for hook in self._on_start:
            await _maybe_await(hook())
        worker = Worker(
            store=store,
            settings=self.settings,
            handlers=self._handlers,
            policies=self._policies,
            events=self._events,
            enqueuer=Enqueuer(
                lambda name, data, options: self.schedule(name, data, **options), self._draft_of_child, self._announce
            ),
            limits=self._limits,
            retention=Retention(self._retention, self.settings.keep_finished, self.settings.keep_failed),
            archive=self._archive,
            secrecy=self._secrecy,
            middleware=self._middleware,
            version=_version(),
            id=os.environ.get("MAINSPRING_WORKER_ID"),
        )
        await worker.start()
        return worker

    async def stop(self, graceful: bool = True, timeout: Seconds = 30) -> None:
        """Stop claiming, let handlers finish within `timeout` (at once when not graceful), release the rest; close."""
        grace = seconds(timeout, "timeout") if graceful else 0.0
        self._leave_parent()
        worker, self._worker = self._worker, None
        try:
            if worker is not None:
                await self._stop_worker(worker, grace)
        finally:
            await self._events.settle(5.0)
            if self._waiting is not None:
                self._waiting.close()
                self._waiting = None
            if self._hub is not None:
                await self._hub.close()
                self._hub = None
            await self._link.close()

    async def _stop_worker(self, worker: Worker, grace: float) -> None:
        self._stopping = worker
        try:
            await worker.stop(0.0 if self._hurried else grace)
        finally:
            self._stopping, self._hurried = None, False
            try:
                for hook in self._on_stop:
                    await _maybe_await(hook())
            finally:
                self._events.emit("scheduler:stop")

    def hurry(self) -> None:
        """Let the stop that is under way, or about to begin, not wait for handlers: they are cancelled and released."""
        self._hurried = True
        if self._stopping is not None:
            self._stopping.hurry()

    async def rescue_worker(self, worker_id: str) -> list[Job]:
        """Give back at once what a worker held, instead of when its leases run out. Returns these jobs.

        Only for those who know for sure that the worker's process is dead: a job of a living one would run twice.
        """
        store = await self._store()
        rescued = await store.rescues.rescue_from(worker_id)
        counting = Counting(store, worker_id)
        for one in rescued:
            announce_rescue(self._events, one)
            counting.rescued(one)
        await counting.store()
        await store.workers.leave(worker_id)
        await store.gates.take_back(worker_id)
        return [store.sealer.decode(one.document) for one in rescued]

    async def run(self) -> None:
        """Run jobs until SIGTERM or SIGINT, then stop within the grace time; a second signal is faster."""
        loop = asyncio.get_running_loop()
        told = asyncio.Event()

        def on_signal() -> None:
            if told.is_set():
                self.hurry()
            told.set()

        handled = [signal.SIGTERM, signal.SIGINT]
        for number in handled:
            _handle_signal(loop, number, on_signal)
        try:
            await self.start()
            await told.wait()
        finally:
            await self.stop(timeout=self.settings.grace)
            for number in handled:
                with suppress(NotImplementedError):
                    loop.remove_signal_handler(number)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def __repr__(self) -> str:
        return f"<Scheduler {'running' if self._worker else 'stopped'}>"


def _handle_signal(loop: asyncio.AbstractEventLoop, number: signal.Signals, callback: Callable[[], None]) -> None:
    try:
        loop.add_signal_handler(number, callback)
    except NotImplementedError:  # an event loop without signals, as on Windows
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(callback))


async def _maybe_await(outcome: Any) -> None:
    if asyncio.iscoroutine(outcome) or isinstance(outcome, asyncio.Future):
        await outcome
