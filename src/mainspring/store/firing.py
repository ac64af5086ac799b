"""Firing schedules: decide, store the decision, act on it. Any number of processes do it at once; none leads.

One pass over a schedule that has come due has three writes. The *decision* (model/plan.py) is stored in the schedule's
own document by a compare-and-set on its `rev`: the new cursor, and under `making` the jobs, the rows of the ledger and
the cancels that follow from it. Then these are *made*, under ids that are the same for whoever makes them, so that
making them twice changes nothing. Then `making` is *cleared*.

While `making` stands, the schedule is due again a second later, for its owner, and for others a second after that. So
a process that dies in between delays its firings by two seconds or so: whoever looks next finds `making` and does the
rest.

Keeps true: one job per firing. Nobody acts on a decision that is not stored, and a decision is stored once.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from pymongo.errors import BulkWriteError

from mainspring.clock import monotonic, truncate
from mainspring.errors import Unavailable
from mainspring.model.calendar import Calendar
from mainspring.model.job import FINISHED
from mainspring.model.ledger import Row
from mainspring.model.plan import Make, late_row
from mainspring.store.calendars import Calendars
from mainspring.store.collections import BY_ID, DUE
from mainspring.store.connection import DUPLICATE, Connection, Document
from mainspring.store.decisions import Step, decide, pause_broken, statements
from mainspring.store.inserts import Inserts
from mainspring.store.jobs import Jobs
from mainspring.store.schedule_codec import (
    calendar_keys,
    decode_row,
    encode_row,
    job_of,
    runs_of,
    times_of,
)
from mainspring.store.tending import Tending

logger = logging.getLogger("mainspring")
T = TypeVar("T")

# Who was held up for longer than this since it stored its decision leaves the rest to those who came after.
_STALE = 10.0
_MOST_DUE = 5000
FEW = 100


@dataclass(frozen=True, slots=True)
class Outlook:
    """The schedules to be looked at soonest, the earliest first, each with its time; and the server's time."""

    now: datetime
    soonest: list[tuple[str, datetime]]

    @property
    def due(self) -> list[tuple[str, datetime]]:
        """Those to be looked at now."""
        return [(schedule_id, at) for schedule_id, at in self.soonest if at <= self.now]


@dataclass(slots=True)
class Fired:
    """What one pass did about one schedule."""

    schedule: Document
    jobs: list[Document] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    paused: bool = False
    fields: Document = field(default_factory=dict)
    """What its document has become."""


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

    async def outlook(self) -> Outlook:
        """What is to be looked at soonest: all that is due, or the first few. Read from the index alone."""
        now = {"$add": [self._connection.clock.expression(), 0]}
        with self._connection.deadline():
            cursor = self._connection.schedules.find(
                {"fire_at": {"$type": "date"}},
                {"_id": 1, "fire_at": 1, "now": now},
                sort=[("fire_at", 1)],
                hint=DUE,
                limit=FEW,
            )
            found = await cursor.to_list(FEW)
        if not found:
            return Outlook(self._connection.clock.now(), [])
        first = Outlook(found[0]["now"], [(one["_id"], one["fire_at"]) for one in found])
        return first if len(first.due) < FEW else Outlook(first.now, await self.due(first.now))

    async def due(self, now: datetime | None = None) -> list[tuple[str, datetime]]:
        """The schedules that are to be looked at now, the earliest first; read from the index alone.

        `now` is the server's own time, where it was just read. Were it asked for in the filter, as `$$NOW`, every
        document would be read.
        """
        until = truncate(self._connection.clock.now()) if now is None else now
        with self._connection.deadline():
            cursor = self._connection.schedules.find(
                {"fire_at": {"$type": "date", "$lte": until}},
                {"_id": 1, "fire_at": 1},
                sort=[("fire_at", 1)],
                hint=DUE,
                limit=_MOST_DUE,
            )
            return [(found["_id"], found["fire_at"]) for found in await cursor.to_list(_MOST_DUE)]

    async def load(self, ids: Sequence[str]) -> list[Document]:
        """Schedules as they are, without their past."""
        with self._connection.deadline():
            cursor = self._connection.schedules.find({"_id": {"$in": list(ids)}}, {"eras": 0}, hint=BY_ID)
            return await cursor.to_list(len(ids))

    async def advance(self, schedules: Sequence[Document], now: datetime | None = None) -> list[Fired]:
        """Decide, store and carry out what has come due of these schedules; returns what this call did.

        `now` is the server's own time, where it was just read. This process's reading of it may be off by what an
        answer took on its way: then something would be fired early, or looked at again and again.
        """
        calendars = await self._calendars.in_force(_all_of(calendar_keys, schedules))
        ends = await self._ends(schedules)
        if now is None:
            now = truncate(self._connection.clock.now())
        decided_at = monotonic()
        steps = [self._decide(schedule, calendars, ends, now) for schedule in schedules]
        mine, turn = await self._store_decisions(steps, now)
        if monotonic() - decided_at > _STALE:
            return []
        return await self._carry_out(mine, turn, now)

    # -- deciding --------------------------------------------------------------------------------------------------

    def _decide(
        self, schedule: Document, calendars: dict[tuple[str, int], Calendar], ends: dict[str, Document], now: datetime
    ) -> Step:
        making = schedule.get("making")
        try:
            if making is not None:  # somebody decided and did not come to the end: the decision stands
                step = Step(schedule, {}, making, making.get("then"))
            else:
                step = decide(schedule, times_of(schedule["_id"], schedule, calendars), ends, now)
            for make in (step.making or {}).get("jobs", ())[:1]:
                job_of(
                    schedule, make, now
                )  # what cannot be made must not be decided, or it would be in the way for ever
            return step
        except Exception as error:
            logger.error("Schedule %s cannot be read and is paused: %s", schedule["_id"], error)
            return pause_broken(schedule, error, now)

    async def _ends(self, schedules: Sequence[Document]) -> dict[str, Document]:
        """How those runs ended, of the schedules that care, that are not going any more."""
        watched = list(_all_of(_runs, [schedule for schedule in schedules if "making" not in schedule]))
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

    async def _store_decisions(self, steps: Sequence[Step], now: datetime) -> tuple[list[Step], str]:
        """Store each decision unless the schedule has changed since it was read; returns those that were stored."""
        turn = secrets.token_hex(8)
        if not steps:
            return [], turn
        with self._connection.deadline():
            outcome = await self._connection.schedules.bulk_write(statements(steps, turn, now), ordered=False)
        if outcome.matched_count == len(steps):
            return list(steps), turn
        ids = [step.schedule["_id"] for step in steps]
        with self._connection.deadline():
            cursor = self._connection.schedules.find({"_id": {"$in": ids}, "turn": turn}, {"_id": 1}, hint=BY_ID)
            mine = {document["_id"] for document in await cursor.to_list(len(ids))}
        return [step for step in steps if step.schedule["_id"] in mine], turn

    # -- carrying out ----------------------------------------------------------------------------------------------

    async def _carry_out(self, steps: Sequence[Step], turn: str, now: datetime) -> list[Fired]:
        fired = {step.schedule["_id"]: Fired(step.schedule, paused=step.paused, fields=step.fields) for step in steps}
        todo = [(step, step.making) for step in steps if step.making is not None]
        jobs = [job_of(step.schedule, make, now) for step, making in todo for make in making.get("jobs", ())]
        rows = [row for _, making in todo for row in making.get("rows", ())]
        made = await self._insert_jobs(jobs)
        for job in made:
            fired[job["schedule_id"]].jobs.append(job)
        rows += _late_after_all(todo, {job["_id"] for job in made}, {row["_id"] for row in rows}, now)
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
            if any(failure["code"] != DUPLICATE for failure in error.details["writeErrors"]):
                raise
            if error.details.get("writeConcernErrors"):
                raise Unavailable("MongoDB did not confirm that a majority has the ledger's rows.") from error
            known = {failure["index"] for failure in error.details["writeErrors"]}
        return [row for place, row in enumerate(rows) if place not in known]

    async def _let_go(self, schedule_id: str, making: Document) -> None:
        """Cancel the runs that have to give way, release those that need not wait any longer, and forget the rows of
        firings that will not come."""
        for job in making.get("cancels", ()):
            try:
                await self._jobs.cancel(job, f"the next firing of schedule {schedule_id} takes its place")
            except LookupError:
                continue
        if making.get("releases"):
            await self._tending.release_these(making["releases"])
        if making.get("forgets"):
            with self._connection.deadline():
                await self._connection.ledger.delete_many({"_id": {"$in": making["forgets"]}}, hint=BY_ID)

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


def _all_of(read: Callable[[Document], Iterable[T]], schedules: Sequence[Document]) -> set[T]:
    """What is read from each of some schedules. One that cannot be read gives nothing, and harms no other."""
    found: set[T] = set()
    for schedule in schedules:
        with suppress(Exception):
            found |= set(read(schedule))
    return found


def _runs(schedule: Document) -> list[str]:
    going = runs_of(schedule)
    return [*going.live, *(job for job, _ in going.queued)]


def _late_after_all(
    todo: Sequence[tuple[Step, Document]], made: set[str], known: set[str], now: datetime
) -> Iterator[Document]:
    """The rows of jobs that were decided in time and are made only now, since whoever decided did not get to it."""
    for step, making in todo:
        for make in making.get("jobs", ()):
            if make["job"] in made and make["job"] not in known:
                row = late_row(Make(make["job"], make["at"], make["due"]), now)
                if row is not None:
                    yield encode_row(step.schedule["_id"], row)
