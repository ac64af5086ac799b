"""Compare and set: read a document, decide, and write only if it is as it was read; otherwise begin again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mainspring.errors import Unavailable

T = TypeVar("T")
ATTEMPTS = 20
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.2


async def compare_and_set(
    attempt: Callable[[int], Awaitable[T | None]],
    contended: str,
    attempts: int = ATTEMPTS,
    pause: Callable[[int], Awaitable[None]] | None = None,
) -> T:
    """The outcome of the first attempt that has one: None means that another process has changed the document since it
    was read. Each attempt receives its number, from 0 on. `contended` names the document in the error."""
    for number in range(attempts):
        outcome = await attempt(number)
        if outcome is not None:
            return outcome
        if pause is not None:
            await pause(number)
    raise Unavailable(f"Too much contention on {contended} ({attempts} attempts); try again.")


async def back_off(attempt: int) -> None:
    """Pause with exponential backoff and jitter, so that one of the contending processes can finish."""
    await asyncio.sleep(random.uniform(0.2, 1.0) * min(_FIRST_PAUSE * 1.5**attempt, _LONGEST_PAUSE))
