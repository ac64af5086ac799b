"""Fires schedules. Every worker process has one timekeeper, and none of them leads.

Each takes its own share of the schedules, by the hash of their ids over the live workers, and leaves the others to
their owners until they are a second late: so timekeepers seldom contend, and a dead owner delays its share by that
second. A timekeeper sleeps until the first schedule of its share is due, or one of another share is late. It reads that
from the head of one index, so that its cost does not grow with the number of schedules. The change stream wakes it when
another process changes a schedule; a pass every few seconds is the safety net. All of it only saves work: two
timekeepers that take the same schedule do no harm, since `store/schedules/firing.py` lets a decision be taken once.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from zlib import crc32

from mainspring.config.settings import Settings
from mainspring.engine.callbacks import Callbacks
from mainspring.engine.peers import Peers
from mainspring.engine.service import Service
from mainspring.model.printable import printable
from mainspring.model.schedules.ledger import LATE, MISSED, ON_TIME, TRIGGERED, Notice, Row
from mainspring.store import Store
from mainspring.store.codec import decode_job
from mainspring.store.schedules.codec import facts
from mainspring.store.schedules.firing import FEW, Fired, Outlook

logger = logging.getLogger("mainspring")

_BATCH, _AT_ONCE = 500, 2
_PATIENCE = 1.0
_SAFETY_NET = 10.0
_SHORTEST = 0.05
# The list of live workers is read again, when schedules are due, after this many seconds; sooner when many are, since a
# worker that does not know of another one takes its share too.
_KNOWN_FOR, _KNOWN_FOR_MANY = 5.0, 0.5


class Timekeeper(Service):
    """Makes the jobs of schedules when they are due."""

    name = "timekeeper"

    def __init__(
        self,
        *,
        store: Store,
        settings: Settings,
        peers: Peers,
        events: Callbacks,
        made: Callable[[], None],
        told: Callable[[], bool],
        failed: Callable[[Exception], None],
    ) -> None:
        super().__init__(store, failed)
        self._settings = settings
        self._peers = peers
        self._events = events
        self._made = made
        self._told = told
        self._passing = asyncio.Lock()
        self._ended: set[str] = set()

    def run_ended(self, schedule_id: str) -> None:
        """Review a schedule soon that depends on the ends of its runs, since a run of it has ended."""
        self._ended.add(schedule_id)
        self.wake()

    async def run_once(self) -> float:
        """Fire the due schedules of this worker's share, and those that their owners have left too long; return the
        seconds until the next pass."""
        async with self._passing:
            return await self._pass()

    async def _pass(self) -> float:
        await self._review_ended()
        while not self._stopping:
            outlook = await self._store.firing.outlook()
            due = outlook.due
            if due and self._peers.age > (_KNOWN_FOR if len(due) < FEW else _KNOWN_FOR_MANY):
                await self._peers.refresh()
            mine = self._share(due, outlook.now)
            if not mine:
                return self._until_next(outlook)
            batches = [mine[place : place + _BATCH] for place in range(0, len(mine), _BATCH)]
            for place in range(0, len(batches), _AT_ONCE):
                await asyncio.gather(*(self._fire(batch, outlook.now) for batch in batches[place : place + _AT_ONCE]))
        return 0.0

    def _share(self, due: Sequence[tuple[str, datetime]], now: datetime) -> list[str]:
        """The due schedules of this worker's share, and those that their owners have left too long."""
        rank, left = self._peers.rank(None), now - timedelta(seconds=_PATIENCE)
        return [schedule_id for schedule_id, at in due if _owns(rank, schedule_id) or at < left]

    def _until_next(self, outlook: Outlook) -> float:
        """The seconds until a schedule of this share is due, or one of another so late that its owner may be dead."""
        rank = self._peers.rank(None)
        # Without a change stream, check as often as jobs are polled for.
        pause = _SAFETY_NET if self._told() else min(_SAFETY_NET, self._settings.poll_interval)
        patience = random.uniform(1.0, 1.4) * _PATIENCE  # so that not all workers take over at the same instant
        wait = 0.0
        for schedule_id, at in outlook.soonest:
            wait = (at - outlook.now).total_seconds()
            if wait >= pause:
                break
            pause = min(pause, wait if _owns(rank, schedule_id) else wait + patience)
        if len(outlook.soonest) >= FEW:  # the schedules behind these were not read
            pause = min(pause, max(wait, _SHORTEST))
        return max(0.0, pause) + 0.001

    async def _review_ended(self) -> None:
        """Review the schedules whose runs have ended. An error there must not keep the other schedules from firing."""
        ended, self._ended = list(self._ended), set()
        for place in range(0, len(ended), _BATCH):
            try:
                await self._fire(ended[place : place + _BATCH])
            except Exception as error:
                self._ended |= set(ended[place : place + _BATCH])
                self._failed(error)

    async def _fire(self, ids: Sequence[str], now: datetime | None = None) -> None:
        schedules = await self._store.firing.load(ids, now)  # without those that another worker has fired
        fired = await self._store.firing.advance(schedules, now)
        if any(one.jobs for one in fired):
            self._made()
        announce_fired(self._events, fired)


def _owns(rank: tuple[int, int], schedule_id: str) -> bool:
    place, number = rank
    return number <= 1 or crc32(schedule_id.encode()) % number == place


def announce_fired(events: Callbacks, fired: Sequence[Fired]) -> None:
    """Emit the events of jobs that schedules have made, and of firings that were not on time."""
    for one in fired:
        try:
            _announce(events, one)
        except Exception as error:  # the stored documents may be unreadable
            logger.error("A firing of schedule %s could not be announced: %r", one.schedule_id, error)


def _announce(events: Callbacks, fired: Fired) -> None:
    if events.wanted("job:created"):
        for job in fired.jobs:
            events.emit("job:created", decode_job(job))
    for row in fired.rows:
        if row.outcome not in (ON_TIME, TRIGGERED):
            events.emit(_event(row), _notice(fired, row))
    if fired.paused:
        _log_pause(fired)
    if fired.paused and events.wanted("schedule:pause"):
        events.emit("schedule:pause", facts(fired.after))


def _log_pause(fired: Fired) -> None:
    """Log that a schedule was paused because its runs fail, without an operator's request."""
    logger.warning(
        "Schedule %s (%s) is paused: %s",
        *(printable(fired.schedule_id), printable(fired.job_name), printable(fired.pause_reason)),
        extra={"schedule_id": fired.schedule_id, "job_name": fired.job_name},
    )


def _event(row: Row) -> str:
    if row.outcome == LATE:
        return "schedule:late"
    missed = row.outcome == MISSED or row.reason in ("misfire", "expired")
    return "schedule:missed" if missed else "schedule:skipped"


def _notice(fired: Fired, row: Row) -> Notice:
    return Notice(
        fired.schedule_id,
        fired.job_name,
        row.at,
        row.until,
        row.outcome,
        row.reason,
        row.late_by,
        row.job_id,
        row.count,
    )
