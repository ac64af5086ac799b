"""Keeping the results of a handler's finished steps on its job.

Keeps true: only the worker that holds the claim stores a step, and once `keep` returns a majority has it. Writing the
same step again, after an error that left it open whether it was written, replaces it: no read is needed.
"""

from __future__ import annotations

from typing import Any

from mainspring.clock import truncate
from mainspring.errors import StepError
from mainspring.model.jobs.job import RUNNING
from mainspring.store.codec import DocumentId
from mainspring.store.connection import Connection, Document
from mainspring.store.jobs.end_fields import with_key
from mainspring.store.refusals import REFUSED, brief, is_about_document
from mainspring.store.schema import BY_ID


class StoredSteps:
    """The store's verb for steps."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def keep(
        self, job_id: DocumentId, token: int, name: str, attempt: int, result: Any, key_id: str | None = None
    ) -> Document | None:
        """Keep a step's result; returns its entry, or None when the claim is lost.

        `key_id` names the key that the result is encrypted with, if it is. Raises StepError where the server refuses
        it: the next attempt would run the step again, to the same end.
        """
        sealed = {} if key_id is None else {"sealed": with_key(key_id)}
        entry = {"name": name, "at": truncate(self._connection.clock.now()), "attempt": attempt, "result": result}
        others = {
            "$filter": {
                "input": {"$ifNull": ["$steps", []]},
                "as": "step",
                "cond": {"$ne": ["$$step.name", {"$literal": name}]},
            }
        }
        stored = {
            **{key: {"$literal": value} for key, value in entry.items()},
            "at": self._connection.clock.expression(),
        }
        try:
            kept = await self._connection.jobs.update_one(
                self._connection.mirror.guard({"_id": job_id, "state": RUNNING, "token": token}),
                [{"$set": {"steps": {"$concatArrays": [others, [stored]]}, **sealed}}],
                hint=BY_ID,
            )
        except REFUSED as error:
            if not is_about_document(error):
                raise
            raise StepError(f"MongoDB refuses to keep the result of step {name!r}: {brief(error)}") from error
        return entry if kept.matched_count else None
