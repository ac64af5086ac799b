"""Fires schedules. Every worker process has one timekeeper, and none of them leads.

It sleeps until the first schedule is due, which it knows from the head of one index, so that its cost does not grow
with the number of schedules. Changes made by others wake it through the change stream; a look every few seconds is the
safety net. When schedules are due, each timekeeper takes its own share of them, by the hash of their ids over the live
workers, and leaves the others to their owners for a second: so they do not get in each other's way, and a dead owner
delays its share by that second. All of it is only to save work: two that take the same schedule do no harm, since
`store/firing.py` lets a decision be taken once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from zlib import crc32

from mainspring.config import Settings
from mainspring.engine.events import Events
from mainspring.engine.peers import Peers
from mainspring.errors import Unavailable
from mainspring.model.ledger import LATE, MISSED, ON_TIME, TRIGGERED, Notice, Row
from mainspring.store import Store
from mainspring.store.codec import decode_job
from mainspring.store.firing import Fired
from mainspring.store.schedule_codec import facts

_BATCH, _AT_ONCE = 250, 3
_PATIENCE = 1.0
_SAFETY_NET = 10.0


class Timekeeper:
    """Makes the jobs of schedules when they are due."""

    def __init__(
        self,
        *,
        store: Store,
        settings: Settings,
        peers: Peers,
        events: Events,
        made: Callable[[], None],
        told: Callable[[], bool],
        failed: Callable[[Exception], None],
    ) -> None:
        self._store = store
        self._settings = settings
        self._peers = peers
        self._events = events
        self._made = made
        self._told = told
        self._failed = failed
        self._woken = asyncio.Event()
        self._ended: set[str] = set()
        self._stopping = False

    def wake(self) -> None:
        """A schedule may have become due sooner than was known."""
        self._woken.set()

    def run_ended(self, schedule_id: str) -> None:
        """A run has ended whose schedule wants to know."""
        self._ended.add(schedule_id)
        self._woken.set()

    def stop(self) -> None:
        self._stopping = True
        self._woken.set()

    async def run(self) -> None:
        """Fire schedules until told to stop; an outage is waited for."""
        while not self._stopping:
            self._woken.clear()
            try:
                pause = await self.run_once()
            except Unavailable as error:
                self._failed(error)
                pause = random.uniform(0.2, 0.6)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._woken.wait()

    async def run_once(self) -> float:
        """Fire what is due; returns the seconds until the next look."""
        await self._review_ended()
        late = await self._fire_due()
        head = await self._store.firing.head()
        pause = self._net()
        if head is not None:
            pause = min(pause, max(0.0, (head - self._store.clock.now()).total_seconds()) + 0.001)
        # What is due and not ours is its owner's for a moment; each waits a little differently for it.
        return max(pause, random.uniform(1.0, 1.4) * _PATIENCE) if late else pause

    def _net(self) -> float:
        """Without news of changes, ask as often as jobs are polled for."""
        return _SAFETY_NET if self._told() else min(_SAFETY_NET, self._settings.poll_interval)

    async def _fire_due(self) -> bool:
        """Fire our share of what is due, and what its owners have left too long; whether others' is left."""
        while not self._stopping:
            due = await self._store.firing.due()
            mine = self._share(due)
            reached = due[-1][1] if due else None
            if not mine:
                return bool(due)
            batches = [mine[place : place + _BATCH] for place in range(0, len(mine), _BATCH)]
            for place in range(0, len(batches), _AT_ONCE):
                await asyncio.gather(*(self._fire(batch, reached) for batch in batches[place : place + _AT_ONCE]))
        return False

    def _share(self, due: Sequence[tuple[str, datetime]]) -> list[str]:
        place, number = self._peers.rank(None)
        now = self._store.clock.now()
        return [
            schedule_id
            for schedule_id, fire_at in due
            if crc32(schedule_id.encode()) % number == place or (now - fire_at).total_seconds() > _PATIENCE
        ]

    async def _review_ended(self) -> None:
        ended, self._ended = self._ended, set()
        if ended:
            await self._fire(list(ended))

    async def _fire(self, ids: Sequence[str], reached: datetime | None = None) -> None:
        fired = await self._store.firing.advance(await self._store.firing.load(ids), reached)
        if any(one.jobs for one in fired):
            self._made()
        announce_fired(self._events, fired)


def announce_fired(events: Events, fired: Sequence[Fired]) -> None:
    """Tell of the jobs that schedules have made, and of the firings that were not as expected."""
    for one in fired:
        if events.wanted("job:created"):
            for job in one.jobs:
                events.emit("job:created", decode_job(job))
        for row in one.rows:
            if row.outcome not in (ON_TIME, TRIGGERED):
                events.emit(_event(row), _notice(one, row))
        if one.paused and events.wanted("schedule:pause"):
            events.emit("schedule:pause", facts({**one.schedule, **one.fields}))


def _event(row: Row) -> str:
    if row.outcome == LATE:
        return "schedule:late"
    missed = row.outcome == MISSED or row.reason in ("misfire", "expired")
    return "schedule:missed" if missed else "schedule:skipped"


def _notice(fired: Fired, row: Row) -> Notice:
    return Notice(
        fired.schedule["_id"],
        fired.schedule["job"]["name"],
        row.at,
        row.until,
        row.outcome,
        row.reason,
        row.late_by,
        row.job_id,
        row.count,
    )
