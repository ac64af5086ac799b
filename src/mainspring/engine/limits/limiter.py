"""Lets through only as many jobs as the limits allow: decide, take, place.

Between reading candidates and claiming them, `admit` finds the gates of each job (`job_gates.py`), takes slots from the
database where this worker has too few (`slot_shares.py`), and decides for each job: it goes ahead with its slots, it is
parked until jobs of this worker leave theirs (`parking.py`), or it goes onto the wait list of the gate that blocks it
(`wait_lists.py`). When a job has ended, `freed` passes its slots on: to a parked job, or to the wait list, which this
worker reads next. Slots that no job here needs go back after a moment.

The worker counts its jobs against the slots that `store/limits/gates.py` granted, and only while its lease holds: after
that it has none, since other workers may have been granted them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

from mainspring.config.settings import Settings
from mainspring.engine.limits.job_gates import Limits
from mainspring.engine.limits.parking import Parking
from mainspring.engine.limits.slot_shares import Shares
from mainspring.engine.limits.wait_lists import WaitLists, WaitPlan
from mainspring.engine.run.claimed_jobs import ClaimedJob
from mainspring.model.limits.limits import FairGate, Gate, Limit, Rate, SequenceGate
from mainspring.store import Store
from mainspring.store.codec import DocumentId
from mainspring.store.jobs.stored_job import StoredJob
from mainspring.store.limits.gates import Taken

logger = logging.getLogger("mainspring")


@dataclass(slots=True)
class Admitted:
    """The candidates to claim: jobs that have room now, and jobs to park behind them."""

    now: list[StoredJob] = field(default_factory=list)
    behind: list[StoredJob] = field(default_factory=list)

    def __iter__(self) -> Iterator[StoredJob]:
        return chain(self.now, self.behind)


class Placement(Protocol):
    """The methods of the worker that its limiter calls."""

    def wake(self) -> None:
        """Claim again soon, since there may be room for jobs on a wait list."""

    def start(self, claimed_jobs: list[ClaimedJob]) -> None:
        """Start parked jobs, which have their slots now."""

    def release_parked(self) -> None:
        """Give back the parked jobs, since the slots that they wait for are gone."""

    def round_trip(self) -> float:
        """The approximate seconds that it takes to claim the next jobs."""


class Limiter:
    """The limits of one worker."""

    def __init__(self, store: Store, settings: Settings, limits: Limits, worker: str, placement: Placement) -> None:
        self._store = store
        self._settings = settings
        self._limits = limits
        self._worker = worker
        self._wake = placement.wake
        self._release_parked = placement.release_parked
        self._shares = Shares(store, settings, worker, self._granted, self._forget)
        self.parking = Parking(self._shares, settings.prefetch, placement.start, placement.round_trip)
        self.wait_lists = WaitLists(store, settings, limits, self._shares, self.parking, worker, placement.wake)
        self._admitted: dict[DocumentId, list[Gate]] = {}
        self._first: dict[str, DocumentId] = {}
        self._changes = 0
        """The number of times that limits have been changed."""

    @property
    def idle(self) -> bool:
        """Whether this worker's code limits nothing, so that only jobs stored in a sequence have gates."""
        return not self._limits and not self._shares

    @property
    def holds(self) -> bool:
        """Whether this worker has shares of any gates."""
        return bool(self._shares)

    # -- the lease ---------------------------------------------------------------------------------------------------

    def extend(self, asked: float) -> None:
        """Note that this worker's lease was renewed by a request of that instant. The heartbeat's thread calls this."""
        self._shares.lease.extend(asked)

    def claim_end(self, asked: float) -> float:
        """The instant until which a claim that was made or renewed at `asked` surely holds, its slots apart."""
        return self._shares.lease.end(asked)

    def _forget(self) -> None:
        """Drop everything that rests on slots of a lease that has run out."""
        self._admitted = {job_id: gates for job_id, gates in self._admitted.items() if not needs_slot(gates)}
        self.parking.drop_all()
        self._release_parked()

    # -- letting through -------------------------------------------------------------------------------------------

    async def admit(self, candidates: Sequence[StoredJob], free: int) -> Admitted:
        """Return the candidates that every gate has room for, or soon will have, and put the others on wait lists.
        `free` of them can start at once."""
        if self.idle and all(job.sequence is None for job in candidates):
            return Admitted(list(candidates))
        known = self._changes
        gates = {job.id: self._limits.gates_of(job) for job in candidates}
        if any(map(needs_slot, gates.values())) and not await self._shares.leased():
            candidates = [job for job in candidates if not needs_slot(gates[job.id])]
        self._shares.check_lease()
        await self._learn_turns(candidates, gates)
        await self._shares.take_more(candidates, gates, free)
        admitted, plan = Admitted(), WaitPlan()
        for job in candidates:
            mine = gates[job.id]
            blocking = self._blocking(job, mine, plan.notes)
            if blocking is None:
                self._admitted[job.id] = self._shares.use(mine)
                admitted.now.append(job)
            elif self.parking.plan(job, mine, blocking.name, plan.notes):
                admitted.behind.append(job)
            else:
                plan.refuse(blocking, job)
        try:
            await self.wait_lists.place(plan, candidates)
        except BaseException:
            self.not_claimed(job.id for job in admitted)  # the producer does not receive these
            raise
        if self._changes != known:  # limits were changed while these were placed, which woke no worker
            for name in plan.jobs:
                self.wait_lists.poll_line(name)
        return admitted

    async def _learn_turns(self, candidates: Sequence[StoredJob], gates: dict[DocumentId, list[Gate]]) -> None:
        """Ask which job is first in each sequence, and store the sequence in jobs that lack it."""
        turns: set[SequenceGate] = set()
        unknown: dict[str, list[DocumentId]] = defaultdict(list)
        joined: set[str] = set()
        for job in candidates:
            for gate in gates[job.id]:
                if isinstance(gate.rule, SequenceGate):
                    turns.add(gate.rule)
                    if job.sequence is None:
                        unknown[gate.rule.sequence].append(job.id)
                        joined.add(gate.name)
        if unknown:
            await self._store.gates.join_sequences(unknown)
            for name in joined:  # they go onto the wait lists now, where they may be the first
                self.wait_lists.poll_line(name)
        self._first = await self._store.gates.first_of(turns) if turns else {}

    async def out_of_turn(self, claimed: Sequence[StoredJob]) -> set[DocumentId]:
        """The claimed jobs that run beside another job of their sequence and must be given back.

        Two workers may each have found another job first: a transaction that committed in between has added one.
        A worker reads the sequence once more after its claim, so that of two workers at least one sees the other.
        """
        sequences: dict[DocumentId, str] = {}
        for job in claimed:
            for gate in self._admitted.get(job.id, ()):
                if isinstance(gate.rule, SequenceGate):
                    sequences[job.id] = gate.rule.sequence
        if not sequences:
            return set()
        try:
            running = await self._store.gates.running_in(set(sequences.values()))
        except Exception:
            return set(sequences)  # without an answer, none of them may run
        return {job_id for job_id, sequence in sequences.items() if running[sequence] > 1}

    def taken(self, job: StoredJob) -> list[Gate] | None:
        """The gates that a claimed job has passed, for it to keep; an empty list for a job that is to be parked.
        None if the job must not run, since the lease that its slots were bound to has run out."""
        if self._admitted:
            self._shares.check_lease()
        gates = self._admitted.pop(job.id, None)
        if gates is None and not self.parking.is_planned(job.id) and self._limits:
            return None if self._limits.gates_of(job) else []
        return gates or []

    def not_claimed(self, ids: Iterable[DocumentId]) -> None:
        """Free the slots of jobs that other workers have claimed first."""
        for job_id in ids:
            self.parking.drop(job_id)
            self.freed(self._admitted.pop(job_id, []), unused=True)

    def freed(self, gates: Iterable[Gate], took: float | None = None, *, unused: bool = False) -> None:
        """Free the slots of a job that has ended, after `took` seconds, or that was not claimed (`unused`)."""
        for gate in gates:
            if isinstance(gate.rule, SequenceGate) and not unused:
                self.wait_lists.note_room(gate.name)
            share = self._shares.release(gate, took, unused=unused)
            if share is not None:
                self.parking.unpark(gate.name)
                if share.line:
                    self.wait_lists.note_room(gate.name)
        if self.wait_lists.any_noted:
            self._wake()

    def _blocking(self, job: StoredJob, gates: Sequence[Gate], closed: Container[str]) -> Gate | None:
        """The first gate that has no room for a job, or at which the job would overtake an earlier one."""
        line = job.line
        for gate in gates:
            if isinstance(gate.rule, Limit | Rate):
                share = self._shares.get(gate.name)
                blocks = share is None or share.free < gate.cost or gate.name in closed or (share.line and line is None)
            elif isinstance(gate.rule, SequenceGate):
                blocks = self._first.get(gate.rule.sequence) != job.id or job.sequence is None
            elif isinstance(gate.rule, FairGate):
                blocks = line is None
            else:
                blocks = True
            if blocks:
                return gate
        return None

    def _granted(self, name: str, taken: Taken) -> None:
        """Start the parked jobs of a gate that was asked for slots, and poll its wait list when it opens."""
        self.parking.unpark(name)
        if taken.opens_at is not None and taken.full:
            wait = (taken.opens_at - self._store.clock.now()).total_seconds()
            asyncio.get_running_loop().call_later(max(0.0, wait), self.wait_lists.poll_line, name)

    # -- giving back -----------------------------------------------------------------------------------------------

    async def tidy(self) -> None:
        """Give back the slots that this worker does not use."""
        self._shares.check_lease()
        await self._shares.give_back_unused()

    def limits_changed(self) -> None:
        """Have all shares asked for anew, and give back the parked jobs, since limits were changed."""
        self._changes += 1
        self._shares.invalidate()
        self._release_parked()
        self._wake()

    @property
    def shares(self) -> Shares:
        """This worker's shares, for the audit."""
        return self._shares

    @property
    def admitted(self) -> Mapping[DocumentId, Sequence[Gate]]:
        """The jobs that were admitted and are being claimed, with their gates."""
        return self._admitted

    async def give_all_back(self) -> None:
        """Give back all slots at once, since this worker stops."""
        await self._shares.give_all_back()


def needs_slot(gates: Iterable[Gate]) -> bool:
    """Whether a job takes a slot that is bound to its worker's lease."""
    return any(isinstance(gate.rule, Limit) for gate in gates)
