"""The callbacks of this process for events, and calling them.

An event is announced once per occurrence, in the process where it happened, after it is stored. A callback may be a
plain or an async function; one that raises is logged and affects no other.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from mainspring.engine.run.claimed_jobs import ClaimedJob
from mainspring.errors import ConfigurationError
from mainspring.model.fields import Fields
from mainspring.model.jobs.event_names import EVENTS
from mainspring.spelling import suggestion

logger = logging.getLogger("mainspring")
Callback = Callable[..., Any]


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
