"""Writing in company: what comes while a write is under way goes with the next one; nobody waits for more to come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from mainspring.errors import Unavailable

T = TypeVar("T")
R = TypeVar("R")


class Company(Generic[T, R]):
    """Those who want the same done at the same time: `act` does it for up to `most` of them at once, and returns for
    each what came of it, or the error to raise."""

    def __init__(self, act: Callable[[list[T]], Awaitable[Sequence[R | Exception]]], most: int) -> None:
        self._act = act
        self._most = most
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._sender: asyncio.Task[None] | None = None

    async def join(self, item: T) -> R:
        """Have it done, with others or alone."""
        done: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, done))
        if self._sender is None:
            self._sender = asyncio.create_task(self._send())
        return await done

    async def _send(self) -> None:
        sending: list[tuple[T, asyncio.Future[R]]] = []
        try:
            while self._waiting:
                sending, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                outcomes = await self._outcomes([item for item, _ in sending])
                for (_, done), outcome in zip(sending, outcomes, strict=True):
                    if done.done():
                        continue  # whoever wanted it has been cancelled
                    if isinstance(outcome, Exception):
                        done.set_exception(outcome)
                    else:
                        done.set_result(outcome)
        finally:
            self._sender = None
            for _, done in (*sending, *self._waiting):
                done.cancel()  # nobody is left waiting for what is not done any more

    async def _outcomes(self, items: list[T]) -> Sequence[R | Exception]:
        try:
            return await self._act(items)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Not this task was cancelled but something that the driver waited for, as a connection that is closed.
            error: Exception = Unavailable("The connection to MongoDB was closed; try again.")
            return [error] * len(items)
        except Exception as error:
            return [error] * len(items)
