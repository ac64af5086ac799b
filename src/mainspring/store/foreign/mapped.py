"""Jobs that were adopted through a field map: following the changes of the other program.

Called by the chore `sync_mapped_jobs`, and by each verb that finds such a job out of step (see
`store/foreign/mirror.py`). Keeps true: a job is brought back into step only as it was read, compared by the very fields
that the other program writes.

When both sides differ, `mapped` tells which one has changed the job. If the state or the worker is not the one that it
notes, a Mainspring process without the field map has written, and the other program's fields follow. Otherwise the
other program has changed the job, and Mainspring's fields follow.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from mainspring.config.field_map import FieldMap
from mainspring.model.jobs.job import CANCELLED, FAILED, FINISHED, PENDING, RUNNING
from mainspring.store.codec import DocumentId, fingerprint_of
from mainspring.store.connection import Connection, Document
from mainspring.store.foreign.mirror import Stage
from mainspring.store.foreign.translation import adopted_note, as_read, locked
from mainspring.store.jobs.edit import again_stages
from mainspring.store.jobs.end_fields import CLAIM_FIELDS, start_by_of
from mainspring.store.schema import BUMP, BY_ID, mapped_index

logger = logging.getLogger("mainspring")

_NOT_WAITING = dict.fromkeys(("ready", "waiting_for", "line"), "$$REMOVE")
_LET_GO = dict.fromkeys(CLAIM_FIELDS, "$$REMOVE")


class Mapped:
    """The store's verbs for jobs in another program's fields. Without a field map there are none."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def follow(self, limit: int = 500) -> int:
        """Bring adopted jobs whose states differ back into step; returns how many were found. Each of the few seeks
        reads nothing but such jobs."""
        map = self._connection.mirror.map
        found: list[Document] = []
        for state, word in map.words.items() if map is not None else ():
            assert map is not None
            differing = {"mapped": {"$exists": True}, "state": state, map.status: {"$ne": word}}
            found += await self._connection.jobs.find_all(differing, hint=mapped_index(map), limit=limit)
        await self.follow_these(found)
        return len(found)

    async def follow_one(self, job_id: DocumentId) -> bool:
        """Bring one job back into step; returns whether it was out of step."""
        if self._connection.mirror.map is None:
            return False
        document = await self._connection.jobs.find_one({"_id": job_id})
        return document is not None and await self.follow_these([document]) > 0

    async def follow_these(self, documents: Iterable[Document]) -> int:
        """Bring the jobs among these that are out of step back into step; returns how many there were."""
        mirror = self._connection.mirror
        late = [document for document in documents if mirror.out_of_step(document)]
        for document in late:
            assert mirror.map is not None
            stages = self._stages(mirror.map, document)
            await self._connection.jobs.update_one(
                {**as_read(mirror.map, document), "rev": {"$eq": document.get("rev")}},
                mirror.stages(stages),
                hint=BY_ID,
            )
        return len(late)

    def _stages(self, map: FieldMap, document: Document) -> list[Stage]:
        mapped = document["mapped"]
        noted = (mapped.get("state"), mapped.get("worker")) if isinstance(mapped, Mapping) else None
        if noted != (document.get("state"), document.get("worker")):
            return []  # a Mainspring process changed it: only the other program's fields are written
        status = document.get(map.status)
        state = map.states.get(status) if isinstance(status, str) else None
        known = repr(status) if state is not None else "a value that the field map does not know"
        logger.info(
            "Job %s: another program has set its %s to %s",
            document["_id"],
            map.status,
            known,
            extra={"job_id": str(document["_id"])},
        )
        if state == PENDING:
            return self._pending(map, document)
        if state == RUNNING:
            return [{"$set": {**_NOT_WAITING, **_LET_GO, **locked(map), **BUMP, "token": {"$add": ["$token", 1]}}}]
        return self._ended(map, document, state)

    def _pending(self, map: FieldMap, document: Document) -> list[Stage]:
        """The update of a job that the other program has put back, or whose time it has moved."""
        now = self._connection.clock.expression()
        if document["state"] in FINISHED:
            return [*again_stages(now), {"$set": {"mapped": adopted_note(map)}}]
        due = {"$cond": [{"$eq": [{"$type": f"${map.run_at}"}, "date"]}, f"${map.run_at}", now]}
        back = {} if document["state"] == PENDING else {**_LET_GO, "state": PENDING, "ready": True}
        moved = document.get(map.run_at) != document["mapped"].get("at")
        times = {"run_at": due, "start_by": start_by_of(due), "mapped": adopted_note(map)} if moved else {}
        return [{"$set": {**back, **times, **BUMP}}]

    def _ended(self, map: FieldMap, document: Document, state: str | None) -> list[Stage]:
        now = self._connection.clock.expression()
        ended = {**_NOT_WAITING, **_LET_GO, **BUMP, "state": state or CANCELLED, "finished_at": now}
        word = document.get(map.status)
        if state in (None, FAILED):
            error = {"type": "EndedElsewhere", "message": f"Another program has set {map.status} to {word!r:.100}."}
            ended |= {"error": {"$literal": error}}
            if state == FAILED:
                ended |= {"fingerprint": fingerprint_of(document.get("name"), error)}
        # With a word that the map does not know, the job belongs to the other program alone from now on.
        return [{"$set": ended | ({"mapped": "$$REMOVE"} if state is None else {})}]
