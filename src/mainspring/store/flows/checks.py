"""Checking waits: which blocked jobs start, or end, since their predecessors have ended.

A check may be made by any process, at any time, any number of times: once true, the condition stays true, and the write
compares `rev`. It reads the waiting jobs first and their predecessors after that, in one causally consistent session
with majority reads: in the other order, or on a deposed primary, children could be missed that exist when the seal is
read. Completed predecessors are not in the index `before`, so that a look for a live one reads one key.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection as Several
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pymongo import UpdateMany
from pymongo.asynchronous.client_session import AsyncClientSession

from mainspring.model.flows.decide import SKIPPED, BadEnd, Decision, Ends, Move, decide
from mainspring.model.flows.ids import waiter_of
from mainspring.model.flows.waits import DONE, SMALL, Predecessors, Waits, read_waits
from mainspring.model.jobs.job import BLOCKED, CANCELLED, PENDING
from mainspring.store.codec import DocumentId, document_id
from mainspring.store.connection import Connection, Document
from mainspring.store.jobs.finish import CHECK_FIRST, start_by_of
from mainspring.store.schema import BADLY_ENDED, BEFORE, BUMP, BY_ID, CHECK, NOT_ENDED, SIGNALS

_NEEDED = {"waits": 1, "rev": 1, "before": 1}
_BAD = {"before": 1, "state": 1, "error.type": 1, "because": 1}
_LONGEST_PAUSE = 60.0
_DELETED_KEPT = 1000


@dataclass(slots=True)
class Checked:
    """The outcome of a check."""

    started: int = 0
    """How many jobs may run now."""
    ended: list[DocumentId] = field(default_factory=list)
    """The jobs that were cancelled or skipped."""
    again: set[str] = field(default_factory=set)
    """The waits to be checked next: those that the ended jobs held back, and those whose job has changed meanwhile."""
    fail_fast: set[str] = field(default_factory=set)
    """The waits whose live predecessors are to be cancelled."""


@dataclass(slots=True)
class _Waiter:
    document: Document
    waits: Waits
    signalled: bool = False


class Checks:
    """The store's verbs for jobs that wait."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def check(self, wait_ids: Several[str]) -> Checked:
        """Start, or end, the blocked jobs among those that have these waits, as far as it is decided."""
        wanted = set(wait_ids)
        waiters = {document_id(waiter_of(one)) for one in wanted}
        sealed = {"_id": {"$in": list(waiters)}, "state": BLOCKED, "waits.sealed": True}
        async with self._connection.causal() as session:
            found = await self._connection.majority_jobs.find_all(sealed, _NEEDED, hint=BY_ID, causal=session)
            return await self._decide([one for one in _waiters(found) if not wanted.isdisjoint(one.waits.ids)], session)

    async def sweep(self, limit: int = 1000) -> tuple[Checked, int]:
        """Check the blocked jobs whose time for another look has come; returns how many there were, too. A batch whose
        maker has died while it stored the items is sealed as it is."""
        now = self._connection.clock.expression()
        due = {"state": BLOCKED, "check_at": {"$exists": True}, "$expr": {"$lte": ["$check_at", now]}}
        async with self._connection.causal() as session:
            found = await self._connection.majority_jobs.find_all(
                due, _NEEDED, sort=[("check_at", 1)], hint=CHECK, limit=limit, causal=session
            )
            if not found:
                return Checked(), 0
            await self._look_later([document["_id"] for document in found])
            unsealed = [one["_id"] for one in found if (one.get("waits") or {}).get("sealed") is not True]
            if unsealed:
                await self._seal_aborted(unsealed)
            waiters = [one for one in _waiters(found) if one.waits.sealed]
            await self._hear(waiters)
            checked = await self._decide(waiters, session)
        return checked, len(found)

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
            {"state": BLOCKED, "check_at": {"$exists": True}}, {"check_at": 1}, sort=[("check_at", 1)], hint=CHECK
        )
        return None if found is None else found["check_at"]

    async def ends(self, job_id: DocumentId, on: Sequence[Predecessors]) -> dict[str, Ends]:
        """The ends of the predecessors of a running handler's waits. Its job is read first, so that no read is older
        than its claim, which came after the waits were sealed."""
        async with self._connection.causal() as session:
            jobs = self._connection.majority_jobs
            await jobs.find_all({"_id": job_id}, {"_id": 1}, hint=BY_ID, causal=session)
            return await self._ends(list(on), {one.id for one in on}, session)

    async def held_back_by(self, ids: Sequence[DocumentId]) -> set[str]:
        """The waits that these jobs hold back, or did while they were live."""
        found = await self._connection.jobs.find_all(
            {"_id": {"$in": list(ids)}, "before": {"$exists": True}}, {"before": 1}, hint=BY_ID
        )
        return {one for document in found for one in document["before"]}

    async def note_deleted(self, wait_ids: Iterable[str], job_id: str) -> None:
        """Note that a predecessor was deleted by hand: it counts as failed."""
        for one in wait_ids:
            known = {"$ifNull": ["$waits.deleted", []]}
            added = {"$setUnion": [known, [{"wait": {"$literal": one}, "job": {"$literal": job_id}}]]}
            await self._connection.jobs.update_one(
                {"_id": document_id(waiter_of(one)), "waits.ids": one},
                [{"$set": {"waits.deleted": {"$slice": [added, _DELETED_KEPT]}, **BUMP}}],
                hint=BY_ID,
            )

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
        on = [one for waiter in waiters for one in waiter.waits.on]
        judged = {one.id for waiter in waiters if waiter.waits.when not in (None, DONE) for one in waiter.waits.on} | {
            one.id for one in on if one.fail_fast
        }
        ends = await self._ends(on, judged, session)
        now = self._connection.clock.now()
        groups: dict[tuple[int, Decision], list[_Waiter]] = defaultdict(list)
        for waiter in waiters:
            decision = decide(waiter.waits, ends, now, waiter.signalled)
            if decision.move is not Move.WAIT:
                groups[waiter.document.get("rev", 0), decision].append(waiter)
        if groups:
            await self._write(groups, checked)
        return checked

    async def _ends(
        self, on: Sequence[Predecessors], judged: Several[str], session: AsyncClientSession | None
    ) -> dict[str, Ends]:
        """The ends of the predecessors of these waits; bad ends only of those that are `judged` by them."""
        small = [one for one in on if one.total <= SMALL]
        large = [one for one in on if one.total > SMALL]
        live = await self._live(small, large, session)
        read = [one for one in on if one.id in judged and (one.id not in live or one.fail_fast)]
        bad = await self._bad([one for one in read if one.total <= SMALL], session)
        for one in read:
            if one.total > SMALL:
                bad[one.id] = await self._bad_of(one, session)
        return {one.id: _ends_of(one.id in live, bad.get(one.id, ())) for one in on}

    async def _live(
        self, small: list[Predecessors], large: list[Predecessors], session: AsyncClientSession | None
    ) -> set[str]:
        """The waits that have a live predecessor."""
        jobs, live = self._connection.majority_jobs, {"$in": list(NOT_ENDED)}
        held: set[str] = set()
        if small:
            wanted = [one.id for one in small]
            most = SMALL * len(small)
            found = await jobs.find_all(
                {"before": {"$in": wanted}, "state": live},
                {"_id": 0, "before": 1},
                hint=BEFORE,
                limit=most,
                causal=session,
            )
            held |= {one for document in found for one in document["before"]} & set(wanted)
            if len(found) == most:  # some have grown
                large = [*large, *(one for one in small if one.id not in held)]
        for one in large:
            found = await jobs.find_all(
                {"before": one.id, "state": live}, {"_id": 1}, hint=BEFORE, limit=1, causal=session
            )
            held |= {one.id} if found else set()
        return held

    async def _bad(self, small: list[Predecessors], session: AsyncClientSession | None) -> dict[str, list[Document]]:
        bad: dict[str, list[Document]] = defaultdict(list)
        if small:
            found = await self._connection.majority_jobs.find_all(
                {"before": {"$in": [one.id for one in small]}, "state": {"$in": list(BADLY_ENDED)}},
                _BAD,
                hint=BEFORE,
                causal=session,
            )
            for document in found:
                for one in document["before"]:
                    bad[one].append(document)
        return bad

    async def _bad_of(self, one: Predecessors, session: AsyncClientSession | None) -> list[Document]:
        return await self._connection.majority_jobs.find_all(
            {"before": one.id, "state": {"$in": list(BADLY_ENDED)}},
            _BAD,
            hint=BEFORE,
            limit=one.tolerate + 1,
            causal=session,
        )

    # -- writing ---------------------------------------------------------------------------------------------------

    async def _write(self, groups: Mapping[tuple[int, Decision], list[_Waiter]], checked: Checked) -> None:
        now, mirror = self._connection.clock.expression(), self._connection.mirror
        statements, asked = [], 0
        for (rev, decision), group in groups.items():
            ids = [waiter.document["_id"] for waiter in group]
            as_read = {"_id": {"$in": ids}, "state": BLOCKED, "rev": rev, "waits.sealed": True}
            stages = start_stages(now) if decision.move is Move.START else _end_stages(decision, now)
            statements.append(UpdateMany(*mirror.update(as_read, stages), hint=BY_ID))
            asked += len(group)
            checked.fail_fast |= set(decision.fail_fast)
            if decision.move is Move.START:
                checked.started += len(group)
            else:
                checked.ended += ids
                checked.again |= {one for waiter in group for one in waiter.document.get("before") or ()}
        written = await self._connection.jobs.bulk_write(statements)
        if written.matched_count < asked:
            checked.again |= {one for group in groups.values() for waiter in group for one in waiter.waits.ids}

    async def _look_later(self, ids: list[DocumentId]) -> None:
        """Move the next look of the sweep on: after five seconds, then as long as the job has waited, up to a minute;
        and not beyond the end of its wait."""
        now = self._connection.clock.expression()
        first, longest = int(CHECK_FIRST * 1000), int(_LONGEST_PAUSE * 1000)
        waited = {"$subtract": [now, {"$ifNull": ["$waits.since", now]}]}
        look = {"$add": [now, {"$min": [longest, {"$max": [first, waited]}]}]}
        ahead = {"$cond": [{"$gt": ["$waits.until", now]}, "$waits.until", None]}  # $min ignores null
        await self._connection.jobs.update_many(
            {"_id": {"$in": ids}, "state": BLOCKED}, [{"$set": {"check_at": {"$min": [look, ahead]}}}], hint=BY_ID
        )

    async def _seal_aborted(self, ids: list[DocumentId]) -> None:
        await self._connection.jobs.update_many(
            {"_id": {"$in": ids}, "state": BLOCKED, "waits.sealed": {"$ne": True}},
            [{"$set": {"waits.sealed": True, "waits.aborted": True, "check_at": self._connection.clock.expression()}}],
            hint=BY_ID,
        )


def start_stages(now: Any) -> list[dict[str, Any]]:
    """The update that starts a blocked job. One whose handler has run before is not bound by the time to start it."""
    start_by = {"$cond": [{"$gt": ["$token", 0]}, "$$REMOVE", start_by_of(now)]}
    fields = {"state": PENDING, "ready": True, "run_at": now, "check_at": "$$REMOVE", "start_by": start_by}
    return [{"$set": {**BUMP, **fields}}]


def _end_stages(decision: Decision, now: Any) -> list[dict[str, Any]]:
    kind = SKIPPED if decision.move is Move.SKIP else "Cancelled"
    error = {"type": kind, "message": decision.message}
    fields: dict[str, Any] = {"state": CANCELLED, "finished_at": now, "check_at": "$$REMOVE"}
    fields["error"] = {"$literal": error}
    if decision.because is not None:
        fields["because"] = {"$literal": decision.because}
    return [{"$set": {**BUMP, **fields}}]


def _waiters(found: Iterable[Document]) -> list[_Waiter]:
    read = ((document, read_waits(document.get("waits"))) for document in found)
    return [_Waiter(document, waits) for document, waits in read if waits is not None]


def _ends_of(live: bool, bad: Sequence[Document]) -> Ends:
    ends = [_bad_end(document) for document in bad]
    failed = [one for one in ends if not one.skipped]
    skipped = [one for one in ends if one.skipped]
    return Ends(live, len(failed), failed[0] if failed else None, skipped[0] if skipped else None)


def _bad_end(document: Document) -> BadEnd:
    error, because = document.get("error"), document.get("because")
    skipped = isinstance(error, Mapping) and error.get("type") == SKIPPED
    return BadEnd(str(document["_id"]), document["state"], skipped, because if isinstance(because, str) else None)
