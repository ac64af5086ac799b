"""Calls the event loop from a thread, for sync handlers and for the blocking Scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Generic, TypeVar

from mainspring.errors import MainspringError

T = TypeVar("T")


class Portal:
    """Runs awaitables on a loop of another thread, and blocks the calling thread until they are done."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop

    def call(self, awaitable: Awaitable[T]) -> T:
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is self.loop:
            if asyncio.iscoroutine(awaitable):
                awaitable.close()  # so that Python does not warn that it was never awaited
            raise MainspringError("This blocks and was called on the event loop; use the async form and await it.")

        async def carry_out() -> T:
            return await awaitable

        return asyncio.run_coroutine_threadsafe(carry_out(), self.loop).result()

    def iterate(self, source: AsyncIterator[T]) -> Iterator[T]:
        async def step() -> tuple[bool, T | None]:
            try:
                return True, await anext(source)
            except StopAsyncIteration:
                return False, None

        while True:
            more, item = self.call(step())
            if not more:
                return
            yield item  # type: ignore[misc]


class BlockingContext(Generic[T]):
    """An async context manager as a plain one, through a portal."""

    def __init__(self, portal: Portal, inner: AbstractAsyncContextManager[Any], wrap: Any) -> None:
        self._portal = portal
        self._inner = inner
        self._wrap = wrap

    def __enter__(self) -> T:
        wrapped: T = self._wrap(self._portal.call(self._inner.__aenter__()))
        return wrapped

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._portal.call(self._inner.__aexit__(kind, error, trace))
