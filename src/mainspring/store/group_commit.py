"""Group commit: items submitted while a write is in flight go out together in the next one. No delay is added."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from mainspring.errors import Unavailable

T = TypeVar("T")
R = TypeVar("R")


class GroupCommit(Generic[T, R]):
    """Collects items for `act`, which processes up to `max_batch` of them at once and returns for each its outcome, or
    the error to raise."""

    def __init__(self, act: Callable[[list[T]], Awaitable[Sequence[R | Exception]]], max_batch: int) -> None:
        self._act = act
        self._max_batch = max_batch
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._sender: asyncio.Task[None] | None = None

    async def submit(self, item: T) -> R:
        """Process an item, together with others or alone; returns its outcome."""
        done: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, done))
        if self._sender is None:
            self._sender = asyncio.create_task(self._send())
        return await done

    async def _send(self) -> None:
        sending: list[tuple[T, asyncio.Future[R]]] = []
        try:
            while self._waiting:
                sending, self._waiting = self._waiting[: self._max_batch], self._waiting[self._max_batch :]
                outcomes = await self._outcomes([item for item, _ in sending])
                for (_, done), outcome in zip(sending, outcomes, strict=True):
                    if done.done():
                        continue  # the task that submitted it has been cancelled
                    if isinstance(outcome, Exception):
                        done.set_exception(outcome)
                    else:
                        done.set_result(outcome)
        finally:
            self._sender = None
            for _, done in (*sending, *self._waiting):
                done.cancel()  # no task must wait for an item that will not be processed

    async def _outcomes(self, items: list[T]) -> Sequence[R | Exception]:
        try:
            return await self._act(items)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # This task was not cancelled, but the driver's own wait was, such as for a connection that is closed.
            error: Exception = Unavailable("The connection to MongoDB was closed; try again.")
            return [error] * len(items)
        except Exception as error:
            return [error] * len(items)
