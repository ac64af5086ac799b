"""The lines of jobs that wait at a gate: for a slot, for the next start of a rate, for their turn.

A job in line has left the claim's index, so that nobody walks over it, and is in the line's. Keeps true: a gate whose
document does not say that there is a line has none. Who puts jobs in line does so first and marks the gate then; who
finds the line empty unmarks it only when it has not been marked anew. `mend` finds what a crash in between has left.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pymongo import UpdateMany, UpdateOne

from mainspring.model.controls import Probe
from mainspring.model.job import FAILED, FIRST_PRIORITY, PENDING, RUNNING
from mainspring.model.limits import FAIR, SEQUENCE, Fair, Gate, Limit, Shut, Turn
from mainspring.store.claim import ORDER, PRIORITIES
from mainspring.store.codec import DocumentId
from mainspring.store.collections import BUMP, BY_ID, CLAIM, GOING, IN_TURN, LINE, LIVE, OPEN, SEQ
from mainspring.store.connection import Connection, Document

BY_LIMIT = "limit"
_MADE = [("created_at", 1), ("_id", 1)]
_AT_ONCE = 5000
_COMPANY = 200
_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(slots=True)
class Line:
    """A line whose key takes turns: how many of its jobs were claimed, and the first ones in it."""

    name: str
    served: int
    rev: int
    jobs: list[Document]


class Lines:
    """The store's verbs for lines."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def put_in_line(
        self,
        jobs: Mapping[str, Sequence[DocumentId]],
        notes: Mapping[str, str],
        groups: Mapping[str, str],
        firsts: Mapping[str, int] = _NONE,
    ) -> None:
        """Take ready jobs out of the claim's index and put them in the lines of the gates that they wait for."""
        now = self._connection.clock.expression()
        places = [(job_id, name) for name, ids in jobs.items() for job_id in ids]
        statements = [
            _lining_up(places[start : start + _COMPANY], notes, now) for start in range(0, len(places), _COMPANY)
        ]
        with self._connection.deadline():
            await self._connection.jobs.bulk_write(statements, ordered=False)
        await self.mark(jobs, groups, firsts)

    async def mark(
        self, names: Iterable[str], groups: Mapping[str, str] = _NONE, firsts: Mapping[str, int] = _NONE
    ) -> None:
        """Note that jobs wait in these lines. A key that comes anew among others begins where they are.

        `firsts` tells the priorities of the most urgent who came; where nobody does, whoever looks finds out.
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
                "open_at": _may_open_at(now),
            }
            if name in groups:
                group, first = groups[name], firsts.get(name, FIRST_PRIORITY)
                marked |= {
                    "group": {"$literal": group},
                    "served": {"$max": [{"$ifNull": ["$served", 0]}, least[group]]},
                    "first": {"$cond": ["$line", {"$min": ["$first", first]}, first]},
                }
            marks.append(UpdateOne({"_id": name}, [{"$set": marked}], upsert=True))
        with self._connection.deadline():
            await self._connection.gates.bulk_write(marks, ordered=False)

    async def _least_served(self, group: str) -> int:
        """How often the line was served that was served least; one seek for each priority."""
        lines = {"group": group, "line": True, "first": {"$in": PRIORITIES}}
        with self._connection.deadline():
            first = await self._connection.gates.find_one(lines, {"served": 1}, sort=[("served", 1)], hint=IN_TURN)
        return 0 if first is None else int(first.get("served", 0))

    async def groups(self) -> list[str]:
        """The queues in which keys take turns, and have jobs."""
        with self._connection.deadline():
            return list(await self._connection.gates.distinct("group", {"group": {"$gt": ""}, "line": True}))

    async def turns(self, group: str, lines: int, each: int, fields: Mapping[str, int]) -> list[Line]:
        """The lines of a group that are next: the most urgent, and of those the least served; with their first jobs.

        One statement, whatever the number of lines: asked for one by one they would cost ten times as much.
        """
        now = self._connection.clock.expression()
        due = {"state": PENDING, "queue": group, "$expr": {"$lte": ["$run_at", now]}}
        heads = [{"$match": due}, {"$sort": dict(ORDER)}, {"$limit": each}, {"$project": dict(fields)}]
        jobs = {"from": self._connection.jobs.name, "localField": "_id", "foreignField": "line"}
        with self._connection.deadline():
            cursor = await self._connection.gates.aggregate(
                [
                    {"$match": {"group": group, "line": True}},
                    {"$sort": {"first": 1, "served": 1}},
                    {"$limit": lines},
                    {"$project": {"served": 1, "rev": 1, "first": 1}},
                    {"$lookup": {**jobs, "pipeline": heads, "as": "jobs"}},
                ],
                hint=IN_TURN,
            )
            found = await cursor.to_list(lines)
        read = [Line(one["_id"], int(one.get("served", 0)), one.get("rev", 0), one["jobs"]) for one in found]
        await self._correct(found)
        return read

    async def _correct(self, found: Sequence[Document]) -> None:
        """Note how urgent the first jobs of lines are, where that is not known; what was put there since is kept."""
        corrections = [
            UpdateOne({"_id": line["_id"], "rev": line["rev"]}, {"$set": {"first": line["jobs"][0]["priority"]}})
            for line in found
            if line["jobs"] and line["jobs"][0]["priority"] != line.get("first")
        ]
        if corrections:
            with self._connection.deadline():
                await self._connection.gates.bulk_write(corrections, ordered=False)

    async def served(self, numbers: Mapping[str, int]) -> None:
        """Count how many jobs of lines were taken."""
        statements = [UpdateOne({"_id": name}, {"$inc": {"served": number}}) for name, number in numbers.items()]
        with self._connection.deadline():
            await self._connection.gates.bulk_write(statements, ordered=False)

    async def first_of(self, turns: Iterable[Turn]) -> dict[str, DocumentId]:
        """The first job of each sequence that has not come to its end. One that runs is first, whenever it was made:
        the commit of a transaction may bring one that was made before it."""
        found = await asyncio.gather(*map(self._first_of, turns))
        return {sequence: job for sequence, job in found if job is not None}

    async def _first_of(self, turn: Turn) -> tuple[str, DocumentId | None]:
        states = [*LIVE, FAILED] if turn.blocks else list(LIVE)
        running = {"seq": turn.sequence, "state": RUNNING}
        with self._connection.deadline():
            first = await self._connection.jobs.find_one(running, {"_id": 1}, hint=GOING)
            if first is None:
                first = await self._connection.jobs.find_one(
                    {"seq": turn.sequence, "state": {"$in": states}}, {"_id": 1}, sort=_MADE, hint=SEQ
                )
        return turn.sequence, None if first is None else first["_id"]

    async def running_in(self, sequences: Iterable[str]) -> Counter[str]:
        """How many jobs of each of these sequences are running."""
        running = {"seq": {"$in": list(sequences)}, "state": RUNNING}
        with self._connection.deadline():
            found = await self._connection.jobs.find(running, {"seq": 1}, hint=GOING).to_list(None)
        return Counter(document["seq"] for document in found)

    async def join_sequences(self, jobs: Mapping[str, Sequence[DocumentId]]) -> None:
        """Let jobs that were scheduled by somebody who did not know of it belong to their sequences."""
        statements = [
            UpdateMany(
                {"_id": {"$in": list(ids)}, "ready": True}, [{"$set": {**BUMP, "seq": {"$literal": name}}}], hint=BY_ID
            )
            for name, ids in jobs.items()
        ]
        with self._connection.deadline():
            await self._connection.jobs.bulk_write(statements, ordered=False)

    async def with_lines(self, names: Iterable[str]) -> set[str]:
        """Those of these gates that jobs wait for."""
        wanted = list(set(names))
        with self._connection.deadline():
            cursor = self._connection.gates.find({"_id": {"$in": wanted}, "line": True}, {"_id": 1}, hint=BY_ID)
            return {document["_id"] for document in await cursor.to_list(len(wanted))}

    async def mend(self, limit: int = 1000) -> int:
        """Mark the lines that jobs wait in and nobody knows of, and let everybody look into those of sequences."""
        with self._connection.deadline():
            lines = await self._connection.jobs.distinct("line", {"line": {"$gt": ""}})
        known = await self.with_lines(lines) if lines else set()
        lost = [line for line in lines if line not in known][:limit]
        if lost:
            await self.mark(lost, {line: await self._queue_of(line) for line in lost if line.startswith(f"{FAIR}:")})
        await self.open(f"{SEQUENCE}:")
        for line in lost:
            await self.open(line)
        return len(lost)

    async def _queue_of(self, line: str) -> str:
        with self._connection.deadline():
            job = await self._connection.jobs.find_one({"line": line}, {"queue": 1}, hint=LINE)
        return "" if job is None else str(job["queue"])

    async def heads(
        self, name: str, queues: Sequence[str] | None, limit: int, fields: Mapping[str, int]
    ) -> list[Document]:
        """The first due jobs in a line, of these queues only."""
        now = self._connection.clock.expression()
        due: Document = {"line": name, "state": PENDING, "$expr": {"$lte": ["$run_at", now]}}
        if queues is not None:
            due["queue"] = {"$in": list(queues)}
        if name.startswith(f"{SEQUENCE}:"):
            return await self._next_of(name.partition(":")[2], due, fields)
        with self._connection.deadline():
            cursor = self._connection.jobs.find(due, fields, sort=ORDER, hint=LINE, limit=limit)
            return await cursor.to_list(limit)

    async def _next_of(self, sequence: str, due: Document, fields: Mapping[str, int]) -> list[Document]:
        """The next job of a sequence, in the order in which they were made."""
        with self._connection.deadline():
            cursor = self._connection.jobs.find({**due, "seq": sequence}, fields, sort=_MADE, hint=SEQ, limit=1)
            return await cursor.to_list(1)

    async def end_lines(self, revs: Mapping[str, int]) -> None:
        """There are no such lines any more, unless jobs are in them, or were put there since their `rev`."""
        with self._connection.deadline():
            taken = set(await self._connection.jobs.distinct("line", {"line": {"$in": list(revs)}}))
            over: Document = {"$unset": {"line": "", "open_at": ""}}
            ends = [UpdateOne({"_id": name, "rev": rev}, over) for name, rev in revs.items() if name not in taken]
            if ends:
                await self._connection.gates.bulk_write(ends, ordered=False)

    async def open_lines(self, limit: int) -> list[str]:
        """The gates that have a line, and room for those in it, as far as anybody knows."""
        now = self._connection.clock.expression()
        with self._connection.deadline():
            cursor = self._connection.gates.find(
                {"open_at": {"$type": "date"}, "$expr": {"$lte": ["$open_at", now]}},
                {"_id": 1},
                sort=[("open_at", 1)],
                hint=OPEN,
                limit=limit,
            )
            return [document["_id"] for document in await cursor.to_list(limit)]

    async def lines(self, prefix: str) -> list[str]:
        """The gates with a line whose names begin like this."""
        with self._connection.deadline():
            cursor = self._connection.gates.find(
                {"_id": {"$gte": prefix, "$lt": prefix + "\uffff"}, "line": True}, {"_id": 1}, hint=BY_ID
            )
            return [document["_id"] for document in await cursor.to_list(None)]

    async def open(self, prefix: str) -> None:
        """Let everybody look whether there is room at these gates: their limit has changed."""
        now = self._connection.clock.expression()
        with self._connection.deadline():
            await self._connection.gates.update_many(
                {"_id": {"$gte": prefix, "$lt": prefix + "\uffff"}, "line": True},
                [{"$set": {"open_at": now}}],
                hint=BY_ID,
            )

    async def shut(self, names: Iterable[str]) -> None:
        """There is nothing to be had at these gates: nobody need look into their lines."""
        with self._connection.deadline():
            await self._connection.gates.update_many(
                {"_id": {"$in": list(names)}}, {"$unset": {"open_at": ""}}, hint=BY_ID
            )

    async def any_lined(self) -> bool:
        """Whether any job waits in a line."""
        with self._connection.deadline():
            return await self._connection.jobs.find_one({"line": {"$gt": ""}}, {"_id": 1}, hint=LINE) is not None

    async def lined(self, prefix: str) -> list[str]:
        """The lines whose names begin like this, by the jobs that are in them."""
        with self._connection.deadline():
            found = await self._connection.jobs.distinct("line", {"line": {"$gte": prefix, "$lt": prefix + "\uffff"}})
        return [name for name in found if isinstance(name, str)]

    async def lined_as(self, forms: Iterable[str]) -> list[str]:
        """The lines with these names, and for a name that ends with =, all that begin so; by the jobs in them."""
        keyed = {form for form in forms if form.endswith("=")}
        found = [line for form in keyed for line in await self.lined(form)]
        exact = [form for form in forms if form not in keyed]
        if exact:
            with self._connection.deadline():
                found += await self._connection.jobs.distinct("line", {"line": {"$in": exact}})
        return found

    async def head_of(self, name: str) -> Document | None:
        """The first job in a line, due or not: what tells which gates it has."""
        with self._connection.deadline():
            return await self._connection.jobs.find_one(
                {"line": name}, {"name": 1, "queue": 1, "data": 1, "seq": 1}, sort=ORDER, hint=LINE
            )

    async def ready_like(self, queue: str, where: Mapping[str, Any], limit: int) -> list[DocumentId]:
        """The first due jobs of a queue that are not in line and have this in common."""
        now = self._connection.clock.expression()
        due = {"ready": True, "queue": queue, "$expr": {"$lte": ["$run_at", now]}}
        with self._connection.deadline():
            cursor = self._connection.jobs.find({**where, **due}, {"_id": 1}, sort=ORDER, hint=CLAIM, limit=limit)
            return [document["_id"] for document in await cursor.to_list(limit)]

    async def dissolve(self, name: str) -> int:
        """Let everybody in a line go back to the claim's index: its limit is gone."""
        with self._connection.deadline():
            gate = await self._connection.gates.find_one({"_id": name}, {"rev": 1})
        ready = {"$cond": [{"$eq": ["$state", PENDING]}, True, "$$REMOVE"]}
        number = await self._leave(name, {}, {"line": "$$REMOVE", "held": "$$REMOVE", "ready": ready})
        if gate is not None:
            await self.end_lines({name: gate.get("rev", 0)})
        return number

    async def change_line(self, old: str, new: str, note: str, where: Mapping[str, Any]) -> int:
        """Let those in a line who have this in common wait in another one."""
        now = self._connection.clock.expression()
        number = await self._leave(old, where, {"line": {"$literal": new}, "held": _held(note, now)})
        if number:
            await self.mark([new])
        return number

    async def _leave(self, line: str, where: Mapping[str, Any], fields: Mapping[str, Any]) -> int:
        """Change the jobs in a line that match, some at a time: there may be very many of them."""
        number = 0
        found: list[DocumentId] | None = None
        while found is None or len(found) == _AT_ONCE:
            with self._connection.deadline():
                cursor = self._connection.jobs.find({"line": line, **where}, {"_id": 1}, hint=LINE, limit=_AT_ONCE)
                found = [document["_id"] for document in await cursor.to_list(_AT_ONCE)]
                if found:
                    outcome = await self._connection.jobs.update_many(
                        {"_id": {"$in": found}, "line": line}, [{"$set": {**BUMP, **fields}}], hint=BY_ID
                    )
                    number += outcome.modified_count
        return number


def _held(note: str, now: Any) -> Document:
    return {"by": BY_LIMIT, "note": {"$literal": note}, "since": now}


def _may_open_at(now: Any) -> Document:
    """From when on there may be room at a gate that jobs begin to wait at: what became free before anybody waited has
    woken nobody. The clock knows it of a rate, the grants of a limit; anything else tells by itself."""
    room = {"$lt": [{"$sum": "$grants.n"}, "$limit"]}
    known = {"$cond": [{"$and": [{"$gt": ["$limit", 0]}, room]}, now, "$$REMOVE"]}
    return {"$ifNull": ["$open_at", {"$ifNull": ["$opens", known]}]}


def _lining_up(places: Sequence[tuple[DocumentId, str]], notes: Mapping[str, str], now: Any) -> UpdateMany:
    """One statement for jobs that come into different lines: each looks its own up by its id."""
    ids, names = [job_id for job_id, _ in places], [name for _, name in places]
    line: Any = {"$literal": names[0]}
    held = _held(notes[names[0]], now)
    if len(set(names)) > 1:
        place = {"$indexOfArray": [{"$literal": ids}, "$_id"]}
        line = {"$arrayElemAt": [{"$literal": names}, place]}
        held["note"] = {"$arrayElemAt": [{"$literal": [notes[name] for name in names]}, place]}
    return UpdateMany(
        {"_id": {"$in": ids}, "ready": True},
        [{"$set": {**BUMP, "ready": "$$REMOVE", "line": line, "held": held}}],
        hint=BY_ID,
    )


def line_note(gate: Gate) -> str:
    """Why a job waits in this line, in words."""
    if isinstance(gate.rule, Shut):
        return gate.rule.note
    if isinstance(gate.rule, Turn):
        return f"It is not its turn in the sequence {gate.rule.sequence}."
    if isinstance(gate.rule, Fair):
        return f"The keys of the queue {gate.rule.group} take turns."
    if isinstance(gate.rule, Probe):
        return f"The breaker of {gate.name[2:]} is half open: one job at a time is let through as a probe."
    if isinstance(gate.rule, Limit):
        return f"{gate.rule.limit} jobs at once are allowed by {gate.name[2:]}, and as many are running."
    return f"{gate.rule.count} starts in {gate.rule.per:g} s are allowed by {gate.name[2:]}, and they are used up."
