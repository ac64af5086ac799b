"""Looking at many schedules: pages of them, their last firings, and what is to come of all of them.

`scheduler.schedules` has these verbs. Each call reads a bounded part of the database, however many schedules there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from mainspring.client.core import Core
from mainspring.client.per_store import PerStore
from mainspring.clock import truncate
from mainspring.config.checks import check_whole
from mainspring.errors import ConfigurationError, InvalidSchedule
from mainspring.model.access.api_keys import Scope
from mainspring.model.schedules.coming import Coming, Counting, Window, changes_of, check_heaviest, make_window
from mainspring.model.schedules.ledger import RecentFiring
from mainspring.model.schedules.schedule import ScheduleFacts
from mainspring.model.schedules.search import SchedulePage, check_limit, make_search, read_place
from mainspring.store.connection import Document
from mainspring.store.schedules.timing import TimingSnapshot

MOST_RECENT, MOST_SHOWN = 20, 40
S = TypeVar("S", bound=ScheduleFacts)


class ScheduleViews:
    """Reads pages of schedules, last firings and coming firings."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._counting = PerStore[_Counted](lambda store, _: _Counted(store.timing, Counting()))

    async def page(
        self,
        decode: Callable[[Document], S],
        given: Mapping[str, Any],
        scope: Scope | None,
        limit: int,
        after: str | None,
    ) -> SchedulePage[S]:
        """A page of the schedules that match."""
        search = make_search(given, scope)
        place = read_place(after, search.order)
        store = await self._core.store()
        found = await store.schedule_views.page(search, check_limit(limit), place)
        schedules = tuple(decode(document) for document in found.documents)
        following = None if found.place is None else found.place.text()
        complete = following is None or len(schedules) == limit
        return SchedulePage(schedules, following, complete, found.last_states)

    async def recent(self, ids: Sequence[str], count: int, scope: Scope) -> dict[str, list[RecentFiring]]:
        """The last firings of some schedules, by id."""
        check_whole(count, "count", 1, MOST_RECENT)
        if isinstance(ids, str) or len(ids) > MOST_SHOWN or not all(isinstance(one, str) and one for one in ids):
            raise ConfigurationError(f"Give a list of up to {MOST_SHOWN} ids of schedules.")
        store = await self._core.store()
        found = await store.schedule_views.recent(ids, count, scope)
        return {
            schedule_id: [RecentFiring.of(entry, one.states.get(entry.job_id or "")) for entry in one.entries]
            for schedule_id, one in found.items()
        }

    async def coming(
        self, start: datetime | None, end: datetime | None, step: object, scope: Scope, heaviest: int
    ) -> Coming:
        """The coming firings of all schedules within the scope, in buckets."""
        store = await self._core.store()
        now = truncate(store.clock.now())
        window = make_window(_instant(start), _instant(end), step, now)
        return await self._counting.of(store).coming(window, now, scope, check_heaviest(heaviest))


@dataclass(slots=True)
class _Counted:
    """The counts of one store, of which one request at a time computes more."""

    snapshot: TimingSnapshot
    counting: Counting
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def coming(self, window: Window, now: datetime, scope: Scope, heaviest: int) -> Coming:
        async with self.turn:
            await self.snapshot.look()
            # In a thread: the event loop has other requests to answer while a tenth of a second of rules is computed.
            return await asyncio.to_thread(_count, self.snapshot, self.counting, window, now, scope, heaviest)


def _count(
    snapshot: TimingSnapshot, counting: Counting, window: Window, now: datetime, scope: Scope, heaviest: int
) -> Coming:
    schedules = snapshot.schedules
    counted = counting.count(schedules, window, now)
    buckets, seen, paused, zones = counting.coming(schedules, window, now, scope, heaviest)
    return Coming(
        window.start,
        window.end,
        window.step,
        buckets,
        seen,
        paused,
        changes_of(zones, window),
        counted and snapshot.complete,
        snapshot.read_since,
    )


def _instant(value: datetime | None) -> datetime | None:
    if value is not None and (not isinstance(value, datetime) or value.tzinfo is None):
        raise InvalidSchedule(f"start and end must be aware datetimes, such as datetime.now(UTC), not {value!r}.")
    return None if value is None else truncate(value)
