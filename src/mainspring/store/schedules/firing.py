"""Firing schedules: decide, store the decision, carry it out. Any number of processes do so at once; none leads.

One pass over a schedule that has come due has three writes. The *decision* (model/schedules/firing_plan.py) is stored
in the schedule's own document by a compare-and-set on its `rev`: the new cursor, and under `making` the jobs, the rows
of the ledger and the cancellations that follow from it. Then these are *made*, under ids that are the same in every
process, so that making them twice changes nothing. Then `making` is *cleared*.

While `making` is set, the schedule is due again a second later, for the worker that it is assigned to, and for others a
second after that. So a process that dies in between delays its firings by two seconds or so: the next process that
reads the schedule finds `making` and does the rest.

Keeps true: one job per firing. No process acts on a decision that is not stored, and a decision is stored once.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from pymongo.errors import BulkWriteError

from mainspring.clock import monotonic, truncate
from mainspring.errors import MainspringError, Unavailable
from mainspring.model.jobs.job import FINISHED
from mainspring.model.schedules.firing_plan import Make, late_row
from mainspring.model.schedules.ledger import Row
from mainspring.rules.calendars.calendar import Calendar
from mainspring.store.collection import DUPLICATE
from mainspring.store.connection import Connection, Document
from mainspring.store.jobs.edit import Jobs
from mainspring.store.jobs.insert import Inserts
from mainspring.store.jobs.upkeep import Upkeep
from mainspring.store.refusals import REFUSED, Refused, brief, is_about_document, raise_if_passing, split_refused
from mainspring.store.schedules.calendars import Calendars
from mainspring.store.schedules.codec import (
    calendar_keys,
    check_sound,
    decode_row,
    encode_row,
    job_of,
    malformed,
    runs_of,
    times_of,
)
from mainspring.store.schedules.decisions import Step, check_making, decide, pause_broken, statements
from mainspring.store.schema import BY_ID, DUE

logger = logging.getLogger("mainspring")
T = TypeVar("T")

# A process that was held up for longer than this since it decided leaves the rest to other processes.
_STALE = 10.0
_MOST_DUE = 5000
FEW = 100


@dataclass(frozen=True, slots=True)
class Outlook:
    """The schedules that are due soonest, the earliest first, each with its time; and the server's time."""

    now: datetime
    soonest: list[tuple[str, datetime]]

    @property
    def due(self) -> list[tuple[str, datetime]]:
        """The schedules that are due now."""
        return [(schedule_id, at) for schedule_id, at in self.soonest if at <= self.now]


@dataclass(slots=True)
class Fired:
    """The outcome of one pass for one schedule."""

    schedule: Document
    jobs: list[Document] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    paused: bool = False
    fields: Document = field(default_factory=dict)
    """The fields that changed in its document."""

    @property
    def schedule_id(self) -> str:
        schedule_id: str = self.schedule["_id"]
        return schedule_id

    @property
    def job_name(self) -> str:
        name: str = self.schedule["job"]["name"]
        return name

    @property
    def pause_reason(self) -> str:
        """The reason why it was paused; empty if it was not."""
        return str((self.fields.get("paused") or {}).get("reason", ""))

    @property
    def after(self) -> Document:
        """The schedule as it is now."""
        return {**self.schedule, **self.fields}


class Firing:
    """The store's verbs for schedules that have come due."""

    def __init__(
        self, connection: Connection, inserts: Inserts, jobs: Jobs, upkeep: Upkeep, calendars: Calendars
    ) -> None:
        self._connection = connection
        self._inserts = inserts
        self._jobs = jobs
        self._tending = upkeep
        self._calendars = calendars
        self.refused = Refused[str]()
        """The schedules that the server refuses to change; they are left out for a while."""

    async def outlook(self) -> Outlook:
        """The schedules that are due first: all that are due now, or the first few. Read from the index alone."""
        now = {"$add": [self._connection.clock.expression(), 0]}
        found = await self._connection.schedules.find_all(
            {"fire_at": {"$type": "date"}, **self.refused.filter},
            {"_id": 1, "fire_at": 1, "now": now},
            sort=[("fire_at", 1)],
            hint=DUE,
            limit=FEW,
        )
        if not found:
            return Outlook(self._connection.clock.now(), [])
        first = Outlook(found[0]["now"], [(one["_id"], one["fire_at"]) for one in found])
        return first if len(first.due) < FEW else Outlook(first.now, await self.due(first.now))

    async def due(self, now: datetime | None = None) -> list[tuple[str, datetime]]:
        """The schedules that are due now, the earliest first; read from the index alone.

        `now` is the server's own time, where it was just read. With `$$NOW` in the filter, the server would read every
        document.
        """
        until = truncate(self._connection.clock.now()) if now is None else now
        return [
            (found["_id"], found["fire_at"])
            for found in await self._connection.schedules.find_all(
                {"fire_at": {"$type": "date", "$lte": until}, **self.refused.filter},
                {"_id": 1, "fire_at": 1},
                sort=[("fire_at", 1)],
                hint=DUE,
                limit=_MOST_DUE,
            )
        ]

    async def load(self, ids: Sequence[str], due_at: datetime | None = None) -> list[Document]:
        """Schedules as they are stored, without their eras; with `due_at`, only schedules due at that instant."""
        found = await self._connection.schedules.find_all({"_id": {"$in": list(ids)}}, {"eras": 0}, hint=BY_ID)
        if due_at is None:
            return found
        return [one for one in found if isinstance(at := one.get("fire_at"), datetime) and at <= due_at]

    async def advance(self, schedules: Sequence[Document], now: datetime | None = None) -> list[Fired]:
        """Decide, store and carry out the due firings of these schedules; returns the outcomes of this call.

        `now` is the server's own time, where it was just read. This process's estimate may be off by the latency of a
        reply: then a schedule would be fired early, or read again and again.
        """
        sound = [schedule for schedule in schedules if malformed(schedule) is None]
        calendars = await self._calendars.in_force(_all_of(calendar_keys, sound))
        ends = await self.ends(sound)
        if now is None:
            now = truncate(self._connection.clock.now())
        decided_at = monotonic()
        steps = [self.decide(schedule, calendars, ends, now) for schedule in schedules]
        mine, decision_id = await self.store_decisions(steps, now)
        if monotonic() - decided_at > _STALE:
            return []
        return await self.carry_out(mine, decision_id, now)

    # -- deciding --------------------------------------------------------------------------------------------------

    def decide(
        self, schedule: Document, calendars: dict[tuple[str, int], Calendar], ends: dict[str, Document], now: datetime
    ) -> Step:
        making = schedule.get("making")
        try:
            check_sound(schedule)
            if making is not None:  # a process decided and did not finish: the decision stands
                step = Step(schedule, {}, making, making.get("then"))
            else:
                step = decide(schedule, times_of(schedule["_id"], schedule, calendars), ends, now)
            check_making(schedule, step.making or {}, now)
            return step
        except Exception as error:
            # The reason is stored with the schedule; the log does not get its values.
            logger.error("Schedule %s cannot be read and is paused: %s", schedule["_id"], type(error).__name__)
            cure = str(error) if isinstance(error, MainspringError) else f"{type(error).__name__}: {error}"
            return pause_broken(schedule, f"it cannot be read: {cure[:500]}", now)

    async def ends(self, schedules: Sequence[Document]) -> dict[str, Document]:
        """The ends of watched runs that are no longer live, by job; a missing job counts as deleted."""
        watched = list(_all_of(_runs, [schedule for schedule in schedules if "making" not in schedule]))
        if not watched:
            return {}
        found = await self._connection.jobs.find_dict(
            {"_id": {"$in": watched}}, {"state": 1, "finished_at": 1, "error.message": 1}, hint=BY_ID
        )
        gone: Document = {"state": "deleted"}
        return {job: found.get(job, gone) for job in watched if job not in found or found[job].get("state") in FINISHED}

    # -- storing ---------------------------------------------------------------------------------------------------

    async def store_decisions(self, steps: Sequence[Step], now: datetime) -> tuple[list[Step], str]:
        """Store each decision unless the schedule has changed since it was read; returns the stored decisions."""
        decision_id = secrets.token_hex(8)
        matched = 0

        async def write(some: Sequence[Step]) -> None:
            nonlocal matched
            written = await self._connection.schedules.bulk_write(statements(some, decision_id, now))
            matched += written.matched_count

        refused = {step.schedule["_id"]: error for step, error in await split_refused(steps, write)}
        if not refused and matched == len(steps):
            return list(steps), decision_id
        paused = []
        for step in steps:
            reason = refused.get(step.schedule["_id"])
            if reason is not None and is_about_document(reason):
                why = f"MongoDB refuses what it would become: {brief(reason)}"
                paused.append(pause_broken(step.schedule, why, now))
            elif reason is not None:
                self._pass_over(step.schedule["_id"], reason)
        for step, error in await split_refused(paused, write):
            self._pass_over(step.schedule["_id"], error)
        decided = {step.schedule["_id"]: step for step in [*steps, *paused]}
        return [
            decided[document["_id"]]
            for document in await self._connection.schedules.find_all(
                {"_id": {"$in": list(decided)}, "decision_id": decision_id}, {"_id": 1}, hint=BY_ID
            )
        ], decision_id

    def _pass_over(self, schedule_id: str, error: Exception) -> None:
        """Leave out a schedule that the server refuses to change, for a while: it must not block the others."""
        logger.error("Schedule %s does not fire: MongoDB refuses to change it: %s", schedule_id, brief(error))
        self.refused.add(schedule_id, error)

    # -- carrying out ----------------------------------------------------------------------------------------------

    async def carry_out(self, steps: Sequence[Step], decision_id: str, now: datetime) -> list[Fired]:
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
        await self._let_go({step.schedule["_id"]: making for step, making in todo}, decision_id)
        return list(fired.values())

    async def _insert_jobs(self, jobs: list[Document]) -> list[Document]:
        """Make these jobs; returns those that are new."""
        return await self._inserts.insert_made(jobs) if jobs else []

    async def insert_rows(self, rows: list[Document]) -> list[Document]:
        """Write these rows of ledgers; returns those that are new."""
        if not rows:
            return []
        known: set[int] = set()
        try:
            await self._connection.ledger.insert_many(rows)
        except BulkWriteError as error:
            raise_if_passing(error)
            for failure in error.details["writeErrors"]:
                known.add(failure["index"])
                if failure["code"] != DUPLICATE:
                    row = rows[failure["index"]]["_id"]
                    logger.error("The row %s of a ledger cannot be stored: %s", row, failure.get("errmsg"))
        return [row for place, row in enumerate(rows) if place not in known]

    async def _let_go(self, makings: Mapping[str, Document], decision_id: str) -> None:
        """Do the rest of each decision, then clear the finished ones. The next pass repeats a part that failed."""
        done = []
        for schedule_id, making in makings.items():
            try:
                await self._let_runs_go(schedule_id, making)
                done.append(schedule_id)
            except Unavailable:
                await self._clear(done, decision_id)
                raise
            except Exception as error:
                logger.error("A firing of schedule %s is not finished: %s", schedule_id, brief(error))
        await self._clear(done, decision_id)

    async def _let_runs_go(self, schedule_id: str, making: Document) -> None:
        """Cancel the runs that the next firing replaces, release the runs that need not wait any longer, and delete the
        rows of firings that will not come."""
        for job in making.get("cancels", ()):
            try:
                await self._jobs.cancel(job, f"the next firing of schedule {schedule_id} takes its place")
            except LookupError:
                continue
            except REFUSED as error:
                logger.error(
                    "Job %s should give way to the next firing and cannot be cancelled: %s",
                    job,
                    brief(error),
                    extra={"job_id": str(job)},
                )
        if making.get("releases"):
            await self._tending.release_these(making["releases"])
        if making.get("forgets"):
            await self._connection.ledger.delete_many({"_id": {"$in": making["forgets"]}}, hint=BY_ID)

    async def _clear(self, ids: Sequence[str], decision_id: str) -> None:
        """Clear decisions that are carried out: the schedule is due again at its next firing."""
        then = {"$ifNull": ["$making.then", "$$REMOVE"]}

        async def clear(some: Sequence[str]) -> None:
            await self._connection.schedules.update_many(
                {"_id": {"$in": list(some)}, "decision_id": decision_id},
                [{"$set": {"fire_at": then, "making": "$$REMOVE"}}],
                hint=BY_ID,
            )

        for schedule_id, error in await split_refused(ids, clear):
            self._pass_over(schedule_id, error)


def _all_of(read: Callable[[Document], Iterable[T]], schedules: Sequence[Document]) -> set[T]:
    """The values that `read` finds in some schedules. An unreadable schedule has none, and does not stop the others."""
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
    """The rows of jobs that were decided in time and are made only now, since the deciding process did not make
    them."""
    for step, making in todo:
        for make in making.get("jobs", ()):
            if make["job"] in made and make["job"] not in known:
                row = late_row(Make(make["job"], make["at"], make["due"]), now)
                if row is not None:
                    yield encode_row(step.schedule["_id"], row)
