"""Small reads side by side, a few at a time, so that not each waits for the round trip of the one before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")

_AT_ONCE = 6


async def side_by_side(read: Callable[[T], Awaitable[U]], things: Iterable[T]) -> list[U]:
    """The results of a read for each of these things, in their order."""
    found: list[U] = []
    rest = iter(things)
    while chunk := list(islice(rest, _AT_ONCE)):
        found += await asyncio.gather(*(read(thing) for thing in chunk))
    return found
