"""Getting jobs: when to look, how many to claim, and from which queue.

One free slot costs one or two round trips, hundreds cost the same few: candidates are read and claimed in batches. A
little more than the free slots is claimed when jobs are so short that a slot would otherwise wait for the next round
trip, but only while the queue holds more than the idle workers together could take. When several workers meet at the
head of the same queue and take from each other what they have read, they take turns for a while.

Between looks the producer sleeps until the next job is due, a hint arrives, a slot becomes free, or the poll interval
has passed, whichever is first. Hints save time; the poll is the truth.
"""

from __future__ import annotations

import asyncio
import logging
import random
import zlib
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from dataclasses import dataclass

from mainspring.clock import monotonic
from mainspring.config import Settings
from mainspring.engine.completer import Completer
from mainspring.engine.events import Events
from mainspring.engine.gatekeeper import Gatekeeper
from mainspring.engine.holdings import Holding, Holdings
from mainspring.engine.peers import Peers
from mainspring.engine.policy import Policies
from mainspring.engine.secrecy import Secrecy
from mainspring.engine.slots import Slots
from mainspring.engine.triage import Triage
from mainspring.handlers import Handlers
from mainspring.model.ending import Released
from mainspring.model.events import JOB_EVENTS
from mainspring.model.limits import FAIR
from mainspring.store import Store
from mainspring.store.claim import ORDER, Batch, ClaimUnclear
from mainspring.store.codec import DocumentId
from mainspring.store.connection import Document
from mainspring.store.watch import Hint

logger = logging.getLogger("mainspring")

_LARGEST_CLAIM = 1000
_BACKLOG_OF_ENDS = 4000
_CONTENDED_FOR = 2.0
_TURN = 1.5
_QUEUES_FOR = 10.0
_WORTH_READING_ON = 100
_FRESH_FOR = 0.5
_FEW, _REMEMBERED = 32, 1000


@dataclass(slots=True)
class ReadAhead:
    """Candidates read while the claim before them was under way."""

    queue: str
    task: asyncio.Task[list[Document]]
    claimed: set[DocumentId]
    started: float

    async def take(self, queue: str) -> list[Document]:
        """What was read, less what was claimed meanwhile; nothing when it is of no use any more."""
        if queue != self.queue or monotonic() - self.started > _FRESH_FOR:
            self.task.cancel()
            await asyncio.wait({self.task})
            return []
        return [document for document in await self.task if document["_id"] not in self.claimed]


class Producer:
    """Claims jobs for the slots of one worker."""

    def __init__(
        self,
        *,
        store: Store,
        settings: Settings,
        handlers: Handlers,
        policies: Policies,
        holdings: Holdings,
        slots: Slots,
        completer: Completer,
        peers: Peers,
        gatekeeper: Gatekeeper,
        events: Events,
        secrecy: Secrecy,
        worker: str,
        failed: Callable[[Exception], None],
    ) -> None:
        self._store = store
        self._settings = settings
        self._handlers = handlers
        self._policies = policies
        self._holdings = holdings
        self._slots = slots
        self._completer = completer
        self._peers = peers
        self._gatekeeper = gatekeeper
        self._lined: dict[str, list[Document]] = {}
        """Jobs read from the lines of limits, by queue, to be claimed with the others of their queues."""
        self._triage = Triage(store, handlers, peers, events, secrecy)
        self._events = events
        self._worker = worker
        self._failed = failed
        self._awake = asyncio.Event()
        self._stopping = False
        self._hinted = True
        self._deep = False
        """Whether the last look has left due jobs behind."""
        self._blind = False
        self._recent: dict[DocumentId, None] = {}
        self._last_batch = 0
        self._claim_time = 0.01
        self._batch_time = 0.01
        self._barren = 0
        self._contended_until = float("-inf")
        self._unclear: list[Batch] = []
        self._found_queues: list[str] = []
        self._served: dict[str, int] = {}
        self._found_queues_at = float("-inf")
        # Without a change stream nobody tells of a new queue.
        self._queues_for = _QUEUES_FOR if store.watch.possible else settings.poll_interval
        self._ahead_of_claim: ReadAhead | None = None
        self._sleeping = False
        self.paused: frozenset[str] = frozenset()
        """Queues that are not looked into for now."""

    # -- waking ----------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Look at once."""
        self._hinted = True
        self._awake.set()

    def look_everywhere(self) -> None:
        """Look at once, also for queues that have come up without a hint."""
        self._found_queues_at = float("-inf")
        self.wake()

    def room(self) -> None:
        """A slot has become free: look, unless the last look has seen all that is due."""
        if self._deep or self._hinted or self._blind:
            self._hinted = True
            self._awake.set()

    def hint(self, hint: Hint) -> None:
        """A job was inserted somewhere: look when it is due."""
        queue = hint.queue
        if hint.id in self._recent or (queue is not None and not self._serves(queue)):
            return
        if queue is not None and self._settings.queues is None and queue not in self._found_queues:
            self._found_queues.append(queue)
        wait = 0.0 if hint.run_at is None else (hint.run_at - self._store.clock.now()).total_seconds()
        if wait > self._settings.poll_interval:
            return
        if not self._mine(hint):
            wait = max(wait, 0.0) + 0.01  # another worker is first in line for this one
        if wait <= 0:
            self.wake()
        else:
            asyncio.get_running_loop().call_later(wait + 0.001, self.wake)

    def _mine(self, hint: Hint) -> bool:
        return self._share(str(hint.id), *self._peers.rank(hint.queue))

    @staticmethod
    def _share(job_id: str, rank: int, count: int) -> bool:
        return count <= 1 or zlib.crc32(job_id.encode()) % count == rank

    def _serves(self, queue: str) -> bool:
        return (self._settings.queues is None or queue in self._settings.queues) and queue not in self.paused

    @property
    def resting(self) -> bool:
        """Whether this worker has slots to spare and has seen all that is due: a hint would be news to it."""
        return self._sleeping and not self._deep and not self._blind

    # -- the loop --------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        self._stopping = True
        self._awake.set()

    async def run(self) -> None:
        """Look for jobs until told to stop. No error ends it."""
        failures = 0
        while not self._stopping:
            self._awake.clear()
            try:
                wait = await self.run_once()
                failures = 0
            except Exception as error:
                failures += 1
                wait = random.uniform(0.5, 1.0) * min(0.1 * 2**failures, 5.0)
                self._failed(error)
                await self._store.connection.mend(error)
            await self._sleep(wait)
        with suppress(Exception):
            await self._settle_unclear()  # what turns out to be ours is given back at once

    async def _sleep(self, wait: float) -> None:
        if self._stopping:
            return
        if wait <= 0:
            await asyncio.sleep(0)
            return
        self._sleeping = True
        try:
            async with asyncio.timeout(wait):
                await self._awake.wait()
        except TimeoutError:
            pass
        self._sleeping = False

    async def run_once(self) -> float:
        """One look; returns for how many seconds there is nothing to do unless something happens."""
        await self._settle_unclear()
        want = self._want()
        self._blind = want <= 0
        if want <= 0:
            return self._settings.poll_interval
        await self._gatekeeper.poll(self._settings.poll_interval)
        if not self._hinted and not self._gatekeeper.open:
            wait = await self._until_due()
            if wait > 0:
                return wait
        self._hinted = self._deep = False
        self._store.claims.read_history = self._events.any_wanted(JOB_EVENTS)
        got = await self._claim(want)
        if got:
            self._barren = 0
            return 0.0 if self._deep else await self._until_due()
        if self._hinted:
            return 0.0  # there is news, or what stood in the way was set aside
        wait = await self._until_due()
        if wait <= 0:
            # Something is due that this worker cannot have; do not ask for it in a circle.
            self._barren += 1
            wait = min(self._settings.poll_interval, 0.005 * 2 ** min(self._barren, 10))
        return wait

    def _want(self) -> int:
        """How many jobs to claim now: the free slots, and what keeps them busy during the next round trip."""
        if len(self._completer) > _BACKLOG_OF_ENDS:
            return 0
        free, waiting, ahead = self._slots.free, self._slots.queued, self._ahead()
        if free > waiting:
            return min(free - waiting + ahead, _LARGEST_CLAIM)
        left = max(0, waiting - self._meanwhile())  # what will still wait when the claim is back
        self._slots.low_water = max(0, waiting - left) + ahead // 2
        return min(ahead - left, _LARGEST_CLAIM) if left <= ahead // 2 else 0

    def _ahead(self) -> int:
        if not self._deep:
            return 0
        meanwhile = self._meanwhile()
        if meanwhile < 1:
            return 0
        return min(self._settings.prefetch, 3 * meanwhile, 10 * self._last_batch + self._slots.concurrency)

    def _meanwhile(self) -> int:
        """How many jobs the slots get through while one claim is under way."""
        return int(self._slots.concurrency * self._claim_time / max(self._slots.duration, 1e-6))

    async def _until_due(self) -> float:
        """Seconds until the next job of our queues is due, at most the poll interval; 0 when one is."""
        interval = self._settings.poll_interval * random.uniform(0.95, 1.25)
        queues = await self._queues()
        if not queues:
            return interval
        first = await self._store.claims.next_run_at(queues)
        if first is None:
            return interval
        wait = (first[0] - self._store.clock.now()).total_seconds()
        return 0.0 if wait <= 0 else min(interval, wait + 0.001)

    async def _queues(self) -> list[str]:
        """The queues to look into; those that have ready jobs, when the worker serves all."""
        if self._settings.queues is not None:
            return self._not_paused(self._settings.queues)
        if not self._found_queues or monotonic() - self._found_queues_at > self._queues_for:
            self._found_queues = await self._store.claims.queues()
            self._found_queues_at = monotonic()
        return self._not_paused(self._found_queues)

    def _not_paused(self, queues: Sequence[str]) -> list[str]:
        return [queue for queue in queues if queue not in self.paused] if self.paused else list(queues)

    # -- claiming --------------------------------------------------------------------------------------------------

    async def _claim(self, want: int) -> int:
        """Claim up to `want` jobs from our queues, fairly; returns how many became ours."""
        await self._look_into_lines(want)
        queues = await self._queues()
        if len(queues) <= 1 and not self._lined.keys() - set(queues):
            return await self._claim_from(queues[0], want) if queues else 0
        got = 0
        heads = await self._store.claims.heads(queues)
        # Whoever was served longest ago is first, so that a single free slot goes round among the queues too.
        heads.sort(key=lambda head: self._served.get(head[1], 0))
        self._served = {queue: self._served.get(queue, 0) for _, queue in heads}
        for round_ in range(2):
            # Equal shares, the queue whose first job waits longest first; what one leaves goes to the others.
            for position, (_, queue) in enumerate(heads):
                share = want - got if round_ else -(-(want - got) // (len(heads) - position))
                if share > 0 and got < want:
                    got += await self._claim_from(queue, share)
                    self._served[queue] = max(self._served.values()) + 1
            if got >= want or len(heads) <= 1:
                break
        for queue in list(self._lined):
            got += await self._claim_from(queue, want - got) if got < want else 0
        return got

    async def _look_into_lines(self, want: int) -> None:
        self._lined.clear()
        for document in await self._gatekeeper.from_lines(want):
            self._lined.setdefault(document["queue"], []).append(document)
        self._deep |= self._gatekeeper.more

    async def _claim_from(self, queue: str, want: int) -> int:
        started = monotonic()
        if started >= self._contended_until:
            return await self._claim_batch(queue, want, started)
        await self._take_turn(queue)
        try:
            return await self._claim_batch(queue, want, started)
        finally:
            await self._store.claims.end_turn(queue, self._worker)

    async def _take_turn(self, queue: str) -> None:
        """Wait until no other worker is at the head of the queue. A dead worker's turn ends by itself."""
        pause = min(max(0.02, self._batch_time), 0.15)
        until = monotonic() + 2 * _TURN
        while not await self._store.claims.take_turn(queue, self._worker, _TURN) and monotonic() < until:
            self._contended_until = monotonic() + _CONTENDED_FOR
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))

    async def _claim_batch(self, queue: str, want: int, started: float) -> int:
        reading_since = monotonic()
        runnable, set_aside = await self._triage.sort(queue, await self._with_lined(queue, want))
        self._hinted |= set_aside
        free = max(0, self._slots.free - len(self._slots.waiting))
        read, admitted = runnable, await self._gatekeeper.admit(runnable, free)
        runnable, free = list(admitted), min(free, len(admitted.now))
        if len(runnable) < len(read):
            self._hinted |= any("line" not in document for document in read)  # some made way for those behind them
        if not runnable:
            return 0
        lines = {document["_id"]: document["line"] for document in runnable if "line" in document}
        asked = monotonic()
        policies = self._policies
        claim = self._store.claims.claim(
            runnable, self._worker, self._settings.lease, policies.attempts, free, policies.once
        )
        reading = self._read_on(queue, runnable)
        try:
            batch = await claim
        except ClaimUnclear as unclear:
            self._unclear.append(unclear.batch)
            raise
        except Exception:
            self._gatekeeper.not_claimed(runnable)
            raise
        finally:
            self._ahead_of_claim = reading
        self._batch_time += (monotonic() - reading_since - self._batch_time) * 0.3
        self._note(batch, len(runnable), monotonic() - started)
        self._admit(batch, asked, await self._gatekeeper.out_of_turn(batch.documents))
        await self._gatekeeper.count_turns(batch.documents, lines)
        if batch.lost:
            self._gatekeeper.not_claimed(runnable)
        return len(batch.documents)

    async def _with_lined(self, queue: str, want: int) -> list[Document]:
        """The next candidates of a queue, those that are ready and those from lines, in their order."""
        found = await self._candidates(queue, want)
        lined = self._lined.pop(queue, [])
        if not lined:
            return found
        found = in_order(found, lined)
        self._gatekeeper.look_again(document for document in found[want:] if "line" in document)
        return found[:want]

    def _read_on(self, queue: str, claiming: list[Document]) -> ReadAhead | None:
        """Read the next candidates while a claim is under way, when the slots will have run out of jobs by then."""
        claiming = [document for document in claiming if "line" not in document]
        if monotonic() < self._contended_until:
            return None  # the next worker in turn will claim these
        if len(claiming) < _WORTH_READING_ON or self._slots.queued + len(claiming) > self._meanwhile():
            return None
        task = asyncio.create_task(self._store.claims.candidates_after(queue, claiming, _LARGEST_CLAIM + _FEW))
        return ReadAhead(queue, task, {document["_id"] for document in claiming}, monotonic())

    def _note(self, batch: Batch, asked: int, took: float) -> None:
        self._last_batch = len(batch.documents)
        self._claim_time += (took - self._claim_time) * 0.3
        self._gatekeeper.parking.round_trip = self._claim_time
        if batch.lost > 1 and batch.lost * 10 > asked:
            self._contended_until = monotonic() + _CONTENDED_FOR
        self._completer.patient = monotonic() < self._contended_until

    async def _candidates(self, queue: str, want: int) -> list[Document]:
        ahead, self._ahead_of_claim = self._ahead_of_claim, None
        if ahead is not None:
            found = await ahead.take(queue)
            if found:
                self._deep = True
                return found[:want]
        where = self._triage.to_ask_for(queue)
        if where is not None:
            found = await self._store.claims.candidates(queue, want, where=where)
            self._deep |= len(found) >= want
            return found
        # Leave to idle workers what they could run at once.
        free = max(0, self._slots.free - len(self._slots.waiting))
        spare = self._peers.idle_slots(queue) if want > free else 0
        found = await self._store.claims.candidates(queue, want + spare)
        self._deep |= len(found) >= want + spare
        return found[: max(free, min(want, len(found) - spare))]

    def _admit(self, batch: Batch, asked: float, out_of_turn: Container[DocumentId] = ()) -> None:
        holdings = []
        for document in batch.documents:
            handler = self._handlers.get(document["name"])
            assert handler is not None
            holding = Holding(document, batch.claim, handler, asked, 0.0, ahead=document.get("ahead") is True)
            holding.executes = self._policies.executes(document, handler)
            gates = self._gatekeeper.taken(document)
            holding.gates = gates or []
            holding.valid_until = self._gatekeeper.valid_for(holding, asked)
            self._holdings.add(holding)
            if gates is None or holding.id in out_of_turn:
                self._completer.add(holding, Released())
            elif not self._gatekeeper.parking.park(holding):
                holdings.append(holding)
        if len(holdings) <= _FEW:
            self._remember(holdings)
        self._slots.admit(holdings)

    def _remember(self, holdings: list[Holding]) -> None:
        """Keep the ids of jobs claimed one by one for a while: a hint about one of them comes too late."""
        for holding in holdings:
            self._recent[holding.id] = None
        while len(self._recent) > _REMEMBERED:
            del self._recent[next(iter(self._recent))]

    async def _settle_unclear(self) -> None:
        """Learn what became of claims whose reply was lost; what is ours is run, and nothing leaks."""
        while self._unclear:
            asked = monotonic()
            settled = await self._store.claims.resolve(self._unclear[0])
            asked_for = self._unclear.pop(0).documents
            self._admit(settled, asked, await self._gatekeeper.out_of_turn(settled.documents))
            self._gatekeeper.not_claimed(asked_for)


def in_order(ready: list[Document], lined: list[Document]) -> list[Document]:
    """Ready jobs and those read from lines as one: by priority and time, and mixed evenly with those of keys that take
    turns, which keep the order that they were read in."""
    turns = [document for document in lined if document["line"].startswith(f"{FAIR}:")]
    known = {document["_id"] for document in lined}
    others = [document for document in ready if document["_id"] not in known]
    others += [document for document in lined if not document["line"].startswith(f"{FAIR}:")]
    others.sort(key=lambda document: [document[key] for key, _ in ORDER[:2]])
    placed = [
        (document["priority"], place / len(those), document)
        for those in (others, turns)
        for place, document in enumerate(those)
    ]
    return [document for *_, document in sorted(placed, key=lambda one: one[:2])]
