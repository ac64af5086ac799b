"""The wait lists of gates as one worker uses them: it puts jobs without room on them, and reads jobs that may start.

`Limiter.admit` decides which jobs wait, and at which gate (`WaitPlan`); `place` stores that. A job waits at the gate
that blocks it and at no other: on another list it would keep the jobs behind it from slots that it cannot use. A long
run of jobs that meet the same gate is put on its list by the thousand.

A worker reads a list when it has learned that there may be room: from its own jobs that have ended (`poll_line`), and
from a poll of the lists that other workers have opened (`Polling`). It claims these jobs together with the ready jobs.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mainspring.clock import monotonic
from mainspring.config.settings import Settings
from mainspring.engine.limits.job_gates import Limits
from mainspring.engine.limits.parking import Parking
from mainspring.engine.limits.slot_shares import Shares
from mainspring.model.jobs.job import LAST_PRIORITY
from mainspring.model.limits.controls import Probe
from mainspring.model.limits.limits import CONCURRENCY, FAIR, RATE, Closed, FairGate, Gate, SequenceGate
from mainspring.store import Store
from mainspring.store.codec import DocumentId
from mainspring.store.jobs.claim import fields_of
from mainspring.store.jobs.stored_job import StoredJob
from mainspring.store.limits.wait_lists import OpenWaitList, waiting_note

logger = logging.getLogger("mainspring")

_LISTS_AT_ONCE = 50
_FEWEST_KEYS, _MOST_KEYS = 10, 250
_MANY = 1000
_CROWD = 20
_PAGE = 100
_SELDOM, _AGAIN = 20, 5


@dataclass(slots=True)
class WaitPlan:
    """The jobs of one read that find no room, by the gates that they are to wait at (`jobs`), or by the lists that they
    move from and to (`moves`); why they wait (`notes`); for keys in round robin also the queue (`groups`) and the
    priority of the most urgent job (`firsts`)."""

    jobs: dict[str, list[DocumentId]] = field(default_factory=lambda: defaultdict(list))
    moves: dict[tuple[str, str], list[DocumentId]] = field(default_factory=lambda: defaultdict(list))
    notes: dict[str, str] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    firsts: dict[str, int] = field(default_factory=dict)

    def refuse(self, gate: Gate, job: StoredJob) -> None:
        """Plan that a job without room at a gate waits there. The jobs behind it must not pass the gate before it."""
        self._note(gate)
        if job.line is None:
            self.add(gate, job)
        elif job.line != gate.name:
            self.moves[job.line, gate.name].append(job.id)

    def add(self, gate: Gate, job: StoredJob) -> None:
        """Plan that a job that is on no list waits at a gate."""
        self._note(gate)
        self.jobs[gate.name].append(job.id)
        if isinstance(gate.rule, FairGate):
            self.groups[gate.name] = gate.rule.group
            self.firsts[gate.name] = min(job.priority, self.firsts.get(gate.name, LAST_PRIORITY))

    def _note(self, gate: Gate) -> None:
        if gate.name not in self.notes:
            self.notes[gate.name] = waiting_note(gate)

    @property
    def in_round_robin(self) -> int:
        """The number of jobs whose keys are in round robin."""
        return sum(len(self.jobs[name]) for name in self.groups)

    @property
    def count(self) -> int:
        return sum(map(len, self.jobs.values()))


class WaitLists:
    """The wait lists of one worker's gates."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        limits: Limits,
        shares: Shares,
        parking: Parking,
        worker: str,
        wake: Callable[[], None],
    ) -> None:
        self._store = store
        self._settings = settings
        self._limits = limits
        self._shares = shares
        self._parking = parking
        self._worker = worker
        self._wake = wake
        self._open: set[str] = set()
        """The lists that may have room."""
        self._polling = Polling(store, settings, limits)
        self.more = False
        """Whether there are more jobs on the lists than the last read returned."""

    # -- lists that may have room ----------------------------------------------------------------------------------

    @property
    def open(self) -> bool:
        """Whether there are lists to read."""
        return bool(self._open or self._polling.groups)

    @property
    def any_noted(self) -> bool:
        """Whether there are lists to read, the lists of keys in round robin apart."""
        return bool(self._open)

    def poll_line(self, name: str) -> None:
        """Read a list soon, since there may be room for its jobs. Lists of keys in round robin are read together."""
        self.note_room(name)
        self._wake()

    def note_room(self, name: str) -> None:
        """Include a list in the next read, without waking the worker."""
        if not _is_fair(name):
            self._open.add(name)

    def poll_again(self, jobs: Iterable[StoredJob]) -> None:
        """Read the lists of these jobs again: the jobs were read, found no room here, and stay first on them."""
        self._open.update(job.line for job in jobs if job.line is not None and not _is_fair(job.line))

    def poll_next_time(self) -> None:
        """Find open lists with the next poll, however short ago the last one was. Tests that move the clock need it."""
        self._polling.poll_next_time()

    async def poll(self, every: float) -> None:
        """Find lists that may have room and that this worker does not know of."""
        found = await self._polling.poll(every)
        shut = {name for name in found if (closure := self._limits.closures.get(name)) and closure.shut}
        self._open |= found - shut
        if shut:
            await self._store.gates.close(shut)

    # -- placing ---------------------------------------------------------------------------------------------------

    async def place(self, plan: WaitPlan, read: Sequence[StoredJob]) -> None:
        """Put jobs on the lists of the gates that block them; `read` are all jobs that were read with them."""
        if plan.jobs:
            await self._add_closed(plan, read)
            crowd = max(plan.in_round_robin, plan.count - _CROWD)  # a few jobs of a limit are soon placed one by one
            if 2 * crowd > len(read):
                await self._add_following(plan, read)
            await self._put(plan)
        for (line, gate), ids in plan.moves.items():
            await self._move(line, gate, plan.notes[gate], ids)

    async def _add_closed(self, plan: WaitPlan, read: Sequence[StoredJob]) -> None:
        """Add many of the jobs behind that will meet the same closed gate, if it blocked most of the jobs read."""
        for name, ids in plan.jobs.items():
            closure = self._limits.closures.get(name)
            if closure is not None and closure.shut and 2 * len(ids) > len(read):
                alike = await self._store.gates.ready_like(read[0].queue, closure.target, _MANY)
                plan.jobs[name] = list(dict.fromkeys([*ids, *alike]))

    async def _add_following(self, plan: WaitPlan, read: Sequence[StoredJob]) -> None:
        """Add many of the jobs behind to the plan, since most of the jobs read were on no list and have to wait."""
        known = {job.id for job in read}
        for job in await self._store.claims.candidates(read[0].queue, _MANY):
            gate = _in_the_way(self._limits.gates_of(job), plan.jobs)
            if gate is not None and job.id not in known:
                plan.add(gate, job)

    async def _put(self, plan: WaitPlan) -> None:
        gates = self._store.gates
        for job_id, error in await gates.add_to_wait_lists(plan.jobs, plan.notes, plan.groups, plan.firsts):
            await self._store.claims.set_aside(job_id, error)
        # A slot that became free while these were placed woke no worker: ask once more.
        limited = [name for name in plan.jobs if name[:2] in (f"{CONCURRENCY}:", f"{RATE}:")]
        if len(limited) < len(plan.jobs):
            self._wake()
        for name, taken in (await self._store.gates.look(self._worker, limited) if limited else {}).items():
            share = self._shares.open(name)
            share.line, share.rev = True, taken.rev
            if share.free > 0 or not taken.full:
                self.poll_line(name)

    async def _move(self, line: str, gate: str, note: str, ids: list[DocumentId]) -> None:
        await self._store.gates.move_waiting(line, gate, note, ids)
        self.poll_line(line)
        share = self._shares.get(gate)
        if share is not None:
            share.line = True
        else:
            self.poll_line(gate)

    # -- reading ---------------------------------------------------------------------------------------------------

    async def read(self, want: int, *, history: bool = False) -> list[StoredJob]:
        """The first jobs on lists that have room, or soon may have; in no order. With `history`, each has its earlier
        attempts."""
        if want <= 0:
            return []
        found = await self._read(want, fields_of(history))
        try:
            return await self._divert_paused(found)
        except BaseException:
            self.poll_again(found)
            raise

    async def _read(self, want: int, fields: Mapping[str, int]) -> list[StoredJob]:
        fair = await self._read_fair(want, fields)
        if not self._open:
            return fair
        names = list(self._open)[:_LISTS_AT_ONCE]
        self._open.difference_update(names)
        if self._open:
            self._wake()  # to read the remaining lists
        try:
            rooms = {name: room for name in names if (room := self._room(name, want))}
            return fair + await self._read_heads(rooms, fields)
        except BaseException:
            self._open.update(names)  # none of them was read
            raise

    def _room(self, name: str, want: int) -> int:
        """The number of jobs of a list to read: as many as this worker has slots for now and in a moment, or as many as
        it could run if it may get more slots."""
        share = self._shares.get(name)
        if share is None or name in self._limits.closures:
            return want  # another gate may block the first jobs that could be probes
        room = min(want, max(0, share.free) + self._parking.room(name, share))
        return room or (0 if share.whole else want)

    async def _read_heads(self, rooms: Mapping[str, int], fields: Mapping[str, int]) -> list[StoredJob]:
        """The first jobs of these lists, as many of each as `rooms` says. A list that cannot be read stops no other."""
        answers = await asyncio.gather(
            *(self._store.gates.heads(name, self._settings.queues, room, fields) for name, room in rooms.items()),
            return_exceptions=True,
        )
        found: list[StoredJob] = []
        failed: dict[str, BaseException] = {}
        for name, jobs in zip(rooms, answers, strict=True):
            if isinstance(jobs, BaseException):
                failed[name] = jobs
                continue
            found += jobs
            self.more |= len(jobs) >= rooms[name]
            if not jobs:
                await self._end(name)
        for name, error in failed.items():
            if len(failed) == len(rooms):
                raise error
            logger.warning("The wait list %s could not be read and will be read again: %r", name, error)
            self._open.add(name)
        return found

    async def _read_fair(self, want: int, fields: Mapping[str, int]) -> list[StoredJob]:
        """The next jobs of keys in round robin: a share of each of the lists that were served least."""
        self.more = False
        found: list[tuple[tuple[int, int, Any], StoredJob]] = []
        for group in self._polling.groups:
            if group in self._limits.paused_queues:
                continue
            most = min(max(want, _FEWEST_KEYS), _MOST_KEYS)
            share = -(-want // most)
            lines = await self._store.gates.next_fair_lists(group, most, share + 1, fields)
            ended = {line.name: line.rev for line in lines if not line.jobs}
            if ended:
                await self._store.gates.end_wait_lists(ended)
            self.more |= len(lines) == most or any(len(line.jobs) > share for line in lines)
            found += [
                ((job.priority, line.served + place, job.run_at), job)
                for line in lines
                for place, job in enumerate(line.jobs)
            ]
        found.sort(key=lambda pair: pair[0])
        self.more |= len(found) > want
        return [job for _, job in found[:want]]

    async def count_served(self, claimed: Sequence[StoredJob], lines: Mapping[DocumentId, str]) -> None:
        """Count the claimed jobs of each list of a key in round robin."""
        numbers = Counter(line for job in claimed if _is_fair(line := lines.get(job.id, "")))
        if numbers:
            await self._store.gates.served(numbers)

    async def _divert_paused(self, jobs: list[StoredJob]) -> list[StoredJob]:
        """Move jobs that a pause or a breaker blocks to its list; return the jobs that are on the right list."""
        if not self._limits.closures:
            return jobs
        passing: list[StoredJob] = []
        astray: dict[tuple[str, str], list[DocumentId]] = defaultdict(list)
        for job in jobs:
            closure = self._limits.closed_to(job)
            if closure is not None and job.line is not None and closure.gate.name != job.line:
                astray[job.line, closure.gate.name].append(job.id)
            elif closure is None or not closure.shut:
                passing.append(job)
        for (line, gate), ids in astray.items():
            await self._move_alike(line, gate, ids)
        return passing

    async def _move_alike(self, line: str, gate: str, ids: list[DocumentId]) -> None:
        """Move all jobs of a list that the same pause or breaker blocks, and read it again: others may be first now."""
        closure = self._limits.closures.get(gate)
        if closure is not None:
            await self._store.gates.move_waiting(line, gate, waiting_note(closure.gate), ids, closure.target)
        self.poll_line(line)

    async def _end(self, name: str) -> None:
        """End a list that was found empty."""
        share = self._shares.get(name)
        rev = share.rev if share is not None else (await self._store.gates.look(self._worker, [name]))[name].rev
        await self._store.gates.end_wait_lists({name: rev})
        if share is not None:
            share.line = False


@dataclass(frozen=True, slots=True)
class Looked:
    """The state of a list when it was found open, and until when it need not be read again."""

    open_at: datetime
    rev: int
    until: float


class Polling:
    """Finds the lists that other workers have opened, because slots became free, a limit was changed, or a chore found
    that jobs wait.

    A poll reads one page of the open lists. If there are more, each poll reads the next page, and starts over after the
    last; it also reads the lists that were opened since the last poll. So lists that have room and whose jobs this
    worker cannot take hide no others. A list that was found is not found again for a while, unless it was opened anew
    or jobs were added to it.

    A worker whose code declares no limit asks seldom, and only whether jobs that it has handlers for wait on any list:
    code that declares a limit may have put them there.
    """

    def __init__(self, store: Store, settings: Settings, limits: Limits) -> None:
        self._store = store
        self._settings = settings
        self._limits = limits
        self.groups: list[str] = []
        """The queues of this worker that have jobs of keys in round robin."""
        self._polled_at = float("-inf")
        self._found = False
        self._place: OpenWaitList | None = None
        self._newest: OpenWaitList | None = None
        self._looked: dict[str, Looked] = {}

    async def poll(self, every: float) -> set[str]:
        """The lists to read; none if the last poll was less than `every` seconds ago."""
        now = monotonic()
        if now - self._polled_at < (every if self._limits or self._found else _SELDOM * every):
            return set()
        self._polled_at, self._found = now, False
        if not self._limits and not await self._store.gates.any_waiting(self._limits.names):
            return set()
        lines = self._not_lately(await self._next(), now, _AGAIN * every)
        if self._limits.fair:
            served = self._settings.queues
            self.groups = [name for name in await self._store.gates.groups() if served is None or name in served]
        self._found = bool(lines)
        return lines

    def poll_next_time(self) -> None:
        """Let the next poll take place, and find again the lists that were found lately."""
        self._polled_at = float("-inf")
        self._looked.clear()

    async def _next(self) -> list[OpenWaitList]:
        page = await self._store.gates.open_wait_lists(_PAGE, self._place)
        whole = self._place is None and len(page) < _PAGE
        if whole:
            news: list[OpenWaitList] = []
            self._newest = page[-1] if page else self._newest
        else:
            self._place = page[-1] if len(page) == _PAGE else None
            news = await self._store.gates.open_wait_lists(_PAGE, self._newest)
            self._newest = news[-1] if news else self._newest
        return page + news

    def _not_lately(self, lines: list[OpenWaitList], now: float, pause: float) -> set[str]:
        """The lists that were not found lately, in this state. Lists of keys in round robin are read by their queue."""
        self._looked = {name: looked for name, looked in self._looked.items() if looked.until > now}
        found = set()
        for line in lines:
            looked = self._looked.get(line.name)
            again = looked is not None and (looked.open_at, looked.rev) == (line.open_at, line.rev)
            if not again and not _is_fair(line.name):
                self._looked[line.name] = Looked(line.open_at, line.rev, now + pause)
                found.add(line.name)
        return found


def _is_fair(line: str) -> bool:
    """Whether a list belongs to a key in round robin."""
    return line.startswith(f"{FAIR}:")


def _in_the_way(gates: Iterable[Gate], refused: Container[str]) -> Gate | None:
    """The gate that a job will have to wait at, given the gates that refuse other jobs; None if that is not sure."""
    for gate in gates:
        if isinstance(gate.rule, Closed | SequenceGate | Probe):
            return None
        if isinstance(gate.rule, FairGate) or gate.name in refused:
            return gate
    return None
