"""Faults at every seam between the product and MongoDB, each once, in a running program.

`Injector.install` wraps every verb of the store and every operation of the driver that the store calls. A *site* is one
verb at one place that calls it. While the injector is armed, each site meets each kind of fault once, some calls apart,
so that the program gets on between them. What was met is counted, so that a test can say what it has covered.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import pkgutil
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from enum import StrEnum
from types import FrameType
from typing import Any, NamedTuple

import pytest
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.command_cursor import AsyncCommandCursor
from pymongo.asynchronous.cursor import AsyncCursor
from pymongo.errors import AutoReconnect, OperationFailure
from pymongo.synchronous.collection import Collection

import mainspring.store
from mainspring.errors import Unavailable
from mainspring.store.collection import Collection as Guarded

CLIENT = "client"
"""How the names of tasks begin that may be cancelled at any time."""
_OPERATIONS = [
    *("aggregate", "bulk_write", "count_documents", "delete_many", "delete_one", "distinct", "find_one"),
    *("find_one_and_update", "insert_many", "insert_one", "update_many", "update_one"),
]
_THREADED = ["bulk_write", "find_one_and_update", "update_many", "update_one"]


class Fault(StrEnum):
    """What happens to one call."""

    NOT_SENT = "not sent"  # the server cannot be reached; nothing is done
    REPLY_LOST = "reply lost"  # it is done, and the caller is told of an outage
    REFUSED = "refused"  # an error of no kind that passes by itself; nothing is done
    CANCELLED = "cancelled"  # it is done, and the await is cancelled: by the driver, or with the task of the caller


_NOT_CANCELLED = (Fault.NOT_SENT, Fault.REPLY_LOST, Fault.REFUSED)


class Site(NamedTuple):
    """A call that may be disturbed: what is called, and from where."""

    verb: str
    caller: str


class Injector:
    """Decides which call meets which fault, and keeps the books."""

    def __init__(self, dice: random.Random, pause: float = 0.01, gap: int = 3) -> None:
        self._dice = dice
        self._pause = pause
        self._gap = gap
        self._left: dict[Site, list[Fault]] = {}
        self._calls: Counter[Site] = Counter()
        self._next_at = 0.0
        self.armed = False
        self.only: Callable[[Site], bool] = lambda site: True
        self.eager: Callable[[Site], bool] = lambda site: False
        """The sites whose first calls meet the faults, without others between them: those that are called seldom."""
        self.injected: Counter[tuple[Site, Fault]] = Counter()

    @property
    def sites(self) -> set[Site]:
        """Every site that was called so far."""
        return set(self._calls)

    @property
    def outstanding(self) -> int:
        """How many faults the sites that are known have not met yet."""
        return sum(len(left) for left in self._left.values())

    def decide(self, site: Site, kinds: tuple[Fault, ...]) -> Fault | None:
        """The fault for this call, if any."""
        self._calls[site] += 1
        if site not in self._left:
            self._left[site] = self._dice.sample(list(Fault), len(Fault)) if self.only(site) else []
        left, now = self._left[site], time.monotonic()
        fault = next((fault for fault in left if fault in kinds), None)
        between = not self.eager(site) and (self._calls[site] - 1) % self._gap
        if not self.armed or fault is None or now < self._next_at or between:
            return None
        self._next_at = now + self._pause
        left.remove(fault)
        self.injected[site, fault] += 1
        return fault

    # -- wrapping --------------------------------------------------------------------------------------------------

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Put every verb of the store, and every operation of the driver that the store calls, under this injector."""
        for owner, name in store_verbs():
            function = inspect.getattr_static(owner, name)
            wrap = self._wrapped if inspect.iscoroutinefunction(function) else self._wrapped_threaded
            patch.setattr(owner, name, wrap(function, f"{owner.__name__}.{name}", _verb_error))
        for name in _OPERATIONS:
            wrapped = self._wrapped(getattr(AsyncCollection, name), name, _driver_error)
            patch.setattr(AsyncCollection, name, wrapped)
        for cursor in (AsyncCursor, AsyncCommandCursor):
            patch.setattr(cursor, "to_list", self._wrapped(cursor.to_list, "to_list", _driver_error))
        for name in _THREADED:
            wrapped = self._wrapped_threaded(getattr(Collection, name), name, _driver_error)
            patch.setattr(Collection, name, wrapped)

    def _wrapped(
        self, function: Callable[..., Awaitable[Any]], verb: str, error: Callable[[Fault], BaseException]
    ) -> Callable[..., Awaitable[Any]]:
        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Awaitable[Any]:
            caller = _caller(sys._getframe(1))
            if caller is None:
                return function(*arguments, **options)
            kinds = tuple(Fault) if error is _driver_error or _may_be_cancelled() else _NOT_CANCELLED
            fault = self.decide(Site(verb, caller), kinds)
            return _disturbed(lambda: function(*arguments, **options), fault, error)

        return call

    def _wrapped_threaded(
        self, function: Callable[..., Any], verb: str, error: Callable[[Fault], BaseException]
    ) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            caller = _caller(sys._getframe(1))
            fault = None if caller is None else self.decide(Site(verb, caller), _NOT_CANCELLED)
            if fault in (Fault.NOT_SENT, Fault.REFUSED):
                raise error(fault)
            outcome = function(*arguments, **options)
            if fault is not None:
                raise error(fault)
            return outcome

        return call


async def _disturbed(
    act: Callable[[], Awaitable[Any]], fault: Fault | None, error: Callable[[Fault], BaseException]
) -> Any:
    if fault in (Fault.NOT_SENT, Fault.REFUSED):
        raise error(fault)
    outcome = await act()
    if fault is Fault.CANCELLED and error is _verb_error:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
    if fault is not None:
        raise error(fault)
    return outcome


def _may_be_cancelled() -> bool:
    """Whether this task is a client's or a handler's: the worker's own are cancelled by its stop alone."""
    task = asyncio.current_task()
    coroutine = getattr(task and task.get_coro(), "__qualname__", "")
    return task is not None and (task.get_name().startswith(CLIENT) or coroutine == "Executor.run")


def _verb_error(fault: Fault) -> BaseException:
    if fault is Fault.CANCELLED:
        return asyncio.CancelledError("injected")
    if fault is Fault.REFUSED:
        return OperationFailure("injected: refused", 8000)
    return Unavailable(f"injected: {fault}")


def _driver_error(fault: Fault) -> BaseException:
    return _verb_error(fault) if fault in (Fault.CANCELLED, Fault.REFUSED) else AutoReconnect(f"injected: {fault}")


def _caller(frame: FrameType) -> str | None:
    """The function of the product that calls, or None where the driver or a test does. The collections themselves pass
    every operation on: the verb that uses them is meant."""
    while frame.f_globals.get("__name__") == Guarded.__module__ and frame.f_back is not None:
        frame = frame.f_back
    module = frame.f_globals.get("__name__", "")
    return f"{module}:{frame.f_code.co_qualname}" if module.startswith("mainspring.") else None


def store_verbs() -> Iterator[tuple[type, str]]:
    """Every public verb of the store: the async ones, and the heartbeat's."""
    for found in pkgutil.walk_packages(mainspring.store.__path__, "mainspring.store."):
        module = importlib.import_module(found.name)
        for owner in vars(module).values():
            if inspect.isclass(owner) and owner.__module__ == module.__name__ and owner is not Guarded:
                for name, function in vars(owner).items():
                    threaded = owner.__name__ == "Renewals" and inspect.isfunction(function)
                    if (
                        not name.startswith("_")
                        and name != "close"
                        and (threaded or inspect.iscoroutinefunction(function))
                    ):
                        yield owner, name
