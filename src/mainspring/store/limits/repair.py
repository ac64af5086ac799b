"""Repairing wait lists after a crash, and opening sequences whose next job is due.

The chores `repair_wait_lists` and `dissolve_wait_lists` walk along the wait lists with these verbs, a bounded part at a
time, whatever limits their process declares. Keeps true: no answer grows with the number of lists, or with the length
of one.
"""

from __future__ import annotations

from collections.abc import Sequence

from pymongo import UpdateOne

from mainspring.model.jobs.job import BLOCKED, FAILED, PENDING
from mainspring.model.limits.limits import FAIR, SEQUENCE
from mainspring.store.connection import Connection, Document
from mainspring.store.limits.wait_lists import BY_LIMIT, MADE, WaitLists, behind
from mainspring.store.schema import BY_ID, LINE, LIVE, Expression

_ENTRIES, _READS = 500, 50
# A sequence is opened once for each job that is first in it, and again when that job is still first after a minute:
# the cause of its wait may have changed, such as the handler's code.
_AGAIN_MS = 60_000
_WAITS = {"$and": [{"$eq": ["$first.state", PENDING]}, {"$eq": ["$first.line", "$_id"]}, {"$eq": ["$first.due", True]}]}
_HAS_FAILED = {"$eq": ["$first.state", FAILED]}


class WaitListRepair:
    """The store's verbs for walking along the wait lists."""

    def __init__(self, connection: Connection, wait_lists: WaitLists) -> None:
        self._connection = connection
        self._wait_lists = wait_lists
        self.found = True
        """Whether there were any wait lists when the last walk began; True before the first walk."""

    async def next(self, after: str) -> str | None:
        """The first wait list behind a name, by the jobs on it."""
        job = await self._connection.jobs.find_one(
            {"line": {"$gt": after}}, {"_id": 0, "line": 1}, sort=[("line", 1)], hint=LINE
        )
        return None if job is None else str(job["line"])

    async def names(self, after: str, before: str | None = None) -> list[str]:
        """The next wait lists behind a name, and before another, by the jobs on them; none at the end.

        Each read returns some jobs, and begins behind the last list of the read before: many short lists cost a few
        reads, and a long one costs a single read.
        """
        names: list[str] = []
        for _ in range(_READS):
            between = {"$gt": after} if before is None else {"$gt": after, "$lt": before}
            found = await self._connection.jobs.find_all(
                {"line": between}, {"_id": 0, "line": 1}, sort=[("line", 1)], hint=LINE, limit=_ENTRIES
            )
            names += dict.fromkeys(document["line"] for document in found)
            if len(found) < _ENTRIES or len(names) >= _ENTRIES:
                break
            after = names[-1]
        return names

    async def of_form(self, form: str) -> list[str]:
        """The wait list with this name; for a name that ends with =, the first lists with that prefix."""
        if form.endswith("="):
            return await self.names(form, behind(form))
        return [] if await self._wait_lists.head_of(form) is None else [form]

    async def waiting_names(self) -> list[str]:
        """The names of the jobs on wait lists. One seek in the index per name."""
        names = await self._connection.jobs.distinct("name", {"waiting_for.by": BY_LIMIT})
        return [name for name in names if isinstance(name, str)]

    async def repair_next(self, after: str = "") -> str | None:
        """Mark the gates of the next wait lists where the mark is missing, and open sequences whose next job is due.
        Returns the last list that was read, behind which to go on; None at the end."""
        names = await self.names(after)
        if not after:
            self.found = bool(names)
        if not names:
            return None
        known = await self._wait_lists.with_wait_lists(names)
        await self._mark([name for name in names if name not in known])
        await self._open_sequences([name for name in names if name.startswith(f"{SEQUENCE}:")])
        return names[-1]

    async def _mark(self, lost: Sequence[str]) -> None:
        """Mark wait lists, and let workers read them; lists of keys in round robin are read by their group."""
        if not lost:
            return
        in_turns = [name for name in lost if name.startswith(f"{FAIR}:")]
        await self._wait_lists.mark(lost, {name: await self._queue_of(name) for name in in_turns})
        await self._wait_lists.open([name for name in lost if name not in in_turns])

    async def _queue_of(self, line: str) -> str:
        job = await self._connection.jobs.find_one({"line": line}, {"queue": 1}, hint=LINE)
        return "" if job is None else str(job["queue"])

    async def _open_sequences(self, names: Sequence[str]) -> None:
        """Let workers read the sequences whose first job is on the wait list, or has failed: whether a failed job
        blocks the others is declared by its handler."""
        if not names:
            return
        now = self._connection.clock.expression()
        stages = self._sequences_to_open(names, now)
        with self._connection.deadline():
            opened = [
                UpdateOne(
                    {"_id": one["_id"], "line": True},
                    [{"$set": {"open_at": now, "opened_for": {"$literal": one["first"]["_id"]}}}],
                )
                for one in await self._connection.gates.aggregate(stages, hint=BY_ID)
            ]
            if opened:
                await self._connection.gates.bulk_write(opened)

    def _sequences_to_open(self, names: Sequence[str], now: Expression) -> list[Document]:
        first: list[Document] = [
            {"$match": {"state": {"$in": [*LIVE, BLOCKED, FAILED]}}},
            {"$sort": dict(MADE)},
            {"$limit": 1},
            {"$project": {"state": 1, "line": 1, "due": {"$lte": ["$run_at", now]}}},
        ]
        jobs = {"from": self._connection.jobs.name, "localField": "sequence", "foreignField": "seq"}
        sequence = {"$substrBytes": ["$_id", len(f"{SEQUENCE}:"), -1]}
        another = {"$ne": ["$opened_for", "$first._id"]}
        long_ago = {"$lt": ["$open_at", {"$subtract": [now, _AGAIN_MS]}]}
        return [
            {"$match": {"_id": {"$in": list(names)}, "line": True}},
            {"$project": {"sequence": sequence, "opened_for": 1, "open_at": 1}},
            {"$lookup": {**jobs, "pipeline": first, "as": "first"}},
            {"$set": {"first": {"$first": "$first"}}},
            {"$match": {"$expr": {"$and": [{"$or": [_WAITS, _HAS_FAILED]}, {"$or": [another, long_ago]}]}}},
            {"$project": {"first._id": 1}},
        ]
