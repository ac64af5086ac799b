"""The reads behind an explanation: a job's place in its queue, its limits, the controls and the workers.

A handful of reads along indexes, each bounded: a count ends at a limit and says so, and a bounded number of the jobs
that run or have just ended is read. Nothing is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from mainspring.clock import truncate
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.explain.applicable_limits import (
    Declared,
    declared_limits,
    limits_of,
    sequence_of,
    turns_of,
)
from mainspring.model.explain.facts import (
    Before,
    Control,
    Count,
    Drain,
    ExplainFacts,
    GateState,
    InSequence,
    RunningJob,
    TakingTurns,
)
from mainspring.model.jobs.job import BLOCKED, COMPLETED, DEFAULT_PRIORITY, FAILED, RUNNING, Job
from mainspring.model.limits.breaker import HALF_OPEN
from mainspring.model.limits.controls import BREAKER, LIMIT, PAUSE, Target, breaker_gate
from mainspring.model.limits.data_paths import value_at
from mainspring.model.limits.limits import NAME, QUEUE, SEQUENCE
from mainspring.model.workers import WorkerStatus
from mainspring.store.codec import DocumentId, decode_job, document_id
from mainspring.store.connection import Connection, Document
from mainspring.store.fitting import fit
from mainspring.store.jobs.claim import PRIORITIES
from mainspring.store.limits.wait_lists import beginning
from mainspring.store.reach import reached
from mainspring.store.schema import BY_FAIRNESS, BY_ID, CLAIM, FINISHED_INDEX, LEASE, LINE, LIVE, SEQ
from mainspring.store.shapes import GATE, JOB, SCHEDULE
from mainspring.store.views.explained_waits import ExplainedWaits
from mainspring.store.workers import Workers

# In sum, an explanation examines about 2,000 keys at most.
COUNTED = 1_000
RUNNING_READ = 400
ENDED_READ = 150
_KEYS_COUNTED = 100
_DRAIN_WINDOW, _SHORTEST_WINDOW = 60.0, 10.0
_MADE = [("created_at", 1), ("_id", 1)]


class Explaining:
    """The store's verb for explanations."""

    def __init__(self, connection: Connection, workers: Workers) -> None:
        self._connection = connection
        self._workers = workers
        self._waits = ExplainedWaits(connection)

    def now(self) -> datetime:
        return truncate(self._connection.clock.now())

    async def standing(self, document: Document, declared: Declared, scope: Scope = EVERYTHING) -> ExplainFacts:
        """The facts about a pending or blocked job. `declared` is what the calling process declares in its own code. Of
        the runs before it, only runs within the scope are named."""
        job, now = decode_job(document), self.now()
        document = fit(document, JOB).document
        line = document.get("line")
        controls, workers, waits_for, waits = await asyncio.gather(
            self._controls(job), self._live_workers(), self._waits_for(job, scope), self._waits.of(document)
        )
        limits = limits_of(job, controls, workers, declared)
        of_name = declared_limits(workers, job, (NAME, job.name), declared.name)
        turns = turns_of(job, line, of_name)
        names = {limit.gate.name for limit in limits} | _half_open(controls)
        names |= {name for name in (line, None if turns is None else turns.gate) if name is not None}
        gates, running, before, turns, sequence = await asyncio.gather(
            self._gates(names),
            self._running([limit.rule.key for limit in limits if limit.rule.key is not None]),
            self._before({"ready": True, "queue": job.queue}, document, now, CLAIM),
            self._turns(job, turns),
            self._sequence(document, sequence_of(job, document.get("seq"), of_name)),
        )
        lines = [name for name in names if name == line or gates.get(name, GateState()).line]
        return ExplainFacts(
            job=job,
            now=now,
            ready=document.get("ready") is True,
            adopted=document.get("v") is not None,
            line=line,
            start_by=document.get("start_by"),
            waits_for=waits_for,
            waits=waits,
            controls=controls,
            workers=workers,
            sequence=sequence,
            turns=turns,
            limits=limits,
            gates=gates,
            places=await self._places(lines, document, now),
            running=running[0],
            running_over=running[1],
            before=before,
            drain=await self._drain(job.queue, now) if before else None,
        )

    # -- controls ----------------------------------------------------------------------------------------------------

    async def _controls(self, job: Job) -> tuple[Control, ...]:
        """The pauses, overrides and breakers that concern a job."""
        places = [Target(QUEUE, job.queue), Target(NAME, job.name)]
        ids = [f"{kind}:{place.path}" for kind in (PAUSE, LIMIT, BREAKER) for place in places]
        for kind in (PAUSE, BREAKER):
            parts = await asyncio.gather(*(self._parts(kind, place, job.queue) for place in places))
            for place, found in zip(places, parts, strict=True):
                ids += [f"{kind}:{_part_of(place, job, *part).path}" for part in found]
        documents = await self._connection.controls.find_dict({"_id": {"$in": ids}}, {"counts": 0}, hint=BY_ID)
        return tuple(_control(documents[one]) for one in ids if one in documents)

    async def _parts(self, kind: str, place: Target, queue: str) -> list[tuple[str | None, str | None]]:
        """The keys by which values of a name or queue are paused or have breakers, and whether for this queue alone:
        few, however many values there are."""
        prefix = f"{kind}:{place.path}:"
        parts = [
            document["_id"]
            for document in await self._connection.controls.aggregate(
                [
                    {"$match": {"_id": beginning(prefix), "target": place.target, "queue": {"$in": [None, queue]}}},
                    {"$group": {"_id": {"key": "$key", "queue": "$queue"}}},
                ],
                hint=BY_ID,
            )
        ]
        return [(_text(part.get("key")), _text(part.get("queue"))) for part in parts]

    # -- the workers -------------------------------------------------------------------------------------------------

    async def _live_workers(self) -> tuple[WorkerStatus, ...]:
        return tuple(sorted(await self._workers.live_in_full(), key=lambda worker: worker.id))

    async def _running(self, keys: Iterable[str]) -> tuple[tuple[RunningJob, ...], bool]:
        """The running jobs, with the values of their data at these paths, and whether there are more than were read."""
        fields = {"name": 1, "queue": 1, "worker": 1, "claimed_at": 1, "ahead": 1} | _paths(keys)
        found = await self._connection.jobs.find_all({"state": RUNNING}, fields, hint=LEASE, limit=RUNNING_READ + 1)
        jobs = tuple(_running_job(fit(document, JOB).document) for document in found[:RUNNING_READ])
        return jobs, len(found) > RUNNING_READ

    # -- gates and wait lists ------------------------------------------------------------------------------------------

    async def _gates(self, names: Iterable[str]) -> dict[str, GateState]:
        wanted = list(names)
        if not wanted:
            return {}
        found = await self._connection.gates.find_all({"_id": {"$in": wanted}}, hint=BY_ID)
        return {document["_id"]: _gate_state(fit(document, GATE).document) for document in found}

    async def _places(self, lines: Sequence[str], document: Document, now: datetime) -> dict[str, Count]:
        """The number of jobs before this one on each of these wait lists."""
        counted = [line for line in lines if not line.startswith(f"{SEQUENCE}:")]
        counts = await asyncio.gather(*(self._before({"line": line}, document, now, LINE) for line in counted))
        return dict(zip(counted, counts, strict=True))

    async def _before(self, among: Document, document: Document, now: datetime, hint: str) -> Count:
        """The number of due jobs among these that come before this one in the order of claims."""
        priority, run_at = document.get("priority", DEFAULT_PRIORITY), document.get("run_at") or now
        due = run_at <= now
        ranges: list[Document] = [
            {"priority": {"$in": [one for one in PRIORITIES if one < priority]}, "run_at": {"$lte": now}},
            {"priority": priority, "run_at": {"$lt": run_at} if due else {"$lte": now}},
        ]
        if due:
            ranges.append({"priority": priority, "run_at": run_at, "_id": _smaller(document["_id"])})
        counted = 0
        for one in ranges:  # one behind the other: what one has counted, the next need not
            if counted <= COUNTED:
                counted += await self._count({**among, **one}, hint, COUNTED - counted)
        return _bounded(counted, COUNTED)

    async def _count(self, filter: Document, hint: str, most: int) -> int:
        """The number of jobs that match, counted no further than one beyond `most`."""
        counted = await self._connection.jobs.aggregate(
            [{"$match": filter}, {"$limit": most + 1}, {"$count": "n"}], hint=hint
        )
        return int(counted[0]["n"]) if counted else 0

    async def _turns(self, job: Job, turns: TakingTurns | None) -> TakingTurns | None:
        """The number of keys of the queue in round robin now, and the count of the least served key."""
        if turns is None:
            return None
        waiting = {"group": job.queue, "line": True}
        with self._connection.deadline():
            first = await self._connection.gates.find_one(
                waiting, {"served": 1}, sort=[("served", 1)], hint=BY_FAIRNESS
            )
            keys = await self._connection.gates.count(waiting, limit=_KEYS_COUNTED + 1, hint=BY_FAIRNESS)
        return replace(turns, keys=_bounded(keys, _KEYS_COUNTED), least=_whole(first, "served"))

    async def _sequence(self, document: Document, sequence: InSequence | None) -> InSequence | None:
        """The first job of a sequence that is live, or has failed and blocks the others, and the number of such jobs
        before this one."""
        if sequence is None:
            return None
        states = [*LIVE, BLOCKED, *([FAILED] if sequence.blocks else [])]
        going: Document = {"seq": sequence.name, "state": {"$in": states}}
        fields = {"name": 1, "queue": 1, "state": 1, "run_at": 1, "worker": 1, "error": 1}
        first = await self._connection.jobs.find_one(going, fields, sort=_MADE, hint=SEQ)
        made = document.get("created_at")
        same = {"created_at": made, "_id": _smaller(document["_id"])}
        counts = await asyncio.gather(
            *(self._count({**going, **one}, SEQ, _KEYS_COUNTED) for one in ({"created_at": {"$lt": made}}, same))
        )
        return replace(
            sequence, first=None if first is None else _first(first), before=_bounded(sum(counts), _KEYS_COUNTED)
        )

    async def _waits_for(self, job: Job, scope: Scope) -> tuple[str, ...]:
        """The runs of its schedule that a job waits for, the nearest one last."""
        if job.schedule_id is None or job.waiting_for is None:
            return ()
        stored = await self._connection.schedules.find_one({"_id": job.schedule_id}, {"live": 1, "queued": 1})
        schedule = fit(stored or {}, SCHEDULE).document
        queued = [entry.get("job") for entry in schedule.get("queued") or ()]
        if job.id not in queued:
            return ()
        runs = [str(one) for one in (*(schedule.get("live") or ()), *queued[: queued.index(job.id)])]
        return tuple(runs if scope.everything else await self._within(runs, scope))

    async def _within(self, ids: Sequence[str], scope: Scope) -> list[str]:
        """The jobs among these that are within a scope."""
        wanted = {"_id": {"$in": [document_id(one) for one in ids]}, **reached(scope)}
        found = await self._connection.jobs.find_all(wanted, {"_id": 1}, hint=BY_ID)
        seen = {str(document["_id"]) for document in found}
        return [one for one in ids if one in seen]

    # -- the throughput of the queue -----------------------------------------------------------------------------------

    async def _drain(self, queue: str, now: datetime) -> Drain | None:
        """The number of jobs of a queue that have ended in the last minute, or since the oldest end that was read."""
        kept = self._connection.settings.keep_finished
        window = _DRAIN_WINDOW if kept is None else min(_DRAIN_WINDOW, kept)
        if window < _SHORTEST_WINDOW:
            return None  # finished jobs are not kept long enough to tell
        since = now - timedelta(seconds=window)
        ended = await asyncio.gather(*(self._ended(state, since) for state in (COMPLETED, FAILED)))
        for ends in ended:
            if len(ends) >= ENDED_READ:
                since = max(since, ends[-1]["finished_at"])
        jobs = sum(1 for ends in ended for end in ends if end["finished_at"] >= since and end.get("queue") == queue)
        seconds = (now - since).total_seconds()
        return Drain(jobs, seconds) if jobs and seconds > 0 else None

    async def _ended(self, state: str, since: datetime) -> list[Document]:
        return await self._connection.jobs.find_all(
            {"state": state, "finished_at": {"$gt": truncate(since)}},
            {"_id": 0, "finished_at": 1, "queue": 1},
            sort=[("state", -1), ("finished_at", -1)],
            hint=FINISHED_INDEX,
            limit=ENDED_READ,
        )


def _part_of(place: Target, job: Job, key: str | None, queue: str | None) -> Target:
    """The part of a target that a job is in."""
    return replace(place, key=key, value=None if key is None else value_at(job.data, key), queue=queue)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _half_open(controls: Iterable[Control]) -> set[str]:
    """The gates of half-open breakers, which let one job at a time through."""
    return {
        breaker_gate(control.aim)
        for control in controls
        if control.kind == BREAKER and control.document.get("state") == HALF_OPEN
    }


def _smaller(job_id: DocumentId) -> Document:
    """The condition for the ids before this one in an index, where strings come before ObjectIds."""
    return {"$lt": job_id} if isinstance(job_id, str) else {"$not": {"$gte": job_id}}


def _bounded(number: int, most: int) -> Count:
    return Count(min(number, most), over=number > most)


def _paths(keys: Iterable[str]) -> dict[str, int]:
    """The projection of the data for keys. Only the first step of each path: longer paths might contain each other."""
    steps = {key.partition(".")[0] for key in keys}
    return {"data": 1} if any("$" in step for step in steps) else {f"data.{step}": 1 for step in steps}


def _control(document: Document) -> Control:
    return Control(document["_id"], document["kind"], document["scope"], document["target"], document)


def _running_job(document: Document) -> RunningJob:
    return RunningJob(
        id=str(document["_id"]),
        name=str(document.get("name")),
        queue=str(document.get("queue")),
        data=document.get("data") or {},
        worker=str(document.get("worker")),
        since=document.get("claimed_at"),
        ahead=bool(document.get("ahead")),
    )


def _gate_state(document: Document) -> GateState:
    limit, tokens = document.get("limit"), document.get("tokens")
    return GateState(
        grants={grant.get("w", ""): int(grant.get("n", 0)) for grant in document.get("grants", ())},
        limit=None if limit is None else int(limit),
        tokens=None if tokens is None else float(tokens),
        at=document.get("at"),
        line=bool(document.get("line")),
        served=_whole(document, "served"),
    )


def _first(document: Document) -> Before:
    job = decode_job(document)
    error = None if job.error is None else str(job.error)
    return Before(job.id, job.state, job.run_at, job.worker, error, job.name, job.queue)


def _whole(document: Mapping[str, Any] | None, key: str) -> int:
    value = None if document is None else document.get(key)
    return int(value) if isinstance(value, int | float) else 0
