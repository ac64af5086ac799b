"""Parked jobs: claimed jobs that wait for a slot which their own worker has taken, by the gate that has none left.

While jobs are short, a worker claims a few more than a limit lets it run, so that the next one starts the moment one
ends and not a round trip later. A parked job takes its slots when it is started, never before. It is given back when
the slots that it waits for are gone.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Container, Sequence

from mainspring.engine.limits.slot_shares import Share, Shares
from mainspring.engine.run.claimed_jobs import ClaimedJob
from mainspring.model.limits.controls import Probe
from mainspring.model.limits.limits import FairGate, Gate, Limit
from mainspring.store.codec import DocumentId
from mainspring.store.jobs.stored_job import StoredJob

# The parked jobs, as a multiple of the jobs that get a slot during one round trip.
_TIMES = 3


class Parking:
    """The parked jobs of one worker, `most` of them; at each gate in the order in which they came."""

    def __init__(
        self, shares: Shares, most: int, start: Callable[[list[ClaimedJob]], None], round_trip: Callable[[], float]
    ) -> None:
        """`start` receives parked jobs that have got their slots; `round_trip` returns the approximate seconds that it
        takes to claim the next jobs."""
        self._shares = shares
        self._most = most
        self._start = start
        self._round_trip = round_trip
        self._lots: dict[str, deque[ClaimedJob]] = {}
        self._count = 0
        self._planned: dict[DocumentId, tuple[str, list[Gate]]] = {}
        self._planned_at: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._count

    # -- before the claim ----------------------------------------------------------------------------------------------

    def room(self, name: str, share: Share) -> int:
        """The number of further jobs that may be parked at a gate: they must get a slot within a few round trips."""
        if share.over:
            return 0
        soon = int(_TIMES * share.mine * self._round_trip() / max(share.pace, 1e-6))
        return max(0, soon - len(self._lots.get(name, ())) - self._planned_at[name])

    def plan(self, job: StoredJob, gates: list[Gate], blocking: str, closed: Container[str]) -> bool:
        """Plan to park a job at the gate that has no slot for it, if it will get one in a moment: no earlier job may
        wait at its gates, and all of them must be limits or round robin. Return whether it is planned."""
        if self._count + len(self._planned) >= self._most:
            return False
        if not all(self._lets(gate, job.line is not None, closed) for gate in gates):
            return False
        self._planned[job.id] = (blocking, gates)
        self._planned_at[blocking] += 1
        return True

    def _lets(self, gate: Gate, lined: bool, closed: Container[str]) -> bool:
        if isinstance(gate.rule, FairGate):
            return lined
        share = self._shares.get(gate.name)
        if share is None or not isinstance(gate.rule, Limit) or isinstance(gate.rule, Probe):
            return False
        return gate.name not in closed and (lined or not share.line) and self.room(gate.name, share) > 0

    def is_planned(self, job_id: DocumentId) -> bool:
        return job_id in self._planned

    def drop(self, job_id: DocumentId) -> tuple[str, list[Gate]] | None:
        """Forget the plan to park a job; return its gate, and all gates of the job."""
        plan = self._planned.pop(job_id, None)
        if plan is not None:
            self._planned_at[plan[0]] -= 1
        return plan

    def drop_all(self) -> None:
        """Forget all plans."""
        self._planned.clear()
        self._planned_at.clear()

    # -- after the claim -----------------------------------------------------------------------------------------------

    def park(self, claimed: ClaimedJob) -> bool:
        """Park a claimed job at the planned gate. Return False if none was planned, since the job has its slots."""
        plan = self.drop(claimed.id)
        if plan is None:
            return False
        name, awaits = plan
        claimed.park(awaits)
        self._add(name, claimed)
        self.unpark(name)
        return True

    def unpark(self, name: str) -> None:
        """Start the jobs parked at a gate as far as it has slots; a job that lacks a slot of another gate is parked
        there."""
        if name not in self._lots:
            return
        self._shares.check_lease()
        ready: list[ClaimedJob] = []
        while name in self._lots:
            claimed = self._lots[name][0]
            full = self._full(claimed.awaits)
            if full == name:
                break
            self._take(name)
            if full is not None:
                self._add(full, claimed)
                continue
            claimed.unpark(self._shares.use(claimed.awaits))
            ready.append(claimed)
        if ready:
            self._start(ready)

    def take_all(self, which: Callable[[ClaimedJob], bool]) -> list[ClaimedJob]:
        """Remove all parked jobs that `which` accepts, at any gate, without giving them slots; return them."""
        taken = [claimed for lot in self._lots.values() for claimed in lot if which(claimed)]
        if taken:
            gone = set(taken)
            lots = {gate: deque(one for one in lot if one not in gone) for gate, lot in self._lots.items()}
            self._lots = {gate: lot for gate, lot in lots.items() if lot}
            self._count -= len(taken)
        return taken

    def _full(self, gates: Sequence[Gate]) -> str | None:
        """The first gate that this worker has no free slot of."""
        limits = (gate for gate in gates if isinstance(gate.rule, Limit))
        return next((gate.name for gate in limits if not self._has_slot(gate)), None)

    def _has_slot(self, gate: Gate) -> bool:
        share = self._shares.get(gate.name)
        return share is not None and share.free >= gate.cost

    def _add(self, name: str, claimed: ClaimedJob) -> None:
        self._lots.setdefault(name, deque()).append(claimed)
        self._count += 1

    def _take(self, name: str) -> None:
        self._lots[name].popleft()
        self._count -= 1
        if not self._lots[name]:
            del self._lots[name]
