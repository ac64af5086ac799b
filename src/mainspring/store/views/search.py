"""Searching jobs: page by page, each read along an index, with a bounded number of jobs read for one page.

A search is one or more walks (`store/views/walks.py`), one behind the other. A page ends at a place in a walk, from
which the next page goes on. Before a walk is read with filters that its index cannot answer, its next entries, up to a
bound, are read from the index alone; the page ends there at the latest. A job is missed or seen twice only if it moves
in the order between two pages.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from hashlib import blake2b
from typing import Any

import bson
from bson import Int64, ObjectId

from mainspring.errors import ConfigurationError
from mainspring.model.views.search import Search
from mainspring.store.collection import Collection
from mainspring.store.connection import CODEC, Connection, Document
from mainspring.store.reach import both
from mainspring.store.schema import BY_ID, LEASE
from mainspring.store.views.walks import Place, Walk, told, walks_of

SCANNED = 750
"""The index entries that one page reads, where filters have to be applied to the jobs themselves: each costs two keys,
and a request examines about two thousand at most."""
_BATCH = 200
_IN_CURSORS = (str, int, Int64, float, datetime, ObjectId, type(None))

Fields = Mapping[str, int] | None


@dataclass(frozen=True, slots=True)
class Found:
    """A page: the jobs, and the cursor of the next page; None at the end. `searched` says how far it has come, where
    it ends before its limit."""

    documents: list[Document]
    next: str | None
    searched: str | None = None


@dataclass(frozen=True, slots=True)
class Stretch:
    """Jobs of a walk, the place behind them, None at its end, and how many entries of the index were examined."""

    documents: list[Document]
    rest: Place | None
    examined: int


class Searching:
    """The store's verbs for searches."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def page(
        self, search: Search, limit: int, after: str | None, fields: Fields = None, scanned: int | None = None
    ) -> Found:
        """The next jobs that match, at most `limit`, and where to go on; with `fields`, only those of each. At most
        `scanned` entries are compared with the filter."""
        walks = walks_of(search)
        number, place = (0, ()) if after is None else _read_cursor(after, search, walks)
        found: list[Document] = []
        most = left = SCANNED if scanned is None else scanned
        while number < len(walks):
            walk = walks[number]
            if left < (most // 2 if walk.gathered else 1):
                return Found(found, _cursor(search, number, ()), told(walk, ()))
            stretch = await self._read(walk, place, limit - len(found), fields, left)
            found, left = found + stretch.documents, left - (stretch.examined if walk.wanted else 0)
            if stretch.rest is None:
                number, place = number + 1, ()
            if (stretch.rest is not None or len(found) == limit) and number < len(walks):
                far = told(walk, stretch.rest or ()) if len(found) < limit else None
                return Found(found, _cursor(search, number, stretch.rest or ()), far)
        return Found(found, None)

    async def find(self, search: Search, limit: int | None) -> AsyncIterator[Document]:
        """All jobs that match, or the first ones, in batches; finished ones and those of a schedule the newest first,
        pending ones in their order."""
        left = limit
        for walk in walks_of(search):
            if left == 0:
                return
            sort = [("state", 1), ("lease_until", 1)] if walk.index == LEASE else None if walk.gathered else walk.sort
            batches = self._connection.jobs.find_batches(
                walk.matching, _BATCH, sort=sort, hint=walk.index, limit=left or 0
            )
            async with aclosing(batches):
                async for documents in batches:
                    for document in documents:
                        yield document
                    left = None if left is None else left - len(documents)

    async def _read(self, walk: Walk, place: Place, limit: int, fields: Fields, left: int) -> Stretch:
        """Some jobs of a walk from a place on."""
        fields = None if fields is None else {**fields, **dict.fromkeys(walk.keys, 1)}
        if walk.gathered:
            return await self._read_gathered(walk, place, limit, fields, left)
        if walk.ties:
            return await self._read_tied(walk, place, limit, fields, left)
        return await self.read_exact(walk, place, limit, fields, left)

    # -- walks whose index ends with the id ----------------------------------------------------------------------------

    async def read_exact(
        self, walk: Walk, place: Place, limit: int, fields: Fields = None, scanned: int | None = None
    ) -> Stretch:
        """The same as `_read`, for a walk whose index ends with the id; with `fields`, only those."""
        entries = await self._entries(walk, place, SCANNED if scanned is None else scanned) if walk.wanted else []
        last, beyond = entries[-2:] if entries and entries[-1] is not None else (None, None)
        ends = _ends(walk, place) | ({"max": walk.bound(beyond)} if beyond is not None and walk.order > 0 else {})
        ends |= {"min": walk.bound(last)} if last is not None and walk.order < 0 else {}
        documents = await self._find(both(walk.matching, _not_again(walk, place)), walk, limit, ends, fields)
        rest = walk.place(documents[-1]) if len(documents) == limit else last
        return Stretch(documents, rest, len(entries))

    async def _entries(self, walk: Walk, place: Place, most: int) -> list[Place | None]:
        """The next entries that this page may read, and behind the most of them the one beyond; None at the end of a
        shorter list."""
        found = await self._collection(walk).find_all(
            both(walk.entries, _not_again(walk, place)),
            {"_id": 0, **dict.fromkeys(walk.keys, 1)},
            sort=walk.sort,
            hint=walk.index,
            limit=most + 1,
            **_ends(walk, place),
        )
        places: list[Place | None] = [walk.place(one) for one in found]
        return places if len(found) > most else [*places, None]

    async def _find(
        self, wanted: Document, walk: Walk, limit: int, ends: Mapping[str, Any], fields: Fields = None
    ) -> list[Document]:
        return await self._collection(walk).find_all(
            wanted, fields, sort=walk.sort, hint=walk.index, limit=limit, **ends
        )

    def _collection(self, walk: Walk) -> Collection:
        return self._connection.schedules if walk.schedules else self._connection.jobs

    # -- walks whose index does not ------------------------------------------------------------------------------------

    async def _read_tied(self, walk: Walk, place: Place, limit: int, fields: Fields, left: int) -> Stretch:
        """A place is a key, and the id of the last job seen of those that have it; None where none of them was."""
        found = await self._tie(walk, place, limit, fields) if place else []
        if len(found) == limit:
            return Stretch(found, (place[0], found[-1]["_id"]), len(found))
        key, room = walk.keys[0], limit - len(found)
        end, examined = await self._tied_end(walk, place, left) if walk.wanted else (None, 0)
        bounds = both(_behind(walk, place), {} if end is None else {key: {"$gt" if walk.order < 0 else "$lt": end}})
        documents = await self._find(both(walk.matching, bounds), walk, room, {}, fields)
        if len(documents) < room:
            return Stretch(found + documents, None if end is None else (end, None), examined)
        last = documents[-1].get(key)
        # Jobs with equal keys are read again in the order of their ids, so that a page may end among them.
        whole = [one for one in documents if one.get(key) != last]
        tie = await self._tie(walk, (last, None), room - len(whole), fields)
        return Stretch(found + whole + tie, (last, tie[-1]["_id"] if tie else None), examined)

    async def _tie(self, walk: Walk, place: Place, limit: int, fields: Fields) -> list[Document]:
        """Jobs that have all the same key, from an id on."""
        wanted = both(walk.matching, {walk.keys[0]: {"$eq": place[0]}})
        return await self._by_id(walk, wanted, place[1], limit, fields)

    async def _tied_end(self, walk: Walk, place: Place, most: int) -> tuple[Any, int]:
        """The first key that this page does not read, None where the walk ends before; and the entries that it reads.
        At least all entries of one key are read."""
        key = walk.keys[0]
        found = await self._connection.jobs.find_all(
            both(walk.entries, _behind(walk, place)),
            {"_id": 0, key: 1},
            sort=walk.sort,
            hint=walk.index,
            limit=most + 1,
        )
        return (found[-1].get(key) if len(found) > most else None), len(found)

    async def _read_gathered(self, walk: Walk, place: Place, limit: int, fields: Fields, left: int) -> Stretch:
        """Running jobs move in their index with every renewal, and the index of jobs that wait for a handler has no
        order among those of one name: they are sorted by id, where there are not too many. Otherwise running jobs are
        read by their leases, so that one that is renewed meanwhile may be seen again, and others along all ids."""
        by_lease = replace(walk, keys=("lease_until",), order=1, ties=True, gathered=False)
        if len(place) == 2:
            return await self._read_tied(by_lease, place, limit, fields, left)
        count = await self._connection.jobs.count(walk.entries, hint=walk.index, limit=left + 1)
        if count <= left:
            documents = await self._by_id(walk, walk.matching, place[0] if place else None, limit, fields)
            return Stretch(documents, (documents[-1]["_id"],) if len(documents) == limit else None, count)
        room = max(left // 2, 1)
        if walk.index == LEASE:
            return await self._read_tied(by_lease, (), limit, fields, room)
        every = Walk(BY_ID, {}, ("_id",), wanted=walk.matching)
        return await self.read_exact(every, place, limit, fields, room)

    async def _by_id(self, walk: Walk, wanted: Document, below: Any, limit: int, fields: Fields) -> list[Document]:
        """The latest ids first, from one on; the comparison does not stop where ids of another type begin."""
        if below is not None:
            wanted = both(wanted, {"$expr": {"$lt": ["$_id", {"$literal": below}]}})
        return await self._connection.jobs.find_all(wanted, fields, sort=[("_id", -1)], hint=walk.index, limit=limit)


def _ends(walk: Walk, place: Place) -> Document:
    """The part of the index from a place on. Unlike a comparison, it does not stop where another type begins."""
    return {"min" if walk.order > 0 else "max": walk.bound(place)} if place else {}


def _not_again(walk: Walk, place: Place) -> Document:
    """The filter without the last job of the page before: an index's lower bound is inclusive on an upward walk."""
    return {"_id": {"$ne": place[-1]}} if place and walk.order > 0 else {}


def _behind(walk: Walk, place: Place) -> Document:
    return {walk.keys[0]: {"$lt" if walk.order < 0 else "$gt": place[0]}} if place else {}


# -- cursors -----------------------------------------------------------------------------------------------------------


def _cursor(search: Search, number: int, place: Place) -> str:
    """The place at which a search goes on, as a text that only the same search accepts."""
    return packed({"s": search_fingerprint(search), "w": number, "p": list(place)})


def _read_cursor(text: str, search: Search, walks: list[Walk]) -> tuple[int, Place]:
    try:
        read = unpacked(text)
        number, place = read["w"], tuple(read["p"])
        fits = read["s"] == search_fingerprint(search) and 0 <= number < len(walks)
        fits = fits and len(place) in (0, *walks[number].places) and all(type(one) in _IN_CURSORS for one in place)
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
