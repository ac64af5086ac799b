"""Stored counts of attempts, as workers add them and requests read them.

A worker writes to a document of its own for each minute, so that no worker waits for another. A write that was not
answered is not sent again (except by the driver's own retry, which the server recognises): the counts of a second may
be lost, and none is counted twice. A count waits for no majority: it is no promise. `store/views/roll_ups.py` sums
these documents into longer spans.

A request reads one document per span, and chooses the longest spans that fit its steps: it never reads more than about
two thousand of them, whatever the number of jobs, names or workers that they sum up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice

from pymongo import UpdateOne, WriteConcern

from mainspring.clock import truncate
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.views.queues import Recent
from mainspring.model.views.statistics import Counted, Counts, Deploy, Kind, summed
from mainspring.model.views.windows import DAY, FIVE_MINUTES, HOUR, MINUTE, Window, floored
from mainspring.store.connection import Connection, Document
from mainspring.store.schema import COUNTED
from mainspring.store.views import counts_codec as codec
from mainspring.store.views.roll_ups import RollUps

_BATCH = 500
_KINDS_PER_STATEMENT = 100
_DEPLOYS_READ = 100
_INSTANT = timedelta(microseconds=1)
_Piece = tuple[str, datetime, datetime]
"""A kind of spans, and the instants between which it is read."""
# The worker in whose place the ages of the oldest jobs are stored; no worker has this id.
_LOOK = "(queues)"


class Statistics(RollUps):
    """The store's verbs for counts."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._light = connection.stats.with_options(write_concern=WriteConcern(1, j=False))

    async def add(self, worker: str, counted: Sequence[tuple[Kind, Counts]]) -> None:
        """Add the counts of a worker. Not to be repeated: an error does not mean that nothing was added."""
        minutes: dict[datetime, list[tuple[codec.QueueName, Counts]]] = defaultdict(list)
        for kind, counts in counted:
            minutes[kind.at].append(((kind.queue, kind.name), counts))
        statements = []
        for at, kinds in minutes.items():
            for part in _parts(kinds):
                added, names = codec.increments(part)
                id = codec.span_id(codec.WORKER, at, worker)
                statements.append(UpdateOne({"_id": id}, {"$inc": added, "$set": names}, upsert=True))
        for start in range(0, len(statements), _BATCH):
            await self._light.bulk_write(statements[start : start + _BATCH])

    async def note_oldest(self, at: datetime, oldest: Mapping[str, timedelta]) -> None:
        """Note for how long the oldest due job of each queue had been due at an instant."""
        if oldest:
            ages, names = codec.oldest_fields(
                {queue: age // timedelta(milliseconds=1) for queue, age in oldest.items()}
            )
            id = codec.span_id(codec.WORKER, floored(at, timedelta(minutes=1)), _LOOK)
            await self._light.update_one({"_id": id}, {"$max": ages, "$set": names}, upsert=True)

    # -- reading ---------------------------------------------------------------------------------------------------

    async def read(
        self, window: Window, name: str | None = None, queue: str | None = None, scope: Scope = EVERYTHING
    ) -> list[Counted]:
        """The counts within a window; an hour or a day is counted from its beginning."""
        stage = codec.only(name, queue, scope) or {"$project": {"total": 1, "oldest": 1}}
        told = name is None and scope.prefixes is None
        return [
            Counted(document["_id"]["at"], _counts(document), _oldest(document, queue, scope) if told else None)
            for document in await self._within(window, stage)
        ]

    async def kinds(
        self, window: Window, queue: str | None = None, scope: Scope = EVERYTHING
    ) -> dict[codec.QueueName, Counts]:
        """The counts within a window in sum, by queue and name: whole days are read as such, whatever its step."""
        sums: dict[codec.QueueName, Counts] = {}
        stage = codec.only(None, queue, scope) or {"$project": {"kinds": 1}}
        for document in await self._of(_in_sum(window, await self._marks()), stage):
            for kind, counts in codec.read_kinds(document.get("kinds")):
                sums.setdefault(kind, Counts()).add(counts)
        return sums

    async def recent(self, length: timedelta, queues: Sequence[str]) -> Recent:
        """The counts of the last minutes of these queues, the current minute included."""
        end = floored(self._connection.clock.now(), MINUTE) + MINUTE
        start = end - length
        counts: dict[str, dict[datetime, Counts]] = {}
        stage = codec.only(None, None, Scope(tuple(queues))) or {"$project": {"kinds": 1}}
        for document in await self._within(Window(start, end, MINUTE), stage):
            for (queue, _), one in codec.read_kinds(document.get("kinds")):
                counts.setdefault(queue, {}).setdefault(document["_id"]["at"], Counts()).add(one)
        return Recent(start, end, counts)

    async def active_queues(self, length: timedelta) -> set[str]:
        """The queues in which attempts have ended within the last minutes, the current minute included."""
        end = floored(self._connection.clock.now(), MINUTE) + MINUTE
        found = await self._within(Window(end - length, end, MINUTE), codec.QUEUES_ALONE)
        return {queue for document in found for queue in document["queues"] if isinstance(queue, str)}

    async def deploys(self, window: Window) -> list[Deploy]:
        """The versions of workers that appeared first within a window, the latest hundred."""
        found = await self._connection.stats.find_all(
            _span(codec.VERSION, window.start, window.end),
            sort=[("_id.per", -1), ("_id.at", -1)],
            hint=COUNTED,
            limit=_DEPLOYS_READ,
        )
        sound = [one["_id"] for one in reversed(found) if isinstance(one["_id"].get("at"), datetime)]
        return [Deploy(id["at"], str(id.get("version", ""))) for id in sound]

    async def _within(self, window: Window, stage: Document) -> list[Document]:
        """One document per span within a window: long spans where they are complete, then shorter ones."""
        return await self._of(_pieces(window, await self._marks()), stage)

    async def _of(self, pieces: Iterable[_Piece], stage: Document) -> list[Document]:
        found: list[Document] = []
        for per, start, end in pieces:
            found += await self._connection.stats.aggregate([{"$match": _span(per, start, end)}, stage], hint=COUNTED)
        return [one for one in found if isinstance(one["_id"].get("at"), datetime)]


def _in_sum(window: Window, marks: Mapping[str, datetime]) -> Iterator[_Piece]:
    """The kinds of spans that the sum of a window is read from: a month is thirty days, not seven hundred hours."""
    first, last = floored(window.start - _INSTANT, DAY) + DAY, min(floored(window.end, DAY), marks[codec.DAY])
    if window.step % HOUR or last <= first:
        yield from _pieces(window, marks)
        return
    yield from _pieces(Window(window.start, first, window.step), marks)
    yield codec.DAY, first, last
    yield from _pieces(Window(last, window.end, window.step), marks)


def _pieces(window: Window, marks: Mapping[str, datetime]) -> Iterator[_Piece]:
    """The kinds of spans that a window is read from, each with its part of the window."""
    place = window.start
    per = _per(window.step)
    if per in (codec.MINUTE, codec.PART) and marks["pruned"] > place:
        edge = min(marks["pruned"], window.end)
        yield codec.HOUR, floored(place, HOUR), edge
        place = edge
    order = (codec.DAY, codec.HOUR, codec.PART, codec.MINUTE)
    for one in order[order.index(per) :]:
        edge = min(marks[one], window.end)
        if edge > place:
            yield one, place, edge
            place = edge
    if place < window.end:
        yield codec.WORKER, place, window.end


def _per(step: timedelta) -> str:
    """The longest spans that a step consists of."""
    spans = ((DAY, codec.DAY), (HOUR, codec.HOUR), (FIVE_MINUTES, codec.PART))
    return next((per for length, per in spans if not step % length), codec.MINUTE)


def _span(per: str, start: datetime, end: datetime) -> Document:
    return {"_id.per": per, "_id.at": {"$gte": truncate(start), "$lt": truncate(end)}}


def _counts(document: Document) -> Counts:
    if "kinds" in document:
        return summed(counts for _, counts in codec.read_kinds(document["kinds"]))
    return codec.read_counts(document.get("total"))


def _oldest(document: Document, queue: str | None, scope: Scope) -> timedelta | None:
    ages = [ms for one, ms in codec.read_oldest(document) if queue in (None, one) and scope.allows_queue(one)]
    return timedelta(milliseconds=max(ages)) if ages else None


def _parts(kinds: Iterable[tuple[codec.QueueName, Counts]]) -> Iterator[list[tuple[codec.QueueName, Counts]]]:
    each = iter(kinds)
    while part := list(islice(each, _KINDS_PER_STATEMENT)):
        yield part
