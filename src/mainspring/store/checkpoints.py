"""Keeping the results of a handler's finished steps on its job.

Keeps true: a step is kept only by the holder of the claim, and once this returns a majority has it. Writing the same
step again, after an error that left it open whether it was written, replaces it: one write is enough to know.
"""

from __future__ import annotations

from typing import Any

from mainspring.clock import truncate
from mainspring.model.job import RUNNING
from mainspring.store.codec import DocumentId
from mainspring.store.collections import BY_ID
from mainspring.store.connection import Connection, Document
from mainspring.store.finish import with_key


class Checkpoints:
    """The store's verb for steps."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def keep(
        self, job_id: DocumentId, token: int, name: str, attempt: int, result: Any, kid: str | None = None
    ) -> Document | None:
        """Keep a step's result; returns its entry, or None when the claim is not ours any more.

        `kid` names the key that the result is sealed with, where it is.
        """
        sealed = {} if kid is None else {"sealed": with_key(kid)}
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
        with self._connection.deadline():
            kept = await self._connection.jobs.update_one(
                {"_id": job_id, "state": RUNNING, "token": token},
                [{"$set": {"steps": {"$concatArrays": [others, [stored]]}, **sealed}}],
                hint=BY_ID,
            )
        return entry if kept.matched_count else None
