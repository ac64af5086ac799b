"""Telling a handler of dead letters: making the jobs that do it, each once, whoever makes them.

A walk along the dead letters follows a stored instant, and looks back over half a minute each time, since what failed
at an instant may be seen only a little later. The job that tells of a dead letter has an id that is the same for
whoever makes it. Of a summary, the window is decided and stored first, and its job is made from that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from mainspring.clock import truncate
from mainspring.model.dead_letters import Alert
from mainspring.model.draft import Draft
from mainspring.model.job import FAILED
from mainspring.model.rules.instants import instant_text
from mainspring.store.codec import MAX_MESSAGE, DocumentId, cut
from mainspring.store.collections import BY_ID
from mainspring.store.connection import Connection, Document
from mainspring.store.dead_letters import DeadLetters, Place
from mainspring.store.inserts import Inserts

OVERLAP = timedelta(seconds=30)
# An alert's job must be there for as long as somebody may be about to make it again, whatever retention says.
_KEPT = timedelta(minutes=10)
_PAGE, _MOST_PAGES = 1000, 50
_MESSAGE, _GROUPS, _TAIL = 500, 50, 5000


class Alerts:
    """The store's verbs for alerts. One object belongs to one worker: it remembers what it has told of."""

    def __init__(self, connection: Connection, inserts: Inserts, dead_letters: DeadLetters) -> None:
        self._connection = connection
        self._inserts = inserts
        self._dead_letters = dead_letters
        self._told: dict[str, dict[str, datetime]] = {}

    async def open(self, names: Iterable[str]) -> None:
        """Begin to follow the dead letters for these handlers; for those that are known already, nothing changes."""
        now = self._connection.clock.expression()
        for name in names:
            with self._connection.deadline():
                await self._connection.alerts.update_one(
                    {"_id": name},
                    [{"$set": {key: {"$ifNull": [f"${key}", first]} for key, first in (("since", now), ("rev", 0))}}],
                    upsert=True,
                )

    async def tell(self, alert: Alert, template: Draft) -> tuple[list[Document], bool]:
        """Make the jobs that are due for a handler, after a template; returns the new ones, and whether there are
        more."""
        with self._connection.deadline():
            state = await self._connection.alerts.find_one({"_id": alert.name})
        if state is None:
            await self.open([alert.name])
            return [], False
        if alert.every is None:
            return await self._tell_each(alert, state, template)
        return await self._tell_together(alert, state, template), False

    # -- one by one ------------------------------------------------------------------------------------------------

    async def _tell_each(self, alert: Alert, state: Document, template: Draft) -> tuple[list[Document], bool]:
        told = self._told.setdefault(alert.name, {})
        start, after = _start(state), None
        made: list[Document] = []
        for _ in range(_MOST_PAGES):
            rows = await self._rows(start, after)
            fresh = [row for row in rows if _key(row) not in told]
            made += await self._tell_of(alert, fresh, template)
            told |= {_key(row): row["finished_at"] for row in fresh}
            if fresh:
                await self._advance(alert, rows[-1]["finished_at"])
            if len(rows) < _PAGE:
                break
            after = Place(rows[-1]["finished_at"], rows[-1]["_id"])
        self._told[alert.name] = {key: at for key, at in told.items() if at >= start}
        return made, len(rows) == _PAGE

    async def _tell_of(self, alert: Alert, rows: Sequence[Document], template: Draft) -> list[Document]:
        if not rows:
            return []
        jobs = await self._jobs([row["_id"] for row in rows])
        documents = [
            self._alert_job(alert, f":{_key(row)}", _data(row, jobs[row["_id"]]), replace(template, parent_id=_id(row)))
            for row in rows
            if row["_id"] in jobs and not jobs[row["_id"]].get("alert")
        ]
        return await self._inserts.insert_made(documents)

    async def _advance(self, alert: Alert, at: datetime) -> None:
        with self._connection.deadline():
            await self._connection.alerts.update_one({"_id": alert.name}, {"$max": {"at": at}})

    # -- together --------------------------------------------------------------------------------------------------

    async def _tell_together(self, alert: Alert, state: Document, template: Draft) -> list[Document]:
        making = state.get("making")
        if making is None:
            making = await self._decide(alert, state)
        if making is None:
            return []
        data = await self._summary(making["start"], making["end"], await self._late(state))
        made = []
        if data["count"]:
            made = await self._inserts.insert_made(
                [self._alert_job(alert, f"@{instant_text(making['end'])}", data, template)]
            )
        await self._summed(alert, making, told=bool(data["count"]))
        return made

    async def _decide(self, alert: Alert, state: Document) -> Document | None:
        """Store the window that the next summary tells of, if one is due and there is something to tell."""
        now = truncate(self._connection.clock.now())
        told_at = state.get("told_at")
        if told_at is not None and now < told_at + timedelta(seconds=alert.every or 0):
            return None
        start: datetime = state["at"] if "at" in state else state["since"]
        rows = await self._rows(start, None)
        if not rows and not await self._late(state):
            return None
        making = {"start": start, "end": max(now, start)}
        with self._connection.deadline():
            taken = await self._connection.alerts.update_one(
                {"_id": alert.name, "rev": state["rev"]}, {"$set": {"making": making}, "$inc": {"rev": 1}}
            )
        return making if taken.matched_count else None

    async def _late(self, state: Document) -> list[Document]:
        """Dead letters from before the window that the last summary had not seen yet."""
        start, tail = state.get("at"), set(state.get("tail", ()))
        if start is None:
            return []
        return [row for row in await self._rows(_start(state), None, start) if _key(row) not in tail]

    async def _summary(self, start: datetime, end: datetime, late: list[Document]) -> Document:
        found = await self._dead_letters.summed({"state": FAILED, "finished_at": {"$gte": start, "$lt": end}})
        groups = {one["_id"]: one for one in found}
        for row in late:
            _add(groups, row)
        jobs = await self._jobs([one["last"]["_id"] for one in groups.values()])
        told = [_summed(one, jobs[one["last"]["_id"]]) for one in groups.values() if _is_told(one, jobs)]
        told.sort(key=lambda one: (-one["count"], one["first_seen"]))
        return {"count": sum(one["count"] for one in told), "since": start, "until": end, "groups": told[:_GROUPS]}

    async def _summed(self, alert: Alert, making: Document, *, told: bool) -> None:
        """The window has been told of: the next one begins at its end."""
        rows = await self._rows(making["end"] - OVERLAP, None, making["end"])
        fields: Document = {"at": making["end"], "tail": [_key(row) for row in rows[-_TAIL:]]}
        if told:
            fields["told_at"] = making["end"]
        with self._connection.deadline():
            await self._connection.alerts.update_one(
                {"_id": alert.name, "making.end": making["end"]},
                {"$set": fields, "$unset": {"making": ""}, "$inc": {"rev": 1}},
            )

    # -- both ------------------------------------------------------------------------------------------------------

    async def _rows(self, start: datetime, after: Place | None, end: datetime | None = None) -> list[Document]:
        span: Document = {"$gte": start} if end is None else {"$gte": start, "$lt": end}
        return await self._dead_letters.page({"state": FAILED, "finished_at": span}, _PAGE, after)

    async def _jobs(self, ids: Sequence[DocumentId]) -> dict[DocumentId, Document]:
        """What is told of these jobs. One that was retried meanwhile has its error among its attempts only."""
        fields = {"name": 1, "queue": 1, "error": 1, "tries": 1, "alert": 1, "attempts": {"$slice": -1}}
        with self._connection.deadline():
            cursor = self._connection.jobs.find({"_id": {"$in": list(ids)}}, fields, hint=BY_ID)
            return {document["_id"]: document for document in await cursor.to_list()}

    def _alert_job(self, alert: Alert, suffix: str, data: Document, template: Draft) -> Document:
        document = self._inserts.document(replace(template, data=data))
        kept = truncate(self._connection.clock.now() + _KEPT)
        return {**document, "_id": f"{alert.name}{suffix}", "alert": True, "dedupe_until": kept}


def _start(state: Document) -> datetime:
    """Where a walk begins: a little before the instant that was reached, and never before the handler was known."""
    since: datetime = state["since"]
    reached: datetime = state.get("at", since)
    return max(since, reached - OVERLAP)


def _id(row: Document) -> str:
    return str(row["_id"])


def _key(row: Document) -> str:
    """One making of a dead letter: a job that is retried and fails again is another one."""
    return f"{row['_id']}@{instant_text(row['finished_at'])}"


def _error(job: Document) -> Document:
    last = (job.get("attempts") or [{}])[-1]
    error = job.get("error") or last.get("error") or {}
    message = str(error.get("message", ""))[: MAX_MESSAGE + 1]
    return {"error": str(error.get("type", "")), "message": cut(message, _MESSAGE)}


def _data(row: Document, job: Document) -> Document:
    return {
        "job_id": _id(row),
        "name": str(job.get("name", "")),
        "queue": str(job.get("queue", "")),
        **_error(job),
        "fingerprint": row.get("fingerprint"),
        "attempts": job.get("tries", 0),
        "failed_at": row["finished_at"],
    }


def _add(groups: dict[Any, Document], row: Document) -> None:
    """Count a dead letter in its group."""
    at, key = row["finished_at"], row.get("fingerprint")
    if key in groups:
        groups[key]["count"] += 1
        groups[key]["first"] = min(groups[key]["first"], at)
    else:
        groups[key] = {"_id": key, "count": 1, "first": at, "last": {"at": at, "_id": row["_id"]}}


def _is_told(group: Document, jobs: dict[DocumentId, Document]) -> bool:
    job = jobs.get(group["last"]["_id"])
    return job is not None and not job.get("alert")


def _summed(group: Document, job: Document) -> Document:
    return {
        "fingerprint": group["_id"],
        "name": str(job.get("name", "")),
        "queue": str(job.get("queue", "")),
        **_error(job),
        "count": group["count"],
        "first_seen": group["first"],
        "last_seen": group["last"]["at"],
        "job_id": str(group["last"]["_id"]),
    }
