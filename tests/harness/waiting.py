"""Waiting for facts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any


async def eventually(fact: Callable[[], Any | Awaitable[Any]], timeout: float = 120, every: float = 0.02) -> Any:
    """Wait until a function, plain or async, returns something true, and return that."""
    until = time.monotonic() + timeout
    while True:
        value = fact()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return value
        if time.monotonic() > until:
            raise AssertionError(f"did not happen within {timeout} s: {fact}")
        await asyncio.sleep(every)
