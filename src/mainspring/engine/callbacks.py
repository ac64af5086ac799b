"""The callbacks of this process for events, and the observers that follow its jobs.

Callbacks are for programs, and receive decoded jobs. An event is announced once per occurrence, in the process where it
happened, after it is stored. A callback may be a plain or an async function; one that raises is logged and affects no
other.

Observers are integrations, such as metrics and traces, that follow jobs from their storing to the ends of attempts.
They see the claimed job itself, wrap the attempt in its own task, and cost little. A Scheduler has none unless the
program adds some before it starts; the engine then pays one test of an empty list for each attempt. An observer that
raises is logged and affects nothing.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mainspring.errors import ConfigurationError
from mainspring.model.fields import Fields
from mainspring.model.jobs.event_names import EVENTS
from mainspring.model.jobs.job import Job
from mainspring.model.jobs.outcome import Outcome
from mainspring.spelling import suggestion

if TYPE_CHECKING:
    from mainspring.engine.run.claimed_jobs import ClaimedJob

logger = logging.getLogger("mainspring")
Callback = Callable[..., Any]
LONGEST_VALUE = 2048
"""The most characters of a value of a trace context that is stored with a job."""
JudgedBy = Callable[[Outcome], None]
"""Called with the outcome of an attempt, in the task that has run it."""
_METHODS = ("storing", "carrier", "began", "running", "raised", "ended")


class Callbacks:
    """The callbacks of one Scheduler."""

    def __init__(self, show: Callable[[Any], Any] = lambda payload: payload) -> None:
        """`show` redacts a payload for callbacks, since they print, log and send it."""
        self._show = show
        self._callbacks: dict[str, list[Callback]] = defaultdict(list)
        self._tasks: set[asyncio.Future[Any]] = set()

    def on(self, event: str, callback: Callback) -> None:
        if event not in EVENTS:
            raise ConfigurationError(f"There is no event {event!r}.{suggestion(event, EVENTS)}")
        if not callable(callback):
            raise ConfigurationError(f"The callback for {event!r} must be a function, not {callback!r}.")
        self._callbacks[event].append(callback)

    def off(self, event: str, callback: Callback) -> None:
        if callback in self._callbacks.get(event, ()):
            self._callbacks[event].remove(callback)

    def wanted(self, event: str) -> bool:
        """Whether there is a callback for an event, so that a payload that none receives need not be made."""
        return bool(self._callbacks.get(event))

    def any_wanted(self, events: Iterable[str]) -> bool:
        return any(self._callbacks.get(event) for event in events)

    def emit(self, event: str, *payload: Any) -> None:
        """Call the callbacks of an event. This never raises: the caller has other events to emit."""
        callbacks = list(self._callbacks.get(event, ()))
        try:
            told = [self._show(one) for one in payload] if callbacks else []
        except Exception:
            logger.exception("The payload of the event %s could not be redacted; its callbacks are not called", event)
            return
        for callback in callbacks:
            try:
                outcome = callback(*told)
                if inspect.isawaitable(outcome):
                    self._follow(event, outcome)
            except (Exception, asyncio.CancelledError):
                logger.exception("A callback for %s raised", event)

    async def settle(self, timeout: float) -> None:
        """Give async callbacks that still run a moment to finish."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=timeout)

    def _follow(self, event: str, outcome: Any) -> None:
        task = asyncio.ensure_future(outcome)
        self._tasks.add(task)

        def done(finished: asyncio.Future[Any]) -> None:
            self._tasks.discard(finished)
            if not finished.cancelled() and finished.exception() is not None:
                logger.error("A callback for %s raised", event, exc_info=finished.exception())

        task.add_done_callback(done)


def announce_progress(events: Callbacks, claimed: ClaimedJob, progress: Fields | None) -> None:
    """Emit the event of stored progress once: the note and the end of a quick job may both have stored it."""
    if claimed.notes.first_told(progress) and events.wanted("job:progress"):
        events.emit("job:progress", claimed.job.decode(progress=progress))


# -- observers -------------------------------------------------------------------------------------------------------


class Storing:
    """Jobs that are about to be stored, as one observer follows them."""

    carrier: Mapping[str, str] = {}
    """The trace context that is stored with the jobs; empty for none."""

    def done(self, jobs: Sequence[Job], error: BaseException | None) -> None:
        """The jobs are stored, or the error says why they may not be. Jobs that existed before are among them."""


class Observer:
    """The base of observers: every method does nothing. All are called on the event loop of the Scheduler."""

    def storing(self, name: str | None, queue: str | None) -> Storing | None:
        """A job of this name and queue, or with None a bulk of any, is about to be stored by this process."""
        return None

    def carrier(self) -> Mapping[str, str]:
        """The trace context of the code that runs now: for the children of a handler, and for its requests."""
        return {}

    def began(self, claimed: ClaimedJob) -> None:
        """The handler of a job is about to be called."""

    def running(self, claimed: ClaimedJob, worker: str) -> JudgedBy | None:
        """An attempt begins in the current task; the return value is called at its end, in the same task."""
        return None

    def raised(self, claimed: ClaimedJob, error: BaseException, ending: Outcome) -> None:
        """The handler has raised this error, so that its attempt ends as Retried or Failed."""

    def ended(self, claimed: ClaimedJob, ending: Outcome) -> None:
        """The end of an attempt is stored, or is known to be lost."""


class Observers(list[Observer]):
    """The observers of one Scheduler, in the order in which they were added. It is a list, so that the engine's test
    whether there are any costs next to nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._methods: dict[str, list[Callable[..., Any]]] = {name: [] for name in _METHODS}

    def add(self, observer: Observer) -> None:
        """Let an observer follow the jobs from now on. Only the methods that it has of its own are called."""
        self.append(observer)
        for name, methods in self._methods.items():
            if getattr(type(observer), name) is not getattr(Observer, name):
                methods.append(getattr(observer, name))

    def storing(self, name: str | None = None, queue: str | None = None) -> Storing:
        """Tell all observers that jobs are about to be stored."""
        return _All([one for one in self._each("storing", name, queue) if one is not None])

    def carrier(self) -> dict[str, str] | None:
        """The trace contexts of all observers; None where there is none."""
        return _bounded(self._each("carrier"))

    def carrier_of(self, key: str) -> str | None:
        """One value of the trace contexts; None where there is none."""
        return (self.carrier() or {}).get(key)

    def began(self, claimed: ClaimedJob) -> None:
        for method in self._methods["began"]:
            _guarded(method, claimed)

    def running(self, claimed: ClaimedJob, worker: str) -> JudgedBy | None:
        """Tell all observers that an attempt begins; the first one added is the outermost."""
        finishes = [one for one in self._each("running", claimed, worker) if one is not None]
        if not finishes:
            return None

        def judged(ending: Outcome) -> None:
            for finish in reversed(finishes):
                _guarded(finish, ending)

        return judged

    def raised(self, claimed: ClaimedJob, error: BaseException, ending: Outcome) -> None:
        self._each("raised", claimed, error, ending)

    def ended(self, claimed: ClaimedJob, ending: Outcome) -> None:
        for method in self._methods["ended"]:
            _guarded(method, claimed, ending)

    def _each(self, name: str, *arguments: Any) -> list[Any]:
        return [_guarded(method, *arguments) for method in self._methods[name]]


class _All(Storing):
    """Jobs that are about to be stored, as all observers follow them."""

    def __init__(self, each: Sequence[Storing]) -> None:
        self._each = each
        self.carrier = _bounded([one.carrier for one in each]) or {}

    def done(self, jobs: Sequence[Job], error: BaseException | None) -> None:
        for one in reversed(self._each):
            _guarded(one.done, jobs, error)


def _bounded(carriers: Sequence[Mapping[str, str] | None]) -> dict[str, str] | None:
    """The values of all carriers, without those that are too long to be stored with every job."""
    found = {key: value for carrier in carriers for key, value in (carrier or {}).items()}
    return {key: value for key, value in found.items() if len(value) <= LONGEST_VALUE} or None


def _guarded(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Exception:
        logger.exception("An observer of jobs raised; the job goes on")
        return None
