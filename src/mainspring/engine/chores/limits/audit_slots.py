"""Compares the slots of limits that this worker has with the jobs that need them and with the database's counts.

No cause of a drift is known; this chore is for unknown ones. It logs each repair. The chore `reclaim_slots` frees the
slots of workers that are gone.

- A slot that is counted as used, and that neither a job of this worker nor a claim under way has, is freed. Two passes
  must have found it so.
- A claim that has been under way since the pass before gives its slots up if, by the database, this worker does not
  run the job.
- If the database counts another number of slots for this worker than the worker itself, the lower number is put in
  force, but not less than the worker's jobs have.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from mainspring.engine.chores.chore import Chore, ChoreContext
from mainspring.engine.limits.slot_shares import Passed
from mainspring.model.limits.limits import Gate
from mainspring.store.codec import DocumentId

logger = logging.getLogger("mainspring")


class AuditSlots(Chore):
    name = "audit_slots"

    def __init__(self, context: ChoreContext) -> None:
        super().__init__(context)
        self._ownerless: Mapping[int, Passed] = {}
        """The slots that the last pass found counted as used, without a job or claim that had them."""
        self._claiming: Mapping[DocumentId, Sequence[Gate]] = {}
        """The jobs that the last pass found being claimed, with their gates."""

    @property
    def every(self) -> float:
        return 60.0

    async def run_once(self) -> bool:
        await self._end_stale_claims()
        self._free_ownerless()
        for drift in await self._context.limiter.shares.audit():
            logger.warning(
                "Slots of %s: the database counted %d for worker %s, which had %d; both count %d now",
                *(drift.gate, drift.stored, self._context.worker, drift.here, drift.corrected),
            )
        return False

    async def _end_stale_claims(self) -> None:
        limiter, worker = self._context.limiter, self._context.worker
        now = dict(limiter.admitted)
        stale = [job_id for job_id, gates in now.items() if self._claiming.get(job_id) is gates]
        self._claiming = now
        running = await self._context.store.gates.running_here(worker, stale) if stale else set()
        for job_id in stale:
            gates = limiter.admitted.get(job_id)
            if job_id not in running and gates is now[job_id]:
                self._log_freed(gates, f"a claim of job {job_id} that came to nothing")
                limiter.not_claimed([job_id])

    def _free_ownerless(self) -> None:
        limiter, owned = self._context.limiter, self._owned()
        found = {id(passed): passed for passed in limiter.shares.slots_out if id(passed) not in owned}
        lost = {place: passed for place, passed in found.items() if self._ownerless.get(place) is passed}
        self._ownerless = {place: passed for place, passed in found.items() if place not in lost}
        for passed in lost.values():
            self._log_freed([passed], "no job")
            limiter.freed([passed], unused=True)

    def _owned(self) -> set[int]:
        """All passages of jobs of this worker that are being claimed, are running, or have just ended."""
        context = self._context
        claimed_jobs = {*context.claimed_jobs.all(), *context.slots.running, *context.slots.waiting}
        owners = [*(claimed.gates for claimed in claimed_jobs), *context.limiter.admitted.values()]
        return {id(gate) for gates in (*owners, context.controls.breakers.probes) for gate in gates}

    def _log_freed(self, gates: Sequence[Gate], by: str) -> None:
        for gate in gates:
            share = self._context.limiter.shares.get(gate.name)
            if share is not None and isinstance(gate, Passed):
                numbers = (gate.cost, gate.name, self._context.worker, by, share.used - gate.cost, share.mine)
                logger.warning(
                    "Freed %d of %s that worker %s counted as used by %s; it uses %d of its %d now", *numbers
                )
