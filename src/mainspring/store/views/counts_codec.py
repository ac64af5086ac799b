"""The documents of the statistics: the form in which counts are stored, and reading them back.

Every document has the same fields, whatever span it is for: `total`, the counts of all attempts; `kinds`, the counts of
each queue and name; `oldest`, how long a job of each queue was seen to have been due. Names and queues may hold any
character, so that a hash is the key of an entry, and the entry has the names. A worker adds to its document with one
`$inc`; a sum over documents is made here, since it must not stumble over a malformed value of another program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from hashlib import blake2b
from typing import Any

from mainspring.model.access.api_keys import Scope
from mainspring.model.views.statistics import BINS, FIGURES, WAIT_BINS, Counts
from mainspring.store.connection import Document
from mainspring.store.reach import ABOVE_ALL_NAMES

WORKER, MINUTE, PART, HOUR, DAY, MARKS, VERSION = "worker", "minute", "part", "hour", "day", "marks", "version"
_LARGEST = 2**53
_LISTED = {"$cond": [{"$eq": [{"$type": "$kinds"}, "object"]}, {"$objectToArray": "$kinds"}, []]}
QUEUES_ALONE: Document = {
    "$project": {"queues": {"$setUnion": [{"$map": {"input": _LISTED, "as": "kind", "in": "$$kind.v.queue"}}]}}
}
"""The stage that keeps the names of the queues of a document, each once."""
_PLACES = {str(place): place for place in range(max(BINS, WAIT_BINS))}
QueueName = tuple[str, str]


def span_id(per: str, at: datetime, worker: str | None = None) -> Document:
    """The exact id of a document. The order of its fields is part of it."""
    return {"per": per, "at": at} | ({} if worker is None else {"worker": worker})


def increments(counted: Iterable[tuple[QueueName, Counts]]) -> tuple[Document, Document]:
    """The increments that add counts to a document, and the names that it must have."""
    total, added, names = Counts(), Document(), Document()
    for (queue, name), counts in counted:
        place = f"kinds.{_hash(queue, name)}"
        total.add(counts)
        names |= {f"{place}.queue": queue, f"{place}.name": name}
        added |= {f"{place}.{field}": value for field, value in _figures(counts)}
    return {f"total.{field}": value for field, value in _figures(total)} | added, names


def oldest_fields(oldest: Mapping[str, int]) -> tuple[Document, Document]:
    """The maxima that note how many milliseconds jobs of queues have been due, and the names of the queues."""
    places = {queue: f"oldest.{_hash(queue)}" for queue in oldest}
    return (
        {f"{places[queue]}.ms": ms for queue, ms in oldest.items()},
        {f"{place}.queue": queue for queue, place in places.items()},
    )


def summed_document(documents: Iterable[Document]) -> Document:
    """The fields of the sum of several documents."""
    total, kinds, oldest = Counts(), dict[QueueName, Counts](), dict[str, int]()
    for document in documents:
        total.add(read_counts(document.get("total")))
        for kind, counts in read_kinds(document.get("kinds")):
            kinds.setdefault(kind, Counts()).add(counts)
        for queue, ms in read_oldest(document):
            oldest[queue] = max(ms, oldest.get(queue, 0))
    entries = {_hash(*kind): {"queue": kind[0], "name": kind[1], **_nested(counts)} for kind, counts in kinds.items()}
    waited = {_hash(queue): {"queue": queue, "ms": ms} for queue, ms in oldest.items()}
    return {"total": _nested(total), "kinds": entries, "oldest": waited}


def read_counts(stored: Any) -> Counts:
    """Counts, whatever another program has stored."""
    if not isinstance(stored, dict):
        return Counts()
    figures = {name: _whole(stored.get(name)) for name in FIGURES}
    return Counts(**figures, bins=_bins(stored.get("bins"), BINS), waits=_bins(stored.get("waits"), WAIT_BINS))


def read_kinds(stored: Any) -> Iterator[tuple[QueueName, Counts]]:
    """The counts of each queue and name: of a document, or of the list that `only` makes of it."""
    entries = stored.values() if isinstance(stored, dict) else stored if isinstance(stored, list) else ()
    for entry in entries:
        if isinstance(entry, dict) and isinstance(entry.get("queue"), str) and isinstance(entry.get("name"), str):
            yield (entry["queue"], entry["name"]), read_counts(entry)


def read_oldest(document: Document) -> Iterator[tuple[str, int]]:
    """The queues that had a due job, and for how many milliseconds it had been due."""
    stored = document.get("oldest")
    for entry in stored.values() if isinstance(stored, dict) else ():
        if isinstance(entry, dict) and isinstance(entry.get("queue"), str):
            yield entry["queue"], _whole(entry.get("ms"))


def only(name: str | None, queue: str | None, scope: Scope) -> Document | None:
    """The stage that keeps the counts of some queues and names, as a list; None where all of them count."""
    if name is None and queue is None and scope.everything:
        return None
    conditions: list[Document] = []
    if name is not None:
        conditions.append({"$eq": ["$$kind.v.name", {"$literal": name}]})
    if queue is not None:
        conditions.append({"$eq": ["$$kind.v.queue", {"$literal": queue}]})
    if scope.queues is not None:
        conditions.append({"$in": ["$$kind.v.queue", {"$literal": list(scope.queues)}]})
    if scope.prefixes is not None:
        conditions.append({"$or": [_begins(prefix) for prefix in scope.prefixes]})
    kept = {"$filter": {"input": _LISTED, "as": "kind", "cond": {"$and": conditions}}}
    return {"$project": {"oldest": 1, "kinds": {"$map": {"input": kept, "as": "kind", "in": "$$kind.v"}}}}


def _begins(prefix: str) -> Document:
    name = "$$kind.v.name"
    above = {"$literal": prefix + ABOVE_ALL_NAMES}
    return {"$and": [{"$gte": [name, {"$literal": prefix}]}, {"$lt": [name, above]}]}


def _hash(*names: str) -> str:
    return blake2b("\x00".join(names).encode("utf-8", "surrogatepass"), digest_size=9).hexdigest()


def _figures(counts: Counts) -> Iterator[tuple[str, int]]:
    for name in FIGURES:
        if value := getattr(counts, name):
            yield name, value
    for field, bins in (("bins", counts.bins), ("waits", counts.waits)):
        for place, count in enumerate(bins):
            if count:
                yield f"{field}.{place}", count


def _nested(counts: Counts) -> Document:
    nested: Document = {}
    for path, value in _figures(counts):
        field, _, place = path.partition(".")
        if place:
            nested.setdefault(field, {})[place] = value
        else:
            nested[field] = value
    return nested


def _bins(stored: Any, length: int) -> list[int]:
    bins = [0] * length
    for place, count in stored.items() if isinstance(stored, dict) else ():
        if (number := _PLACES.get(place, length)) < length:
            bins[number] = _whole(count)
    return bins


def _whole(value: Any) -> int:
    """A count within the range of durations; 0 for anything that is none, such as NaN."""
    return min(max(value, 0), _LARGEST) if isinstance(value, int) and not isinstance(value, bool) else 0
