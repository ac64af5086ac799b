"""Lets through only as many jobs as the limits allow, counting for one worker what it has of each gate.

Between reading candidates and claiming them, `admit` asks for each job whether every gate in its way has room here,
and takes more from the database where this worker has too little. Who finds no room is put in line. When a job has
ended, `freed` gives its slots to the next: the worker looks into the lines of those gates before anything else, and
what nobody here needs goes back after a moment. While jobs are short, a few more are admitted than there are slots
for: they are parked, and start when this worker's own jobs leave theirs.

All this is counted against what `store/gates.py` granted, and only while this worker's lease holds: after that it has
nothing, since others may have been given it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from mainspring.clock import monotonic
from mainspring.config import Settings
from mainspring.engine.detours import Detours
from mainspring.engine.events import nobody
from mainspring.engine.holdings import Holding
from mainspring.engine.limits import Limits
from mainspring.engine.parking import Parking
from mainspring.engine.refusals import Refusals
from mainspring.engine.shares import Shares
from mainspring.model.controls import Probe
from mainspring.model.limits import CONCURRENCY, FAIR, RATE, Fair, Gate, Limit, Rate, Shut, Turn
from mainspring.store import Store
from mainspring.store.codec import DocumentId
from mainspring.store.connection import Document
from mainspring.store.gates import Taken
from mainspring.store.lines import line_note

_OPEN_LINES = 100
_LINES_AT_ONCE = 50
_FEWEST_TURNS, _MOST_TURNS = 10, 250
_MANY = 1000
_CROWD = 20


@dataclass(slots=True)
class Admitted:
    """Which candidates are to be claimed: those with room for them, and those to be parked behind them."""

    now: list[Document] = field(default_factory=list)
    behind: list[Document] = field(default_factory=list)

    def __iter__(self) -> Iterator[Document]:
        return chain(self.now, self.behind)


class Gatekeeper:
    """The limits of one worker."""

    def __init__(self, store: Store, settings: Settings, limits: Limits, worker: str, wake: Callable[[], None]) -> None:
        self._store = store
        self._settings = settings
        self._limits = limits
        self._worker = worker
        self._wake = wake
        self._shares = Shares(store, settings, worker, self._granted, self._forget)
        self.parking = Parking(self._shares, settings.prefetch)
        self.strand: Callable[[], None] = nobody
        """Told when parked jobs have nothing to wait for here, and are to be given back."""
        self._open: set[str] = set()
        self._admitted: dict[DocumentId, list[Gate]] = {}
        self._detours = Detours(store, limits, self.look_into)
        self._first: dict[str, DocumentId] = {}
        self._fair: list[str] = []
        self.more = False
        """Whether lines of keys that take turns hold more than was read of them."""
        self._polled_at = float("-inf")
        self._changes = 0
        """How often limits have been changed."""

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
        self._shares.extend(asked)

    def valid_for(self, holding: Holding, asked: float) -> float:
        """Until when a job may run whose claim was made or renewed at `asked`."""
        return self._shares.valid_for(asked) if needs_slot(holding.gates) else self._shares.end_of_lease(asked)

    def _forget(self) -> None:
        """Nothing that was granted counts any more."""
        self._admitted = {job_id: gates for job_id, gates in self._admitted.items() if not needs_slot(gates)}
        self.parking.drop_all()
        self.strand()

    # -- letting through -------------------------------------------------------------------------------------------

    async def admit(self, candidates: Sequence[Document], free: int) -> Admitted:
        """Those candidates that every gate has room for, or soon will have; the others are put in line. `free` of them
        can be started at once."""
        if self.idle:
            return Admitted(list(candidates))
        known = self._changes
        gates = {document["_id"]: self._limits.gates(document) for document in candidates}
        if any(map(needs_slot, gates.values())) and not await self._shares.leased():
            candidates = [document for document in candidates if not needs_slot(gates[document["_id"]])]
        self._shares.check_lease()
        await self._learn_turns(candidates, gates)
        await self._shares.take_more(candidates, gates, free)
        admitted, refused = Admitted(), Refusals()
        astray: dict[tuple[str, str], list[DocumentId]] = defaultdict(list)
        closed: dict[str, str] = {}
        for document in candidates:
            mine = gates[document["_id"]]
            blocking = self._blocking(document, mine, closed)
            if blocking is None:
                self._shares.use(mine)
                self._admitted[document["_id"]] = mine
                admitted.now.append(document)
            elif self.parking.plan(document, mine, blocking.name, closed):
                admitted.behind.append(document)
            else:
                closed[blocking.name] = line_note(blocking)
                if document.get("line", blocking.name) != blocking.name:
                    astray[document["line"], blocking.name].append(document["_id"])
                elif "line" not in document:
                    refused.add(blocking, document)
        await self._send_away(candidates, refused, astray, closed)
        if self._changes != known:
            self._look_again_at(refused)
        return admitted

    async def _send_away(
        self,
        candidates: Sequence[Document],
        refused: Refusals,
        astray: Mapping[tuple[str, str], list[DocumentId]],
        closed: Mapping[str, str],
    ) -> None:
        """Let those who found no room wait in the right lines."""
        if refused.jobs:
            await self._detours.fetch_alike(refused.jobs, candidates)
            crowd = max(refused.in_turns, refused.count - _CROWD)  # a few of a limit are soon put in line one by one
            if 2 * crowd > len(candidates):
                await self._add_those_behind(refused, candidates)
            await self._put_in_line(refused)
        for (line, gate), ids in astray.items():
            await self._change_line(line, gate, closed[gate], ids)

    def _look_again_at(self, refused: Refusals) -> None:
        """Limits were changed while these were put in line, which woke nobody: look once more."""
        for name in refused.jobs:
            self.look_into(name)

    async def _add_those_behind(self, refused: Refusals, read: Sequence[Document]) -> None:
        """Where many came that were not in line and have to be, the many behind them are put in line at once, too."""
        known = {document["_id"] for document in read}
        for document in await self._store.claims.candidates(read[0]["queue"], _MANY):
            gate = _in_the_way(self._limits.gates(document), refused.jobs)
            if gate is not None and document["_id"] not in known:
                refused.add(gate, document)

    async def _change_line(self, line: str, gate: str, note: str, ids: list[DocumentId]) -> None:
        """A job waits where it is kept back: in another line it would keep those behind it from what is free there."""
        await self._store.gates.change_line(line, gate, note, {"_id": {"$in": ids}})
        self.look_into(line)
        share = self._shares.get(gate)
        if share is not None:
            share.line = True
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

    def taken(self, document: Document) -> list[Gate] | None:
        """The gates that a claimed job came through, for its holding to keep; none yet of one that is to be parked.
        None if it must not run: the lease that its slots were bound to has run out."""
        gates = self._admitted.pop(document["_id"], None)
        if gates is None and not self.parking.is_planned(document["_id"]) and self._limits:
            return None if self._limits.gates(document) else []
        return gates or []

    def not_claimed(self, candidates: Iterable[Document]) -> None:
        """Others were faster with these: their slots are free again."""
        for document in candidates:
            self.parking.drop(document["_id"])
            self.freed(self._admitted.pop(document["_id"], []), unused=True)

    def freed(self, gates: Iterable[Gate], took: float | None = None, *, unused: bool = False) -> None:
        """A job has ended, after so many seconds, or was not claimed after all."""
        for gate in gates:
            if isinstance(gate.rule, Turn) and not unused:
                self._open.add(gate.name)
            share = self._shares.get(gate.name)
            if share is None:
                continue
            if isinstance(gate.rule, Limit):
                share.release(gate.cost, took)
                self.parking.unpark(gate.name)
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

    # -- lines -------------------------------------------------------------------------------------------------------

    def _granted(self, name: str, taken: Taken) -> None:
        """This worker has asked for its share of a gate."""
        self.parking.unpark(name)
        if taken.opens_at is not None and taken.full:
            wait = (taken.opens_at - self._store.clock.now()).total_seconds()
            asyncio.get_running_loop().call_later(max(0.0, wait), self.look_into, name)

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
            share = self._shares.open(name)
            share.line, share.rev = True, taken.rev
            if share.free > 0 or not taken.full:
                self.look_into(name)

    @property
    def open(self) -> bool:
        """Whether there are lines to look into."""
        return bool(self._open or self._fair)

    async def from_lines(self, want: int) -> list[Document]:
        """The first jobs in lines that may have room, or soon will; in no order."""
        return [] if want <= 0 else await self._detours.pass_on(await self._from_lines(want))

    async def _from_lines(self, want: int) -> list[Document]:
        fair = await self._by_turns(want)
        if not self._open:
            return fair
        names = list(self._open)[:_LINES_AT_ONCE]
        self._open.difference_update(names)
        queues, fields = self._settings.queues, self._store.claims.fields
        rooms = {name: room for name in names if (room := self._room(name, want))}
        found = await asyncio.gather(
            *(self._store.gates.heads(name, queues, room, fields) for name, room in rooms.items())
        )
        for name, jobs in zip(rooms, found, strict=True):
            self.more |= len(jobs) >= rooms[name]
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
        """How many jobs of a line to read: what this worker has slots for now and in a moment, or as many as it could
        run where it may get more slots."""
        share = self._shares.get(name)
        if share is None or name in self._limits.closures:
            return want  # the first who could be a probe may be kept back by something else
        room = min(want, max(0, share.free) + self.parking.room(name, share))
        return room or (0 if share.whole else want)

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
        """Give back what this worker has had no use for."""
        self._shares.check_lease()
        await self._shares.give_back_unused()

    def limits_changed(self) -> None:
        """Somebody has changed limits."""
        self._changes += 1
        self._shares.doubt()
        self.strand()
        self._wake()

    async def give_all_back(self) -> None:
        """This worker stops: whatever it has is others' at once."""
        await self._shares.give_all_back()


def needs_slot(gates: Iterable[Gate]) -> bool:
    """Whether a job takes a slot that is bound to its worker's lease."""
    return any(isinstance(gate.rule, Limit) for gate in gates)


def _in_the_way(gates: Iterable[Gate], refused: Container[str]) -> Gate | None:
    """The gate that a job will have to wait at if these refuse others; None where that is not sure."""
    for gate in gates:
        if isinstance(gate.rule, Shut | Turn | Probe):
            return None
        if isinstance(gate.rule, Fair) or gate.name in refused:
            return gate
    return None
