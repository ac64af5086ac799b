"""The jobs that wait for others, told of changes that are made to these outside of a claim.

A job is retried, ended or deleted by hand, by an operation, by a redrive or by a chore. Those that wait for it are
looked at soon: their `check_at` is set to now, so that the sweep of any worker finds them. After a retry their `rev` is
raised, too, so that a check misses that has read the old end of the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mainspring.model.flows.ids import waiter_of
from mainspring.model.jobs.job import BLOCKED
from mainspring.store.codec import DocumentId, document_id
from mainspring.store.connection import Connection
from mainspring.store.refusals import change_jobs
from mainspring.store.schema import BUMP, BY_ID

_DELETED_KEPT = 1000


async def held_back_by(connection: Connection, ids: Sequence[DocumentId]) -> dict[DocumentId, list[str]]:
    """The waits that these jobs hold back, or did while they were live; jobs that hold back none are left out."""
    found = await connection.jobs.find_all(
        {"_id": {"$in": list(ids)}, "before": {"$exists": True}}, {"before": 1}, hint=BY_ID
    )
    return {document["_id"]: list(document["before"]) for document in found}


async def look_soon(connection: Connection, waits: Iterable[str]) -> None:
    """Have the sweep look at the jobs that have these waits."""
    await _change(connection, waits, {"check_at": connection.clock.expression()}, {"waits.sealed": True})


async def predecessors_again(connection: Connection, waits: Iterable[str]) -> None:
    """Let a check miss that has read the end of a job which runs again now; to be called after it was put back."""
    await _change(connection, waits, BUMP, {})


async def _change(connection: Connection, waits: Iterable[str], fields: Any, more: Any) -> None:
    waiters = list({document_id(waiter_of(one)) for one in waits})
    await change_jobs(
        connection.jobs,
        waiters,
        lambda some: ({**some, "state": BLOCKED, **more}, [{"$set": fields}]),
        "waits and cannot be changed",
    )


async def note_deleted(connection: Connection, held: Mapping[DocumentId, Iterable[str]]) -> None:
    """Note that predecessors are about to be deleted by hand: they count as failed once they are gone. The note comes
    first, so that no check takes a job that is gone for one that completed."""
    jobs: dict[str, list[str]] = {}
    for job_id, waits in held.items():
        for one in waits:
            jobs.setdefault(one, []).append(str(job_id))
    for one, ids in jobs.items():
        known = {"$ifNull": ["$waits.deleted", []]}
        added = {"$setUnion": [known, {"$literal": [{"wait": one, "job": job} for job in ids]}]}
        await connection.jobs.update_one(
            {"_id": document_id(waiter_of(one)), "waits.ids": one},
            [{"$set": {"waits.deleted": {"$slice": [added, _DELETED_KEPT]}, **BUMP}}],
            hint=BY_ID,
        )
