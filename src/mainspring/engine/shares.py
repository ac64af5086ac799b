"""What one worker has been granted of each gate, and for how long: its share.

It takes from the database (`store/gates.py`) what its next jobs need beyond what it has, counts its jobs against that,
and gives back what it has no use for. All of it counts only while this worker's lease holds: after that it has
nothing, since others may have been given it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from mainspring.clock import monotonic
from mainspring.config import Settings
from mainspring.model.limits import RATE, Gate, Limit, Rate, Shut
from mainspring.store import Store
from mainspring.store.codec import DocumentId
from mainspring.store.connection import Document
from mainspring.store.gates import Taken, Want

_KEPT_IDLE = 1.0
_LEASE_WAIT, _LEASE_STEP = 1.0, 0.02
_FORGET = 0.1


@dataclass(slots=True)
class Share:
    """What this worker has of one gate: `mine` of it, of which `used`; for a rate, starts that are left to be used."""

    mine: int = 0
    used: int = 0
    limit: float = inf
    full: bool = False
    line: bool = False
    rev: int = 0
    idle_since: float = 0.0
    over: bool = False
    """The limit was lowered, and more than it allows may be out: nothing of it may be used again unasked."""
    pace: float = inf
    """The usual time between the start and the end of a job that has a slot of it, in seconds."""

    @property
    def free(self) -> int:
        return 0 if self.over else self.mine - self.used

    @property
    def whole(self) -> bool:
        """Whether this worker has all that there is."""
        return not self.over and self.mine >= self.limit

    def release(self, cost: int, took: float | None) -> None:
        """A job that had a slot of it has ended, after so many seconds, or did not start."""
        self.used = max(0, self.used - cost)
        self.idle_since = monotonic()
        if took is not None:
            self.pace = took if self.pace == inf else self.pace + (took - self.pace) * _FORGET


class Shares:
    """The shares of one worker, by the names of the gates.

    `granted` is told what was granted anew of which gate, `forgotten` that nothing of what was granted counts any more.
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
        self._settings = settings
        self._worker = worker
        self._granted = granted
        self._forgotten = forgotten
        self._shares: dict[str, Share] = {}
        self._asking = asyncio.Lock()
        """One word with the database at a time about what is ours: the later one must not overtake the earlier."""
        self._valid_until = -inf
        self._lapsed = False

    def __bool__(self) -> bool:
        return bool(self._shares)

    def get(self, name: str) -> Share | None:
        return self._shares.get(name)

    def open(self, name: str) -> Share:
        """The share of a gate; a new one where there is none."""
        return self._shares.setdefault(name, Share())

    def use(self, gates: Iterable[Gate]) -> None:
        """A job is let through these gates."""
        for gate in gates:
            if isinstance(gate.rule, Limit):
                self._shares[gate.name].used += gate.cost
            elif isinstance(gate.rule, Rate):
                self._shares[gate.name].mine -= gate.cost

    # -- the lease ---------------------------------------------------------------------------------------------------

    def extend(self, asked: float) -> None:
        """This worker's lease was renewed, as was asked for at that instant. Called by the heartbeat's thread."""
        self._lapsed |= asked >= self._valid_until
        self._valid_until = self.end_of_lease(asked)

    def end_of_lease(self, asked: float) -> float:
        """Until when a lease surely holds that was asked for at that instant."""
        return asked + self._settings.lease - self._settings.fence_margin

    def valid_for(self, asked: float) -> float:
        """Until when a job that takes slots may run whose claim was made or renewed at `asked`: never longer than its
        slots are held."""
        return min(self.end_of_lease(asked), self._valid_until)

    async def leased(self) -> bool:
        """Whether there is a lease that slots can be bound to; waits a moment for the heartbeat where there is none."""
        until = monotonic() + _LEASE_WAIT
        while monotonic() >= self._valid_until:
            if monotonic() >= until:
                return False
            await asyncio.sleep(_LEASE_STEP)
        return True

    def check_lease(self) -> None:
        """Forget what was granted before a lease that has run out: others may have it by now."""
        if self._lapsed or monotonic() >= self._valid_until:
            self._lapsed = False
            self._shares.clear()
            self._forgotten()

    # -- taking ------------------------------------------------------------------------------------------------------

    async def take_more(
        self, candidates: Sequence[Document], gates: Mapping[DocumentId, Sequence[Gate]], free: int
    ) -> None:
        """Take from the gates what these candidates need beyond what this worker has. `free` of them start at once."""
        async with self._asking:
            wants = self._wants(candidates, gates, free)
            lacking = {name: want for name, want in wants.items() if self._lacks(name, want)}
            if lacking:
                for name, taken in (await self._store.gates.take(self._worker, lacking)).items():
                    self._note(name, taken, lacking[name].rule)

    def _wants(
        self, candidates: Sequence[Document], gates: Mapping[DocumentId, Sequence[Gate]], free: int
    ) -> dict[str, Want]:
        wants: dict[str, Want] = {}
        for place, document in enumerate(candidates):
            for gate in gates[document["_id"]]:
                if isinstance(gate.rule, Shut):
                    break  # it comes first, and nothing need be taken in vain
                if not isinstance(gate.rule, Limit | Rate):
                    continue
                want = wants.get(gate.name)
                if want is None:
                    share = self._shares.get(gate.name, Share())
                    want = wants[gate.name] = Want(gate.rule, share.used if share.over else share.mine, 0)
                if place < free or not isinstance(gate.rule, Limit):
                    want.now += gate.cost
                else:
                    want.ahead += gate.cost
        return wants

    def _lacks(self, name: str, want: Want) -> bool:
        share = self._shares.get(name)
        if share is not None and isinstance(want.rule, Limit) and not share.over and share.mine >= want.rule.limit:
            return False  # it has all there is
        free = 0 if share is None else share.free
        want.now, left = max(0, want.now - free), max(0, free - want.now)
        want.ahead = max(0, want.ahead - left)
        return want.now + want.ahead > 0

    def _note(self, name: str, taken: Taken, rule: Limit | Rate) -> None:
        share = self.open(name)
        share.limit = rule.limit if isinstance(rule, Limit) else inf
        share.mine, share.full, share.line, share.rev = taken.mine, taken.full, taken.line, taken.rev
        share.over = taken.over
        share.idle_since = monotonic()
        self._granted(name, taken)

    # -- giving back -------------------------------------------------------------------------------------------------

    async def give_back_unused(self) -> None:
        """Give back what this worker has had no use for: at once where others wait, else after a moment."""
        async with self._asking:
            keep, refund = self._unused(monotonic())
            if refund:
                await self._store.gates.refund(refund)
            if keep:
                await self._store.gates.give_back(self._worker, keep)
            for name, used in keep.items():
                share = self._shares.get(name, Share())
                if used == share.used == share.mine == 0:
                    self._shares.pop(name, None)

    def _unused(self, now: float) -> tuple[dict[str, int], dict[str, int]]:
        """How much of which gates to keep, and how many starts to give back."""
        keep: dict[str, int] = {}
        refund: dict[str, int] = {}
        for name, share in list(self._shares.items()):
            idle = now - share.idle_since > _KEPT_IDLE
            if name.startswith(RATE):
                if idle:
                    refund |= {name: share.mine} if share.mine > 0 else {}
                    del self._shares[name]
            elif share.mine > share.used and (share.full or share.line or share.over or idle):
                keep[name] = share.mine = share.used
            elif share.mine == 0 and idle:
                keep[name] = 0
        return keep, refund

    def doubt(self) -> None:
        """Limits were changed: what this worker has of them counts only once it was asked for anew."""
        for share in self._shares.values():
            share.over = True

    async def give_all_back(self) -> None:
        """This worker stops: whatever it has is others' at once."""
        names = list(self._shares)
        self._shares.clear()
        if names:
            await self._store.gates.give_back(self._worker, dict.fromkeys(names, 0))
