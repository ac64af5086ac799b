"""Checking waits: which blocked jobs start, or end, since their predecessors have ended.

A check may be made by any process, at any time, any number of times: once true, the condition stays true, and the write
compares `rev`. It reads the waiting jobs, their live predecessors and those that ended badly as of one moment, in a
snapshot of the majority: a predecessor that is retried between separate reads would be neither live nor failed, and on
a deposed primary children could be missed that exist when the seal is read. A retry raises `rev` afterwards, so that a
check misses that has read the state before it. Completed predecessors are not in the index `before`, so that a look for
a live one reads one key.

The sweep repeats checks that a process which died may have left out: at the instants of `looks.py`, and those of long
waits once a minute, without a write.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Collection as Several
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from pymongo import UpdateMany
from pymongo.asynchronous.client_session import AsyncClientSession

from mainspring.errors import ClaimLost, Unavailable
from mainspring.model.flows.decide import SKIPPED, BadEnd, Decision, Ends, Move, decide
from mainspring.model.flows.ids import waiter_of
from mainspring.model.flows.waits import DONE, SMALL, Predecessors, Waits, read_waits
from mainspring.model.jobs.job import BLOCKED, CANCELLED, PENDING, RUNNING
from mainspring.store.codec import DocumentId, document_id
from mainspring.store.connection import Connection, Document
from mainspring.store.flows.looks import MINUTE, later_look
from mainspring.store.flows.tree import Trees
from mainspring.store.flows.waiters import held_back_by
from mainspring.store.jobs.end_fields import start_by_of
from mainspring.store.refusals import Refused, brief, change_jobs, split_refused
from mainspring.store.schema import (
    BADLY_ENDED,
    BEFORE,
    BEFORE_BADLY,
    BUMP,
    BY_ID,
    CHECK,
    NOT_ENDED,
    SIGNALS,
    Expression,
)

logger = logging.getLogger("mainspring")

_NEEDED = {"waits": 1, "rev": 1, "before": 1, "queue": 1}
_BAD = {"before": 1, "state": 1, "error.type": 1, "because": 1}
_SWEPT = {**_NEEDED, "state": 1, "flow": 1, "cancel_tree": 1, "retry_tree": 1}
_MANY = 400
SWEPT_AT_ONCE = 10_000
"""How many waiting jobs a sweep looks at in one pass."""
_MOST_READ = 64_000
"""The most predecessors that small waits of one statement may have together."""
FAST = "Too many of the other children failed."


@dataclass(slots=True)
class Checked:
    """The outcome of a check."""

    started: int = 0
    """How many jobs may run now."""
    queues: set[str] = field(default_factory=set)
    """The queues of these."""
    ended: list[DocumentId] = field(default_factory=list)
    """The jobs that were cancelled or skipped."""
    again: set[str] = field(default_factory=set)
    """The waits to be checked next: those that the ended jobs held back, and those whose job has changed meanwhile."""
    absent: set[str] = field(default_factory=set)
    """The waits by which no job waits: it is not blocked any more, or not sealed yet."""
    far: set[str] = field(default_factory=set)
    """The waits with so many live predecessors that another check in the next moment would be in vain."""
    marked: list[Document] = field(default_factory=list)
    """Of a sweep: the jobs with a cancellation, or a retry, of the jobs below them that is to be carried on."""


@dataclass(slots=True)
class _Waiter:
    document: Document
    waits: Waits
    signalled: bool = False


class Checks:
    """The store's verbs for jobs that wait."""

    def __init__(self, connection: Connection, trees: Trees) -> None:
        self._connection = connection
        self._trees = trees
        self._refused = Refused[DocumentId]()

    async def check(self, wait_ids: Several[str]) -> Checked:
        """Start, or end, the blocked jobs among those that have these waits, as far as it is decided."""
        wanted = set(wait_ids)
        waiters = {document_id(waiter_of(one)) for one in wanted}
        sealed = {"_id": {"$in": list(waiters)}, "state": BLOCKED, "waits.sealed": True}
        async with self._connection.snapshot() as session:
            found = await self._connection.jobs.find_all(sealed, _NEEDED, hint=BY_ID, snapshot=session)
            waiting = [one for one in _waiters(found) if not wanted.isdisjoint(one.waits.ids)]
            checked = await self._decide(waiting, session)
        checked.absent = wanted.difference(*(one.waits.ids for one in waiting))
        return checked

    async def sweep(self, limit: int = SWEPT_AT_ONCE) -> tuple[Checked, int]:
        """Check the jobs whose time for another look has come; returns how many there were, too. A batch whose maker
        has died while it stored the items is sealed as it is."""
        now = self._connection.clock.expression()
        due = {"check_at": {"$exists": True}, "$expr": {"$lte": ["$check_at", now]}, **self._refused.filter}
        async with self._connection.snapshot() as session:
            found = await self._connection.jobs.find_all(
                due, _SWEPT, sort=[("check_at", 1)], hint=CHECK, limit=limit, snapshot=session
            )
            if not found:
                return Checked(), 0
            await self._look_later([document["_id"] for document in found])
            blocked = [one for one in found if one.get("state") == BLOCKED]
            unsealed = [one["_id"] for one in blocked if _is_unsealed(one.get("waits"))]
            if unsealed:
                await self._seal_aborted(unsealed)
            waiters = [one for one in _waiters(blocked) if one.waits.sealed]
            await self._hear(waiters)
            checked = await self._decide(waiters, session)
            checked.marked = [one for one in found if _is_marked(one)]
        return checked, len(found)

    async def long_waiting(self, size: int = SWEPT_AT_ONCE) -> AsyncGenerator[list[DocumentId]]:
        """The jobs that the sweep looks at later than in a minute, in batches."""
        later = self._connection.clock.now() + timedelta(seconds=MINUTE)
        due = {"check_at": {"$gt": later}}
        async for found in self._connection.jobs.find_batches(due, size, {"_id": 1}, hint=CHECK):
            yield [document["_id"] for document in found]

    async def check_jobs(self, ids: Sequence[DocumentId]) -> Checked:
        """Start, or end, the blocked jobs among these, as far as it is decided."""
        sealed = {"_id": {"$in": list(ids)}, "state": BLOCKED, "waits.sealed": True}
        async with self._connection.snapshot() as session:
            found = await self._connection.jobs.find_all(sealed, _NEEDED, hint=BY_ID, limit=len(ids), snapshot=session)
            waiters = _waiters(found)
            await self._hear(waiters)
            return await self._decide(waiters, session)

    async def signalled(self, waits: Mapping[str, Several[str]]) -> set[str]:
        """The jobs among these for which a signal that they wait for is stored; each with the names of its signals."""
        names = sorted({name for wanted in waits.values() for name in wanted})
        if not names:
            return set()
        found = await self._connection.signals.find_all(
            {"job": {"$in": list(waits)}, "name": {"$in": names}, "taken": {"$ne": True}},
            {"job": 1, "name": 1},
            hint=SIGNALS,
        )
        return {one["job"] for one in found if one["name"] in waits[one["job"]]}

    async def next_look(self) -> Any:
        """When the sweep has something to look at; None if no job waits."""
        found = await self._connection.jobs.find_one(
            {"check_at": {"$exists": True}}, {"check_at": 1}, sort=[("check_at", 1)], hint=CHECK
        )
        return None if found is None else found["check_at"]

    async def ends(self, job_id: DocumentId, token: int, on: Sequence[Predecessors]) -> dict[str, Ends]:
        """The ends of the predecessors of a running handler's waits. Its job is read as of the same moment: the moment
        must not be older than the claim, which came after the waits were sealed, and the claim must hold."""
        async with self._connection.snapshot() as session:
            found = await self._connection.jobs.find_all(
                {"_id": job_id}, {"state": 1, "token": 1}, hint=BY_ID, snapshot=session
            )
            read = found[0].get("token", 0) if found else token + 1
            if read < token or (read == token and found[0].get("state") == PENDING):
                raise Unavailable("MongoDB answered with an older state of the job than its claim; try again.")
            if read > token or found[0].get("state") != RUNNING:
                raise ClaimLost(f"Job {job_id} is not held by this worker any more; it reads no children.")
            return await self._ends(list(on), {one.id for one in on}, session)

    async def held_back_by(self, ids: Sequence[DocumentId]) -> set[str]:
        """The waits that these jobs hold back, or did while they were live."""
        return {one for waits in (await held_back_by(self._connection, ids)).values() for one in waits}

    # -- deciding --------------------------------------------------------------------------------------------------

    async def _hear(self, waiters: list[_Waiter]) -> None:
        """Note which of these jobs have a signal that they wait for: its sender may have died before it looked."""
        by_id = {str(one.document["_id"]): one for one in waiters if one.waits.signals}
        for job in await self.signalled({job: one.waits.signals for job, one in by_id.items()}):
            by_id[job].signalled = True

    async def _decide(self, waiters: list[_Waiter], session: AsyncClientSession | None) -> Checked:
        checked = Checked()
        if not waiters:
            return checked
        await self._confirm_deleted(waiters, session)
        on = [one for waiter in waiters for one in waiter.waits.on]
        judged = {one.id for waiter in waiters if waiter.waits.when not in (None, DONE) for one in waiter.waits.on} | {
            one.id for one in on if one.fail_fast
        }
        ends = await self._ends(on, judged, session)
        checked.far = {wait for wait, one in ends.items() if one.many}
        now = self._connection.clock.now()
        groups: dict[tuple[int, Decision], list[_Waiter]] = defaultdict(list)
        for waiter in waiters:
            decision = decide(waiter.waits, ends, now, waiter.signalled)
            if decision.move is not Move.WAIT:
                await self._hurry(decision, ends, checked)
                groups[waiter.document.get("rev", 0), decision].append(waiter)
        if groups:
            await self._write(groups, checked)
        return checked

    async def _confirm_deleted(self, waiters: list[_Waiter], session: AsyncClientSession | None) -> None:
        """Leave out the predecessors that were to be deleted by hand and exist: their deletion was refused, or the
        process that asked for it has died."""
        noted = [document_id(job) for waiter in waiters for _, job in waiter.waits.deleted]
        if noted:
            found = await self._connection.jobs.find_all(
                {"_id": {"$in": noted}}, {"_id": 1}, hint=BY_ID, snapshot=session
            )
            there = {str(document["_id"]) for document in found}
            for waiter in waiters:
                gone = tuple(one for one in waiter.waits.deleted if one[1] not in there)
                waiter.waits = replace(waiter.waits, deleted=gone)

    async def _hurry(self, decision: Decision, ends: Mapping[str, Ends], checked: Checked) -> None:
        """Cancel the live predecessors of a wait that is over since too many have failed: before the waiting job is
        started, so that a death in between leaves none of them running."""
        for wait in decision.fail_fast:
            first = ends[wait].first_failed
            tree = await self._trees.cancel_predecessors(wait, FAST, None if first is None else first.cause)
            checked.again |= tree.waits - {wait}
            checked.ended += tree.ended

    async def _ends(
        self, on: Sequence[Predecessors], judged: Several[str], session: AsyncClientSession | None
    ) -> dict[str, Ends]:
        """The ends of the predecessors of these waits; bad ends only of those that are `judged` by them."""
        small = [one for one in on if one.total <= SMALL]
        large = [one for one in on if one.total > SMALL]
        live = await self._live(small, large, session)
        many = {wait for wait, is_many in live.items() if is_many}
        read = [one for one in on if one.id in judged and (one.id not in live or one.fail_fast)]
        bad = await self._bad([one for one in read if one.total <= SMALL], session)
        for one in read:
            if one.total > SMALL:
                bad[one.id] = await self._bad_of(one, session)
        return {one.id: replace(_ends_of(one.id in live, bad.get(one.id, ())), many=one.id in many) for one in on}

    async def _live(
        self, small: list[Predecessors], large: list[Predecessors], session: AsyncClientSession | None
    ) -> dict[str, bool]:
        """The waits that have a live predecessor, and whether they have many."""
        jobs, live = self._connection.jobs, {"$in": list(NOT_ENDED)}
        held: dict[str, bool] = {}
        for portion in _portions(small):
            wanted = [one.id for one in portion]
            most = SMALL * len(portion)
            found = await jobs.find_all(
                {"before": {"$in": wanted}, "state": live},
                {"_id": 0, "before": 1},
                hint=BEFORE,
                limit=most,
                snapshot=session,
            )
            held |= dict.fromkeys({one for document in found for one in document["before"]} & set(wanted), False)
            if len(found) == most:  # some have grown
                large = [*large, *(one for one in portion if one.id not in held)]
        for one in large:
            for skip in (_MANY, 0):
                found = await jobs.find_all(
                    {"before": one.id, "state": live}, {"_id": 1}, hint=BEFORE, skip=skip, limit=1, snapshot=session
                )
                if found:
                    held[one.id] = skip > 0
                    break
        return held

    async def _bad(self, small: list[Predecessors], session: AsyncClientSession | None) -> dict[str, list[Document]]:
        bad: dict[str, list[Document]] = defaultdict(list)
        for portion in _portions(small):
            found = await self._connection.jobs.find_all(
                {"before": {"$in": [one.id for one in portion]}, "state": {"$in": list(BADLY_ENDED)}},
                _BAD,
                hint=BEFORE_BADLY,
                snapshot=session,
            )
            for document in found:
                for one in document["before"]:
                    bad[one].append(document)
        return bad

    async def _bad_of(self, one: Predecessors, session: AsyncClientSession | None) -> list[Document]:
        """The bad ends of a large wait, as far as they decide: one more than are tolerated, and where there are fewer,
        a skipped one. Skipped ones are read apart, since they may come first and are no failures."""
        failed = await self._some_bad(one, {"$ne": SKIPPED}, one.tolerate + 1, session)
        if len(failed) > one.tolerate:
            return failed
        return failed + await self._some_bad(one, SKIPPED, 1, session)

    async def _some_bad(
        self, one: Predecessors, error: Any, limit: int, session: AsyncClientSession | None
    ) -> list[Document]:
        return await self._connection.jobs.find_all(
            {"before": one.id, "state": {"$in": list(BADLY_ENDED)}, "error.type": error},
            _BAD,
            hint=BEFORE_BADLY,
            limit=limit,
            snapshot=session,
        )

    # -- writing ---------------------------------------------------------------------------------------------------

    async def _write(self, groups: Mapping[tuple[int, Decision], list[_Waiter]], checked: Checked) -> None:
        moves = [(rev, decision, waiter) for (rev, decision), group in groups.items() for waiter in group]
        matched = 0

        async def write(some: Sequence[tuple[int, Decision, _Waiter]]) -> None:
            nonlocal matched
            matched += (await self._connection.jobs.bulk_write(self._statements(some))).matched_count

        refused = {waiter.document["_id"]: error for (_, _, waiter), error in await split_refused(moves, write)}
        for job_id, error in refused.items():
            self._pass_over(job_id, error)
        made = [(decision, waiter) for _, decision, waiter in moves if waiter.document["_id"] not in refused]
        for decision, waiter in made:
            if decision.move is Move.START:
                checked.started += 1
                checked.queues |= {queue} if isinstance(queue := waiter.document.get("queue"), str) else set()
            else:
                checked.ended.append(waiter.document["_id"])
                checked.again |= set(waiter.document.get("before") or ())
        if matched < len(made):
            checked.again |= {one for _, waiter in made for one in waiter.waits.ids}

    def _statements(self, moves: Iterable[tuple[int, Decision, _Waiter]]) -> list[UpdateMany]:
        """One statement for all waiting jobs that have the same `rev` and the same decision."""
        now, mirror = self._connection.clock.expression(), self._connection.mirror
        alike: dict[tuple[int, Decision], list[DocumentId]] = defaultdict(list)
        for rev, decision, waiter in moves:
            alike[rev, decision].append(waiter.document["_id"])
        statements = []
        for (rev, decision), ids in alike.items():
            as_read = {"_id": {"$in": ids}, "state": BLOCKED, "rev": rev, "waits.sealed": True}
            stages = start_stages(now) if decision.move is Move.START else _end_stages(decision, now)
            statements.append(UpdateMany(*mirror.update(as_read, stages), hint=BY_ID))
        return statements

    def _pass_over(self, job_id: DocumentId, error: Exception) -> None:
        """Leave out a waiting job that the server refuses to change, for a while: it must not hold up the others."""
        logger.error("Job %s waits and cannot be changed: %s", job_id, brief(error), extra={"job_id": str(job_id)})
        self._refused.add(job_id, error)

    async def _look_later(self, ids: list[DocumentId]) -> None:
        """Move the next look of the sweep on, but not beyond the end of the wait."""
        now = self._connection.clock.expression()
        ahead = {"$cond": [{"$gt": ["$waits.until", now]}, "$waits.until", None]}  # $min ignores null
        await self._change(ids, {"check_at": {"$exists": True}}, {"check_at": {"$min": [later_look(now), ahead]}})

    async def _seal_aborted(self, ids: list[DocumentId]) -> None:
        # A node of a declared flow has a `when`: it is sealed by the one that lays it out or retries it.
        batches = {"waits.sealed": {"$ne": True}, "waits.when": {"$exists": False}}
        sealed = {"waits.sealed": True, "waits.aborted": True, "check_at": self._connection.clock.expression()}
        await self._change(ids, {"state": BLOCKED, **batches}, sealed)

    async def _change(self, ids: list[DocumentId], where: Document, fields: Document) -> None:
        jobs = self._connection.jobs
        stages = [{"$set": fields}]
        _, refused = await change_jobs(
            jobs, ids, lambda some: ({**some, **where}, stages), "waits and cannot be changed"
        )
        self._refused.add_all(refused)


def start_stages(now: Expression) -> list[Document]:
    """The update that starts a blocked job. One whose handler has run before is not bound by the time to start it."""
    start_by = {"$cond": [{"$gt": ["$token", 0]}, "$$REMOVE", start_by_of(now)]}
    fields = {"state": PENDING, "ready": True, "run_at": now, "check_at": "$$REMOVE", "start_by": start_by}
    return [{"$set": {**BUMP, **fields}}]


def _end_stages(decision: Decision, now: Expression) -> list[Document]:
    kind = SKIPPED if decision.move is Move.SKIP else "Cancelled"
    error = {"type": kind, "message": decision.message}
    fields: Document = {"state": CANCELLED, "finished_at": now, "check_at": "$$REMOVE"}
    fields["error"] = {"$literal": error}
    if decision.because is not None:
        fields["because"] = {"$literal": decision.because}
    return [{"$set": {**BUMP, **fields}}]


def _waiters(found: Iterable[Document]) -> list[_Waiter]:
    read = ((document, read_waits(document.get("waits"))) for document in found)
    return [_Waiter(document, waits) for document, waits in read if waits is not None]


def _portions(small: Sequence[Predecessors]) -> Iterator[list[Predecessors]]:
    """Small waits in portions that have a bounded number of predecessors: thousands of waits for one job each."""
    portion: list[Predecessors] = []
    read = 0
    for one in small:
        read += max(1, one.total)
        if portion and read > _MOST_READ:
            yield portion
            portion, read = [], max(1, one.total)
        portion.append(one)
    if portion:
        yield portion


def _is_unsealed(waits: Any) -> bool:
    """Whether predecessors may be stored yet; another program may have written something else there."""
    return waits is None or (isinstance(waits, Mapping) and waits.get("sealed") is not True)


def _is_marked(document: Document) -> bool:
    return document.get("cancel_tree") is not None or document.get("retry_tree") is not None


def _ends_of(live: bool, bad: Sequence[Document]) -> Ends:
    ends = [_bad_end(document) for document in bad]
    failed = [one for one in ends if not one.skipped]
    skipped = [one for one in ends if one.skipped]
    return Ends(live, len(failed), failed[0] if failed else None, skipped[0] if skipped else None)


def _bad_end(document: Document) -> BadEnd:
    error, because = document.get("error"), document.get("because")
    skipped = isinstance(error, Mapping) and error.get("type") == SKIPPED
    return BadEnd(str(document["_id"]), document["state"], skipped, because if isinstance(because, str) else None)
