"""Documents that the server refuses to write: a document that would grow over 16 MB, that a validator of its collection
does not allow, or in which another program has stored a field of the wrong type.

Such a refusal is final for that document and says nothing about the others. Every pass over many documents therefore
writes them through `split_refused` or `change_jobs`, which find the refused ones and write the rest, and leaves refused
documents out of its next reads for a while (`Refused`), so that they are not at the head of every batch.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from bson.errors import InvalidDocument
from pymongo.errors import BulkWriteError, OperationFailure

from mainspring.clock import monotonic
from mainspring.errors import Unavailable
from mainspring.store.codec import DocumentId
from mainspring.store.collection import PASSING, Collection
from mainspring.store.schema import BY_ID, Document

logger = logging.getLogger("mainspring")

T = TypeVar("T")
Id = TypeVar("Id", bound=Hashable)

REFUSED = (OperationFailure, InvalidDocument)
"""The driver's errors where a document is refused; `InvalidDocument` where the driver does not even send it."""
# Too large as a document, for the storage engine, or as BSON; forbidden by a validator.
_ABOUT_DOCUMENT = (17419, 17420, 388, 10334, 121)
# A refused document is left out for this many seconds: it may have been repaired since. After an error that may be of
# the server and not of the document, it is left out for a shorter time at first, and longer each time that it is
# refused again.
_LEFT_OUT_FOR, _LEFT_OUT_AT_FIRST = 60.0, 2.0


async def split_refused(
    items: Sequence[T], write: Callable[[Sequence[T]], Awaitable[Any]]
) -> list[tuple[T, Exception]]:
    """Write all items; returns the items that the server refuses, each with its error.

    Items that fail together are written in halves, so that one refused item among many costs a few writes more. `write`
    is called again with items that it has written before, which must be harmless.
    """
    if not items:
        return []
    try:
        await write(items)
    except REFUSED as error:
        raise_if_passing(error)
        if len(items) == 1:
            return [(items[0], error)]
        middle = len(items) // 2
        return [*await split_refused(items[:middle], write), *await split_refused(items[middle:], write)]
    return []


async def change_jobs(
    jobs: Collection,
    ids: Sequence[DocumentId],
    update: Callable[[Document], tuple[Any, Any]],
    lament: str,
) -> tuple[int, dict[DocumentId, Exception]]:
    """Change jobs by their ids; returns how many were changed, and the jobs that the server refuses to change, each
    with its error. Where there are refused jobs, all others count as changed: the statement that fails does not tell
    how many it changed.

    Refused jobs are logged with the `lament`. `update` makes the filter and the change of a statement from a filter of
    ids.
    """
    changed = 0

    async def change(some: Sequence[DocumentId]) -> None:
        nonlocal changed
        result = await jobs.update_many(*update({"_id": {"$in": list(some)}}), hint=BY_ID)
        changed += result.modified_count

    refused = dict(await split_refused(ids, change))
    for job_id, error in refused.items():
        logger.error("Job %s %s: %s", job_id, lament, brief(error), extra={"job_id": str(job_id)})
    return len(ids) - len(refused) if refused else changed, refused


def raise_if_passing(error: Exception) -> None:
    """Raise `Unavailable` where a bulk write has failed for a passing reason, not because of its documents."""
    if isinstance(error, BulkWriteError):
        failures = error.details.get("writeErrors") or ()
        passing = [one for one in failures if one.get("code") in PASSING] + list(error.details["writeConcernErrors"])
        if passing or not failures:
            raise Unavailable(f"MongoDB could not confirm the writes: {brief(error)}") from error


def brief(error: Exception) -> str:
    """The reason of a refusal in few words; the whole error quotes the document."""
    details = getattr(error, "details", None) or {}
    failures = details.get("writeErrors") or details.get("writeConcernErrors") or [details]
    told = failures[0].get("errmsg") or str(error)
    return f"{told}"[:300]


def code_name(error: Exception) -> str:
    """The server's name for the reason of a refusal, or the driver's."""
    details = getattr(error, "details", None) or {}
    return str(details.get("codeName") or type(error).__name__)


def is_about_document(error: Exception) -> bool:
    """Whether the document itself is known to be refused: it would be too large, or a validator forbids it."""
    if isinstance(error, InvalidDocument):
        return True
    details = getattr(error, "details", None) or {}
    failures = details.get("writeErrors") or [details]
    return failures[0].get("code") in _ABOUT_DOCUMENT


class Refused(Generic[Id]):
    """The ids of recently refused documents, which the next reads leave out."""

    def __init__(self) -> None:
        self._until: dict[Id, tuple[float, float]] = {}
        """Until when a document is left out, and for how long."""

    def add(self, id: Id, error: Exception) -> None:
        """Leave a document out, for a shorter time at first where the error may not be about the document."""
        _, last = self._until.get(id, (0.0, 0.0))
        longer = min(_LEFT_OUT_FOR, max(_LEFT_OUT_AT_FIRST, 3 * last))
        pause = _LEFT_OUT_FOR if is_about_document(error) else longer
        self._until[id] = monotonic() + pause, pause

    def add_all(self, errors: Mapping[Id, Exception]) -> None:
        """Leave out several documents, each for its error."""
        for id, error in errors.items():
            self.add(id, error)

    def __contains__(self, id: Id) -> bool:
        return self._until.get(id, (float("-inf"), 0.0))[0] > monotonic()

    @property
    def filter(self) -> Document:
        """The addition to a read's filter that leaves them out."""
        if not self._until:
            return {}
        now = monotonic()
        # A document that is not refused again for as long as it was left out is forgotten.
        self._until = {id: (until, pause) for id, (until, pause) in self._until.items() if until + pause > now}
        left_out = [id for id, (until, _) in self._until.items() if until > now]
        return {"_id": {"$nin": left_out}} if left_out else {}
