"""Firing schedules: decide, store the decision, act on it. Any number of processes do it at once; none leads.

One pass over a schedule that has come due has three writes. The *decision* (model/plan.py) is stored in the schedule's
own document by a compare-and-set on its `rev`: the new cursor, and under `making` the jobs, the rows of the ledger and
the cancels that follow from it. Then these are *made*, under ids that are the same for whoever makes them, so that
making them twice changes nothing. Then `making` is *cleared*.

While `making` stands, the schedule is due again a second later. So a process that dies in between delays its firings
by that second and no more: whoever looks next finds `making` and does the rest.

Keeps true: one job per firing. Nobody acts on a decision that is not stored, and a decision is stored once.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError

from mainspring.clock import monotonic, truncate
from mainspring.errors import MainspringError, Unavailable
from mainspring.model.calendar import Calendar
from mainspring.model.job import FAILED, FINISHED
from mainspring.model.ledger import Row
from mainspring.model.plan import Plan, Runs, plan, plan_after_end
from mainspring.model.rules.every import Every
from mainspring.model.times import Times
from mainspring.store.calendars import Calendars
from mainspring.store.collections import BY_ID, DUE
from mainspring.store.connection import Connection, Document
from mainspring.store.inserts import Inserts
from mainspring.store.jobs import Jobs
from mainspring.store.schedule_codec import (
    calendar_keys,
    decode_row,
    encode_make,
    encode_row,
    is_tracked,
    job_of,
    policy_of,
    runs_of,
    times_of,
)
from mainspring.store.tending import Tending

logger = logging.getLogger("mainspring")

_DUPLICATE = 11000
_REVISIT = timedelta(seconds=1)
# Who was held up for longer than this since it stored its decision leaves the rest to those who came after.
_STALE = 10.0
_MOST_DUE = 5000
_MOST_WATCHED = 200


@dataclass(slots=True)
class Fired:
    """What one pass did about one schedule."""

    schedule: Document
    jobs: list[Document] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    paused: bool = False
    fields: Document = field(default_factory=dict)
    """What its document has become."""


@dataclass(slots=True)
class _Step:
    """A decision about one schedule: what its document becomes, and what is to be made."""

    schedule: Document
    fields: Document
    making: Document | None
    look_at: datetime | None
    paused: bool = False


class Firing:
    """The store's verbs for schedules that have come due."""

    def __init__(
        self, connection: Connection, inserts: Inserts, jobs: Jobs, tending: Tending, calendars: Calendars
    ) -> None:
        self._connection = connection
        self._inserts = inserts
        self._jobs = jobs
        self._tending = tending
        self._calendars = calendars

    async def head(self) -> datetime | None:
        """When the next schedule is to be looked at."""
        with self._connection.deadline():
            first = await self._connection.schedules.find_one(
                {"fire_at": {"$type": "date"}}, {"_id": 0, "fire_at": 1}, sort=[("fire_at", 1)], hint=DUE
            )
        return None if first is None else first["fire_at"]

    async def due(self) -> list[tuple[str, datetime]]:
        """The schedules that are to be looked at now, the earliest first; read from the index alone."""
        now = self._connection.clock.expression()
        late = {"fire_at": {"$type": "date"}, "$expr": {"$lte": ["$fire_at", now]}}
        with self._connection.deadline():
            cursor = self._connection.schedules.find(
                late, {"_id": 1, "fire_at": 1}, sort=[("fire_at", 1)], hint=DUE, limit=_MOST_DUE
            )
            return [(found["_id"], found["fire_at"]) for found in await cursor.to_list(_MOST_DUE)]

    async def load(self, ids: Sequence[str]) -> list[Document]:
        """Schedules as they are, without their past."""
        with self._connection.deadline():
            cursor = self._connection.schedules.find({"_id": {"$in": list(ids)}}, {"eras": 0}, hint=BY_ID)
            return await cursor.to_list(len(ids))

    async def advance(self, schedules: Sequence[Document], not_before: datetime | None = None) -> list[Fired]:
        """Decide, store and carry out what has come due of these schedules; returns what this call did.

        `not_before` is a time that the server's clock is known to have reached; this process's reading of it may be
        a little behind.
        """
        calendars = await self._calendars.in_force({key for one in schedules for key in calendar_keys(one)})
        ends = await self._ends(schedules)
        now = truncate(self._connection.clock.now())
        if not_before is not None:
            now = max(now, not_before)
        decided_at = monotonic()
        steps = [self._decide(schedule, calendars, ends, now) for schedule in schedules]
        mine, turn = await self._store_decisions(steps, now)
        if monotonic() - decided_at > _STALE:
            return []
        return await self._carry_out(mine, turn, now)

    # -- deciding --------------------------------------------------------------------------------------------------

    def _decide(
        self, schedule: Document, calendars: dict[tuple[str, int], Calendar], ends: dict[str, Document], now: datetime
    ) -> _Step:
        making = schedule.get("making")
        if making is not None:  # somebody decided and did not come to the end: the decision stands
            return _Step(schedule, {}, making, making.get("then"))
        try:
            times = times_of(schedule["_id"], schedule, calendars)
            return _decide(schedule, times, ends, now)
        except Exception as error:
            logger.error("Schedule %s cannot be read and is paused: %s", schedule["_id"], error)
            return _pause_broken(schedule, error, now)

    async def _ends(self, schedules: Sequence[Document]) -> dict[str, Document]:
        """How those runs ended, of the schedules that care, that are not going any more."""
        watched = [
            job
            for schedule in schedules
            if "making" not in schedule
            for job in (*schedule.get("live", ()), *(entry["job"] for entry in schedule.get("queued", ())))
        ]
        if not watched:
            return {}
        with self._connection.deadline():
            cursor = self._connection.jobs.find(
                {"_id": {"$in": watched}}, {"state": 1, "finished_at": 1, "error.message": 1}, hint=BY_ID
            )
            found = {document["_id"]: document for document in await cursor.to_list(len(watched))}
        gone: Document = {"state": "deleted"}
        return {job: found.get(job, gone) for job in watched if job not in found or found[job].get("state") in FINISHED}

    # -- storing ---------------------------------------------------------------------------------------------------

    async def _store_decisions(self, steps: Sequence[_Step], now: datetime) -> tuple[list[_Step], str]:
        """Store each decision unless the schedule has changed since it was read; returns those that were stored."""
        turn = secrets.token_hex(8)
        statements = [
            UpdateOne({"_id": s.schedule["_id"], "rev": s.schedule["rev"]}, _update(s, turn, now)) for s in steps
        ]
        if not statements:
            return [], turn
        with self._connection.deadline():
            outcome = await self._connection.schedules.bulk_write(statements, ordered=False)
        if outcome.matched_count == len(steps):
            return list(steps), turn
        ids = [step.schedule["_id"] for step in steps]
        with self._connection.deadline():
            cursor = self._connection.schedules.find({"_id": {"$in": ids}, "turn": turn}, {"_id": 1}, hint=BY_ID)
            mine = {document["_id"] for document in await cursor.to_list(len(ids))}
        return [step for step in steps if step.schedule["_id"] in mine], turn

    # -- carrying out ----------------------------------------------------------------------------------------------

    async def _carry_out(self, steps: Sequence[_Step], turn: str, now: datetime) -> list[Fired]:
        fired = {step.schedule["_id"]: Fired(step.schedule, paused=step.paused, fields=step.fields) for step in steps}
        todo = [(step, step.making) for step in steps if step.making is not None]
        jobs = [job_of(step.schedule, make, now) for step, making in todo for make in making.get("jobs", ())]
        rows = [row for _, making in todo for row in making.get("rows", ())]
        for job in await self._insert_jobs(jobs):
            fired[job["schedule_id"]].jobs.append(job)
        for row in await self.insert_rows(rows):
            fired[row["schedule_id"]].rows.append(decode_row(row))
        for step, making in todo:
            await self._let_go(step.schedule["_id"], making)
        await self._clear([step.schedule["_id"] for step, _ in todo], turn)
        return list(fired.values())

    async def _insert_jobs(self, jobs: list[Document]) -> list[Document]:
        """Make these jobs; returns those that nobody had made before."""
        return await self._inserts.insert_made(jobs) if jobs else []

    async def insert_rows(self, rows: list[Document]) -> list[Document]:
        """Write these rows of ledgers; returns those that nobody had written before."""
        if not rows:
            return []
        known = set()
        try:
            with self._connection.deadline():
                await self._connection.ledger.insert_many(rows, ordered=False)
        except BulkWriteError as error:
            if any(failure["code"] != _DUPLICATE for failure in error.details["writeErrors"]):
                raise
            if error.details.get("writeConcernErrors"):
                raise Unavailable("MongoDB did not confirm that a majority has the ledger's rows.") from error
            known = {failure["index"] for failure in error.details["writeErrors"]}
        return [row for place, row in enumerate(rows) if place not in known]

    async def _let_go(self, schedule_id: str, making: Document) -> None:
        """Cancel the runs that have to give way, and release those that need not wait any longer."""
        for job in making.get("cancels", ()):
            try:
                await self._jobs.cancel(job, f"the next firing of schedule {schedule_id} takes its place")
            except LookupError:
                continue
        if making.get("releases"):
            await self._tending.release_these(making["releases"])

    async def _clear(self, ids: Sequence[str], turn: str) -> None:
        """It is done: nobody need look again before the next firing."""
        if ids:
            then = {"$ifNull": ["$making.then", "$$REMOVE"]}
            with self._connection.deadline():
                await self._connection.schedules.update_many(
                    {"_id": {"$in": list(ids)}, "turn": turn},
                    [{"$set": {"fire_at": then, "making": "$$REMOVE"}}],
                    hint=BY_ID,
                )


def _update(step: _Step, turn: str, now: datetime) -> dict[str, Any]:
    """The write that stores a decision."""
    put = {key: value for key, value in step.fields.items() if value is not None}
    drop = {key: "" for key, value in step.fields.items() if value is None}
    put["turn"] = turn
    if step.making is not None:
        put |= {"making": step.making, "fire_at": now + _REVISIT}
    elif step.look_at is not None:
        put["fire_at"] = step.look_at
    else:
        drop["fire_at"] = ""
    update: dict[str, Any] = {"$set": put, "$inc": {"rev": 1}}
    return {**update, "$unset": drop} if drop else update


def _decide(schedule: Document, times: Times, ends: dict[str, Document], now: datetime) -> _Step:
    """What is to be done about a schedule now."""
    going, fields = runs_of(schedule), Document()
    released = _review(schedule, going, ends, fields, now)
    if schedule.get("paused") is not None or "paused" in fields:
        fields |= _runs_fields(schedule, going)
        making = {"releases": released, "then": _later(going, now)} if released else None
        fields |= {"next_at": None, "due_at": None} if "paused" in fields else {}
        return _Step(schedule, fields, making, _later(going, now), paused="paused" in fields)
    made, look_at = _plan(schedule, times, going, fields, now)
    fields |= _runs_fields(schedule, going)
    fields |= {"cursor": made.cursor, "next_at": made.next_at, "due_at": None}
    if made.next_at is not None:
        fields["due_at"] = times.due(made.next_at)
        look_at = fields["due_at"] if look_at is None else min(look_at, fields["due_at"])
    if made.makes:
        last = made.makes[-1]
        fields |= {"runs": schedule.get("runs", 0) + len(made.makes), "last": {"at": last.at, "job": last.job_id}}
    return _Step(schedule, fields, _making(schedule["_id"], made, released, look_at), look_at)


def _plan(
    schedule: Document, times: Times, going: Runs, fields: Document, now: datetime
) -> tuple[Plan, datetime | None]:
    """The plan, and when to look again whatever the next firing is."""
    policy, runs = policy_of(schedule), schedule.get("runs", 0)
    cursor = fields.pop("cursor", schedule["cursor"])
    if schedule["rule"].get("after") != "end":
        made = plan(times, policy, cursor, runs, going, now)
        return made, _later(going, now)
    made = Plan(cursor, None) if going.live else plan_after_end(times, policy, cursor, runs, going, now)
    # The next firing is a period after the end: looking once a period is never too late.
    return made, now + cast(Every, times.rule).period if going.live else None


def _review(schedule: Document, going: Runs, ends: dict[str, Document], fields: Document, now: datetime) -> list[str]:
    """Take note of the runs that have ended: who may go on, how often it failed, and when the last one ended."""
    ended = [job for job in going.live if job in ends]
    going.live = [job for job in going.live if job not in ends]
    if ended and schedule["rule"].get("after") == "end":
        fields["cursor"] = max((ends[job].get("finished_at") or now for job in ended), default=now)
    _count_failures(schedule, [ends[job] for job in ended], fields, now)
    going.queued = [(job, after) for job, after in going.queued if job not in ends]
    released = []
    allowed = schedule.get("overlap", "allow") == "allow"  # the policy was another one when these were queued
    while going.queued and (allowed or not going.live):
        job, _ = going.queued.pop(0)
        going.live.append(job)
        released.append(job)
    return released


def _count_failures(schedule: Document, ends: Sequence[Document], fields: Document, now: datetime) -> None:
    limit = schedule.get("pause_after")
    if not limit or not ends:
        return
    failures = schedule.get("failures", 0)
    for end in ends:
        failures = failures + 1 if end["state"] == FAILED else 0
    fields["failures"] = failures
    if failures >= limit and schedule.get("paused") is None:
        why = (ends[-1].get("error") or {}).get("message") or "no message"
        reason = f"{failures} runs in a row have failed; the last one: {why[:500]}"
        fields["paused"] = {"at": now, "reason": reason, "actor": "mainspring"}


def _runs_fields(schedule: Document, going: Runs) -> Document:
    if not is_tracked(schedule):
        return {key: None for key in ("live", "queued") if key in schedule}
    queued = [{"job": job, "after": after} for job, after in going.queued]
    return {"live": going.live[-_MOST_WATCHED:] or None, "queued": queued or None}


def _later(going: Runs, now: datetime) -> datetime | None:
    """When to look whether a run that others wait for has ended."""
    return now + _REVISIT if going.queued else None


def _making(schedule_id: str, made: Plan, released: list[str], look_at: datetime | None) -> Document | None:
    if not (made.makes or made.rows or made.cancels or released):
        return None
    making: Document = {
        "jobs": [encode_make(make) for make in made.makes],
        "rows": [encode_row(schedule_id, row) for row in made.rows],
        "cancels": list(made.cancels),
        "releases": released,
        "then": look_at,
    }
    return {key: value for key, value in making.items() if value}


def _pause_broken(schedule: Document, error: Exception, now: datetime) -> _Step:
    """A schedule that cannot be read is kept, and says why it does not fire."""
    cure = str(error) if isinstance(error, MainspringError) else f"{type(error).__name__}: {error}"
    paused = {"at": now, "reason": f"it cannot be read: {cure[:500]}", "actor": "mainspring"}
    return _Step(schedule, {"paused": paused, "next_at": None, "due_at": None}, None, None, paused=True)
