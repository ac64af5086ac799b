"""Writing a past: ended jobs with their attempts, counts, and schedules that were made earlier.

Only the demonstration of `mainspring up` uses it (`client/views/past.py`), in a database that is empty. Whatever is
written here has the shape that workers would have left, so that every reader takes it as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from mainspring.clock import truncate
from mainspring.model.jobs.job import FAILED, Attempt, Job
from mainspring.model.schedules.ledger import Row
from mainspring.model.views.windows import HOUR, floored
from mainspring.store.bounded_values import encode_data, encode_error
from mainspring.store.codec import document_id, fingerprint_of
from mainspring.store.connection import Connection, Document
from mainspring.store.schedules.codec import encode_row
from mainspring.store.schema import BY_ID, LAYOUT
from mainspring.store.views.failure_counts import Failures

WRITER = "past"
"""The worker that the counts of a written past belong to."""
_BATCH = 1000


class Past:
    """The verbs that write a past."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def is_empty(self) -> bool:
        """Whether there is neither a job nor a schedule."""
        for collection in (self._connection.jobs, self._connection.schedules):
            if await collection.find_one({}, {"_id": 1}, hint=BY_ID) is not None:
                return False
        return True

    async def add_jobs(self, jobs: Sequence[Job]) -> None:
        """Store jobs that have ended, and count those that failed by the hour, queue and error."""
        documents = [_document(job, self._connection.settings.max_data) for job in jobs]
        for place in range(0, len(documents), _BATCH):
            await self._connection.jobs.insert_many(documents[place : place + _BATCH])
        await Failures(self._connection).add(
            WRITER, Counter(_failure(one) for one in documents if "fingerprint" in one)
        )

    async def backdate_schedule(self, schedule_id: str, since: datetime) -> None:
        """Let a schedule be as old as `since`: its ledger begins there."""
        at = truncate(since)
        await self._connection.schedules.update_one(
            {"_id": schedule_id}, {"$set": {"since": at, "created_at": at, "updated_at": at}}
        )

    async def add_runs(self, schedule_id: str, runs: int, last: tuple[datetime, str], rows: Sequence[Row]) -> None:
        """Count the runs that a schedule has had, name the last one, and store rows of its ledger."""
        at, job = last
        await self._connection.schedules.update_one(
            {"_id": schedule_id}, {"$set": {"runs": runs, "last": {"at": truncate(at), "job": job}}}
        )
        if rows:
            await self._connection.ledger.insert_many([encode_row(schedule_id, row) for row in rows])


def _document(job: Job, largest: int) -> Document:
    """An ended job as its worker would have left it."""
    tries = len(job.attempts)
    document: Document = {
        "_id": document_id(job.id),
        "v": LAYOUT,
        "name": job.name,
        "data": encode_data(job.data, largest),
        "queue": job.queue,
        "priority": job.priority,
        "state": job.state,
        "run_at": truncate(job.run_at),
        "created_at": truncate(job.created_at),
        "rev": 2 * tries,
        "token": tries,
        "tries": tries,
        "attempts": [_attempt(one) for one in job.attempts],
        "result": job.result,
    }
    if job.finished_at is not None:
        document["finished_at"] = truncate(job.finished_at)
    if job.tags:
        document["tags"] = list(job.tags)
    if job.error is not None:
        document["error"] = encode_error(job.error)
    if job.state == FAILED:
        document["fingerprint"] = fingerprint_of(job.name, document.get("error"))
    if job.schedule_id is not None and job.scheduled_for is not None:
        document |= {"schedule_id": job.schedule_id, "scheduled_for": truncate(job.scheduled_for)}
    retried = [one.ended_at for one in job.attempts[:-1] if one.ended_at is not None]
    return document | ({"last_failure_at": truncate(retried[-1])} if retried else {})


def _failure(document: Document) -> tuple[datetime, str, str]:
    return floored(document["finished_at"], HOUR), document["queue"], document["fingerprint"]


def _attempt(attempt: Attempt) -> Document:
    entry: Document = {
        "n": attempt.number,
        "token": attempt.token,
        "outcome": attempt.outcome,
        "worker": attempt.worker,
        "started_at": truncate(attempt.started_at or attempt.ended_at or _never()),
        "ended_at": truncate(attempt.ended_at or _never()),
    }
    if attempt.run_at is not None:
        entry["run_at"] = truncate(attempt.run_at)
    if attempt.error is not None:
        entry["error"] = encode_error(attempt.error)
    if attempt.log:
        entry["log"] = list(attempt.log)
    return entry


def _never() -> datetime:
    raise ValueError("An attempt of an ended job has its times.")
