"""Lets through only as many jobs as the limits allow, counting for one worker what it has of each gate.

Between reading candidates and claiming them, `admit` asks for each job whether every gate in its way has room here,
and takes more from the database where this worker has too little. Who finds no room is put in line. When a job has
ended, `freed` gives its slots to the next: the worker looks into the lines of those gates before anything else, and
what nobody here needs goes back after a moment.

All this is counted against what `store/gates.py` granted, and only while this worker's lease holds: after that it has
nothing, since others may have been given it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mainspring.clock import Clock, monotonic
from mainspring.config import Settings
from mainspring.engine.detours import Detours
from mainspring.engine.holdings import Holding
from mainspring.engine.limits import Limits
from mainspring.engine.refusals import Refusals
from mainspring.model.limits import CONCURRENCY, FAIR, RATE, Fair, Gate, Limit, Rate, Shut, Turn
from mainspring.store import Store
from mainspring.store.codec import DocumentId
from mainspring.store.connection import Document
from mainspring.store.gates import Taken, Want
from mainspring.store.lines import line_note

_KEPT_IDLE = 1.0
_OPEN_LINES = 100
_LINES_AT_ONCE = 50
_FEWEST_TURNS, _MOST_TURNS = 10, 250
_MANY = 1000


@dataclass(slots=True)
class Share:
    """What this worker has of one gate: `mine` of it, of which `used`; for a rate, starts that are left to be used."""

    mine: int = 0
    used: int = 0
    full: bool = False
    line: bool = False
    rev: int = 0
    idle_since: float = 0.0
    over: bool = False
    """The limit was lowered, and more than it allows may be out: nothing of it may be used again unasked."""

    @property
    def free(self) -> int:
        return 0 if self.over else self.mine - self.used


class Gatekeeper:
    """The limits of one worker."""

    def __init__(self, store: Store, settings: Settings, limits: Limits, worker: str, wake: Callable[[], None]) -> None:
        self._store = store
        self._settings = settings
        self._limits = limits
        self._worker = worker
        self._wake = wake
        self._shares: dict[str, Share] = {}
        self._open: set[str] = set()
        self._admitted: dict[DocumentId, list[Gate]] = {}
        self._detours = Detours(store, limits, self.look_into)
        self._asking = asyncio.Lock()
        """One word with the database at a time about what is ours: the later one must not overtake the earlier."""
        self._first: dict[str, DocumentId] = {}
        self._fair: list[str] = []
        self.more = False
        """Whether lines of keys that take turns hold more than was read of them."""
        self._polled_at = float("-inf")
        self._valid_until = float("-inf")
        self._lapsed = False

    @property
    def idle(self) -> bool:
        """Whether there is nothing to limit, so that nothing need be asked."""
        return not self._limits and not self._shares

    @property
    def holds(self) -> bool:
        """Whether this worker has been granted anything."""
        return bool(self._shares)

    # -- the lease ---------------------------------------------------------------------------------------------------

    def extend(self, asked: float) -> None:
        """This worker's lease was renewed, as was asked for at that instant. Called by the heartbeat's thread."""
        self._lapsed |= asked >= self._valid_until
        self._valid_until = self._end_of_lease(asked)

    def valid_for(self, holding: Holding, asked: float) -> float:
        """Until when a job may run whose claim was made or renewed at `asked`: never longer than its slots are held."""
        valid = self._end_of_lease(asked)
        return min(valid, self._valid_until) if holding.gates else valid

    def _end_of_lease(self, asked: float) -> float:
        return asked + self._settings.lease - self._settings.fence_margin

    def _check_lease(self) -> None:
        """Forget what was granted before a lease that has run out: others may have it by now."""
        if self._lapsed or monotonic() >= self._valid_until:
            self._lapsed = False
            self._shares.clear()
            self._admitted.clear()

    # -- letting through -------------------------------------------------------------------------------------------

    async def admit(self, candidates: Sequence[Document], free: int) -> list[Document]:
        """Those candidates that every gate has room for; the others are put in line. `free` of them start at once."""
        if self.idle:
            return list(candidates)
        self._check_lease()
        gates = {document["_id"]: self._limits.gates(document) for document in candidates}
        await self._learn_turns(candidates, gates)
        async with self._asking:
            await self._take_more(candidates, gates, free)
        admitted: list[Document] = []
        refused = Refusals()
        astray: dict[tuple[str, str], list[DocumentId]] = defaultdict(list)
        closed: dict[str, str] = {}
        for document in candidates:
            blocking = self._blocking(document, gates[document["_id"]], closed)
            if blocking is None:
                self._use(document["_id"], gates[document["_id"]])
                admitted.append(document)
                continue
            closed[blocking.name] = line_note(blocking)
            if document.get("line", blocking.name) != blocking.name:
                astray[document["line"], blocking.name].append(document["_id"])
            elif "line" not in document:
                refused.add(blocking, document)
        if refused.jobs:
            await self._detours.fetch_alike(refused.jobs, candidates)
            if 2 * refused.in_turns > len(candidates):
                await self._add_those_behind(refused, candidates)
            await self._put_in_line(refused)
        for (line, gate), ids in astray.items():
            await self._change_line(line, gate, closed[gate], ids)
        return admitted

    async def _add_those_behind(self, refused: Refusals, read: Sequence[Document]) -> None:
        """Where keys that take turns came without being in line, the many behind them are put in line at once, too."""
        known = {document["_id"] for document in read}
        for document in await self._store.claims.candidates(read[0]["queue"], _MANY):
            gate = next((gate for gate in self._limits.gates(document) if isinstance(gate.rule, Fair | Shut)), None)
            if gate is not None and isinstance(gate.rule, Fair) and document["_id"] not in known:
                refused.add(gate, document)

    async def _change_line(self, line: str, gate: str, note: str, ids: list[DocumentId]) -> None:
        """A job waits where it is kept back: in another line it would keep those behind it from what is free there."""
        await self._store.gates.change_line(line, gate, note, {"_id": {"$in": ids}})
        self.look_into(line)
        if gate in self._shares:
            self._shares[gate].line = True
        else:
            self.look_into(gate)

    async def _learn_turns(self, candidates: Sequence[Document], gates: dict[DocumentId, list[Gate]]) -> None:
        """Ask which job is first in each sequence; jobs that do not know that they are in one are told so."""
        turns: set[Turn] = set()
        unknown: dict[str, list[DocumentId]] = defaultdict(list)
        for document in candidates:
            for gate in gates[document["_id"]]:
                if isinstance(gate.rule, Turn):
                    turns.add(gate.rule)
                    if "seq" not in document:
                        unknown[gate.rule.sequence].append(document["_id"])
        if unknown:
            await self._store.gates.join_sequences(unknown)
            self._wake()
        self._first = await self._store.gates.first_of(turns) if turns else {}

    async def out_of_turn(self, claimed: Sequence[Document]) -> set[DocumentId]:
        """Those of these jobs that run beside another one of their sequence, and must be given back.

        Two workers may each have found another job first: the commit of a transaction has brought one in between.
        Whoever has claimed looks once more, so that of two at least one sees the other.
        """
        sequences: dict[DocumentId, str] = {}
        for document in claimed:
            for gate in self._admitted.get(document["_id"], ()):
                if isinstance(gate.rule, Turn):
                    sequences[document["_id"]] = gate.rule.sequence
        if not sequences:
            return set()
        try:
            running = await self._store.gates.running_in(set(sequences.values()))
        except Exception:
            return set(sequences)  # whatever it was, they are not run unseen
        return {job_id for job_id, sequence in sequences.items() if running[sequence] > 1}

    def taken(self, job_id: DocumentId) -> list[Gate]:
        """The gates that a claimed job came through, for its holding to keep."""
        return self._admitted.pop(job_id, [])

    def not_claimed(self, candidates: Iterable[Document]) -> None:
        """Others were faster with these: their slots are free again."""
        for document in candidates:
            self.freed(self._admitted.pop(document["_id"], []), unused=True)

    def freed(self, gates: Iterable[Gate], unused: bool = False) -> None:
        """A job has ended, or was not claimed after all."""
        for gate in gates:
            if isinstance(gate.rule, Turn) and not unused:
                self._open.add(gate.name)
            share = self._shares.get(gate.name)
            if share is None:
                continue
            if isinstance(gate.rule, Limit):
                share.used = max(0, share.used - 1)
                share.idle_since = monotonic()
                if share.line:
                    self._open.add(gate.name)
            elif unused:
                share.mine += gate.cost
        if self._open:
            self._wake()

    def _blocking(self, document: Document, gates: Sequence[Gate], closed: Container[str]) -> Gate | None:
        """The first gate that has no room for a job, or that it would pass before one that came earlier."""
        line = document.get("line")
        for gate in gates:
            if isinstance(gate.rule, Limit | Rate):
                share = self._shares.get(gate.name)
                blocks = share is None or share.free < gate.cost or gate.name in closed or (share.line and line is None)
            elif isinstance(gate.rule, Turn):
                blocks = self._first.get(gate.rule.sequence) != document["_id"] or "seq" not in document
            elif isinstance(gate.rule, Fair):
                blocks = line is None
            else:
                blocks = True
            if blocks:
                return gate
        return None

    def _use(self, job_id: DocumentId, gates: list[Gate]) -> None:
        for gate in gates:
            if isinstance(gate.rule, Limit):
                self._shares[gate.name].used += gate.cost
            elif isinstance(gate.rule, Rate):
                self._shares[gate.name].mine -= gate.cost
        if gates:
            self._admitted[job_id] = gates

    async def _take_more(self, candidates: Sequence[Document], gates: dict[DocumentId, list[Gate]], free: int) -> None:
        """Take from the gates what these candidates need beyond what this worker has."""
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
        lacking = {name: want for name, want in wants.items() if self._lacks(name, want)}
        if lacking:
            for name, taken in (await self._store.gates.take(self._worker, lacking)).items():
                self._note(name, taken)

    def _lacks(self, name: str, want: Want) -> bool:
        share = self._shares.get(name)
        free = 0 if share is None else share.free
        want.now, left = max(0, want.now - free), max(0, free - want.now)
        want.ahead = max(0, want.ahead - left)
        return want.now + want.ahead > 0

    def _note(self, name: str, taken: Taken) -> None:
        share = self._shares.setdefault(name, Share())
        share.mine, share.full, share.line, share.rev = taken.mine, taken.full, taken.line, taken.rev
        share.over = taken.over
        share.idle_since = monotonic()
        if taken.opens_at is not None and taken.full:
            wait = (taken.opens_at - self._clock.now()).total_seconds()
            asyncio.get_running_loop().call_later(max(0.0, wait), self.look_into, name)

    @property
    def _clock(self) -> Clock:
        return self._store.clock

    def look_into(self, name: str) -> None:
        """There may be room for those in a line."""
        self._open.add(name)
        self._wake()

    async def _put_in_line(self, refused: Refusals) -> None:
        await self._store.gates.put_in_line(refused.jobs, refused.notes, refused.groups, refused.firsts)
        # A slot that became free while these were put in line woke nobody: look once more.
        limited = [name for name in refused.jobs if name[:2] in (f"{CONCURRENCY}:", f"{RATE}:")]
        if len(limited) < len(refused.jobs):
            self._wake()
        for name, taken in (await self._store.gates.look(self._worker, limited) if limited else {}).items():
            share = self._shares.setdefault(name, Share())
            share.line, share.rev = True, taken.rev
            if share.free > 0 or not taken.full:
                self.look_into(name)

    # -- lines -----------------------------------------------------------------------------------------------------

    @property
    def open(self) -> bool:
        """Whether there are lines to look into."""
        return bool(self._open or self._fair)

    async def from_lines(self, want: int) -> list[Document]:
        """The first jobs in lines that may have room; in no order."""
        return [] if want <= 0 else await self._detours.pass_on(await self._from_lines(want))

    async def _from_lines(self, want: int) -> list[Document]:
        fair = await self._by_turns(want)
        if not self._open:
            return fair
        names = list(self._open)[:_LINES_AT_ONCE]
        self._open.difference_update(names)
        queues, fields = self._settings.queues, self._store.claims.fields
        found = await asyncio.gather(
            *(self._store.gates.heads(name, queues, self._room(name, want), fields) for name in names)
        )
        for name, jobs in zip(names, found, strict=True):
            if not jobs:
                await self._end_line(name)
        return fair + [job for jobs in found for job in jobs]

    async def _by_turns(self, want: int) -> list[Document]:
        """The next jobs of keys that take turns: those of the lines that were served least, a share of each."""
        self.more = False
        found: list[tuple[tuple[int, int, Any], Document]] = []
        for group in self._fair:
            if self._limits.is_paused(group):
                continue
            most = min(max(want, _FEWEST_TURNS), _MOST_TURNS)
            share = -(-want // most)
            lines = await self._store.gates.turns(group, most, share + 1, self._store.claims.fields)
            ended = {line.name: line.rev for line in lines if not line.jobs}
            if ended:
                await self._store.gates.end_lines(ended)
            self.more |= len(lines) == most or any(len(line.jobs) > share for line in lines)
            found += [
                ((job["priority"], line.served + place, job["run_at"]), job)
                for line in lines
                for place, job in enumerate(line.jobs)
            ]
        found.sort(key=lambda pair: pair[0])
        self.more |= len(found) > want
        return [job for _, job in found[:want]]

    async def count_turns(self, claimed: Sequence[Document], lines: Mapping[DocumentId, str]) -> None:
        """Note of the lines whose keys take turns how many of their jobs were claimed."""
        numbers = Counter(line for job in claimed if (line := lines.get(job["_id"], "")).startswith(f"{FAIR}:"))
        if numbers:
            await self._store.gates.served(numbers)

    def _room(self, name: str, want: int) -> int:
        """How many jobs of a line to read: what this worker has slots for, or as many as it could run."""
        share = self._shares.get(name)
        if share is None or share.free <= 0 or name in self._limits.closures:
            return want  # the first who could be a probe may be kept back by something else
        return min(want, share.free)

    def look_again(self, documents: Iterable[Document]) -> None:
        """There was no room here for these, which were read from lines: they stay first in them."""
        self._open.update(document["line"] for document in documents if not document["line"].startswith(f"{FAIR}:"))

    async def poll(self, every: float) -> None:
        """Learn which lines have room that this worker has not heard of."""
        if self._limits and monotonic() - self._polled_at >= every:
            self._polled_at = monotonic()
            open_lines = set(await self._store.gates.open_lines(_OPEN_LINES))
            shut = {name for name in open_lines if (closure := self._limits.closures.get(name)) and closure.shut}
            if shut:
                await self._store.gates.shut(shut)
            self._open |= open_lines - shut
            if self._limits.fair:
                served = self._settings.queues
                self._fair = [name for name in await self._store.gates.groups() if served is None or name in served]

    async def _end_line(self, name: str) -> None:
        share = self._shares.get(name)
        rev = share.rev if share is not None else (await self._store.gates.look(self._worker, [name]))[name].rev
        await self._store.gates.end_lines({name: rev})
        if share is not None:
            share.line = False

    # -- giving back -----------------------------------------------------------------------------------------------

    async def tidy(self) -> None:
        """Give back what this worker has had no use for: at once where others wait, else after a moment."""
        self._check_lease()
        async with self._asking:
            await self._return_unused(monotonic())

    async def _return_unused(self, now: float) -> None:
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
        if refund:
            await self._store.gates.refund(refund)
        if keep:
            await self._store.gates.give_back(self._worker, keep)
        for name, used in keep.items():
            share = self._shares.get(name, Share())
            if used == share.used == share.mine == 0:
                self._shares.pop(name, None)

    def limits_changed(self) -> None:
        """Somebody has changed limits: what this worker has of them counts only once it was asked for anew."""
        for share in self._shares.values():
            share.over = True
        self._wake()

    async def give_all_back(self) -> None:
        """This worker stops: whatever it has is others' at once."""
        names = list(self._shares)
        self._shares.clear()
        if names:
            await self._store.gates.give_back(self._worker, dict.fromkeys(names, 0))
