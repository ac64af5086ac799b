"""The walks of a search: parts of indexes that together have all jobs that may match.

A walk says which index is read, in which order, and what the index can answer of the filter (`within`) and what only
the jobs themselves can (`wanted`). Searches, counts, exports, `scheduler.jobs` and operations read the same walks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from bson import ObjectId

from mainspring.clock import EPOCH
from mainspring.model.jobs.job import FAILED, FINISHED, PENDING, RUNNING
from mainspring.model.views.search import Search
from mainspring.store.connection import Document
from mainspring.store.jobs.upkeep import NO_HANDLER, NO_KEY, TOO_NEW
from mainspring.store.reach import both, reached
from mainspring.store.schedules.codec import OVERLAP
from mainspring.store.schema import (
    BY_ID,
    CLAIM,
    DEAD,
    FINISHED_INDEX,
    FLOW,
    FLOW_ENDED,
    LEASE,
    LINE,
    NOT_ENDED,
    SCHEDULE,
    WAITING_FOR,
)

# A job may have ended this much earlier than it was made, by different clocks.
_SKEW = timedelta(minutes=1)
# The clock of the process that made a job, and its id, may be off by this.
_ID_SKEW = timedelta(days=1)
_LAST_ID = EPOCH + timedelta(seconds=(1 << 32) - 1)
"""The last moment that an ObjectId can have."""
# The reasons of waiting jobs that are on no wait list.
_HOLDERS = (NO_HANDLER, NO_KEY, OVERLAP, TOO_NEW)
_ORDER = ("priority", "run_at", "_id")
_LIVE_STATES: Document = {"state": {"$in": list(NOT_ENDED)}}

Place = tuple[Any, ...]
"""The key at which a walk goes on; empty at its beginning."""


@dataclass(frozen=True, slots=True)
class Walk:
    """A part of an index, in its order. Its keys end with `_id`, unless `ties` says that several jobs may have the same
    key. `within` has the conditions that the index can answer, `wanted` those that only the jobs themselves can."""

    index: str
    fixed: Document
    keys: tuple[str, ...]
    order: int = -1
    ties: bool = False
    within: Document = field(default_factory=dict)
    wanted: Document = field(default_factory=dict)
    schedules: bool = False
    """Whether it is an index of the schedules, not of the jobs."""
    gathered: bool = False
    """Whether its jobs are few as a rule and are sorted by their ids, since the index has no lasting order of them."""

    @property
    def sort(self) -> list[tuple[str, int]]:
        return [(key, self.order) for key in (*self.fixed, *self.keys)]

    @property
    def places(self) -> tuple[int, ...]:
        """How many values a place in it may have."""
        if self.gathered:
            return (1, 2)
        return (2,) if self.ties else (len(self.keys),)

    @property
    def entries(self) -> Document:
        """The filter for the entries of the index that are walked along."""
        return both(self.fixed, self.within)

    @property
    def matching(self) -> Document:
        return both(self.entries, self.wanted)

    def bound(self, place: Place) -> Document:
        """A place as a bound in the index."""
        return {**self.fixed, **dict(zip(self.keys, place, strict=True))}

    def place(self, document: Document) -> Place:
        return tuple(document.get(key) for key in self.keys)


# -- the walks of a filter -------------------------------------------------------------------------------------------


def walks_of(search: Search) -> list[Walk]:
    """The parts of indexes that together have all jobs that may match, in the order in which they are read."""
    wanted, state = wanted_of(search), {} if search.state is None else {"state": {"$eq": search.state}}
    if search.flow_id is not None:
        return _of_flow(search, wanted)
    if search.schedule_id is not None:
        fixed = {"schedule_id": search.schedule_id}
        return [Walk(SCHEDULE, fixed, ("scheduled_for",), ties=True, wanted=both(wanted, state))]
    if search.fingerprint is not None and search.state in (None, FAILED):
        keys = ("finished_at", "_id", "fingerprint")
        return [Walk(DEAD, {"state": FAILED}, keys, within=_ended_within(search), wanted=wanted)]
    if search.state in FINISHED:
        return [_ended(search, search.state, wanted)]
    if search.state == RUNNING:
        return [Walk(LEASE, {"state": RUNNING}, ("_id",), wanted=wanted, gathered=True)]
    if search.state == PENDING:
        return _pending(search, wanted)
    if search.state is None and (search.finished_since or search.finished_until):
        return [_ended(search, state, wanted) for state in FINISHED]
    return _by_id(search, both(wanted, state))


def _of_flow(search: Search, wanted: Document) -> list[Walk]:
    """The walks for the members of a flow, by node: first live ones, whose index does not tell which of the live states
    they are in, then ended ones by state."""
    wanted = both(wanted, {} if search.schedule_id is None else {"schedule_id": {"$eq": search.schedule_id}})
    walks: list[Walk] = []
    fixed: Document = {"flow": search.flow_id}
    if live := [state for state in search.states if state in NOT_ENDED]:
        of_live = wanted if len(live) == len(NOT_ENDED) else both(wanted, {"state": {"$in": live}})
        walks += _by_node(search, Walk(FLOW, fixed, ("node", "_id"), 1, within=_LIVE_STATES, wanted=of_live))
    for state in search.states:
        if state in FINISHED:
            walks += _by_node(search, Walk(FLOW_ENDED, {**fixed, "state": state}, ("node", "_id"), 1, wanted=wanted))
    return walks


def _by_node(search: Search, walk: Walk) -> list[Walk]:
    """The parts of a walk along members that are of the node of a search, if it has one, and of those below it: their
    paths begin with its own."""
    if search.node is None:
        return [walk]
    below = {"node": {"$gte": f"{search.node}/", "$lt": f"{search.node}0"}}  # "0" follows "/"
    own = replace(walk, fixed={**walk.fixed, "node": search.node}, keys=("_id",))
    return [own, replace(walk, within=both(walk.within, below))]


def _ended(search: Search, state: str, wanted: Document) -> Walk:
    """The walk for the jobs that ended in a state, the latest first."""
    rest = {key: value for key, value in wanted.items() if key != "finished_at"}
    return Walk(
        FINISHED_INDEX, {"state": state}, ("finished_at",), ties=True, within=_ended_within(search), wanted=rest
    )


def _by_id(search: Search, wanted: Document) -> list[Walk]:
    """The walks for jobs in any state, the latest ids first. An ObjectId contains the time when it was made; other ids
    do not."""
    if search.since is None:
        return [Walk(BY_ID, {}, ("_id",), wanted=wanted)]
    earliest = ObjectId.from_datetime(min(max(search.since, EPOCH + _ID_SKEW) - _ID_SKEW, _LAST_ID))
    kinds: tuple[Document, ...] = ({"_id": {"$gte": earliest}}, {"_id": {"$type": "string"}})
    return [Walk(BY_ID, {}, ("_id",), within=kind, wanted=wanted) for kind in kinds]


def _pending(search: Search, wanted: Document) -> list[Walk]:
    """The walks for pending jobs: first ready jobs in their order, then jobs on wait lists, then other waiting jobs."""
    there: Document = {"line": {"$exists": True}}
    held: Document = {"waiting_for.by": {"$in": list(_HOLDERS)}}
    of_waiting = both(wanted, {"state": PENDING})
    waiting = [
        Walk(LINE, {}, ("line", *_ORDER), 1, within=there, wanted=of_waiting),
        Walk(WAITING_FOR, {}, ("_id",), within=held, wanted=of_waiting, gathered=True),
    ]
    if search.queue is None:
        return [Walk(CLAIM, {"ready": True}, ("queue", *_ORDER), 1, wanted=wanted), *waiting]
    rest = {key: value for key, value in wanted.items() if key != "queue"}
    return [Walk(CLAIM, {"ready": True, "queue": search.queue}, _ORDER, 1, wanted=rest), *waiting]


def _ended_within(search: Search) -> Document:
    """When a job that matches may have ended, of a search for ended ones: what the index can tell of it."""
    bounds = _bounds(search.finished_since, search.finished_until)
    if search.since is not None:
        bounds["$gte"] = max(search.since - _SKEW, bounds.get("$gte", EPOCH))
    bounds |= {} if search.cutoff is None else {"$lte": search.cutoff}
    return {"finished_at": bounds} if bounds else {}


# -- the conditions of a filter --------------------------------------------------------------------------------------


def wanted_of(search: Search) -> Document:
    """All conditions of a filter but the state, and the schedule, which a job keeps; a value is compared as it is."""
    fields = {"name": search.name, "queue": search.queue, "tags": search.tag, "parent_id": search.parent_id}
    fields |= {"fingerprint": search.fingerprint, "label": search.label}
    wanted: Document = {key: {"$eq": value} for key, value in fields.items() if value is not None}
    for path, values in search.data:
        wanted[f"data.{path}"] = {"$in": list(values)}
    wanted |= _times(search)
    if search.not_by is not None:
        wanted["requests"] = {"$ne": search.not_by}
    if search.dedupe_key is not None:
        # Where a key has a namespace, that and a divider come before it (model/access/namespaces.py).
        wanted["dedupe_key"] = {"$regex": f"(?:^|\x1f){re.escape(search.dedupe_key)}\\z"}
    for others in _alternatives(search):
        wanted = both(wanted, {"$or": others})
    if search.without:
        wanted = both(wanted, {"name": {"$nin": list(search.without)}})
    return both(wanted, reached(search.scope))


def _alternatives(search: Search) -> list[list[Document]]:
    """The conditions that one of several fields has to meet."""
    found: list[list[Document]] = []
    if search.worker is not None:
        found.append([{field: {"$eq": search.worker}} for field in ("worker", "attempts.worker")])
    if search.error is not None:
        contains = {"$regex": re.escape(search.error), "$options": "i"}
        found.append([{field: contains} for field in ("error.type", "error.message")])
    return found


def _times(search: Search) -> Document:
    made, ended = _bounds(search.since, search.until), _bounds(search.finished_since, search.finished_until)
    if search.cutoff is not None:
        made["$lte"] = search.cutoff
        ended |= {"$lte": search.cutoff} if search.state in FINISHED else {}
    times = {"created_at": made, "run_at": _bounds(search.run_since, search.run_until), "finished_at": ended}
    return {key: bounds for key, bounds in times.items() if bounds}


def _bounds(since: datetime | None, until: datetime | None) -> Document:
    return {key: at for key, at in (("$gte", since), ("$lt", until)) if at is not None}


# -- how far a walk has come -----------------------------------------------------------------------------------------


def told(walk: Walk, place: Place) -> str:
    """How far a search has come that ends a page at a place of a walk, in words."""
    if not place:
        return "A part of the jobs was searched."
    at = next((_instant(value) for value in place if isinstance(value, datetime)), None)
    if walk.index == FINISHED_INDEX or walk.index == DEAD:
        return f"{str(walk.fixed['state']).capitalize()} jobs were searched back to those that ended at {at}."
    if walk.index == FLOW:
        return "Jobs of the flow were searched up to some that have not ended."
    if walk.index == FLOW_ENDED:
        return f"Jobs of the flow were searched up to some that are {walk.fixed['state']}."
    if walk.index == SCHEDULE:
        return f"The schedule's jobs were searched back to {at}."
    if walk.index == CLAIM:
        queue = walk.fixed.get("queue", place[0])
        return f"Pending jobs of queue {str(queue)[:200]} were searched up to priority {place[-3]}, due at {at}."
    if walk.index == LINE:
        return "Pending jobs were searched up to some that wait for a limit, a pause or their turn."
    if walk.gathered:
        return f"A part of the {'running' if walk.index == LEASE else 'waiting'} jobs was searched."
    made = place[-1]
    if not isinstance(made, ObjectId):
        return "Jobs with ids of texts were searched, in the order of their ids."
    return f"Jobs were searched back to those made at {_instant(made.generation_time)}."


def _instant(value: datetime) -> str:
    return value.strftime("%Y-%m-%d %H:%M:%S UTC")
