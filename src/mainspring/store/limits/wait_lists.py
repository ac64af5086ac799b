"""Wait lists: the jobs that wait at a gate for a slot, for the next start of a rate, or for their turn in a sequence.

A job on a wait list has left the claim's index, so that no claim walks over it, and is in the index `line`. Its field
`line` names the gate. Keeps true: a gate whose document has no `line` has no wait list. A worker first puts jobs on the
wait list and then marks the gate; a worker that finds the wait list empty unmarks the gate only if it was not marked
again meanwhile. `store/limits/repair.py` repairs the state that a crash in between leaves.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from bson import MinKey
from pymongo import UpdateMany, UpdateOne

from mainspring.model.jobs.job import BLOCKED, FAILED, FIRST_PRIORITY, PENDING, RUNNING
from mainspring.model.limits.controls import Probe, Target
from mainspring.model.limits.gate_words import jobs_at
from mainspring.model.limits.limits import (
    CONCURRENCY,
    FAIR,
    RATE,
    SEQUENCE,
    Closed,
    FairGate,
    Gate,
    Limit,
    SequenceGate,
)
from mainspring.store.codec import DocumentId
from mainspring.store.connection import Connection, Document
from mainspring.store.jobs.claim import ORDER, PRIORITIES
from mainspring.store.jobs.stored_job import StoredJob, stored_jobs
from mainspring.store.refusals import Refused, change_jobs, split_refused
from mainspring.store.schema import (
    BUMP,
    BY_FAIRNESS,
    BY_ID,
    CLAIM,
    GOING,
    LINE,
    LIVE,
    OPEN,
    SEQ,
    WAITING_FOR,
    Expression,
)

BY_LIMIT = "limit"
# The order of a sequence.
MADE = [("created_at", 1), ("_id", 1)]
_AT_ONCE = 5000
_CHUNK = 200
# A walk ends this long after the local clock's now at the latest: clocks differ a little.
_SOON = timedelta(seconds=5)
_NONE: Mapping[str, Any] = MappingProxyType({})
_READY_AGAIN: Mapping[str, Any] = MappingProxyType(
    {
        "line": "$$REMOVE",
        "waiting_for": "$$REMOVE",
        "ready": {"$cond": [{"$eq": ["$state", PENDING]}, True, "$$REMOVE"]},
    }
)
"""The fields that make a waiting job claimable."""


@dataclass(slots=True)
class WaitList:
    """The wait list of a key in round robin: the number of its jobs that were claimed, and its first jobs."""

    name: str
    served: int
    rev: int
    jobs: list[StoredJob]


@dataclass(frozen=True, slots=True)
class OpenWaitList:
    """A wait list whose gate may have room: since when, and the gate's `rev`, which rises when jobs are added."""

    name: str
    open_at: datetime
    rev: int


class WaitLists:
    """The store's verbs for wait lists."""

    def __init__(self, connection: Connection, refused: Refused[DocumentId]) -> None:
        self._connection = connection
        self._refused = refused
        """The jobs that the server refuses to change; they are left out of reads for a while."""

    async def add_to_wait_lists(
        self,
        jobs: Mapping[str, Sequence[DocumentId]],
        notes: Mapping[str, str],
        groups: Mapping[str, str],
        firsts: Mapping[str, int] = _NONE,
    ) -> list[tuple[DocumentId, Exception]]:
        """Take ready jobs out of the claim's index and put them on the wait lists of their gates; returns the jobs that
        the server refuses to change."""
        now = self._connection.clock.expression()
        places = [(job_id, name) for name, ids in jobs.items() for job_id in ids]

        async def put(some: Sequence[tuple[DocumentId, str]]) -> None:
            statements = [_waiting(some[start : start + _CHUNK], notes, now) for start in range(0, len(some), _CHUNK)]
            await self._connection.jobs.bulk_write(statements)

        refused = await split_refused(places, put)
        await self.mark(jobs, groups, firsts)
        return [(job_id, error) for (job_id, _), error in refused]

    async def mark(
        self, names: Iterable[str], groups: Mapping[str, str] = _NONE, firsts: Mapping[str, int] = _NONE
    ) -> None:
        """Mark the gates of these wait lists. A key that joins others in round robin begins at their least count.

        `firsts` has the priority of the most urgent job that was added to each list; where it is missing, the next
        reader of the list corrects it.
        """
        least = {group: await self._least_served(group) for group in set(groups.values())}
        now = self._connection.clock.expression()
        marks = []
        for name in names:
            marked: Document = {
                "line": True,
                "rev": {"$add": [{"$ifNull": ["$rev", 0]}, 1]},
                "grants": {"$ifNull": ["$grants", []]},
                "keep_until": {"$ifNull": ["$keep_until", now]},
                "open_at": _may_open_at(name, now),
            }
            if name in groups:
                group, first = groups[name], firsts.get(name, FIRST_PRIORITY)
                marked |= {
                    "group": {"$literal": group},
                    "served": {"$max": [{"$ifNull": ["$served", 0]}, least[group]]},
                    "first": {"$cond": ["$line", {"$min": ["$first", first]}, first]},
                }
            marks.append(UpdateOne({"_id": name}, [{"$set": marked}], upsert=True))
        await self._connection.gates.bulk_write(marks)

    async def _least_served(self, group: str) -> int:
        """The count of the least served list of a group; one seek for each priority."""
        lines = {"group": group, "line": True, "first": {"$in": PRIORITIES}}
        first = await self._connection.gates.find_one(lines, {"served": 1}, sort=[("served", 1)], hint=BY_FAIRNESS)
        return 0 if first is None else int(first.get("served", 0))

    async def groups(self) -> list[str]:
        """The queues that have wait lists of keys in round robin."""
        return list(await self._connection.gates.distinct("group", {"group": {"$gt": ""}, "line": True}))

    async def next_fair_lists(self, group: str, lines: int, each: int, fields: Mapping[str, int]) -> list[WaitList]:
        """The next wait lists of a group: the most urgent, and of those the least served; with their first jobs.

        One statement, whatever the number of lists: one statement for each would cost ten times as much.
        """
        now = self._connection.clock.expression()
        due = {"state": PENDING, "queue": group, "$expr": {"$lte": ["$run_at", now]}, **self._refused.filter}
        heads = [{"$match": due}, {"$sort": dict(ORDER)}, {"$limit": each}, {"$project": dict(fields)}]
        jobs = {"from": self._connection.jobs.name, "localField": "_id", "foreignField": "line"}
        found = await self._connection.gates.aggregate(
            [
                {"$match": {"group": group, "line": True}},
                {"$sort": {"first": 1, "served": 1}},
                {"$limit": lines},
                {"$project": {"served": 1, "rev": 1, "first": 1}},
                {"$lookup": {**jobs, "pipeline": heads, "as": "jobs"}},
            ],
            hint=BY_FAIRNESS,
        )
        read = [
            WaitList(one["_id"], int(one.get("served", 0)), one.get("rev", 0), stored_jobs(one["jobs"]))
            for one in found
        ]
        await self._correct(found)
        return read

    async def _correct(self, found: Sequence[Document]) -> None:
        """Correct the stored priority of the first job of each list, unless jobs were added since."""
        corrections = [
            UpdateOne({"_id": line["_id"], "rev": line["rev"]}, {"$set": {"first": line["jobs"][0]["priority"]}})
            for line in found
            if line["jobs"] and line["jobs"][0]["priority"] != line.get("first")
        ]
        if corrections:
            await self._connection.gates.bulk_write(corrections)

    async def served(self, numbers: Mapping[str, int]) -> None:
        """Count how many jobs of each list were taken; one statement for all lists with the same number."""
        alike: dict[int, list[str]] = defaultdict(list)
        for name, number in numbers.items():
            alike[number].append(name)
        statements = [
            UpdateMany({"_id": {"$in": names}}, {"$inc": {"served": number}}, hint=BY_ID)
            for number, names in alike.items()
        ]
        await self._connection.gates.bulk_write(statements)

    async def first_of(self, gates: Iterable[SequenceGate]) -> dict[str, DocumentId]:
        """The first job of each sequence that is live, or has failed and blocks the others. A running job is first,
        whenever it was made: a transaction may commit a job that was made before it."""
        found = await asyncio.gather(*map(self._first_of, gates))
        return {sequence: job for sequence, job in found if job is not None}

    async def _first_of(self, gate: SequenceGate) -> tuple[str, DocumentId | None]:
        states = [*LIVE, BLOCKED, *([FAILED] if gate.blocks else [])]
        running = {"seq": gate.sequence, "state": RUNNING}
        with self._connection.deadline():
            first = await self._connection.jobs.find_one(running, {"_id": 1}, hint=GOING)
            if first is None:
                first = await self._connection.jobs.find_one(
                    {"seq": gate.sequence, "state": {"$in": states}}, {"_id": 1}, sort=MADE, hint=SEQ
                )
        return gate.sequence, None if first is None else first["_id"]

    async def running_in(self, sequences: Iterable[str]) -> Counter[str]:
        """The number of running jobs of each of these sequences."""
        running = {"seq": {"$in": list(sequences)}, "state": RUNNING}
        found = await self._connection.jobs.find_all(running, {"seq": 1}, hint=GOING)
        return Counter(document["seq"] for document in found)

    async def join_sequences(self, jobs: Mapping[str, Sequence[DocumentId]]) -> None:
        """Add jobs to their sequences: the process that scheduled them does not know the sequence."""

        async def join(some: Sequence[tuple[DocumentId, str]]) -> None:
            by_sequence: dict[str, list[DocumentId]] = defaultdict(list)
            for job_id, name in some:
                by_sequence[name].append(job_id)
            statements = [
                UpdateMany(
                    {"_id": {"$in": ids}, "ready": True}, [{"$set": {**BUMP, "seq": {"$literal": name}}}], hint=BY_ID
                )
                for name, ids in by_sequence.items()
            ]
            await self._connection.jobs.bulk_write(statements)

        # A job that cannot join cannot be put on the wait list either, which reports it.
        await split_refused([(job_id, name) for name, ids in jobs.items() for job_id in ids], join)

    async def with_wait_lists(self, names: Iterable[str]) -> set[str]:
        """The gates among these that have a wait list."""
        wanted = list(set(names))
        return set(await self._connection.gates.find_ids({"_id": {"$in": wanted}, "line": True}, hint=BY_ID))

    async def heads(
        self, name: str, queues: Sequence[str] | None, limit: int, fields: Mapping[str, int]
    ) -> list[StoredJob]:
        """The first due jobs of a wait list, of these queues only."""
        now = self._connection.clock.expression()
        due: Document = {"line": name, "state": PENDING, "$expr": {"$lte": ["$run_at", now]}, **self._refused.filter}
        if queues is not None:
            due["queue"] = {"$in": list(queues)}
        if name.startswith(f"{SEQUENCE}:"):
            return await self._next_of(name.partition(":")[2], due, fields)
        return stored_jobs(await self._connection.jobs.find_all(due, fields, sort=ORDER, hint=LINE, limit=limit))

    async def _next_of(self, sequence: str, due: Document, fields: Mapping[str, int]) -> list[StoredJob]:
        """The next job of a sequence, in the order in which they were made."""
        due = {**due, "seq": sequence}
        return stored_jobs(await self._connection.jobs.find_all(due, fields, sort=MADE, hint=SEQ, limit=1))

    async def end_wait_lists(self, revs: Mapping[str, int]) -> None:
        """Unmark wait lists, unless they have jobs, or jobs were added since their `rev`."""
        with self._connection.deadline():
            taken = set(await self._connection.jobs.distinct("line", {"line": {"$in": list(revs)}}))
            over: Document = {"$unset": {"line": "", "open_at": ""}}
            ends = [UpdateOne({"_id": name, "rev": rev}, over) for name, rev in revs.items() if name not in taken]
            if ends:
                await self._connection.gates.bulk_write(ends)

    async def open_wait_lists(self, limit: int, after: OpenWaitList | None = None) -> list[OpenWaitList]:
        """The next gates after a gate that have a wait list and may have room, in the order in which they opened."""
        now = self._connection.clock.expression()
        ends: Document = {}
        if after is not None:
            ends["min"] = {"open_at": after.open_at, "_id": after.name + "\0"}
            ends["max"] = {"open_at": self._connection.clock.now() + _SOON, "_id": MinKey()}
        found = await self._connection.gates.find_all(
            {"open_at": {"$type": "date"}, "$expr": {"$lte": ["$open_at", now]}},
            {"open_at": 1, "rev": 1},
            sort=[("open_at", 1), ("_id", 1)],
            hint=OPEN,
            limit=limit,
            **ends,
        )
        return [OpenWaitList(one["_id"], one["open_at"], one.get("rev", 0)) for one in found]

    async def next_opening(self, after: datetime) -> datetime | None:
        """The next instant after another at which a gate with a wait list may have room, such as that of a token."""
        later = {"open_at": {"$type": "date", "$gt": after}}
        found = await self._connection.gates.find_all(later, {"open_at": 1}, sort=[("open_at", 1)], hint=OPEN, limit=1)
        return found[0]["open_at"] if found else None

    async def open(self, names: Sequence[str]) -> None:
        """Let workers check whether there is room at these gates, where jobs wait for it."""
        if names:
            await self._open({"_id": {"$in": list(names)}})

    async def open_all(self, prefix: str) -> None:
        """Let workers check whether there is room at the gates with this prefix: their limit has changed."""
        await self._open({"_id": beginning(prefix)})

    async def _open(self, gates: Document) -> None:
        now = self._connection.clock.expression()
        await self._connection.gates.update_many({**gates, "line": True}, [{"$set": {"open_at": now}}], hint=BY_ID)

    async def close(self, names: Iterable[str]) -> None:
        """Note that these gates have no room: workers need not read their wait lists."""
        await self._connection.gates.update_many({"_id": {"$in": list(names)}}, {"$unset": {"open_at": ""}}, hint=BY_ID)

    async def any_waiting(self, names: Sequence[str] | None) -> bool:
        """Whether any job of these names is on a wait list; with None, of any name."""
        waiting: Document = {"waiting_for.by": BY_LIMIT} | ({} if names is None else {"name": {"$in": list(names)}})
        return await self._connection.jobs.find_one(waiting, {"_id": 1}, hint=WAITING_FOR) is not None

    async def head_of(self, name: str) -> StoredJob | None:
        """The first job of a wait list, due or not, with the fields that determine its gates."""
        head = await self._connection.jobs.find_one(
            {"line": name}, {"name": 1, "queue": 1, "data": 1, "seq": 1}, sort=ORDER, hint=LINE
        )
        return None if head is None else StoredJob(head)

    async def ready_like(self, queue: str, target: Target, limit: int) -> list[DocumentId]:
        """The first due jobs of a queue that are on no wait list and that the target of a pause or breaker covers."""
        now = self._connection.clock.expression()
        due = {"ready": True, "queue": queue, "$expr": {"$lte": ["$run_at", now]}}
        return await self._connection.jobs.find_ids({**target.where, **due}, sort=ORDER, hint=CLAIM, limit=limit)

    async def dissolve(self, name: str, most: int | None = None) -> bool:
        """Move the jobs of a wait list back to the claim's index: its limit is gone. With `most`, move about that
        many. Returns whether the list is empty now."""
        gate = await self._connection.gates.find_one({"_id": name}, {"rev": 1})
        number = await self._leave({"line": name}, LINE, _READY_AGAIN, most)
        if most is not None and number >= most:
            return False
        if gate is not None:
            await self.end_wait_lists({name: gate.get("rev", 0)})
        return True

    async def leave_fair_lists(self, name: str, most: int) -> int:
        """Move jobs of a name from the lists of keys in round robin back to the claim's index; returns how many."""
        in_turns = {"waiting_for.by": BY_LIMIT, "name": name, "line": beginning(f"{FAIR}:")}
        return await self._leave(in_turns, WAITING_FOR, _READY_AGAIN, most)

    async def move_waiting(
        self, old: str, new: str, note: str, ids: Sequence[DocumentId], target: Target | None = None
    ) -> int:
        """Move these jobs from one wait list to another, with all jobs that the target of a pause or breaker covers."""
        these = {"_id": {"$in": list(ids)}}
        where = these if target is None else {"$or": [target.where, these]}
        now = self._connection.clock.expression()
        moved = {"line": {"$literal": new}, "waiting_for": _held(note, now)}
        number = await self._leave({"line": old, **where}, LINE, moved)
        if number:
            await self.mark([new])
        return number

    async def _leave(self, those: Document, hint: str, fields: Mapping[str, Any], most: int | None = None) -> int:
        """Change these waiting jobs, some at a time, until none is left, or `most` have been changed. Jobs that the
        server refuses to change stay."""
        number = 0
        stages = [{"$set": {**BUMP, **fields}}]
        found: list[DocumentId] | None = None
        while found is None or (len(found) == _AT_ONCE and (most is None or number < most)):
            with self._connection.deadline():
                found = await self._connection.jobs.find_ids(
                    {"$and": [those, self._refused.filter]}, hint=hint, limit=_AT_ONCE
                )
                changed, refused = await change_jobs(
                    self._connection.jobs,
                    found,
                    lambda ids: ({**ids, "line": those["line"]}, stages),
                    "cannot leave its wait list",
                )
                number += changed
                self._refused.add_all(refused)
        return number


def beginning(prefix: str) -> Document:
    """The condition for names with this prefix: up to the first that sorts behind all of them."""
    return {"$gte": prefix, "$lt": behind(prefix)}


def behind(prefix: str) -> str:
    """A text that sorts behind every name with this prefix, which must not end with the last character of Unicode."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def _held(note: str, now: Expression) -> Document:
    return {"by": BY_LIMIT, "note": {"$literal": note}, "since": now}


def _may_open_at(name: str, now: Expression) -> Document:
    """When this gate may next have room. Slots that became free before any job waited sent no wake-up, so that it has
    to be computed: from the clock for a rate, from the grants for a limit. A limit or rate that the gate's document
    does not tell of has room: no slot is out. Other gates send a wake-up themselves."""
    unknown = now if name.startswith((f"{CONCURRENCY}:", f"{RATE}:")) else "$$REMOVE"
    room = {"$cond": [{"$lt": [{"$sum": "$grants.n"}, "$limit"]}, now, "$$REMOVE"]}
    known = {"$cond": [{"$isNumber": "$limit"}, room, unknown]}
    return {"$ifNull": ["$open_at", {"$ifNull": ["$opens", known]}]}


def _waiting(places: Sequence[tuple[DocumentId, str]], notes: Mapping[str, str], now: Expression) -> UpdateMany:
    """One statement for jobs of different wait lists: the server looks up the list of each job by its id."""
    ids, names = [job_id for job_id, _ in places], [name for _, name in places]
    line: Any = {"$literal": names[0]}
    held = _held(notes[names[0]], now)
    if len(set(names)) > 1:
        place = {"$indexOfArray": [{"$literal": ids}, "$_id"]}
        line = {"$arrayElemAt": [{"$literal": names}, place]}
        held["note"] = {"$arrayElemAt": [{"$literal": [notes[name] for name in names]}, place]}
    return UpdateMany(
        {"_id": {"$in": ids}, "ready": True},
        [{"$set": {**BUMP, "ready": "$$REMOVE", "line": line, "waiting_for": held}}],
        hint=BY_ID,
    )


def waiting_note(gate: Gate) -> str:
    """The reason why a job waits at this gate, in words."""
    if isinstance(gate.rule, Closed):
        return gate.rule.note
    if isinstance(gate.rule, SequenceGate):
        return f"It is not its turn in the sequence {gate.rule.sequence}."
    if isinstance(gate.rule, FairGate):
        return f"The keys of the queue {gate.rule.group} take turns."
    if isinstance(gate.rule, Probe):
        return f"The breaker of {jobs_at(gate.name)} is half open: one job at a time is let through as a probe."
    if isinstance(gate.rule, Limit):
        limited = jobs_at(gate.name).removeprefix("jobs ")
        if gate.rule.limit == 1:
            return f"At most 1 job {limited} runs at once, and one is running."
        return f"At most {gate.rule.limit} jobs {limited} run at once, and as many are running."
    return (
        f"{gate.rule.count} starts in {gate.rule.per:g} s are allowed for {jobs_at(gate.name)}, and they are used up."
    )
