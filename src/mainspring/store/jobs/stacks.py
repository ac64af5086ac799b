"""Asking for the stack of a running job: the request is on its worker's document, the answer on the job's.

The worker reads its own document by its id once a second while it has jobs; a request on the job itself would need an
index of its own for that. The answer carries the fence (`Renewals.store_stack`), and the token of its claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bson import ObjectId

from mainspring.clock import truncate
from mainspring.errors import JobNotFound, JobStateError
from mainspring.model.jobs.job import RUNNING
from mainspring.store.codec import DocumentId
from mainspring.store.connection import Connection
from mainspring.store.schema import BY_ID

_ASKED_AT_MOST = 20
"""The requests that are kept for one worker, the latest."""
_VERB = "ask_stack()"


class Stacks:
    """The store's verb for asking for stacks."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def ask(self, job_id: DocumentId) -> datetime:
        """Ask the worker of a running job for its stack; returns the time. Raises JobStateError if it does not run, or
        if its worker is gone."""
        job = await self._connection.jobs.find_one({"_id": job_id}, ("state", "token", "worker"), hint=BY_ID)
        if job is None:
            raise JobNotFound(str(job_id))
        if job.get("state") != RUNNING:
            raise JobStateError(str(job_id), str(job.get("state")), _VERB, "running")
        now = truncate(self._connection.clock.now())
        ask = {"job": job_id, "token": job.get("token"), "at": now}
        asked = await self._connection.workers.update_one(
            {"_id": job.get("worker")}, {"$push": {"asks": {"$each": [ask], "$slice": -_ASKED_AT_MOST}}}
        )
        if not asked.matched_count:
            raise JobStateError(str(job_id), "running, but its worker is gone", _VERB, "running")
        return now


def asked_in(worker: Mapping[str, Any]) -> list[tuple[DocumentId, int]]:
    """The requests on a worker's document; another program may have written them, in any form."""
    asks = worker.get("asks")
    found: list[tuple[DocumentId, int]] = []
    for one in asks if isinstance(asks, list) else ():
        if (
            isinstance(one, Mapping)
            and isinstance(one.get("job"), str | ObjectId)
            and isinstance(one.get("token"), int)
        ):
            found.append((one["job"], one["token"]))
    return list(dict.fromkeys(found))
