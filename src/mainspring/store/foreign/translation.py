"""Translating documents of another program into Mainspring's fields, by a field map.

Called by adoption, and by the verbs that follow that program's changes. A lock of the other program becomes a claim
that no worker renews, so that its job is rescued like any other once the lock is over.
"""

from __future__ import annotations

from mainspring.config.field_map import FieldMap
from mainspring.model.jobs.job import RUNNING
from mainspring.store.connection import Document
from mainspring.store.foreign.foreign import A_JOB
from mainspring.store.foreign.mirror import Stage, lock_end_expression

_LONGEST_TAG = 200


def mapped_inserts(map: FieldMap) -> Document:
    """The filter for documents of the other program that are pending or running there and were not adopted yet.
    Documents that it has ended itself are not among them."""
    waiting = {"v": None, map.status: {"$in": [map.pending, map.running]}, map.name: {"$ne": None}}
    return {**waiting, "$nor": [A_JOB]}


def translated(map: FieldMap, document: Document) -> tuple[Document, Stage]:
    """A document of the other program in Mainspring's fields, and the stage that translates it."""
    state = map.states[document[map.status]]
    tags = [f"{field}:{document[field]}"[:_LONGEST_TAG] for field in map.tags if document.get(field) is not None]
    given = {"name": document.get(map.name), "data": document.get(map.data), "run_at": document.get(map.run_at)}
    fields: Stage = {
        **{ours: f"${theirs}" for ours, theirs in (("name", map.name), ("data", map.data), ("run_at", map.run_at))},
        "state": state,
        "mapped": adopted_note(map),
    }
    if tags and document.get("tags") is None:
        fields["tags"] = {"$literal": tags}
    if state == RUNNING:
        fields |= locked(map)
    return {**document, **given, "state": state}, {"$set": fields}


def as_read(map: FieldMap, document: Document) -> Document:
    """The filter for a document that the other program has not written since it was read."""
    theirs = (map.status, map.locked_by, map.locked_at, map.run_at)
    return {"_id": document["_id"], **{field: {"$eq": document.get(field)} for field in theirs}}


def adopted_note(map: FieldMap) -> Stage:
    """The mark of a job that was adopted through a field map, with the due time that its own was taken from."""
    return {"at": {"$ifNull": [f"${map.run_at}", None]}}


def locked(map: FieldMap) -> Stage:
    """A lock of the other program as a claim that no worker renews: the lease ends with the lock."""
    return {
        "state": RUNNING,
        "worker": f"${map.locked_by}",
        "claimed_at": f"${map.locked_at}",
        "lease_until": lock_end_expression(map),
    }
