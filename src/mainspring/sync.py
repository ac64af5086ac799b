"""The blocking face: the same verbs for Django, Flask, scripts and other code without an event loop.

A thin portal over `mainspring.Scheduler`: an event loop in a thread of its own carries everything out, and each call
here waits for it. There is no second implementation.

    from mainspring.sync import Scheduler

    scheduler = Scheduler()

    @scheduler.job("send-email")
    def send_email(to: str): ...

    job = scheduler.schedule("send-email", {"to": "a@b.c"})
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import update_wrapper, wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, overload

from mainspring.creations import CreatedPage
from mainspring.dead_letters import Redrive as AsyncRedrive
from mainspring.engine.context import BlockingJobContext, BlockingTransaction
from mainspring.engine.portal import BlockingContext, Portal
from mainspring.errors import ConfigurationError
from mainspring.model.dead_letters import RedriveFacts
from mainspring.model.job import Job
from mainspring.model.retry import Seconds, seconds
from mainspring.model.rules import Rule
from mainspring.model.schedule import ScheduleFacts
from mainspring.scheduler import Scheduler as AsyncScheduler
from mainspring.schedules import Schedule as AsyncSchedule
from mainspring.store.blocking import Blocking, unwrap
from mainspring.store.transaction import Reruns

JobContext = BlockingJobContext

P = ParamSpec("P")
T = TypeVar("T")

__all__ = ["JobContext", "Redrive", "Schedule", "Scheduler"]


def _blocking(
    method: Callable[Concatenate[AsyncScheduler, P], Awaitable[T]],
) -> Callable[Concatenate[Scheduler, P], T]:
    """The blocking form of one of the scheduler's methods."""

    @wraps(method)
    def call(self: Scheduler, /, *args: P.args, **kwargs: P.kwargs) -> T:
        for key, value in kwargs.items():
            kwargs[key] = unwrap(value)
        return self._call(method(self.inner, *args, **kwargs))

    return call


def _iterating(
    method: Callable[Concatenate[AsyncScheduler, P], AsyncIterator[T]],
) -> Callable[Concatenate[Scheduler, P], Iterator[T]]:
    """The blocking form of one of the scheduler's methods that tell one thing after the other."""

    @wraps(method)
    def call(self: Scheduler, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._open_portal().iterate(method(self.inner, *args, **kwargs))

    return call


def _blocking_schedule(
    method: Callable[Concatenate[AsyncScheduler, P], Awaitable[AsyncSchedule]],
) -> Callable[Concatenate[Scheduler, P], Schedule]:
    """The blocking form of one of the scheduler's methods that return a schedule."""

    @wraps(method)
    def call(self: Scheduler, /, *args: P.args, **kwargs: P.kwargs) -> Schedule:
        return Schedule.of(self, self._call(method(self.inner, *args, **kwargs)))

    return call


def _blocking_redrive(
    method: Callable[Concatenate[AsyncScheduler, P], Awaitable[AsyncRedrive]],
) -> Callable[Concatenate[Scheduler, P], Redrive]:
    """The blocking form of one of the scheduler's methods that return a redrive."""

    @wraps(method)
    def call(self: Scheduler, /, *args: P.args, **kwargs: P.kwargs) -> Redrive:
        return Redrive.of(self, self._call(method(self.inner, *args, **kwargs)))

    return call


def _on_redrive(
    method: Callable[Concatenate[AsyncRedrive, P], Awaitable[AsyncRedrive]],
) -> Callable[Concatenate[Redrive, P], Redrive]:
    """The blocking form of one of a redrive's methods."""

    @wraps(method)
    def call(self: Redrive, /, *args: P.args, **kwargs: P.kwargs) -> Redrive:
        scheduler, inner = self._origin()
        return Redrive.of(scheduler, scheduler._call(method(inner, *args, **kwargs)))

    return call


def _on_schedule(
    method: Callable[Concatenate[AsyncSchedule, P], Awaitable[T]],
) -> Callable[Concatenate[Schedule, P], T]:
    """The blocking form of one of a schedule's methods."""

    @wraps(method)
    def call(self: Schedule, /, *args: P.args, **kwargs: P.kwargs) -> T:
        scheduler, inner = self._origin()
        return scheduler._call(method(inner, *args, **kwargs))

    return call


def _changing(
    method: Callable[Concatenate[AsyncSchedule, P], Awaitable[AsyncSchedule]],
) -> Callable[Concatenate[Schedule, P], Schedule]:
    """The blocking form of one of a schedule's methods that return it as it is then."""

    @wraps(method)
    def call(self: Schedule, /, *args: P.args, **kwargs: P.kwargs) -> Schedule:
        scheduler, inner = self._origin()
        return Schedule.of(scheduler, scheduler._call(method(inner, *args, **kwargs)))

    return call


@dataclass(frozen=True)
class Schedule(ScheduleFacts):
    """A stored schedule, as it was when it was read, and the verbs to manage it."""

    _from: tuple[Scheduler, AsyncSchedule] | None = field(default=None, repr=False, compare=False, kw_only=True)

    @classmethod
    def of(cls, scheduler: Scheduler, inner: AsyncSchedule) -> Schedule:
        """The blocking form of a schedule."""
        values = {one.name: getattr(inner, one.name) for one in fields(ScheduleFacts)}
        return cls(**values, _from=(scheduler, inner))

    def _origin(self) -> tuple[Scheduler, AsyncSchedule]:
        if self._from is None:
            raise ConfigurationError("This schedule was not read from a Scheduler, so that it cannot be managed.")
        return self._from

    refresh = _changing(AsyncSchedule.refresh)
    pause = _changing(AsyncSchedule.pause)
    resume = _changing(AsyncSchedule.resume)
    skip_next = _changing(AsyncSchedule.skip_next)
    edit = _changing(AsyncSchedule.edit)
    trigger = _on_schedule(AsyncSchedule.trigger)
    delete = _on_schedule(AsyncSchedule.delete)
    ledger = _on_schedule(AsyncSchedule.ledger)
    upcoming = _on_schedule(AsyncSchedule.upcoming)
    preview_backfill = _on_schedule(AsyncSchedule.preview_backfill)
    backfill = _on_schedule(AsyncSchedule.backfill)


@dataclass(frozen=True)
class Redrive(RedriveFacts):
    """An order to retry or to discard dead letters, as it was when it was read."""

    _from: tuple[Scheduler, AsyncRedrive] | None = field(default=None, repr=False, compare=False, kw_only=True)

    @classmethod
    def of(cls, scheduler: Scheduler, inner: AsyncRedrive) -> Redrive:
        """The blocking form of a redrive."""
        values = {one.name: getattr(inner, one.name) for one in fields(RedriveFacts)}
        return cls(**values, _from=(scheduler, inner))

    def _origin(self) -> tuple[Scheduler, AsyncRedrive]:
        if self._from is None:
            raise ConfigurationError("This redrive was not read from a Scheduler, so that it cannot be followed.")
        return self._from

    refresh = _on_redrive(AsyncRedrive.refresh)
    wait = _on_redrive(AsyncRedrive.wait)
    cancel = _on_redrive(AsyncRedrive.cancel)


class Scheduler:
    """Schedules jobs on MongoDB and, once started, runs them. Takes what `mainspring.Scheduler` takes."""

    def __init__(self, uri: str | None = None, **options: Any) -> None:
        self.inner = AsyncScheduler(uri, **options)
        """The async scheduler that does the work."""
        self._portal: Portal | None = None
        self._closing: Portal | None = None
        self._pid = 0
        self._starting = threading.Lock()
        self.job = self.inner.job
        self.limit_queue = self.inner.limit_queue
        self.cron = self.inner.cron
        self.every = self.inner.every
        self.on = self.inner.on
        self.off = self.inner.off
        self.middleware = self.inner.middleware
        self.dead_letter_handler = self.inner.dead_letter_handler
        self.archive = self.inner.archive
        self.shown = self.inner.shown
        self.shown_schedule = self.inner.shown_schedule
        self.hidden_texts = self.inner.hidden_texts
        self.now = self.inner.now
        self.set_keys = self.inner.set_keys
        self.on_start = self.inner.on_start
        self.on_stop = self.inner.on_stop
        self.configure = self.inner.configure

    @overload
    def schedule(
        self, name: str, data: Mapping[str, Any] | None = None, *, repeat: None = None, **options: Any
    ) -> Job: ...
    @overload
    def schedule(
        self, name: str, data: Mapping[str, Any] | None = None, *, repeat: Rule, **options: Any
    ) -> Schedule: ...
    def schedule(self, name: str, data: Mapping[str, Any] | None = None, **options: Any) -> Job | Schedule:
        """Store a job or, with `repeat`, a schedule; takes what `mainspring.Scheduler.schedule` takes."""
        given = {key: unwrap(value) for key, value in options.items()}
        stored: Job | AsyncSchedule = self._call(self.inner.schedule(name, data, **given))
        return Schedule.of(self, stored) if isinstance(stored, AsyncSchedule) else stored

    schedule_bulk = _blocking(AsyncScheduler.schedule_bulk)
    get_job = _blocking(AsyncScheduler.get_job)
    explain = _blocking(AsyncScheduler.explain)
    search = _blocking(AsyncScheduler.search)
    queues = _blocking(AsyncScheduler.queues)
    workers = _blocking(AsyncScheduler.workers)
    pause = _blocking(AsyncScheduler.pause)
    resume = _blocking(AsyncScheduler.resume)
    pauses = _blocking(AsyncScheduler.pauses)
    override_limit = _blocking(AsyncScheduler.override_limit)
    remove_override = _blocking(AsyncScheduler.remove_override)
    limits = _blocking(AsyncScheduler.limits)
    breakers = _blocking(AsyncScheduler.breakers)
    open_breaker = _blocking(AsyncScheduler.open_breaker)
    close_breaker = _blocking(AsyncScheduler.close_breaker)
    dead_letter_groups = _blocking(AsyncScheduler.dead_letter_groups)
    retry_dead_letters = _blocking_redrive(AsyncScheduler.retry_dead_letters)
    discard_dead_letters = _blocking_redrive(AsyncScheduler.discard_dead_letters)
    get_redrive = _blocking_redrive(AsyncScheduler.get_redrive)
    cancel_redrive = _blocking_redrive(AsyncScheduler.cancel_redrive)
    wait = _blocking(AsyncScheduler.wait)
    cancel = _blocking(AsyncScheduler.cancel)
    retry = _blocking(AsyncScheduler.retry)
    run_now = _blocking(AsyncScheduler.run_now)
    update = _blocking(AsyncScheduler.update)
    delete = _blocking(AsyncScheduler.delete)
    rescue_worker = _blocking(AsyncScheduler.rescue_worker)
    keys_in_use = _blocking(AsyncScheduler.keys_in_use)
    reseal = _blocking(AsyncScheduler.reseal)
    put_secret = _blocking(AsyncScheduler.put_secret)
    delete_secret = _blocking(AsyncScheduler.delete_secret)
    get_secret = _blocking(AsyncScheduler.get_secret)
    secrets = _blocking(AsyncScheduler.secrets)
    secret_value = _blocking(AsyncScheduler.secret_value)
    signing_values = _blocking(AsyncScheduler.signing_values)
    get_schedule = _blocking_schedule(AsyncScheduler.get_schedule)
    pause_schedule = _blocking_schedule(AsyncScheduler.pause_schedule)
    resume_schedule = _blocking_schedule(AsyncScheduler.resume_schedule)
    skip_next = _blocking_schedule(AsyncScheduler.skip_next)
    edit_schedule = _blocking_schedule(AsyncScheduler.edit_schedule)
    trigger_schedule = _blocking(AsyncScheduler.trigger_schedule)
    delete_schedule = _blocking(AsyncScheduler.delete_schedule)
    preview = _blocking(AsyncScheduler.preview)
    upcoming = _blocking(AsyncScheduler.upcoming)
    ledger = _blocking(AsyncScheduler.ledger)
    preview_backfill = _blocking(AsyncScheduler.preview_backfill)
    backfill = _blocking(AsyncScheduler.backfill)
    put_calendar = _blocking(AsyncScheduler.put_calendar)
    import_calendar = _blocking(AsyncScheduler.import_calendar)
    get_calendar = _blocking(AsyncScheduler.get_calendar)
    calendars = _blocking(AsyncScheduler.calendars)
    delete_calendar = _blocking(AsyncScheduler.delete_calendar)
    create_api_key = _blocking(AsyncScheduler.create_api_key)
    api_keys = _blocking(AsyncScheduler.api_keys)
    any_api_key = _blocking(AsyncScheduler.any_api_key)
    get_api_key = _blocking(AsyncScheduler.get_api_key)
    check_api_key = _blocking(AsyncScheduler.check_api_key)
    revoke_api_key = _blocking(AsyncScheduler.revoke_api_key)
    rotate_api_key = _blocking(AsyncScheduler.rotate_api_key)
    open_reply = _blocking(AsyncScheduler.open_reply)
    keep_reply = _blocking(AsyncScheduler.keep_reply)
    find_replies = _blocking(AsyncScheduler.find_replies)
    keep_replies = _blocking(AsyncScheduler.keep_replies)
    forget_reply = _blocking(AsyncScheduler.forget_reply)
    note_change = _blocking(AsyncScheduler.note_change)
    changes = _blocking(AsyncScheduler.changes)
    verify_changes = _blocking(AsyncScheduler.verify_changes)
    statistics = _blocking(AsyncScheduler.statistics)
    health = _blocking(AsyncScheduler.health)
    failures = _blocking(AsyncScheduler.failures)
    follow = _iterating(AsyncScheduler.follow)
    start = _blocking(AsyncScheduler.start)

    loop_factory: Callable[[], asyncio.AbstractEventLoop] = staticmethod(asyncio.new_event_loop)
    """What makes the event loop that does the work."""

    def connect(self) -> Self:
        """Connect now instead of at the first use."""
        self._call(self.inner.connect())
        return self

    def jobs(self, **filters: Any) -> Iterator[Job]:
        """Jobs that match, one after the other; takes what `mainspring.Scheduler.jobs` takes."""
        return self._open_portal().iterate(self.inner.jobs(**filters))

    def dead_letters(self, **filters: Any) -> Iterator[Job]:
        """Failed jobs that match, the latest first; takes what `mainspring.Scheduler.dead_letters` takes."""
        return self._open_portal().iterate(self.inner.dead_letters(**filters))

    def redrives(self, limit: int = 100) -> list[Redrive]:
        """The latest redrives, the newest first; those that have ended are kept for as long as ledgers are."""
        return [Redrive.of(self, redrive) for redrive in self._call(self.inner.redrives(limit))]

    @wraps(AsyncScheduler.created)
    def created(self, limit: int = 100, **choice: Any) -> CreatedPage[Job | Schedule]:
        page = self._call(self.inner.created(limit, **choice))
        things = (Schedule.of(self, one) if isinstance(one, AsyncSchedule) else one for one in page.things)
        return CreatedPage(tuple(things), page.next, page.complete)

    def schedules(self, **filters: Any) -> Iterator[Schedule]:
        """Schedules that match, one after the other; takes what `mainspring.Scheduler.schedules` takes."""
        found = self._open_portal().iterate(self.inner.schedules(**filters))
        return (Schedule.of(self, schedule) for schedule in found)

    @property
    def uri(self) -> str | None:
        """The URI in use, for any MongoDB client."""
        return self.inner.uri

    @property
    def handler_names(self) -> list[str] | None:
        """The names of the jobs that can run here; None means any, since there is a catch-all handler."""
        return self.inner.handler_names

    @property
    def client(self) -> Any:
        """The client in use, in a blocking form."""
        self.connect()
        return Blocking(self.inner.client, self._open_portal().call)

    def transaction(self) -> BlockingContext[BlockingTransaction]:
        """A transaction: `with scheduler.transaction() as tx`, then `tx.db` and `session=tx.session`."""
        return self._transaction()

    def in_transaction(self, function: Callable[[BlockingTransaction], T], *, timeout: Seconds = 60) -> T:
        """Run `def function(tx)`, in this thread, in a transaction, commit it, and return what it has returned.

        It is run again as `mainspring.Scheduler.in_transaction` does it.
        """
        if inspect.iscoroutinefunction(function):
            raise ConfigurationError("in_transaction() of mainspring.sync takes a plain function, not an async one.")
        reruns = Reruns(seconds(timeout, "timeout"))
        while True:
            try:
                with self._transaction(reruns.left) as transaction:
                    return function(transaction)
            except Exception as error:
                pause = reruns.pause_after(error)
            time.sleep(pause)

    def _transaction(self, patience: float | None = None) -> BlockingContext[BlockingTransaction]:
        self.connect()
        portal = self._open_portal()
        return BlockingContext(portal, self.inner._transaction(patience), lambda tx: BlockingTransaction(tx, portal))

    def stop(self, graceful: bool = True, timeout: float = 30) -> None:
        """Stop claiming, let handlers finish within `timeout`, release the rest; close."""
        portal, self._portal = self._portal, None
        if portal is None or self._pid != os.getpid():
            return
        self._closing = portal
        try:
            portal.call(self.inner.stop(graceful, timeout))
        finally:
            self._closing = None
            portal.loop.call_soon_threadsafe(portal.loop.stop)

    def hurry(self) -> None:
        """Let the stop that is under way, or about to begin, not wait for handlers: they are cancelled and released."""
        portal = self._closing or self._portal
        if portal is not None:
            portal.loop.call_soon_threadsafe(self.inner.hurry)

    def run(self) -> None:
        """Run jobs until SIGTERM or SIGINT, then stop within the grace time; a second signal is faster."""
        told = threading.Event()

        def on_signal(number: int, frame: Any) -> None:
            if told.is_set():
                self.hurry()
            told.set()

        before = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            self.start()
            while not told.wait(timeout=1.0):
                pass
        finally:
            self.stop(timeout=self.inner.settings.grace)
            for number, handler in before.items():
                signal.signal(number, handler)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<sync {self.inner!r}>"

    def _call(self, awaitable: Awaitable[T]) -> T:
        return self._open_portal().call(awaitable)

    def _open_portal(self) -> Portal:
        """The portal to this process's loop; a forked child gets one of its own."""
        with self._starting:
            if self._portal is None or self._pid != os.getpid():
                loop = self.loop_factory()
                threading.Thread(target=_serve, args=(loop,), name="mainspring-loop", daemon=True).start()
                self._portal, self._pid = Portal(loop), os.getpid()
            return self._portal


update_wrapper(Scheduler.schedule, AsyncScheduler.schedule)  # the same words and arguments, as for the other verbs


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is told to stop, and leave nothing open: what it still has to close, it closes."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()
