"""Alerts about dead letters: making the jobs that notify a handler of them, each once, in whichever process.

A walk along the dead letters starts at a stored instant, and looks back over half a minute each time, since a job that
failed at an instant may become visible only a little later. It ends at the instant when it began, after as many passes
as that takes; then the next walk begins. The job that notifies of a dead letter has an id that is the same for every
process that makes it. The contents of a summary are decided and stored first, and its job is made from them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any

from mainspring.clock import truncate
from mainspring.errors import InvalidJob
from mainspring.model.dead_letters.dead_letters import Alert
from mainspring.model.jobs.draft import Draft
from mainspring.model.jobs.job import FAILED
from mainspring.rules.instants import instant_text
from mainspring.store.bounded_values import MAX_MESSAGE, cut
from mainspring.store.codec import DocumentId
from mainspring.store.connection import Connection, Document
from mainspring.store.dead_letters.dead_letters import DeadLetters, Place
from mainspring.store.jobs.insert import Inserts
from mainspring.store.schema import BY_ID

logger = logging.getLogger("mainspring")

OVERLAP = timedelta(seconds=30)
# An alert's job is kept as long as another process may still make it, whatever retention says.
_KEPT = timedelta(minutes=10)
_PAGE, _MOST_PAGES = 1000, 50
_MESSAGE, _GROUPS = 500, 50
# The bytes kept of each dead letter that a summary has reported: hundreds of thousands fit into a document.
_MARK = 8
_CLOCKS_DIFFER = timedelta(seconds=1)


@dataclass(slots=True)
class Walk:
    """One walk along the dead letters: when it began, its first instant, and the last place that was reported."""

    began: datetime
    start: datetime
    after: Place | None = None

    def is_behind(self, start: datetime) -> bool:
        """Whether other workers have gone further since: the alert jobs that they made may be pruned by now."""
        return max(self.start, self.start if self.after is None else self.after.at) < start


class Alerts:
    """The store's verbs for alerts. One object belongs to one worker: it remembers the dead letters it has reported."""

    def __init__(self, connection: Connection, inserts: Inserts, dead_letters: DeadLetters) -> None:
        self._connection = connection
        self._inserts = inserts
        self._dead_letters = dead_letters
        self._told: dict[str, dict[str, datetime]] = {}
        self._walks: dict[str, Walk] = {}

    async def open(self, names: Iterable[str]) -> None:
        """Begin to follow the dead letters for these handlers; for known handlers nothing changes."""
        now = self._connection.clock.expression()
        for name in names:
            await self._connection.alerts.update_one(
                {"_id": name},
                [{"$set": {key: {"$ifNull": [f"${key}", first]} for key, first in (("since", now), ("rev", 0))}}],
                upsert=True,
            )

    async def tell(self, alert: Alert, template: Draft) -> tuple[list[Document], bool]:
        """Make the due alert jobs of a handler from a template; returns the new ones, and whether there are more."""
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
        walk = self._walks.get(alert.name)
        if walk is None or walk.is_behind(_start(state)):
            walk = self._walks[alert.name] = Walk(truncate(self._connection.clock.now()), _start(state))
        made: list[Document] = []
        for _ in range(_MOST_PAGES):
            rows = await self._rows(walk.start, walk.after, walk.began + _CLOCKS_DIFFER)
            fresh = [row for row in rows if _key(row) not in told]
            made += await self._tell_of(alert, fresh, template)
            told |= {_key(row): row["finished_at"] for row in fresh}
            if fresh:
                await self._advance(alert, min(rows[-1]["finished_at"], walk.began))
            if len(rows) < _PAGE:
                self._walks.pop(alert.name, None)
                self._told[alert.name] = {key: at for key, at in told.items() if at >= walk.start}
                return made, False
            walk.after = Place(rows[-1]["finished_at"], rows[-1]["_id"])
        return made, True

    async def _tell_of(self, alert: Alert, rows: Sequence[Document], template: Draft) -> list[Document]:
        if not rows:
            return []
        jobs = await self._jobs([row["_id"] for row in rows])
        documents = []
        for row in rows:
            if row["_id"] in jobs and not jobs[row["_id"]].get("alert"):
                try:
                    documents.append(self._alert_of(alert, row, jobs[row["_id"]], template))
                except InvalidJob as error:  # a dead letter without an alert must not hold up the others
                    logger.error("Handler %s gets no alert about the dead letter %s: %s", alert.name, _id(row), error)
        return await self._inserts.insert_made(documents)

    def _alert_of(self, alert: Alert, row: Document, job: Document, template: Draft) -> Document:
        return self._alert_job(alert, f":{_key(row)}", _data(row, job), replace(template, parent_id=_id(row)))

    async def _advance(self, alert: Alert, at: datetime) -> None:
        await self._connection.alerts.update_one({"_id": alert.name}, {"$max": {"at": at}})

    # -- together --------------------------------------------------------------------------------------------------

    async def _tell_together(self, alert: Alert, state: Document, template: Draft) -> list[Document]:
        making = state.get("making") or await self._decide(alert, state)
        if making is None:
            return []
        made = []
        if making["count"]:
            made = await self._inserts.insert_made(
                [self._alert_job(alert, f"@{instant_text(making['end'])}", await self._summary(making), template)]
            )
        await self._summed(alert, making)
        return made

    async def _decide(self, alert: Alert, state: Document) -> Document | None:
        """Store the contents of the next summary, if one is due and not empty."""
        now = truncate(self._connection.clock.now())
        told_at = state.get("told_at")
        if told_at is not None and now < told_at + timedelta(seconds=alert.every or 0):
            return None
        start: datetime = state["at"] if "at" in state else state["since"]
        earlier = await self._all(_start(state), start)
        late = _not_in(state.get("tail", b""), earlier)
        if not late and not await self._rows(start, None, limit=1):
            return None
        making = await self._counted(start, max(now, start), earlier, late)
        taken = await self._connection.alerts.update_one(
            {"_id": alert.name, "rev": state["rev"]}, {"$set": {"making": making}, "$inc": {"rev": 1}}
        )
        return making if taken.matched_count else None

    async def _counted(self, start: datetime, end: datetime, earlier: list[Document], late: list[Document]) -> Document:
        """The contents of a window's summary: the number of dead letters and their groups; and marks of the youngest,
        since others of the same time may become visible only later."""
        young = max(start, end - OVERLAP)
        rows = await self._all(young, end)
        found = await self._dead_letters.summed({"state": FAILED, "finished_at": {"$gte": start, "$lt": young}})
        groups = {one["_id"]: one for one in found}
        for row in (*late, *rows):
            _add(groups, row)
        jobs = await self._jobs([one["last"]["_id"] for one in groups.values()])
        told = [one for one in groups.values() if _is_told(one, jobs)]
        told.sort(key=lambda one: (-one["count"], one["first"]))
        tail = [row for row in (*earlier, *rows) if row["finished_at"] >= end - OVERLAP]
        return {
            "start": start,
            "end": end,
            "count": sum(one["count"] for one in told),
            "groups": told[:_GROUPS],
            "tail": b"".join(map(_mark, tail)),
        }

    async def _summary(self, making: Document) -> Document:
        """The data of a summary's job."""
        groups: list[Document] = making["groups"]
        jobs = await self._jobs([one["last"]["_id"] for one in groups])
        told = [_summed(one, jobs.get(one["last"]["_id"], {})) for one in groups]
        return {"count": making["count"], "since": making["start"], "until": making["end"], "groups": told}

    async def _summed(self, alert: Alert, making: Document) -> None:
        """Note that the window was reported: the next one begins at its end."""
        fields: Document = {"at": making["end"], "tail": making["tail"]}
        if making["count"]:
            fields["told_at"] = making["end"]
        await self._connection.alerts.update_one(
            {"_id": alert.name, "making.end": making["end"]},
            {"$set": fields, "$unset": {"making": ""}, "$inc": {"rev": 1}},
        )

    # -- both ------------------------------------------------------------------------------------------------------

    async def _rows(
        self, start: datetime, after: Place | None, end: datetime | None = None, limit: int | None = None
    ) -> list[Document]:
        span: Document = {"$gte": start} if end is None else {"$gte": start, "$lt": end}
        return await self._dead_letters.page({"state": FAILED, "finished_at": span}, limit or _PAGE, after)

    async def _all(self, start: datetime, end: datetime) -> list[Document]:
        """All dead letters of a short span of time."""
        found = page = await self._rows(start, None, end)
        while len(page) == _PAGE:
            page = await self._rows(start, Place(page[-1]["finished_at"], page[-1]["_id"]), end)
            found = found + page
        return found

    async def _jobs(self, ids: Sequence[DocumentId]) -> dict[DocumentId, Document]:
        """The fields of these jobs that alerts contain. A job that was retried meanwhile has its error in its attempts
        only."""
        fields = {"name": 1, "queue": 1, "error": 1, "tries": 1, "alert": 1, "attempts": {"$slice": -1}}
        return await self._connection.jobs.find_dict({"_id": {"$in": list(ids)}}, fields, hint=BY_ID)

    def _alert_job(self, alert: Alert, suffix: str, data: Document, template: Draft) -> Document:
        document = self._inserts.document(replace(template, data=data))
        kept = truncate(self._connection.clock.now() + _KEPT)
        return {**document, "_id": f"{alert.name}{suffix}", "alert": True, "dedupe_until": kept}


def _start(state: Document) -> datetime:
    """The start of a walk: a little before the instant that was reached, and never before the handler was known."""
    since: datetime = state["since"]
    reached: datetime = state.get("at", since)
    return max(since, reached - OVERLAP)


def _id(row: Document) -> str:
    return str(row["_id"])


def _key(row: Document) -> str:
    """The key of one dead letter: a job that is retried and fails again becomes another one."""
    return f"{row['_id']}@{instant_text(row['finished_at'])}"


def _mark(row: Document) -> bytes:
    """The mark of a reported dead letter: enough to recognise it."""
    return blake2b(_key(row).encode(), digest_size=_MARK).digest()


def _not_in(tail: bytes, rows: Iterable[Document]) -> list[Document]:
    """The dead letters whose marks are not among these."""
    marks = {tail[place : place + _MARK] for place in range(0, len(tail), _MARK)}
    return [row for row in rows if _mark(row) not in marks]


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
        if at > groups[key]["last"]["at"]:
            groups[key]["last"] = {"at": at, "_id": row["_id"]}
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
