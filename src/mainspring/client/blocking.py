"""The blocking Scheduler: the same verbs for Django, Flask, scripts and other code without an event loop.

An event loop in its own thread does the work, and each call here waits for it. `derive` makes the blocking form of
every verb and property of the async Scheduler, so that there is no second implementation and no second list.
`sync.pyi` has the types; it is generated from the async Scheduler as well.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, TypeVar, Unpack

from mainspring.client.flows.builder import FlowBuilder as AsyncFlowBuilder
from mainspring.client.job_functions import JobDecorator
from mainspring.client.lifecycle import start_pauses
from mainspring.client.namespaces.all_namespaces import no_attribute
from mainspring.client.namespaces.dead_letters import Redrive as AsyncRedrive
from mainspring.client.namespaces.flows import Flow as AsyncFlow
from mainspring.client.namespaces.operations import Operation as AsyncOperation
from mainspring.client.namespaces.schedules import Schedule as AsyncSchedule
from mainspring.client.scheduler import AllOptions, lifecycle_of, transactions_of
from mainspring.client.scheduler import Scheduler as AsyncScheduler
from mainspring.engine.run.context import BlockingTransaction
from mainspring.engine.run.sync_bridge import BlockingContext, Portal
from mainspring.errors import ConfigurationError
from mainspring.model.dead_letters.dead_letters import RedriveFacts
from mainspring.model.flows.flow import FlowFacts
from mainspring.model.jobs.job import Job as AsyncJob
from mainspring.model.jobs.options import JobOptions
from mainspring.model.jobs.retry import Seconds, seconds
from mainspring.model.operations.operations import OperationFacts, OperationPreview
from mainspring.model.schedules.schedule import ScheduleFacts
from mainspring.model.schedules.search import SchedulePage
from mainspring.model.unreadable import Listed
from mainspring.model.views.search import SearchPage
from mainspring.store.blocking import Blocking, unwrap
from mainspring.store.jobs.transactions import Reruns

C = TypeVar("C", bound=type)
T = TypeVar("T")


def derive(model: type) -> Callable[[C], C]:
    """Give a class the blocking form of all public verbs and properties of `model` that it does not define itself.

    Its objects have `_origin()`: the blocking Scheduler, and the async object that does the work.
    """

    def add(cls: C) -> C:
        for name in dir(model):
            member = inspect.getattr_static(model, name)
            if name.startswith("_") or name in vars(cls):
                continue
            if inspect.isfunction(member):
                setattr(cls, name, _verb(member))
            elif isinstance(member, property) and not issubclass(cls, model):
                setattr(cls, name, _property(member))
            elif isinstance(member, cached_property):
                setattr(cls, name, _namespace(name, member.__doc__))
        return cls

    return add


def _verb(method: Callable[..., Any]) -> Callable[..., Any]:
    """The blocking form of a method: it returns the result of a coroutine, and an iterator for an async generator."""
    iterates = inspect.isasyncgenfunction(inspect.unwrap(method))

    @wraps(method)
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        scheduler, inner = self._origin()
        outcome = method(inner, *args, **{key: unwrap(value) for key, value in kwargs.items()})
        if iterates:
            return scheduler._iterate(outcome)
        return scheduler._wrap(scheduler._call(outcome) if inspect.isawaitable(outcome) else outcome)

    return call


def _property(member: property) -> property:
    def get(self: Any) -> Any:
        return member.__get__(self._origin()[1])

    return property(get, doc=member.__doc__)


def _namespace(name: str, doc: str | None) -> cached_property[Namespace]:
    """A namespace of the blocking Scheduler, made at its first use."""

    def get(self: Scheduler) -> Namespace:
        return _namespace_of(self, getattr(self.inner, name))

    get.__doc__ = doc
    member = cached_property(get)
    member.__set_name__(object, name)  # it is added after the class is made
    return member


class Namespace:
    """The blocking form of one of the scheduler's namespaces."""

    def __init__(self, scheduler: Scheduler, inner: object) -> None:
        self._scheduler = scheduler
        self._inner = inner

    def _origin(self) -> tuple[Scheduler, Any]:
        return self._scheduler, self._inner


def _namespace_of(scheduler: Scheduler, inner: object) -> Namespace:
    model = type(inner)
    if model not in _NAMESPACES:
        kind = type(model.__name__, (Namespace,), {"__doc__": model.__doc__})
        _NAMESPACES[model] = derive(model)(kind)
    return _NAMESPACES[model](scheduler, inner)


_NAMESPACES: dict[type, type[Namespace]] = {}


@derive(AsyncSchedule)
@dataclass(frozen=True)
class Schedule(ScheduleFacts):
    """A stored schedule, as it was when it was read, with methods to manage it."""

    _from: tuple[Scheduler, AsyncSchedule] | None = field(default=None, repr=False, compare=False, kw_only=True)

    def _origin(self) -> tuple[Scheduler, AsyncSchedule]:
        if self._from is None:
            raise ConfigurationError("This schedule was not read from a Scheduler, so its methods cannot be used.")
        return self._from


@derive(AsyncRedrive)
@dataclass(frozen=True)
class Redrive(RedriveFacts):
    """An order to retry or discard dead letters, as it was when it was read."""

    _from: tuple[Scheduler, AsyncRedrive] | None = field(default=None, repr=False, compare=False, kw_only=True)

    def _origin(self) -> tuple[Scheduler, AsyncRedrive]:
        if self._from is None:
            raise ConfigurationError("This redrive was not read from a Scheduler, so its methods cannot be used.")
        return self._from


@derive(AsyncOperation)
@dataclass(frozen=True)
class Operation(OperationFacts):
    """One verb applied to many jobs, as it was when it was read."""

    _from: tuple[Scheduler, AsyncOperation] | None = field(default=None, repr=False, compare=False, kw_only=True)

    def _origin(self) -> tuple[Scheduler, AsyncOperation]:
        if self._from is None:
            raise ConfigurationError("This operation was not read from a Scheduler, so its methods cannot be used.")
        return self._from


@derive(AsyncFlow)
@dataclass(frozen=True)
class Flow(FlowFacts):
    """A flow as it was when it was read, with methods to manage it."""

    _from: tuple[Scheduler, AsyncFlow] | None = field(default=None, repr=False, compare=False, kw_only=True)

    def _origin(self) -> tuple[Scheduler, AsyncFlow]:
        if self._from is None:
            raise ConfigurationError("This flow was not read from a Scheduler, so its methods cannot be used.")
        return self._from


@derive(AsyncFlowBuilder)
class FlowBuilder(AsyncFlowBuilder):
    """A flow that is being declared. Nothing is stored before `start()`."""

    def __init__(self, scheduler: Scheduler, inner: AsyncFlowBuilder) -> None:
        self.__dict__.update(inner.__dict__, _from=(scheduler, inner))

    def _origin(self) -> tuple[Scheduler, AsyncFlowBuilder]:
        origin: tuple[Scheduler, AsyncFlowBuilder] = self.__dict__["_from"]
        return origin


@derive(AsyncJob)
class Job(AsyncJob):
    """A job as it was when it was read, and its verbs."""

    _from: ClassVar[tuple[Scheduler, AsyncJob] | None] = None

    def _origin(self) -> tuple[Scheduler, AsyncJob]:
        if self._from is None:
            raise ConfigurationError("This job was not returned by a Scheduler, so its methods cannot be used.")
        return self._from

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in super().__getstate__().items() if key != "_from"}


# stop() waits no longer than this for the loop to close: a thread that a handler has started there may never end.
_CLOSED_WITHIN = 10.0
_BLOCKING: dict[type, type[Any]] = {
    AsyncSchedule: Schedule,
    AsyncRedrive: Redrive,
    AsyncOperation: Operation,
    AsyncFlow: Flow,
}
"""The blocking form of each type whose objects have verbs."""


@derive(AsyncScheduler)
class Scheduler:
    """Schedules jobs on MongoDB and, once started, runs them. It has the options of `mainspring.Scheduler`."""

    loop_factory: Callable[[], asyncio.AbstractEventLoop] = staticmethod(asyncio.new_event_loop)
    """Makes the event loop that does the work."""

    def __init__(self, uri: str | None = None, **options: Unpack[AllOptions]) -> None:
        self.inner = AsyncScheduler(uri, **options)
        """The async scheduler that does the work."""
        self._portal: Portal | None = None
        self._closing: Portal | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._starting = threading.Lock()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Say where a verb is that a program looks for on the Scheduler itself."""
            no_attribute(self, name)

    def _origin(self) -> tuple[Scheduler, AsyncScheduler]:
        return self, self.inner

    @wraps(AsyncScheduler.job)
    def job(self, *args: Any, **kwargs: Any) -> Any:
        return JobDecorator(self.inner.job(*args, **kwargs).register, self._enqueue)

    def _enqueue(self, name: str, data: Mapping[str, Any], options: JobOptions) -> Any:
        return self._wrap(self._call(self.inner.schedule(name, data, **options)))

    @property
    def client(self) -> Any:
        """The client in use, in a blocking form."""
        self._call(self.inner.connect())
        return Blocking(self.inner.client, self._open_portal().call)

    def transaction(self) -> BlockingContext[BlockingTransaction]:
        """A transaction: `with scheduler.transaction() as tx`, then `tx.db` and `session=tx.session`."""
        return self._transaction()

    def in_transaction(self, function: Callable[[BlockingTransaction], T], *, timeout: Seconds = 60) -> T:
        """Run `def function(tx)` in a transaction, in this thread, commit it, and return the function's result.

        The function is rerun as by `mainspring.Scheduler.in_transaction`.
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
        self._call(self.inner.connect())
        portal, opened = self._open_portal(), transactions_of(self.inner).open(patience)
        return BlockingContext(portal, opened, lambda tx: BlockingTransaction(tx, portal))

    def stop(self, graceful: bool = True, timeout: Seconds | None = None) -> None:
        """Stop claiming, let handlers finish within `timeout` (the setting `grace`), release the rest; close."""
        portal, self._portal = self._portal, None
        if portal is None or self._pid != os.getpid():
            return
        self._closing = portal
        try:
            portal.call(self.inner.stop(graceful, timeout))
        finally:
            self._closing = None
            self._end_loop(portal)

    def _end_loop(self, portal: Portal) -> None:
        """Stop the event loop, and wait until its thread has closed it: Python may end right after `stop()`, and a loop
        that is still being closed then fails, since it can start no thread any more."""
        thread = self._thread
        portal.loop.call_soon_threadsafe(portal.loop.stop)
        if thread is not None:
            thread.join(_CLOSED_WITHIN)

    def stop_now(self) -> None:
        """Stop without waiting for handlers: cancel them and release their jobs. This applies to a stop that is under
        way, or to the next one."""
        portal = self._closing or self._portal
        if portal is not None:
            portal.loop.call_soon_threadsafe(self.inner.stop_now)

    def run(self) -> None:
        """Run jobs until SIGTERM or SIGINT, then stop within the grace time, or at once at a second signal.

        While MongoDB is unavailable, this retries the start. Only `start()` raises `Unavailable`.
        """
        told = threading.Event()

        def on_signal(number: int, frame: Any) -> None:
            if told.is_set():
                self.stop_now()
            told.set()

        before = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            pauses = start_pauses()
            while not told.is_set() and not self._call(lifecycle_of(self.inner).try_start()):
                told.wait(timeout=next(pauses))
            while not told.wait(timeout=1.0):
                pass
        finally:
            self.stop(timeout=self.inner.settings.grace)
            for number, handler in before.items():
                signal.signal(number, handler)

    def __enter__(self) -> Self:
        self._call(self.inner.start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<sync {self.inner!r}>"

    # -- the portal ------------------------------------------------------------------------------------------------

    def _call(self, awaitable: Awaitable[T]) -> T:
        """Wait for an awaitable on the event loop that does the work."""
        try:
            portal = self._open_portal()
        except BaseException:
            if inspect.iscoroutine(awaitable):
                awaitable.close()
            raise
        return portal.call(awaitable)

    def _iterate(self, source: Any) -> Iterator[Any]:
        """The items of an async iterator, one after the other."""
        return map(self._wrap, self._open_portal().iterate(source))

    def _wrap(self, value: Any) -> Any:
        """The blocking form of the result of an async verb."""
        if value is self.inner:
            return self
        if isinstance(value, AsyncJob):
            job = object.__new__(Job)
            job.__dict__.update(value.__dict__, _from=(self, value))
            return job
        if isinstance(value, AsyncFlowBuilder):
            return FlowBuilder(self, value)
        if isinstance(value, Listed):
            return Listed(map(self._wrap, value), value.unreadable)
        if isinstance(value, list):
            return list(map(self._wrap, value))
        if isinstance(value, SearchPage):
            return replace(value, jobs=tuple(map(self._wrap, value.jobs)))
        if isinstance(value, SchedulePage):
            return replace(value, schedules=tuple(map(self._wrap, value.schedules)))
        if isinstance(value, OperationPreview | OperationFacts):
            value = replace(value, sample=tuple(map(self._wrap, value.sample)))
        kind = _BLOCKING.get(type(value))
        if kind is None:
            return value
        facts = {one.name: getattr(value, one.name) for one in fields(kind) if one.name != "_from"}
        return kind(**facts, _from=(self, value))

    def _open_portal(self) -> Portal:
        """The portal to this process's loop; a forked child gets one of its own."""
        _refuse_on_a_loop()
        with self._starting:
            if self._portal is None or self._pid != os.getpid():
                loop = self.loop_factory()
                self._thread = threading.Thread(target=_serve, args=(loop,), name="mainspring-loop", daemon=True)
                self._thread.start()
                self._portal, self._pid = Portal(loop), os.getpid()
            return self._portal


def wait_for(scheduler: Scheduler, awaitable: Awaitable[T]) -> T:
    """Wait for an awaitable on the event loop of a blocking Scheduler; the command line uses it."""
    return scheduler._call(awaitable)


def blocking_form(scheduler: Scheduler, value: Any) -> Any:
    """The blocking form of a job, a schedule or a list of them."""
    return scheduler._wrap(value)


def _refuse_on_a_loop() -> None:
    """Refuse to block an event loop, and with it every task on it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ConfigurationError(
        "This call blocks, and it was made on the thread of an event loop, which it would block; use the async "
        "Scheduler and await it, or call it with asyncio.to_thread()."
    )


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is stopped, then close its remaining tasks and generators."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()
