"""A job as a worker has read it: its document, behind typed properties.

The store makes one `StoredJob` of each document that a worker reads to claim, run or end a job. The engine decides by
the properties and hands the whole to the store's verbs, so that names of fields stay in the store. Nothing is copied or
converted: a property is one read of the document, and the claim brings the document up to date in place.

Triage has checked a job (`codec.undecodable`) before any other part of the engine relies on the types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from mainspring.model.flows.before import Predecessor
from mainspring.model.jobs.job import DEFAULT_PRIORITY, DEFAULT_QUEUE, Job
from mainspring.model.jobs.payload_versions import FIRST_VERSION
from mainspring.model.privacy.encrypted_values import key_ids_in
from mainspring.store.codec import DocumentId, decode_job, undecodable
from mainspring.store.connection import Document

# No field of stored documents: it is in those that are shown to handlers.
_PREDECESSORS = "$predecessors"


class StoredJob:
    """One job, as it is stored or as its handler sees it."""

    # Id and name are read about twenty times for each job: plain attributes, since a property costs a call each time.
    __slots__ = ("document", "id", "name")

    id: DocumentId
    name: str

    def __init__(self, document: Document) -> None:
        self.document = document
        self.id = document.get("_id", "")
        self.name = document.get("name", "")

    # -- fields of every job ---------------------------------------------------------------------------------------

    @property
    def queue(self) -> str:
        queue: str = self.document.get("queue", DEFAULT_QUEUE)
        return queue

    @property
    def priority(self) -> int:
        priority: int = self.document.get("priority", DEFAULT_PRIORITY)
        return priority

    @property
    def run_at(self) -> datetime:
        run_at: datetime = self.document["run_at"]
        return run_at

    @property
    def data(self) -> Mapping[str, Any]:
        return self.document.get("data") or {}

    @property
    def token(self) -> int:
        token: int = self.document["token"]
        return token

    @property
    def tries(self) -> int:
        """The number of this attempt, from 1 on, once the job is claimed."""
        tries: int = self.document["tries"]
        return tries

    # -- its own options -------------------------------------------------------------------------------------------

    @property
    def guarantee(self) -> str | None:
        return self.document.get("guarantee") or self.document.get("executes")  # its name in schema version 1

    @property
    def retry(self) -> Mapping[str, Any] | None:
        """The retry policy of its own, as it is stored."""
        return self.document.get("retry") or None

    @property
    def timeout(self) -> float | None:
        own = self.document.get("timeout")
        return float(own) if isinstance(own, (int, float)) and own > 0 else None

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(self.document.get("tags") or ())

    @property
    def data_version(self) -> int:
        version: int = self.document.get("data_v", FIRST_VERSION)
        return version

    @property
    def key_ids(self) -> Sequence[str]:
        """The keys that parts of it are encrypted with."""
        return self.document.get("sealed") or ()

    @property
    def steps(self) -> Sequence[Document]:
        return self.document.get("steps") or ()

    @property
    def trace(self) -> dict[str, str]:
        """The trace context of the call that stored it; empty where there is none. Another program may have written
        anything there."""
        trace = self.document.get("trace")
        texts = trace.items() if isinstance(trace, Mapping) else ()
        return {key: value for key, value in texts if isinstance(value, str)}

    @property
    def is_node(self) -> bool:
        """Whether it is a node of a declared flow that others come before."""
        return "after" in self.document or "refs" in self.document

    @property
    def before(self) -> Sequence[str]:
        """The waits that it holds back; another program may have stored anything there."""
        waits = self.document.get("before")
        return [wait for wait in waits if isinstance(wait, str)] if isinstance(waits, list) else ()

    @property
    def schedule_id(self) -> str | None:
        return self.document.get("schedule_id")

    @property
    def tracked_by(self) -> str | None:
        """The schedule that waits for the end of this run."""
        return self.document.get("schedule_id") if self.document.get("tracked") else None

    @property
    def scheduled_for(self) -> datetime | None:
        return self.document.get("scheduled_for")

    # -- its wait list and its claim -------------------------------------------------------------------------------

    @property
    def line(self) -> str | None:
        """The wait list that it is on."""
        return self.document.get("line")

    @property
    def sequence(self) -> str | None:
        """The sequence that it is stored in."""
        return self.document.get("seq")

    @property
    def ahead(self) -> bool:
        """Whether it was claimed before there was a slot to start it in."""
        return self.document.get("ahead") is True

    @property
    def worker(self) -> str:
        """The worker that has claimed it."""
        worker: str = self.document["worker"]
        return worker

    @property
    def claimed_at(self) -> datetime | None:
        return self.document.get("claimed_at")

    @property
    def suspect(self) -> bool:
        """Whether a worker that had claimed it has died."""
        return bool(self.document.get("suspect"))

    @property
    def suspect_runner(self) -> bool:
        """Whether it was running when its worker died; otherwise it was only claimed."""
        return self.document.get("suspect") is True

    @property
    def finished_at(self) -> datetime:
        finished_at: datetime = self.document["finished_at"]
        return finished_at

    def overdue(self, now: datetime) -> bool:
        """Whether the time by which it may be started is over."""
        start_by = self.document.get("start_by")
        return start_by is not None and start_by < now

    @property
    def problem(self) -> str | None:
        """The reason why it cannot be decoded, if there is one."""
        return undecodable(self.document)

    # -- views for callbacks, handlers and logs --------------------------------------------------------------------

    def decode(self, **fields: Any) -> Job:
        """The job as callbacks receive it, with fields that have become known since it was read."""
        return decode_job({**self.document, **fields} if fields else self.document)

    def shown_with(self, data: Mapping[str, Any], steps: Sequence[Document] | None = None) -> StoredJob:
        """The same job with other data than the stored data, and with other results of its steps."""
        document = {**self.document, "data": data}
        if steps is not None:
            document["steps"] = steps
        return StoredJob(document)

    def shown_after(self, predecessors: Mapping[str, Predecessor]) -> StoredJob:
        """The same job as its handler sees it, with the nodes that it came after."""
        return StoredJob({**self.document, _PREDECESSORS: predecessors})

    @property
    def predecessors(self) -> Mapping[str, Predecessor]:
        """The nodes that it came after, of a job as its handler sees it."""
        return self.document.get(_PREDECESSORS) or {}

    def begin_steps(self) -> list[Document]:
        """Its steps, as a list to which the steps of this attempt are added."""
        steps = self.document["steps"] = list(self.steps)
        return steps

    def add_step(self, entry: Document) -> None:
        """Add a step that has been stored."""
        self.document["steps"] = [*self.steps, entry]
        if not self.key_ids and (key_ids := key_ids_in([entry])):
            self.document["sealed"] = sorted(key_ids)

    def log_fields(self, worker: str | None) -> Document:
        """The fields of a log record about it. The document may be no proper job."""
        document = self.document
        return {
            "job_id": str(document["_id"]),
            "job_name": document.get("name"),
            "queue": document.get("queue"),
            "attempt": document.get("tries"),
            "worker": worker,
        }


def stored_jobs(documents: Iterable[Document]) -> list[StoredJob]:
    """These documents as jobs."""
    return [StoredJob(document) for document in documents]
