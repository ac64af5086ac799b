"""A line in which processes wait for their turn at something, first come, first served: one document in `jobs.locks`.

It only saves work: whatever is done in a turn is safe when several do it at once. `last` is the number of the process
that came last, and `done` that of the last one whose turn is over. A process that has died in the line holds up the
others until its turn was long enough.
"""

from __future__ import annotations

import asyncio
import secrets

from pymongo import WriteConcern

from mainspring import clock as clocks
from mainspring.store.connection import Connection, Document

# How long a turn is waited for to end, and how long a process with one before it waits before it asks, in seconds.
_LONGEST, _PACE = 1.0, 0.005
_MOST_PACES = 40


class TicketLine:
    """The line with this name."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._name = name
        self._line = connection.locks.with_options(write_concern=WriteConcern(1, j=False))

    async def join(self) -> int:
        """Join the line; returns the number in it."""
        line: Document = await self._line.find_one_and_update(  # type: ignore[assignment]
            {"_id": self._name}, {"$inc": {"last": 1}}, upsert=True, after=True
        )
        return int(line["last"])

    async def wait(self, number: int, until: float) -> None:
        """Return when it is this number's turn, or when the time is over."""
        seen, since = -1, 0.0
        while True:
            done, now = await self._read_done(number), clocks.monotonic()
            if done >= number - 1 or now > until:
                return
            if done != seen:
                seen, since = done, now
            elif now - since > _LONGEST:
                await self.end(done + 1)  # that of a process that is gone, or slow
            paces = min(number - 1 - done, _MOST_PACES)
            await asyncio.sleep(paces * _PACE * (0.5 + secrets.randbelow(1000) / 2000))

    async def end(self, number: int) -> None:
        """Let the next one have its turn."""
        await self._line.update_one({"_id": self._name}, {"$max": {"done": number}})

    async def _read_done(self, number: int) -> int:
        """The number of the last one whose turn is over; where the line is gone, it is this one's turn."""
        line = await self._line.find_one({"_id": self._name}, {"done": 1})
        return number if line is None else int(line.get("done", 0))
