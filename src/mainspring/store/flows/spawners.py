"""The jobs whose handlers make children: each storing of children is between two looks at the job that makes them.

Keeps true: no child outlives the cancellation of its flow. The first look refuses a job that is cancelled, or is held
by another worker by now; the second look cancels the children that were stored meanwhile. A process that dies between
the two has stored them within one deadline of the first look: the sweep watches a cancelled job for longer than that.
A job of a cancelled flow that was retried by itself is ended as cancelled: given back, it would run again at once, for
ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mainspring.errors import Cancel, ClaimLost
from mainspring.model.jobs.job import RUNNING
from mainspring.store.codec import DocumentId, document_id
from mainspring.store.connection import Connection, Document
from mainspring.store.jobs.edit import cancel_stages
from mainspring.store.refusals import change_jobs
from mainspring.store.schema import BY_ID, NOT_ENDED

_LOOKED_AT = {"state": 1, "token": 1, "cancel": 1, "cancel_tree": 1}
BORN_LATE = "The job that made it was cancelled meanwhile."


@dataclass(slots=True)
class Spawner:
    """A running job that makes children."""

    id: DocumentId
    token: int
    root: str
    """The id of the root of its flow."""
    noted: bool = False
    """Whether it is stored with the job that it makes children."""


class Spawners:
    """The store's verbs for the looks before and after children are stored."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def begin(self, spawner: Spawner) -> None:
        """Raise ClaimLost where a job is cancelled, or runs elsewhere, and Cancel where its flow is cancelled. The
        first time, note that it makes children: its cancellation concerns them from now on."""
        if not spawner.noted:
            mine = {"_id": spawner.id, "state": RUNNING, "token": spawner.token, "cancel": None}
            # A root shows itself here, too: after a crash it may get to its end without a suspension.
            marks = {"spawned": True, **({"root": True} if spawner.root == str(spawner.id) else {})}
            noted = await self._connection.jobs.update_one(mine, {"$set": marks}, hint=BY_ID)
            if not noted.matched_count:
                raise _stopped(spawner)
            spawner.noted = True
        own, root = await self._look(spawner)
        _check(spawner, own, root)

    async def end(self, spawner: Spawner, made: Sequence[DocumentId]) -> None:
        """Look again, after these children were stored: cancel them where the job was cancelled meanwhile."""
        if not made:
            return
        own, root = await self._look(spawner)
        if _cancelled(own) or _cancelled(root):
            await self._cancel(made)
        _check(spawner, own, root)  # where another run holds the job by now, it makes the same children

    async def _cancel(self, made: Sequence[DocumentId]) -> None:
        live, mirror = {"state": {"$in": list(NOT_ENDED)}}, self._connection.mirror
        stages = cancel_stages(self._connection.clock.expression(), BORN_LATE)
        await change_jobs(
            self._connection.jobs, made, lambda some: mirror.update({**some, **live}, stages), "cannot be cancelled"
        )

    async def _look(self, spawner: Spawner) -> tuple[Document, Document]:
        """The job, and the root of its flow."""
        root_id = document_id(spawner.root)
        found = await self._connection.jobs.find_dict(
            {"_id": {"$in": list({spawner.id, root_id})}}, _LOOKED_AT, hint=BY_ID
        )
        return found.get(spawner.id, {}), found.get(root_id, {})


def _holds(document: Document, spawner: Spawner) -> bool:
    return document.get("state") == RUNNING and document.get("token") == spawner.token


def _cancelled(document: Document) -> bool:
    return document.get("cancel") is not None or document.get("cancel_tree") is not None


def _check(spawner: Spawner, own: Document, root: Document) -> None:
    """Raise where a job makes no more children."""
    if not _holds(own, spawner) or _cancelled(own):
        raise _stopped(spawner)
    if _cancelled(root):
        raise Cancel(f"Its flow {spawner.root} was cancelled, so that it can make no children.")


def _stopped(spawner: Spawner) -> ClaimLost:
    return ClaimLost(f"Job {spawner.id} is cancelled or not held by this worker any more; it makes no more children.")
