"""Listing created jobs and schedules in one order, the newest first.

Jobs that were scheduled one by one have ObjectIds, jobs of firings have texts: a range of ids tells them apart. Jobs
and schedules are read along an index each, side by side. Where a page is limited to some queues or names, which no
index has, a page reads a bounded number of either; older documents than the place that was reached are left to the next
page, so that the order holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bson import ObjectId

from mainspring.clock import EPOCH
from mainspring.errors import ConfigurationError
from mainspring.model.views.search import Search
from mainspring.store.connection import Document
from mainspring.store.reach import both, reached
from mainspring.store.schema import BY_ID, CREATED
from mainspring.store.views import search as searches
from mainspring.store.views.search import Searching, packed, search_fingerprint, unpacked
from mainspring.store.views.walks import Place, Walk

JOBS, SCHEDULES = "job", "schedule"
_FIRST_ID = ObjectId("0" * 24)
_TYPES: dict[str, tuple[type, ...]] = {JOBS: (ObjectId,), SCHEDULES: (datetime, str)}
_KEYS: dict[str, tuple[str, ...]] = {JOBS: ("_id",), SCHEDULES: ("created_at", "_id")}


@dataclass(slots=True)
class Stretch:
    """The documents found of one kind, the newest first, and the place up to which they were read; None is the end."""

    kind: str
    begin: Place
    found: list[Document]
    rest: Place | None
    taken: int = 0

    @property
    def horizon(self) -> datetime:
        """The instant before which there may be further documents."""
        if not self.rest:
            return EPOCH
        at: datetime = self.rest[0].generation_time if self.kind == JOBS else self.rest[0]
        return at

    @property
    def head(self) -> Document | None:
        """The newest document that is not taken yet."""
        return self.found[self.taken] if self.taken < len(self.found) else None

    @property
    def next(self) -> Place | None:
        """The place behind the documents that were taken; None at the end."""
        if self.taken == len(self.found):
            return self.rest
        last = self.found[self.taken - 1]
        return tuple(last[key] for key in _KEYS[self.kind]) if self.taken else self.begin


@dataclass(frozen=True, slots=True)
class Listed:
    """A page: kinds and ids, and the cursor of the next page; None at the end."""

    things: list[tuple[str, Any]]
    next: str | None


class Created:
    """The store's verb for listing created jobs and schedules."""

    def __init__(self, searching: Searching) -> None:
        self._searching = searching

    async def page(self, limit: int, skip: int, kinds: Sequence[str], search: Search, after: str | None) -> Listed:
        """The next matching jobs and schedules without the first `skip`, at most `limit`, and the next cursor. A search
        is by state (of jobs), name, queue, tag and scope."""
        mark = "+".join(kinds) + search_fingerprint(search)
        begins = dict.fromkeys(kinds, ()) if after is None else _read_cursor(after, mark, kinds)
        # One document more than requested tells whether there is a next page.
        most = searches.SCANNED // max(len(begins), 1)
        stretches = [await self._read(kind, begin, skip + limit + 1, search, most) for kind, begin in begins.items()]
        things = _merged(stretches, skip + limit)[skip:]
        # Ids of the same second are in random order.
        things.sort(key=lambda thing: thing[0], reverse=True)
        ends = {stretch.kind: stretch.next for stretch in stretches if stretch.next is not None}
        return Listed([thing[1:] for thing in things], _cursor(mark, ends) if ends else None)

    async def _read(self, kind: str, begin: Place, limit: int, search: Search, most: int) -> Stretch:
        read = await self._searching.read_exact(_walk(kind, search), begin, limit, {"created_at": 1}, most)
        return Stretch(kind, begin, read.documents, read.rest)


def _merged(stretches: list[Stretch], limit: int) -> list[tuple[datetime, str, Any]]:
    """The newest of all stretches, as long as no newer document can have been left out."""
    things: list[tuple[datetime, str, Any]] = []
    while len(things) < limit:
        heads = [(_made_at(one.head), one) for one in stretches if one.head is not None]
        horizon = max((one.horizon for one in stretches if one.head is None), default=EPOCH)
        at, newest = max(heads, key=lambda head: head[0], default=(EPOCH, None))
        if newest is None or newest.head is None or at < horizon:
            break
        things.append((at, newest.kind, newest.head["_id"]))
        newest.taken += 1
    return things


def _made_at(document: Document) -> datetime:
    """The instant when a job or schedule was made; a raw insert may lack `created_at`."""
    at = document.get("created_at")
    made: datetime = at if isinstance(at, datetime) else document["_id"].generation_time
    return made


def _walk(kind: str, search: Search) -> Walk:
    if kind == JOBS:
        return Walk(BY_ID, {}, _KEYS[kind], within={"_id": {"$gte": _FIRST_ID}}, wanted=_wanted(search))
    within = {"created_at": {"$gte": EPOCH}}
    return Walk(CREATED, {}, _KEYS[kind], within=within, wanted=_wanted(search, "job."), schedules=True)


def _wanted(search: Search, prefix: str = "") -> Document:
    """The conditions that only the documents can answer; `prefix` is the path to the fields of a schedule's jobs."""
    fields = {"name": search.name, "queue": search.queue, "tags": search.tag}
    wanted: Document = {prefix + key: {"$eq": value} for key, value in fields.items() if value is not None}
    if search.state is not None:
        wanted["state"] = {"$eq": search.state}
    return both(wanted, reached(search.scope, f"{prefix}queue", f"{prefix}name"))


def _cursor(mark: str, ends: dict[str, Place]) -> str:
    return packed({"m": mark, **{kind: list(place) for kind, place in ends.items()}})


def _read_cursor(text: str, mark: str, kinds: Sequence[str]) -> dict[str, Place]:
    """The place to go on from, for each kind that is not at its end."""
    try:
        read = unpacked(text)
        begins = {kind: tuple(read[kind]) for kind in kinds if kind in read}
        fits = read["m"] == mark and all(_is_place(kind, place) for kind, place in begins.items())
    except Exception:
        fits = False
    if not fits:
        raise ConfigurationError("This cursor is of another list; begin again without one.")
    return begins


def _is_place(kind: str, place: Place) -> bool:
    return not place or tuple(map(type, place)) == _TYPES[kind]
