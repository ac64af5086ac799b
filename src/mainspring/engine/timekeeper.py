"""Fires schedules. Every worker process has one timekeeper, and none of them leads.

Each takes its own share of the schedules, by the hash of their ids over the live workers, and leaves the others to
their owners until they are a second late: so they do not get in each other's way, and a dead owner delays its share by
that second. It sleeps until the first of its own is due, or one of another's is late, which it knows from the head of
one index, so that its cost does not grow with the number of schedules. Changes made by others wake it through the
change stream; a look every few seconds is the safety net. All of it is only to save work: two that take the same
schedule do no harm, since `store/firing.py` lets a decision be taken once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from zlib import crc32

from mainspring.config import Settings
from mainspring.engine.events import Events
from mainspring.engine.peers import Peers
from mainspring.model.ledger import LATE, MISSED, ON_TIME, TRIGGERED, Notice, Row
from mainspring.store import Store
from mainspring.store.codec import decode_job
from mainspring.store.firing import FEW, Fired, Outlook
from mainspring.store.schedule_codec import facts

_BATCH, _AT_ONCE = 500, 2
_PATIENCE = 1.0
_SAFETY_NET = 10.0
_SHORTEST = 0.05
# Who is alive is asked anew, when schedules are due, after this many seconds.
_KNOWN_FOR = 5.0


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
        """Fire schedules until told to stop. No error ends it."""
        while not self._stopping:
            self._woken.clear()
            try:
                pause = await self.run_once()
            except Exception as error:
                self._failed(error)
                await self._store.connection.mend(error)
                pause = random.uniform(0.2, 0.6)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._woken.wait()

    async def run_once(self) -> float:
        """Fire our share of what is due, and what its owners have left too long; returns the seconds until the next
        look."""
        await self._review_ended()
        while not self._stopping:
            outlook = await self._store.firing.outlook()
            due = outlook.due
            if due and self._peers.age > _KNOWN_FOR:
                await self._peers.refresh()
            mine = self._share(due, outlook.now)
            if not mine:
                return self._until_next(outlook)
            batches = [mine[place : place + _BATCH] for place in range(0, len(mine), _BATCH)]
            for place in range(0, len(batches), _AT_ONCE):
                await asyncio.gather(*(self._fire(batch, outlook.now) for batch in batches[place : place + _AT_ONCE]))
        return 0.0

    def _share(self, due: Sequence[tuple[str, datetime]], now: datetime) -> list[str]:
        """Ours, and what its owner has left too long."""
        rank, left = self._peers.rank(None), now - timedelta(seconds=_PATIENCE)
        return [schedule_id for schedule_id, at in due if _owns(rank, schedule_id) or at < left]

    def _until_next(self, outlook: Outlook) -> float:
        """Seconds until one of ours is due, or one of another worker's is so late that its owner may be dead."""
        rank = self._peers.rank(None)
        # Without news of changes, look as often as jobs are polled for.
        pause = _SAFETY_NET if self._told() else min(_SAFETY_NET, self._settings.poll_interval)
        patience = random.uniform(1.0, 1.4) * _PATIENCE  # each is patient a little differently
        wait = 0.0
        for schedule_id, at in outlook.soonest:
            wait = (at - outlook.now).total_seconds()
            if wait >= pause:
                break
            pause = min(pause, wait if _owns(rank, schedule_id) else wait + patience)
        if len(outlook.soonest) >= FEW:  # what comes behind these is not known
            pause = min(pause, max(wait, _SHORTEST))
        return max(0.0, pause) + 0.001

    async def _review_ended(self) -> None:
        ended, self._ended = self._ended, set()
        if not ended:
            return
        try:
            await self._fire(list(ended))
        except Exception:
            self._ended |= ended
            raise

    async def _fire(self, ids: Sequence[str], now: datetime | None = None) -> None:
        schedules = await self._store.firing.load(ids)
        if now is not None:  # what another worker has taken meanwhile is not due any more
            schedules = [one for one in schedules if "fire_at" in one and one["fire_at"] <= now]
        fired = await self._store.firing.advance(schedules, now)
        if any(one.jobs for one in fired):
            self._made()
        announce_fired(self._events, fired)


def _owns(rank: tuple[int, int], schedule_id: str) -> bool:
    place, number = rank
    return number <= 1 or crc32(schedule_id.encode()) % number == place


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
