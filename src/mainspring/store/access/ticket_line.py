"""A ticket lock: processes take turns at something, first come, first served. It is one document in `jobs.locks`.

It only saves work: the work of a turn is safe when several processes do it at once. `last` is the number of the process
that joined last, and `done` that of the last one whose turn is over. A process that has died in the line holds up the
others until its turn has lasted the longest time allowed.
"""

from __future__ import annotations

import asyncio
import secrets

from pymongo import WriteConcern

from mainspring import clock as clocks
from mainspring.store.connection import Connection, Document

# The longest turn that other processes wait for, and the pause between two reads for each process ahead, in seconds.
_LONGEST, _PACE = 1.0, 0.005
_MOST_PACES = 40


class TicketLine:
    """The line with this name."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._name = name
        self._line = connection.locks.with_options(write_concern=WriteConcern(1, j=False))

    async def join(self) -> int:
        """Join the line; returns this process's number."""
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
                await self.end(done + 1)  # its process is dead, or slow
            paces = min(number - 1 - done, _MOST_PACES)
            await asyncio.sleep(paces * _PACE * (0.5 + secrets.randbelow(1000) / 2000))

    async def end(self, number: int) -> None:
        """End the turn of this number; the next process has its turn."""
        await self._line.update_one({"_id": self._name}, {"$max": {"done": number}})

    async def _read_done(self, number: int) -> int:
        """The number of the last process whose turn is over; where the document is missing, it is this one's turn."""
        line = await self._line.find_one({"_id": self._name}, {"done": 1})
        return number if line is None else int(line.get("done", 0))
