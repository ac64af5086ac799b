"""Reading what an overview is made of. Every read has a bound, and together they examine fewer than 2,000 keys.

A key with a scope gets only facts within it. Where no index knows both the queue and the name of a job, a bounded
number of jobs is read and those out of the scope are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from mainspring.clock import EPOCH, truncate
from mainspring.model.access.api_keys import Scope
from mainspring.model.jobs.job import FAILED, RUNNING
from mainspring.model.limits.breaker import HALF_OPEN, OPEN, BreakerStatus
from mainspring.model.limits.controls import PAUSE, Paused, breaker_gate, breaker_target, pause_closure
from mainspring.model.limits.limits import CONCURRENCY, QUEUE, RATE
from mainspring.model.schedules.schedule import Pause
from mainspring.model.views.problems import Held, LostLease, RecentFailure, ScheduleFact
from mainspring.store.connection import Connection, Document
from mainspring.store.fitting import fit
from mainspring.store.jobs.upkeep import NO_HANDLER, NO_KEY, TOO_NEW
from mainspring.store.limits.controls import breakers_in, pauses_in
from mainspring.store.limits.wait_lists import BY_LIMIT, beginning
from mainspring.store.schema import (
    BROKEN,
    BY_ID,
    DEAD,
    DUE,
    FAILURES,
    LEASE,
    LINE,
    PAUSED_SCHEDULES,
    WAITING_BY_QUEUE,
    WAITING_FOR,
)
from mainspring.store.shapes import JOB, SCHEDULE

COUNTED = 50
"""The number up to which the jobs behind one gate are counted."""
_GATES_COUNTED = 10
_NAMES_COUNTED = 8
_QUEUES_READ = 5
_LEASES_READ = 100
_PAUSES_READ = 100
_BREAKERS_READ = 50
_FAILURES_READ = 150
_SCHEDULES_READ = 50
_FAILURE = {"name": 1, "queue": 1, "schedule_id": 1, "fingerprint": 1}
_HOLDING = (BY_LIMIT, NO_HANDLER, TOO_NEW, NO_KEY)


class ProblemReads:
    """The store's verbs for an overview."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def lost_leases(self, scope: Scope) -> list[LostLease]:
        """Running jobs whose lease is over, the longest first; a hundred are read."""
        now = truncate(self._connection.clock.now())
        found = await self._connection.jobs.find_all(
            {"state": RUNNING, "lease_until": {"$lt": now}},
            {"queue": 1, "name": 1, "lease_until": 1},
            sort=[("state", 1), ("lease_until", 1)],
            hint=LEASE,
            limit=_LEASES_READ,
        )
        jobs = [fit(one, JOB).document for one in found]
        leases = [
            LostLease(str(one["_id"]), one.get("queue", ""), one.get("name", ""), one.get("lease_until", now))
            for one in jobs
        ]
        return [one for one in leases if scope.allows(one.queue, one.name)]

    async def failures(self, since: datetime, scope: Scope) -> list[RecentFailure]:
        """The latest failed attempts since an instant: of dead letters, and of jobs that were given another attempt."""
        retried: Document = {"last_failure_at": {"$gte": truncate(since)}}
        again = await self._connection.jobs.find_all(
            retried,
            {**_FAILURE, "last_failure_at": 1, "attempts": {"$slice": -1}},
            sort=[("last_failure_at", -1)],
            hint=FAILURES,
            limit=_FAILURES_READ,
        )
        found = [_retried(fit(one, JOB).document) for one in again]
        dead = [_dead(one) for one in await self._dead(since)]
        return [one for one in (*dead, *found) if scope.allows(one.queue, one.name)]

    async def _dead(self, since: datetime) -> list[Document]:
        found = await self._connection.jobs.find_all(
            {"state": FAILED, "finished_at": {"$gte": truncate(since)}},
            {**_FAILURE, "finished_at": 1, "error.type": 1},
            sort=[("state", -1), ("finished_at", -1)],
            hint=DEAD,
            limit=_FAILURES_READ,
        )
        return [fit(one, JOB).document for one in found]

    # -- controls --------------------------------------------------------------------------------------------------

    async def pauses(self, scope: Scope, most: int = _PAUSES_READ) -> list[Paused]:
        """The pauses of queues and names; the first hundred are read, or `most`."""
        found = await self._connection.controls.find_all(
            {"_id": beginning(f"{PAUSE}:")}, sort=[("_id", 1)], hint=BY_ID, limit=most
        )
        return [one for one in pauses_in(found) if _reaches(scope, one.scope, one.target)]

    async def breakers(self, scope: Scope, most: int = _BREAKERS_READ) -> list[BreakerStatus]:
        """The breakers that are open or half open; the first fifty of each are read, or `most`."""
        found: list[Document] = []
        for state in (OPEN, HALF_OPEN):
            found += await self._connection.controls.find_all(
                {"state": state}, {"counts": 0}, sort=[("state", 1), ("since", 1)], hint=BROKEN, limit=most
            )
        return [one for one in breakers_in(found) if _reaches(scope, one.scope, one.target, one.queue)]

    async def behind(self, pauses: Sequence[Paused], breakers: Sequence[BreakerStatus]) -> dict[str, int]:
        """The numbers of jobs that wait at the gates of pauses and breakers, for the first ten of them."""
        gates = [pause_closure(one).gate.name for one in pauses]
        gates += [breaker_gate(breaker_target(one)) for one in breakers]
        jobs = self._connection.jobs
        return {gate: await jobs.count({"line": gate}, hint=LINE, limit=COUNTED) for gate in gates[:_GATES_COUNTED]}

    # -- jobs that wait --------------------------------------------------------------------------------------------

    async def held(self, scope: Scope) -> list[Held]:
        """The names whose jobs wait for a limit, a handler, a newer handler or an encryption key."""
        if scope.queues is not None:
            return await self._held_in_queues(scope)
        found: list[Held] = []
        for by in _HOLDING:
            for name in await self._names_waiting(by, scope):
                found += await self._held_of(by, name)
        return found

    async def without_handler(self, scope: Scope, most: int) -> list[Held]:
        """The first names whose jobs wait for a handler, in any queue."""
        names = await self._names_waiting(NO_HANDLER, scope, most)
        return [one for name in names for one in await self._held_of(NO_HANDLER, name)]

    async def _names_waiting(self, by: str, scope: Scope, most: int = _NAMES_COUNTED) -> list[str]:
        """The first names with jobs that wait for one kind of gate: one seek in the index for each."""
        names: list[str] = []
        for prefix in scope.prefixes if scope.prefixes is not None else ("",):
            after: Document = {"$gte": prefix}
            while len(names) < most:
                first = await self._connection.jobs.find_one(
                    {"waiting_for.by": by, "name": after},
                    {"_id": 0, "name": 1},
                    sort=[("waiting_for.by", 1), ("name", 1), ("line", 1)],
                    hint=WAITING_FOR,
                )
                if first is None or not first["name"].startswith(prefix):
                    break
                names.append(first["name"])
                after = {"$gt": first["name"]}
        return list(dict.fromkeys(names))

    async def _held_of(self, by: str, name: str) -> list[Held]:
        where: Document = {"waiting_for.by": by, "name": name}
        if by != BY_LIMIT:
            count = await self._connection.jobs.count(where, hint=WAITING_FOR, limit=COUNTED)
            return [Held(by, name, count, count >= COUNTED)] if count else []
        found = []
        for kind in (CONCURRENCY, RATE):
            lines = await self._connection.jobs.find_all(
                {**where, "line": beginning(f"{kind}:")}, {"_id": 0, "line": 1}, hint=WAITING_FOR, limit=COUNTED
            )
            if lines:
                found.append(Held(by, name, len(lines), len(lines) >= COUNTED, lines[0]["line"]))
        return found

    async def _held_in_queues(self, scope: Scope) -> list[Held]:
        """The same for some queues, by the first jobs that wait in each of them."""
        counts: Counter[tuple[str, str]] = Counter()
        gates: dict[tuple[str, str], str] = {}
        for queue in (scope.queues or ())[:_QUEUES_READ]:
            for one in await self._connection.jobs.find_all(
                {"queue": queue, "waiting_for.by": {"$gt": ""}},
                {"name": 1, "line": 1, "waiting_for.by": 1},
                sort=[("queue", 1), ("waiting_for.by", 1)],
                hint=WAITING_BY_QUEUE,
                limit=COUNTED,
            ):
                job = fit(one, JOB).document
                by, name = (job.get("waiting_for") or {}).get("by", ""), job.get("name", "")
                if by in _HOLDING and scope.allows_name(name):
                    counts[by, name] += 1
                    gates.setdefault((by, name), str(job.get("line", "")))
        limits = (f"{CONCURRENCY}:", f"{RATE}:")
        return [
            Held(by, name, count, count >= COUNTED, gate if (gate := gates[by, name]).startswith(limits) else "")
            for (by, name), count in counts.items()
        ]

    # -- schedules -------------------------------------------------------------------------------------------------

    async def paused_schedules(self, scope: Scope) -> list[ScheduleFact]:
        """The schedules that were paused last; fifty are read."""
        found = await self._schedules({"paused.at": {"$exists": True}}, [("paused.at", -1)], PAUSED_SCHEDULES)
        return [one for one in found if scope.allows(one.queue, one.name)]

    async def firing_next(self, scope: Scope) -> list[ScheduleFact]:
        """The schedules that fire next, or are overdue; fifty are read."""
        found = await self._schedules({"fire_at": {"$type": "date"}}, [("fire_at", 1), ("_id", 1)], DUE)
        return [one for one in found if scope.allows(one.queue, one.name)]

    async def _schedules(self, filter: Document, order: list[tuple[str, int]], hint: str) -> list[ScheduleFact]:
        fields = {"job.name": 1, "job.queue": 1, "next_at": 1, "due_at": 1, "paused": 1}
        found = await self._connection.schedules.find_all(filter, fields, sort=order, hint=hint, limit=_SCHEDULES_READ)
        return [schedule_fact(fit(one, SCHEDULE).document) for one in found]


def _reaches(scope: Scope, kind: str, target: str, queue: str | None = None) -> bool:
    """Whether all jobs that a control may hold back are within a scope; `queue` is that of a name's jobs."""
    return scope.allows(target, None) if kind == QUEUE else scope.allows(queue, target)


def _dead(job: Document) -> RecentFailure:
    error = job.get("error") or {}
    return _failure(job, error, job.get("finished_at", EPOCH), str(job.get("fingerprint") or "unknown"))


def _retried(job: Document) -> RecentFailure:
    attempts: list[Any] = job.get("attempts") or [{}]
    return _failure(job, attempts[-1].get("error") or {}, job.get("last_failure_at", EPOCH), None)


def _failure(job: Document, error: Document, at: datetime, fingerprint: str | None) -> RecentFailure:
    names = (job.get("name", ""), job.get("queue", ""), str(error.get("type", "")))
    return RecentFailure(*names, at, fingerprint, job.get("schedule_id"))


def schedule_fact(document: Document) -> ScheduleFact:
    """The facts of a schedule, from the fields that are read."""
    job, paused = document.get("job") or {}, document.get("paused")
    at = document.get("next_at")
    due = document.get("due_at") or at
    pause = None if not paused else Pause(paused.get("at", EPOCH), paused.get("reason", ""), paused.get("actor"))
    return ScheduleFact(str(document["_id"]), job.get("name") or "", job.get("queue") or "", at, due, pause)
