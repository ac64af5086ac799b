"""Searching jobs: page by page, each read along an index, with a bounded number of jobs read for one page.

A search is one or more *walks*, one behind the other: the parts of an index that together have all jobs in question. A
page ends at a place in a walk, which the next page goes on from. Before a walk is read with filters that its index
cannot answer, the end of the next few thousand entries is read from the index alone; the page ends there at the latest.
A job is missed or seen twice only if it moves in the order between two pages.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any

import bson
from bson import Int64, ObjectId

from mainspring.clock import EPOCH
from mainspring.errors import ConfigurationError
from mainspring.model.jobs.job import FINISHED, PENDING, RUNNING
from mainspring.model.views.search import Search
from mainspring.store.collection import Collection
from mainspring.store.connection import CODEC, Connection, Document
from mainspring.store.jobs.upkeep import NO_HANDLER, NO_KEY, TOO_NEW
from mainspring.store.reach import both, reached
from mainspring.store.schedules.codec import OVERLAP
from mainspring.store.schema import BY_ID, CLAIM, FINISHED_INDEX, LEASE, LINE, SCHEDULE, WAITING_FOR

SCANNED = 5_000
"""The index entries that one page reads, where filters have to be applied to the jobs themselves."""
# A job may have ended this much earlier than it was made, by different clocks.
_SKEW = timedelta(minutes=1)
# The clock of the process that made a job, and its id, may be off by this.
_ID_SKEW = timedelta(days=1)
_LAST_ID = EPOCH + timedelta(seconds=(1 << 32) - 1)
"""The last moment that an ObjectId can have."""
# The reasons of waiting jobs that are on no wait list.
_HOLDERS = (NO_HANDLER, NO_KEY, OVERLAP, TOO_NEW)
_IN_CURSORS = (str, int, Int64, float, datetime, ObjectId, type(None))

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

    @property
    def sort(self) -> list[tuple[str, int]]:
        return [(key, self.order) for key in (*self.fixed, *self.keys)]

    @property
    def places(self) -> int:
        """The number of values that a place in it has."""
        return 2 if self.ties else len(self.keys)

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


@dataclass(frozen=True, slots=True)
class Found:
    """A page: the jobs, and the cursor of the next page; None at the end."""

    documents: list[Document]
    next: str | None


class Searching:
    """The store's verb for searches."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def page(
        self, search: Search, limit: int, after: str | None, fields: Mapping[str, int] | None = None
    ) -> Found:
        """The next jobs that match, at most `limit`, and where to go on; with `fields`, only those of each."""
        walks = walks_of(search)
        number, place = (0, ()) if after is None else _read_cursor(after, search, walks)
        found: list[Document] = []
        while number < len(walks):
            documents, rest = await self._read(walks[number], place, limit - len(found), fields)
            found += documents
            if rest is None:
                number, place = number + 1, ()
            if rest is not None or (len(found) == limit and number < len(walks)):
                return Found(found, _cursor(search, number, rest or ()))
        return Found(found, None)

    async def _read(
        self, walk: Walk, place: Place, limit: int, fields: Mapping[str, int] | None = None
    ) -> tuple[list[Document], Place | None]:
        """Some jobs of a walk from a place on; and the place behind them, or None when it is at its end."""
        fields = None if fields is None else {**fields, **dict.fromkeys(walk.keys, 1)}
        if walk.index == LEASE:
            return await self._read_running(walk, place, limit, fields)
        read = self._read_tied if walk.ties else self.read_exact
        return await read(walk, place, limit, fields)

    # -- walks whose index ends with the id ----------------------------------------------------------------------------

    async def read_exact(
        self, walk: Walk, place: Place, limit: int, fields: Mapping[str, int] | None = None
    ) -> tuple[list[Document], Place | None]:
        """The same as `_read`, for a walk whose index ends with the id; with `fields`, only those."""
        last, beyond = await self._end(walk, place) if walk.wanted else (None, None)
        ends = _ends(walk, place) | ({"max": walk.bound(beyond)} if beyond is not None and walk.order > 0 else {})
        ends |= {"min": walk.bound(last)} if last is not None and walk.order < 0 else {}
        documents = await self._find(both(walk.matching, _not_again(walk, place)), walk, limit, ends, fields)
        return documents, walk.place(documents[-1]) if len(documents) == limit else last

    async def _end(self, walk: Walk, place: Place) -> tuple[Place | None, Place | None]:
        """The last entry that this page reads and the one beyond it; none where the walk ends before."""
        found = await self._collection(walk).find_all(
            both(walk.entries, _not_again(walk, place)),
            dict.fromkeys(walk.keys, 1),
            sort=walk.sort,
            hint=walk.index,
            skip=SCANNED - 1,
            limit=2,
            **_ends(walk, place),
        )
        return (walk.place(found[0]), walk.place(found[1])) if len(found) == 2 else (None, None)

    async def _find(
        self, wanted: Document, walk: Walk, limit: int, ends: Mapping[str, Any], fields: Mapping[str, int] | None = None
    ) -> list[Document]:
        return await self._collection(walk).find_all(
            wanted, fields, sort=walk.sort, hint=walk.index, limit=limit, **ends
        )

    def _collection(self, walk: Walk) -> Collection:
        return self._connection.schedules if walk.schedules else self._connection.jobs

    # -- walks whose index does not ------------------------------------------------------------------------------------

    async def _read_tied(
        self, walk: Walk, place: Place, limit: int, fields: Mapping[str, int] | None
    ) -> tuple[list[Document], Place | None]:
        """A place is a key, and the id of the last job seen of those that have it; None where none of them was."""
        found = await self._tie(walk, place, limit, fields) if place else []
        if len(found) == limit:
            return found, (place[0], found[-1]["_id"])
        key, left = walk.keys[0], limit - len(found)
        end = await self._tied_end(walk, place) if walk.wanted else None
        bounds = both(_below(walk, place), {} if end is None else {key: {"$gt": end}})
        documents = await self._find(both(walk.matching, bounds), walk, left, {}, fields)
        if len(documents) < left:
            return found + documents, None if end is None else (end, None)
        last = documents[-1].get(key)
        # Jobs with equal keys are read again in the order of their ids, so that a page may end among them.
        whole = [one for one in documents if one.get(key) != last]
        tie = await self._tie(walk, (last, None), left - len(whole), fields)
        return found + whole + tie, (last, tie[-1]["_id"] if tie else None)

    async def _tie(self, walk: Walk, place: Place, limit: int, fields: Mapping[str, int] | None) -> list[Document]:
        """Jobs that have all the same key, from an id on."""
        wanted = both(walk.matching, {walk.keys[0]: {"$eq": place[0]}})
        return await self._by_id(walk, wanted, place[1], limit, fields)

    async def _tied_end(self, walk: Walk, place: Place) -> Any:
        """The first key that this page does not read; None where the walk ends before."""
        key = walk.keys[0]
        found = await self._connection.jobs.find_all(
            both(walk.entries, _below(walk, place)),
            {"_id": 0, key: 1},
            sort=walk.sort,
            hint=walk.index,
            skip=SCANNED,
            limit=1,
        )
        return found[0].get(key) if found else None

    async def _read_running(
        self, walk: Walk, place: Place, limit: int, fields: Mapping[str, int] | None
    ) -> tuple[list[Document], Place | None]:
        """Running jobs move in their index with every renewal, so that they are sorted by id: there are not many."""
        documents = await self._by_id(walk, walk.matching, place[0] if place else None, limit, fields)
        return documents, (documents[-1]["_id"],) if len(documents) == limit else None

    async def _by_id(
        self, walk: Walk, wanted: Document, below: Any, limit: int, fields: Mapping[str, int] | None
    ) -> list[Document]:
        """The latest ids first, from one on; the comparison does not stop where ids of another type begin."""
        if below is not None:
            wanted = both(wanted, {"$expr": {"$lt": ["$_id", {"$literal": below}]}})
        return await self._connection.jobs.find_all(wanted, fields, sort=[("_id", -1)], hint=walk.index, limit=limit)


def walks_of(search: Search) -> list[Walk]:
    """The parts of indexes that together have all jobs that may match, in the order in which they are read."""
    wanted, state = wanted_of(search), {} if search.state is None else {"state": {"$eq": search.state}}
    if search.schedule_id is not None:
        fixed = {"schedule_id": search.schedule_id}
        return [Walk(SCHEDULE, fixed, ("scheduled_for",), ties=True, wanted=wanted | state)]
    if search.state in FINISHED:
        fixed = {"state": search.state}
        return [Walk(FINISHED_INDEX, fixed, ("finished_at",), ties=True, within=_ended_within(search), wanted=wanted)]
    if search.state == RUNNING:
        return [Walk(LEASE, {"state": RUNNING}, ("_id",), wanted=wanted)]
    if search.state == PENDING:
        return _pending(search, wanted)
    if search.since is None:
        return [Walk(BY_ID, {}, ("_id",), wanted=wanted | state)]
    # An ObjectId contains the time when it was made; other ids do not.
    earliest = ObjectId.from_datetime(min(max(search.since, EPOCH + _ID_SKEW) - _ID_SKEW, _LAST_ID))
    kinds: tuple[Document, ...] = ({"_id": {"$gte": earliest}}, {"_id": {"$type": "string"}})
    return [Walk(BY_ID, {}, ("_id",), within=kind, wanted=wanted | state) for kind in kinds]


def _pending(search: Search, wanted: Document) -> list[Walk]:
    """The walks for pending jobs: first ready jobs in their order, then jobs on wait lists, then other waiting jobs."""
    there: Document = {"line": {"$exists": True}}
    order = ("priority", "run_at", "_id")
    held = [
        Walk(WAITING_FOR, {"waiting_for.by": by}, ("name",), ties=True, wanted=wanted | {"state": PENDING})
        for by in _HOLDERS
    ]
    waiting = [Walk(LINE, {}, ("line", *order), 1, within=there, wanted=wanted | {"state": PENDING}), *held]
    if search.queue is None:
        return [Walk(CLAIM, {"ready": True}, ("queue", *order), 1, wanted=wanted), *waiting]
    rest = {key: value for key, value in wanted.items() if key != "queue"}
    return [Walk(CLAIM, {"ready": True, "queue": search.queue}, order, 1, wanted=rest), *waiting]


def _ended_within(search: Search) -> Document:
    """When a job that matches may have ended, of a search for ended ones: what the index can tell of it."""
    bounds: Document = {} if search.since is None else {"$gte": search.since - _SKEW}
    bounds |= {} if search.cutoff is None else {"$lte": search.cutoff}
    return {"finished_at": bounds} if bounds else {}


def wanted_of(search: Search) -> Document:
    """The conditions that only the jobs themselves can answer; every value is compared as it is."""
    fields = {"name": search.name, "queue": search.queue, "tags": search.tag, "parent_id": search.parent_id}
    wanted: Document = {key: {"$eq": value} for key, value in fields.items() if value is not None}
    for path, values in search.data:
        wanted[f"data.{path}"] = {"$in": list(values)}
    made = {key: at for key, at in (("$gte", search.since), ("$lt", search.until)) if at is not None}
    if search.cutoff is not None:
        made["$lte"] = search.cutoff
        if search.state in FINISHED:
            wanted["finished_at"] = {"$lte": search.cutoff}
    if made:
        wanted["created_at"] = made
    if search.not_by is not None:
        wanted["requests"] = {"$ne": search.not_by}
    if search.without:
        wanted = both(wanted, {"name": {"$nin": list(search.without)}})
    return both(wanted, reached(search.scope))


def _ends(walk: Walk, place: Place) -> Document:
    """The part of the index from a place on. Unlike a comparison, it does not stop where another type begins."""
    return {"min" if walk.order > 0 else "max": walk.bound(place)} if place else {}


def _not_again(walk: Walk, place: Place) -> Document:
    """The filter without the last job of the page before: an index's lower bound is inclusive on an upward walk."""
    return {"_id": {"$ne": place[-1]}} if place and walk.order > 0 else {}


def _below(walk: Walk, place: Place) -> Document:
    return {walk.keys[0]: {"$lt": place[0]}} if place else {}


# -- cursors -----------------------------------------------------------------------------------------------------------


def _cursor(search: Search, number: int, place: Place) -> str:
    """The place at which a search goes on, as a text that only the same search accepts."""
    return packed({"s": search_fingerprint(search), "w": number, "p": list(place)})


def _read_cursor(text: str, search: Search, walks: list[Walk]) -> tuple[int, Place]:
    try:
        read = unpacked(text)
        number, place = read["w"], tuple(read["p"])
        fits = read["s"] == search_fingerprint(search) and 0 <= number < len(walks)
        fits = fits and len(place) in (0, walks[number].places) and all(type(one) in _IN_CURSORS for one in place)
    except Exception:
        fits = False
    if not fits:
        raise ConfigurationError("This cursor is of another search; begin again without one.")
    return number, place


def search_fingerprint(search: Search) -> str:
    """The fingerprint of a search, which its cursors contain. The handlers of this process are not part of it."""
    return blake2b(repr(asdict(replace(search, without=()))).encode("utf-8", "replace"), digest_size=8).hexdigest()


def packed(document: Document) -> str:
    """A document as text for a URL."""
    return urlsafe_b64encode(bson.encode(document, codec_options=CODEC)).decode().rstrip("=")


def unpacked(text: str) -> Document:
    """The document of a packed text; raises any error where it is none."""
    return bson.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)), CODEC)
