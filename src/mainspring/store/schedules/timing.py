"""The timing of all schedules, kept in memory for counting what is to come.

Each look reads one window of schedules, so that its cost is bounded: up to `WINDOW` schedules are read anew every time;
with more, the looks go round, and the first answers are not complete. A schedule whose timing has not changed keeps its
compiled rule.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mainspring.clock import truncate
from mainspring.model.schedules.coming import Timed, group_of
from mainspring.model.schedules.times import Times, is_after_end
from mainspring.rules.unreadable import UnreadableRule
from mainspring.store.connection import Connection, Document
from mainspring.store.fitting import fit
from mainspring.store.refusals import brief
from mainspring.store.schedules.calendars import Calendars
from mainspring.store.schedules.codec import TIMING, CalendarsInForce, calendar_keys, malformed, times_of
from mainspring.store.schedules.views import WINDOW, ScheduleViews
from mainspring.store.shapes import SCHEDULE

logger = logging.getLogger("mainspring")

MOST_KEPT = 100_000
"""More schedules than this are not counted, so that the memory of a process is bounded."""


@dataclass(slots=True)
class _Kept:
    """A schedule as it was read: at which instant, and what its times were made of."""

    at: datetime
    timing: Mapping[str, Any]
    timed: Timed


class TimingSnapshot:
    """The timing of all schedules, as far as it has been read."""

    def __init__(self, connection: Connection, views: ScheduleViews, calendars: Calendars) -> None:
        self._connection = connection
        self._views = views
        self._calendars = calendars
        self._kept: dict[str, _Kept] = {}
        self._after: str | None = None
        self._whole = False
        self._reading = asyncio.Lock()

    async def look(self) -> None:
        """Read the next window. Looks of one process wait for each other."""
        async with self._reading:
            now = truncate(self._connection.clock.now())
            found = await self._views.window(self._after)
            keys = {key for one in found for key in _calendar_keys(one)}
            calendars = await self._calendars.in_force(keys)
            last = found[-1]["_id"] if len(found) == WINDOW else None
            self._forget({document["_id"] for document in found}, last)
            for document in found:
                self._keep(document, calendars, now)
            self._after, self._whole = last, self._whole or last is None

    @property
    def schedules(self) -> list[Timed]:
        return [one.timed for one in self._kept.values()]

    @property
    def complete(self) -> bool:
        """Whether every schedule has been read at least once."""
        return self._whole and len(self._kept) < MOST_KEPT

    @property
    def read_since(self) -> datetime:
        """The instant of the oldest reading."""
        return min((one.at for one in self._kept.values()), default=truncate(self._connection.clock.now()))

    def _forget(self, found: set[str], last: str | None) -> None:
        """Forget the schedules of the window that are gone. Texts have the same order here as in the database."""
        after = self._after or ""
        gone = [id for id in self._kept if id not in found and after < id and (last is None or id <= last)]
        for id in gone:
            del self._kept[id]

    def _keep(self, document: Document, calendars: CalendarsInForce, now: datetime) -> None:
        id, before = document["_id"], self._kept.get(document["_id"])
        if before is None and len(self._kept) >= MOST_KEPT:
            return
        timing = {key: document[key] for key in TIMING if key in document}
        known = None if before is None or before.timing != timing else before.timed
        timed = _timed(fit(document, SCHEDULE).document, calendars, known, now)
        self._kept[id] = _Kept(now, timing, timed)


def _calendar_keys(document: Document) -> list[tuple[str, int]]:
    """The calendars of a schedule; none where its document is malformed: its times are not read, either."""
    return calendar_keys(document) if malformed(document) is None else []


def _timed(document: Document, calendars: CalendarsInForce, known: Timed | None, now: datetime) -> Timed:
    job = document.get("job") or {}
    times, group = (_times(document, calendars), None) if known is None else (known.times, known.group)
    limit, cursor = document.get("max_runs"), document.get("cursor")
    return Timed(
        document["_id"],
        job.get("name") or "",
        job.get("queue") or "",
        times,
        group_of(times) if group is None else group,
        document.get("paused") is not None,
        None if limit is None else max(0, limit - document.get("runs", 0)),
        document.get("next_at") if is_after_end(times.rule) else None,
        cursor if cursor is not None and cursor > now else None,
    )


def _times(document: Document, calendars: CalendarsInForce) -> Times:
    """The times of a schedule; none where they cannot be read."""
    try:
        return times_of(document["_id"], document, calendars)
    except Exception as error:
        logger.debug("The rule of schedule %s cannot be read: %s", document["_id"], brief(error))
        return Times(document["_id"], UnreadableRule.of(document.get("rule"), error))
