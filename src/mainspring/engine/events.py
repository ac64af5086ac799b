"""Who wants to hear of what happens in this process, and telling them.

An event is announced once per occurrence, in the process where it happened, after it is stored. A callback may be a
plain or an async function; one that raises is logged and harms nobody.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from mainspring.config import suggestion
from mainspring.errors import ConfigurationError
from mainspring.model.events import EVENTS

logger = logging.getLogger("mainspring")
Callback = Callable[..., Any]


def nobody(*news: Any) -> None:
    """Who is told where nobody wants to know yet."""


class Events:
    """The callbacks of one Scheduler."""

    def __init__(self) -> None:
        self._callbacks: dict[str, list[Callback]] = defaultdict(list)
        self.fit: Callable[[Any], Any] = lambda payload: payload
        """Makes of a job what may be shown of it: callbacks print, log and send what they are given."""
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
        """Whether anybody listens, so that what nobody hears need not be made."""
        return bool(self._callbacks.get(event))

    def any_wanted(self, events: Iterable[str]) -> bool:
        return any(self._callbacks.get(event) for event in events)

    def emit(self, event: str, *payload: Any) -> None:
        callbacks = list(self._callbacks.get(event, ()))
        told = [self.fit(one) for one in payload] if callbacks else []
        for callback in callbacks:
            try:
                outcome = callback(*told)
                if inspect.isawaitable(outcome):
                    self._follow(event, outcome)
            except Exception:
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
