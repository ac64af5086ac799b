"""Counting the jobs of a filter at a bounded cost: how many, in all or by state, and the first of them.

The same walks along indexes as for a search are counted, one behind the other, until so many keys were examined. What
an index cannot tell is compared with the jobs themselves, each of which costs a second key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mainspring.model.jobs.job import BLOCKED, CANCELLED, COMPLETED, EXPIRED, FAILED, PENDING, RUNNING
from mainspring.model.views.search import Search, StateCount
from mainspring.store.codec import DocumentId
from mainspring.store.connection import Connection, Document
from mainspring.store.reach import both
from mainspring.store.schema import CHECK
from mainspring.store.views.walks import Walk, walks_of, wanted_of

EXAMINED = 2_000
"""How many keys are examined at most, and hence how far is counted."""
_BY_STATE = 1_800
# States with few jobs as a rule come first and leave what they do not use to the others.
_STATES = (RUNNING, EXPIRED, CANCELLED, BLOCKED, FAILED, PENDING, COMPLETED)


@dataclass(frozen=True, slots=True)
class Counted:
    """The number of jobs, at least so many where `capped`; the ids of the first; and how many keys were examined."""

    count: int
    capped: bool
    first: list[DocumentId]
    examined: int


def _walks(search: Search) -> list[Walk]:
    """The walks along which the jobs of a state are counted. Blocked jobs are in the index of the sweep, but for those
    that are being laid out: a count has no order to keep, as a search has."""
    if search.state != BLOCKED or search.flow_id is not None or search.schedule_id is not None:
        return walks_of(search)
    there: Document = {"check_at": {"$exists": True}}
    wanted = both(wanted_of(search), {"state": BLOCKED})
    return [Walk(CHECK, {}, ("_id",), within=there, wanted=wanted, gathered=True)]


class Counts:
    """The store's verbs for counting jobs."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def by_state(self, search: Search) -> list[StateCount]:
        """The number of jobs of a filter in each state, whatever state it has itself."""
        search, left = replace(search, state=None), _BY_STATE
        found: list[StateCount] = []
        for place, state in enumerate(_STATES):
            if state not in search.states:
                found.append(StateCount(state, 0, False))
                continue
            share = left // (len(_STATES) - place)
            counted = await self.along(_walks(replace(search, state=state)), share)
            found.append(StateCount(state, counted.count, counted.capped))
            left -= counted.examined
        return found

    async def along(self, walks: Sequence[Walk], most: int = EXAMINED, sampled: int = 0) -> Counted:
        """The jobs of these walks, of which at most so many keys are examined, and the ids of some of them."""
        count, left, found = 0, most, list[DocumentId]()
        for walk in walks:
            cost = 2 if walk.wanted else 1
            room = left // cost
            entries = await self._connection.jobs.count(walk.entries, hint=walk.index, limit=room + 1)
            if entries and room:
                matched, some = await self._match(walk, min(entries, room), sampled - len(found))
                count, found = count + matched, found + some
            if entries > room:
                return Counted(count, True, found, most)
            left -= entries * cost
        return Counted(count, False, found, most - left)

    async def _match(self, walk: Walk, entries: int, sampled: int) -> tuple[int, list[DocumentId]]:
        """How many of the first so many entries match, and the ids of some of these."""
        sort = None if walk.gathered else walk.sort
        if not walk.wanted:
            if not sampled:
                return entries, []
            some = await self._connection.jobs.find_ids(walk.entries, sort=sort, hint=walk.index, limit=sampled)
            return entries, some
        first: list[Document] = [] if sort is None else [{"$sort": dict(sort)}]
        parts: Document = {"matched": [{"$count": "count"}]}
        if sampled:
            parts["some"] = [{"$limit": sampled}, {"$project": {"_id": 1}}]
        stages = [{"$match": walk.entries}, *first, {"$limit": entries}, {"$match": walk.wanted}, {"$facet": parts}]
        (found,) = await self._connection.jobs.aggregate(stages, hint=walk.index)
        matched: list[Any] = found["matched"]
        return (matched[0]["count"] if matched else 0), [one["_id"] for one in found.get("some", ())]
