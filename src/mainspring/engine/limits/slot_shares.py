"""The shares of one worker: the slots (of semaphores) and starts (tokens of token buckets) that it has of each gate.

The worker takes slots from the database (`store/limits/gates.py`) as far as its next jobs need more than it has, counts
its jobs against them, and gives unused ones back.

All slots are bound to this worker's lease, which the heartbeat's thread renews. One unbroken stretch of the lease is a
*term*. When a term is over, other workers may take the slots that were taken in it: no job may run on them any longer,
and no slot that is left of them may be mixed with the slots of the next term.

Invariant, also after an error or a cancellation: the database counts at least as many slots for this worker as it uses.
When the outcome of a statement is not known, the share is `unsure`, and the worker states its share anew until it is.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from mainspring.clock import monotonic
from mainspring.config.settings import Settings
from mainspring.model.limits.limits import RATE, Closed, Gate, Limit, Rate
from mainspring.store import Store
from mainspring.store.codec import DocumentId
from mainspring.store.jobs.stored_job import StoredJob
from mainspring.store.limits.gates import Taken
from mainspring.store.limits.semaphore import Want

_KEPT_IDLE = 1.0
_LEASE_WAIT, _LEASE_STEP = 1.0, 0.02
_FORGET = 0.1


@dataclass(slots=True, eq=False)
class Term:
    """One unbroken stretch of the lease; it surely holds until `until`, which stays as it is once the term is over."""

    until: float = -inf


@dataclass(frozen=True, slots=True)
class Passed(Gate):
    """A gate that a job has passed: the slots that the job takes there count in this term only."""

    term: Term = field(default_factory=Term, compare=False)


def slots_until(gates: Iterable[Gate]) -> float:
    """The instant until which the slots of a job that has passed these gates are surely held."""
    terms = (gate.term for gate in gates if isinstance(gate, Passed) and isinstance(gate.rule, Limit))
    return min((term.until for term in terms), default=inf)


class SlotLease:
    """The terms of one worker's lease. The heartbeat's thread calls `extend`, the event loop everything else."""

    def __init__(self, settings: Settings) -> None:
        self._length = settings.lease - settings.fence_margin
        self._lock = threading.Lock()
        self.term = Term()
        """The term in which the event loop counts slots."""
        self._latest = self.term

    def extend(self, asked: float) -> None:
        """Note that the lease was renewed by a request of that instant; begin a new term if the last one was over."""
        with self._lock:
            if asked >= self._latest.until:
                self._latest = Term()
            self._latest.until = self.end(asked)

    def end(self, asked: float) -> float:
        """The instant until which a lease that was asked for at `asked` surely holds."""
        return asked + self._length

    @property
    def holds(self) -> bool:
        return monotonic() < self._latest.until

    def lapsed(self) -> bool:
        """Whether the term in which slots were counted is over; from then on they are counted in the next one."""
        with self._lock:
            if -inf < self._latest.until <= monotonic():
                self._latest = Term()  # a renewal that is under way comes too late for the old one
            over, self.term = self.term is not self._latest, self._latest
        return over


@dataclass(slots=True)
class Share:
    """This worker's share of one gate: `mine` slots, `used` of them in use; of a rate, starts, spent ones included."""

    mine: int = 0
    used: int = 0
    limit: float = inf
    full: bool = False
    line: bool = False
    rev: int = 0
    idle_since: float = 0.0
    over: bool = False
    """The limit was lowered, and more slots than it allows may be out: none may be used again before it is asked for
    anew."""
    out: dict[int, Passed] = field(default_factory=dict)
    """The passages of jobs through the gate that `used` adds up, starts that were made excepted; by identity."""
    unsure: bool = False
    """The database may count more for this worker than `mine`: the outcome of a statement is not known."""
    pace: float = inf
    """The usual seconds between the start and the end of a job that has a slot of this gate: a moving average."""

    @property
    def free(self) -> int:
        return 0 if self.over else self.mine - self.used

    @property
    def whole(self) -> bool:
        """Whether this worker has all slots of the gate."""
        return not self.over and self.mine >= self.limit

    def use(self, gate: Gate, term: Term) -> Passed:
        """Count the slots of a job that passes the gate."""
        passed = Passed(gate.name, gate.rule, gate.cost, term)
        self.out[id(passed)] = passed
        self.used += gate.cost
        return passed

    def release(self, passed: Passed, took: float | None) -> None:
        """Free the slots of a job that has ended, after `took` seconds, or did not start."""
        self.used -= passed.cost
        self.idle_since = monotonic()
        if took is not None:
            self.pace = took if self.pace == inf else self.pace + (took - self.pace) * _FORGET


@dataclass(frozen=True, slots=True)
class Drift:
    """A gate for which the database counted another number of slots of this worker than the worker itself, and the
    number that both count from now on."""

    gate: str
    here: int
    stored: int
    corrected: int


class Shares:
    """The shares of one worker, by the names of the gates.

    `granted` is called with each gate that was asked for slots and its grant, `forgotten` when a term is over and all
    shares are void.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        worker: str,
        granted: Callable[[str, Taken], None],
        forgotten: Callable[[], None],
    ) -> None:
        self._store = store
        self._worker = worker
        self._granted = granted
        self._forgotten = forgotten
        self.by_name: dict[str, Share] = {}
        self._asking = asyncio.Lock()
        """One statement at a time about this worker's shares: the later one must not overtake the earlier."""
        self.lease = SlotLease(settings)

    def __bool__(self) -> bool:
        return bool(self.by_name)

    def get(self, name: str) -> Share | None:
        return self.by_name.get(name)

    def open(self, name: str) -> Share:
        """The share of a gate; a new one if there is none."""
        return self.by_name.setdefault(name, Share())

    # -- using -------------------------------------------------------------------------------------------------------

    def use(self, gates: Iterable[Gate]) -> list[Gate]:
        """Count the slots of a job that passes these gates; return the gates as the job has to release them."""
        counted, term = (Limit, Rate), self.lease.term
        return [self.by_name[gate.name].use(gate, term) if isinstance(gate.rule, counted) else gate for gate in gates]

    def release(self, gate: Gate, took: float | None = None, *, unused: bool = False) -> Share | None:
        """Free the slots of a job that has passed a gate and has ended, after `took` seconds, or was not started
        (`unused`). Return the share that has more room now; None if the job's slots were given up with their term."""
        share = self.by_name.get(gate.name)
        if share is None or not isinstance(gate, Passed) or share.out.pop(id(gate), None) is None:
            return None
        if isinstance(gate.rule, Rate) and not unused:
            return None  # a start that was made is not refunded
        share.release(gate, took)
        return share

    # -- the lease ---------------------------------------------------------------------------------------------------

    async def leased(self) -> bool:
        """Whether there is a lease that slots can be bound to; wait a moment for the heartbeat if there is none."""
        until = monotonic() + _LEASE_WAIT
        while not self.lease.holds:
            if monotonic() >= until:
                return False
            await asyncio.sleep(_LEASE_STEP)
        return True

    def check_lease(self) -> None:
        """Forget all shares of a lease that has run out: other workers may have taken the slots by now."""
        if self.lease.lapsed():
            self.by_name.clear()
            self._forgotten()

    # -- taking ------------------------------------------------------------------------------------------------------

    async def take_more(
        self, candidates: Sequence[StoredJob], gates: Mapping[DocumentId, Sequence[Gate]], free: int
    ) -> None:
        """Take the slots that these candidates need and this worker lacks. `free` of the candidates start at once."""
        async with self._asking:
            self.check_lease()
            wants = self._wants(candidates, gates, free)
            lacking = {name: want for name, want in wants.items() if self._lacks(name, want)}
            if lacking:
                await self._take(lacking)

    async def _take(self, lacking: Mapping[str, Want]) -> None:
        term = self._unsure(lacking)
        taken = await self._store.gates.take(self._worker, lacking)
        self.check_lease()
        if self.lease.term is not term:
            self._unsure(lacking)  # the grant may belong to this term or to the one that is over
            return
        for name, grant in taken.items():
            self._note(name, grant, lacking[name].rule)

    def _unsure(self, names: Iterable[str]) -> Term:
        """Mark shares of which the database may count more for this worker from now on; return the current term."""
        for name in names:
            self.open(name).unsure = True
        return self.lease.term

    def _wants(
        self, candidates: Sequence[StoredJob], gates: Mapping[DocumentId, Sequence[Gate]], free: int
    ) -> dict[str, Want]:
        wants: dict[str, Want] = {}
        for place, job in enumerate(candidates):
            for gate in gates[job.id]:
                if isinstance(gate.rule, Closed):
                    break  # a shut gate comes first: no slot is taken in vain
                if not isinstance(gate.rule, Limit | Rate):
                    continue
                want = wants.get(gate.name)
                if want is None:
                    share = self.by_name.get(gate.name, Share())
                    want = wants[gate.name] = Want(gate.rule, share.used if share.over else share.mine, 0)
                if place < free or not isinstance(gate.rule, Limit):
                    want.now += gate.cost
                else:
                    want.ahead += gate.cost
        return wants

    def _lacks(self, name: str, want: Want) -> bool:
        share = self.by_name.get(name)
        if share is not None and isinstance(want.rule, Limit) and not share.over and share.mine >= want.rule.limit:
            return False  # this worker has all slots of the limit
        free = 0 if share is None else share.free
        want.now, left = max(0, want.now - free), max(0, free - want.now)
        want.ahead = max(0, want.ahead - left)
        return want.now + want.ahead > 0

    def _note(self, name: str, taken: Taken, rule: Limit | Rate) -> None:
        share = self.open(name)
        share.limit = rule.limit if isinstance(rule, Limit) else inf
        share.mine, share.full, share.line, share.rev = taken.mine, taken.full, taken.line, taken.rev
        share.over, share.unsure = taken.over, False
        share.idle_since = monotonic()
        self._granted(name, taken)

    # -- giving back -------------------------------------------------------------------------------------------------

    async def give_back_unused(self) -> None:
        """Give back the slots that this worker does not use: at once where other jobs wait, else after a moment."""
        async with self._asking:
            keep, spent = self._unused(monotonic())
            if keep or spent:
                await self._give_back(keep, spent)

    def _unused(self, now: float) -> tuple[dict[str, int], dict[str, int]]:
        """The number of slots to keep, by gate, and of starts that were made, by rate."""
        keep: dict[str, int] = {}
        spent: dict[str, int] = {}
        for name, share in self.by_name.items():
            idle = now - share.idle_since > _KEPT_IDLE
            if name.startswith(RATE):
                if idle or share.unsure:
                    spent[name] = share.used
            elif share.mine > share.used and (share.full or share.line or share.over or idle):
                keep[name] = share.used
            elif share.unsure or (share.mine == 0 and idle):
                keep[name] = share.mine
        return keep, spent

    async def _give_back(self, keep: Mapping[str, int], spent: Mapping[str, int]) -> None:
        """Give back all but these slots and starts. The worker stops counting the rest as its own before it tells the
        database, and the shares are unsure until the database has confirmed."""
        left = {**keep, **spent}
        self._unsure(left)
        shares = {name: self.by_name[name] for name in left}
        for name, share in shares.items():
            share.mine = left[name]
        await self._store.gates.give_back(self._worker, keep, spent)
        for name, share in shares.items():
            share.unsure = False
            unused = share.mine == share.used if name in spent else share.mine == share.used == 0
            if unused and self.by_name.get(name) is share:
                del self.by_name[name]

    def invalidate(self) -> None:
        """Have every share asked for anew before it is used again, since limits were changed."""
        for share in self.by_name.values():
            share.over = True

    # -- audit -------------------------------------------------------------------------------------------------------

    @property
    def slots_out(self) -> list[Passed]:
        """All passages of jobs through limits that count as used."""
        out = (passed for share in self.by_name.values() for passed in share.out.values())
        return [passed for passed in out if isinstance(passed.rule, Limit)]

    async def audit(self) -> list[Drift]:
        """Compare this worker's slots with those that the database counts for it, and correct the differences.

        No other statement about shares is made meanwhile. Slots that the database counts in excess go back. Slots that
        it does not count are not used again, except by the jobs that have them.
        """
        async with self._asking:
            self.check_lease()
            term, held = self.lease.term, self.lease.holds
            stored = await self._store.gates.slots_of(self._worker) if held else {}
            self.check_lease()
            if not held or self.lease.term is not term:
                return []
            slots = {name for name, share in self.by_name.items() if share.mine and not name.startswith(RATE)}
            found = [await self._audited(name, stored.get(name, 0)) for name in sorted(slots | stored.keys())]
            return [drift for drift in found if drift is not None]

    async def _audited(self, name: str, stored: int) -> Drift | None:
        share = self.open(name)
        here = share.mine
        if here == stored or share.unsure:  # giving back settles an unsure share
            return None
        share.mine = min(here, max(stored, share.used))
        share.unsure = True
        corrected = share.mine == stored or await self._store.gates.correct(self._worker, name, stored, share.mine)
        share.unsure, share.over = not corrected, share.over or not corrected
        return Drift(name, here, stored, share.mine)

    async def give_all_back(self) -> None:
        """Give back all slots at once, since this worker stops."""
        async with self._asking:
            spent = {name: share.used for name, share in self.by_name.items() if name.startswith(RATE)}
            keep = {name: 0 for name in self.by_name if name not in spent}
            self.by_name.clear()
            if keep or spent:
                await self._store.gates.give_back(self._worker, keep, spent)
