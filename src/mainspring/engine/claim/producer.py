"""Claims jobs for one worker: it decides when to poll, how many jobs to claim, and from which queue.

One free slot costs one or two round trips, hundreds cost the same few: candidates are read and claimed in batches. The
producer claims a few more jobs than there are free slots when jobs are so short that a slot would otherwise wait for
the next round trip, but only while the queue holds more jobs than the idle workers together could take. When several
workers contend at the head of the same queue and claim the candidates of each other, they take turns for a while.

Between polls the producer sleeps until the next job is due, a hint arrives, a slot becomes free, or the poll interval
has passed, whichever is first. Hints save time; the poll is the truth.
"""

from __future__ import annotations

import asyncio
import logging
import random
import zlib
from collections.abc import Callable, Container, Iterable
from contextlib import suppress

from mainspring.clock import monotonic
from mainspring.config.settings import Settings
from mainspring.engine.callbacks import Callbacks
from mainspring.engine.claim.queues import ContendedHeads, Queues
from mainspring.engine.claim.triage import ReadAhead, Triage, in_order
from mainspring.engine.handlers import Handlers
from mainspring.engine.limits.job_gates import Limits
from mainspring.engine.limits.limiter import Limiter
from mainspring.engine.limits.slot_shares import slots_until
from mainspring.engine.peers import Peers
from mainspring.engine.privacy import Privacy
from mainspring.engine.run.claimed_jobs import ClaimedJob, ClaimedJobs
from mainspring.engine.run.completer import Completer
from mainspring.engine.run.judge import Policies
from mainspring.engine.run.slots import Slots
from mainspring.engine.service import Service
from mainspring.model.jobs.event_names import JOB_EVENTS
from mainspring.model.jobs.outcome import Released
from mainspring.model.limits.limits import Gate
from mainspring.store import Store
from mainspring.store.codec import DocumentId
from mainspring.store.jobs.claim import Batch, each_once, new_claim_id
from mainspring.store.jobs.hints import Hint
from mainspring.store.jobs.stored_job import StoredJob

logger = logging.getLogger("mainspring")

_LARGEST_CLAIM = 1000
_BACKLOG_OF_ENDS = 4000
_WORTH_READING_ON = 100
_FEW, _REMEMBERED = 32, 1000


class Producer(Service):
    """Claims jobs for the slots of one worker."""

    name = "producer"

    def __init__(
        self,
        *,
        store: Store,
        settings: Settings,
        handlers: Handlers,
        policies: Policies,
        claimed_jobs: ClaimedJobs,
        slots: Slots,
        completer: Completer,
        peers: Peers,
        limiter: Limiter,
        limits: Limits,
        events: Callbacks,
        secrecy: Privacy,
        worker: str,
        failed: Callable[[Exception], None],
    ) -> None:
        super().__init__(store, failed)
        self._settings = settings
        self._handlers = handlers
        self._policies = policies
        self._claimed_jobs = claimed_jobs
        self._slots = slots
        self._completer = completer
        self._peers = peers
        self.limiter = limiter
        self._limits = limits
        self._lined: dict[str, list[StoredJob]] = {}
        """Jobs read from wait lists, by queue, to be claimed with the other jobs of their queues."""
        self.triage = Triage(store, handlers, peers, events, secrecy)
        self._events = events
        self._worker = worker
        self._failures = 0
        self._hinted = True
        self._deep = False
        """Whether the last poll has left due jobs behind."""
        self._blind = False
        self._recent: dict[DocumentId, None] = {}
        self._last_batch = 0
        self._claim_time = 0.01
        self._batch_time = 0.01
        self._barren = 0
        self._heads = ContendedHeads(store, worker)
        self._unclear: list[Batch] = []
        self._queues = Queues(store, settings, limits)
        self._ahead_of_claim: ReadAhead | None = None
        self._sleeping = False
        self._history = False
        """Whether a callback wants events of jobs; they are then read with their earlier attempts."""
        self.held = False
        """Whether the worker drains, so that nothing is claimed."""
        self._low_water = 0
        """The most claimed jobs that may still wait for a slot when the next are claimed."""

    # -- waking ----------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Poll at once."""
        self._hinted = True
        self._woken.set()

    def poll_all(self) -> None:
        """Poll at once, also in new queues without a hint."""
        self._queues.look_again()
        self.wake()

    def poll(self, queues: Iterable[str]) -> None:
        """Poll at once, also these queues, in which jobs have become ready."""
        for queue in queues:
            self._queues.add(queue)
        self.wake()

    def hold(self) -> None:
        """Claim nothing until `go_on` is called."""
        self.held = True

    def go_on(self) -> None:
        """Claim again, after `hold`."""
        self.held = False
        self.poll_all()

    def room(self, queued: int) -> None:
        """Poll, since a slot has become free, unless the `queued` claimed jobs that wait for one are enough, or the
        last poll has seen all due jobs."""
        if queued <= self._low_water and (self._deep or self._hinted or self._blind):
            self.wake()

    def hint(self, hint: Hint) -> None:
        """Poll when the job that a hint is about is due."""
        queue = hint.queue
        if queue is not None and (hint.id in self._recent or not self._queues.serves(queue)):
            return
        if queue is not None:
            self._queues.add(queue)
        wait = 0.0 if hint.run_at is None else (hint.run_at - self._store.clock.now()).total_seconds()
        if wait > self._settings.poll_interval:
            return
        if not self._mine(hint):
            wait = max(wait, 0.0) + 0.01  # another worker is to claim this job first
        if wait <= 0:
            self.wake()
        else:
            asyncio.get_running_loop().call_later(wait + 0.001, self.wake)

    def _mine(self, hint: Hint) -> bool:
        rank, count = self._peers.rank(hint.queue)
        return count <= 1 or zlib.crc32(str(hint.id).encode()) % count == rank

    @property
    def resting(self) -> bool:
        """Whether this worker has free slots and has seen all due jobs, so that hints are of use to it."""
        return self._sleeping and not self._deep and not self._blind

    @property
    def idle(self) -> bool:
        """Whether a whole poll since the last wake-up has found nothing to claim."""
        return self.resting and not self._hinted

    @property
    def contended_at_last_claim(self) -> bool:
        """Whether several workers contended at the head of a queue when this one claimed last."""
        return self._heads.contended_at_last_claim

    @property
    def round_trip(self) -> float:
        """The approximate seconds that a claim takes."""
        return self._claim_time

    # -- the loop --------------------------------------------------------------------------------------------------

    async def _recover(self, error: Exception) -> float:
        self._failures += 1
        await super()._recover(error)
        self._woken.clear()  # wake-ups by the failed poll itself must not cut the pause short
        return random.uniform(0.5, 1.0) * min(0.1 * 2.0**self._failures, 5.0)

    async def _end(self) -> None:
        """Drop the read ahead, and settle unclear claims: jobs that turn out to be this worker's are given back."""
        ahead, self._ahead_of_claim = self._ahead_of_claim, None
        if ahead is not None:
            await ahead.drop()
        with suppress(Exception):
            await self._settle_unclear()

    async def _sleep(self, seconds: float) -> None:
        if self._stopping:
            return
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        self._sleeping = True
        await super()._sleep(seconds)
        self._sleeping = False

    async def run_once(self) -> float:
        """Poll once; return the seconds until the next poll, unless the producer is woken before."""
        wait = await self._look()
        self._failures = 0
        return wait

    async def _look(self) -> float:
        await self._settle_unclear()
        want = self._want()
        self._blind = want <= 0
        if want <= 0:
            return self._settings.poll_interval
        await self.limiter.wait_lists.poll(self._settings.poll_interval)
        if not self._hinted and not self.limiter.wait_lists.open:
            wait = await self._until_due()
            if wait > 0:
                return wait
        self._hinted = self._deep = False
        self._history = self._events.any_wanted(JOB_EVENTS)
        got = await self._claim(want)
        if got:
            self._barren = 0
            return 0.0 if self._deep else await self._until_due()
        if self._hinted:
            return 0.0  # a hint has arrived, or jobs that blocked others were set aside
        wait = await self._until_due()
        if wait <= 0:
            # A job is due that this worker cannot claim: back off, instead of asking for it in a tight loop.
            self._barren += 1
            wait = min(self._settings.poll_interval, 0.005 * 2 ** min(self._barren, 10))
        return wait

    def _want(self) -> int:
        """The number of jobs to claim now: one per free slot, and as many as keep the slots busy during the next round
        trip."""
        if self.held or len(self._completer) > _BACKLOG_OF_ENDS:
            return 0
        free, waiting, ahead = self._slots.free, self._slots.queued, self._ahead()
        if free > waiting:
            return min(free - waiting + ahead, _LARGEST_CLAIM)
        left = max(0, waiting - self._meanwhile())  # the jobs that will still wait when the claim is back
        self._low_water = max(0, waiting - left) + ahead // 2
        return min(ahead - left, _LARGEST_CLAIM) if left <= ahead // 2 else 0

    def _ahead(self) -> int:
        meanwhile = self._meanwhile() if self._deep else 0
        return min(self._settings.prefetch, 3 * meanwhile, 10 * self._last_batch + self._slots.concurrency)

    def _meanwhile(self) -> int:
        """The number of jobs that the slots run while one claim is under way."""
        return int(self._slots.concurrency * self._claim_time / max(self._slots.duration, 1e-6))

    async def _until_due(self) -> float:
        """The seconds until the next job of this worker's queues is due, about the poll interval at most; 0 if one is
        due now."""
        interval = self._settings.poll_interval * random.uniform(0.95, 1.25)
        queues = await self._queues.to_poll()
        first = await self._store.claims.next_run_at(queues) if queues else None
        if first is None:
            return interval
        wait = (first[0] - self._store.clock.now()).total_seconds()
        return 0.0 if wait <= 0 else min(interval, wait + 0.001)

    # -- claiming --------------------------------------------------------------------------------------------------

    async def _claim(self, want: int) -> int:
        """Claim up to `want` jobs from this worker's queues, in equal shares; return the number of claimed jobs."""
        lines = await self._read_wait_lists(want)
        try:
            return await self._claim_from_all(want)
        except BaseException:
            for line in lines:
                self.limiter.wait_lists.poll_line(line)
            raise

    async def _claim_from_all(self, want: int) -> int:
        queues = await self._queues.to_poll()
        if len(queues) <= 1 and not self._lined.keys() - set(queues):
            return await self._claim_from(queues[0], want) if queues else 0
        got = 0
        heads = self._queues.in_round_robin(await self._store.claims.heads(queues))
        for round_ in range(2):
            # Equal shares, the queue whose first job waits longest first; the rest of a share goes to the other queues.
            for position, (_, queue) in enumerate(heads):
                share = want - got if round_ else -(-(want - got) // (len(heads) - position))
                if share > 0 and got < want:
                    got += await self._claim_from(queue, share)
                    self._queues.served(queue)
            if got >= want or len(heads) <= 1:
                break
        for queue in list(self._lined):
            got += await self._claim_from(queue, want - got) if got < want else 0
        self.limiter.wait_lists.poll_again(job for left in self._lined.values() for job in left)
        return got

    async def _read_wait_lists(self, want: int) -> set[str]:
        """Read the first jobs of wait lists that may have room; return the names of their lists."""
        self._lined.clear()
        found = await self.limiter.wait_lists.read(want, history=self._history)
        for job in found:
            self._lined.setdefault(job.queue, []).append(job)
        self._deep |= self.limiter.wait_lists.more
        return {job.line for job in found if job.line is not None}

    async def _claim_from(self, queue: str, want: int) -> int:
        started = monotonic()
        if not self._heads.contended:
            return await self._claim_batch(queue, want, started)
        await self._heads.take_turn(queue, self._batch_time)
        try:
            return await self._claim_batch(queue, want, started)
        finally:
            await self._heads.end_turn(queue)

    async def _claim_batch(self, queue: str, want: int, started: float) -> int:
        reading_since = monotonic()
        runnable, set_aside = await self.triage.sort(queue, await self._with_lined(queue, want))
        self._hinted |= set_aside
        free = max(0, self._slots.free - len(self._slots.waiting))
        read, admitted = runnable, await self.limiter.admit(runnable, free)
        runnable, free = list(admitted), min(free, len(admitted.now))
        if len(runnable) < len(read):
            self._hinted |= any(job.line is None for job in read)  # jobs put on wait lists made way for those behind
        if not runnable:
            return 0
        lines = {job.id: job.line for job in runnable if job.line is not None}
        asked = monotonic()
        batch, out_of_turn = await self._take(queue, runnable, free)
        self._batch_time += (monotonic() - reading_since - self._batch_time) * 0.3
        self._note(batch, len(runnable), monotonic() - started)
        self._admit(batch, asked, out_of_turn)
        if batch.lost:
            self.limiter.not_claimed(job.id for job in runnable)
        await self.limiter.wait_lists.count_served(batch.jobs, lines)
        return len(batch.jobs)

    async def _take(self, queue: str, runnable: list[StoredJob], free: int) -> tuple[Batch, set[DocumentId]]:
        """Claim these jobs; return the batch, and the ids of those that are out of turn in their sequence. After an
        error or a cancellation the claim is settled before the next poll, and its slots stay counted until then."""
        lease, policies, id = self._settings.lease, self._policies, new_claim_id()
        reading = self._read_on(queue, runnable)
        try:
            batch = await self._store.claims.claim(
                runnable, self._worker, lease, policies.attempts, free, policies.once, id, self._history
            )
            return batch, await self.limiter.out_of_turn(batch.jobs)
        except BaseException:
            self._unclear.append(Batch(id, runnable, lease=lease, history=self._history))
            raise
        finally:
            self._ahead_of_claim = reading

    async def _with_lined(self, queue: str, want: int) -> list[StoredJob]:
        """The next candidates of a queue in their order: ready jobs, and jobs from wait lists."""
        found = each_once(await self._candidates(queue, want))
        lined = self._lined.pop(queue, [])
        if not lined:
            return found
        found = in_order(found, each_once(lined))
        self.limiter.wait_lists.poll_again(job for job in found[want:] if job.line is not None)
        return found[:want]

    def _read_on(self, queue: str, claiming: list[StoredJob]) -> ReadAhead | None:
        """Read the next candidates while a claim is under way, if the slots will have run out of jobs at its end."""
        claiming = [job for job in claiming if job.line is None]
        if self._heads.contended:
            return None  # the worker whose turn is next will claim them
        if len(claiming) < _WORTH_READING_ON or self._slots.queued + len(claiming) > self._meanwhile():
            return None
        reading = self._store.claims.candidates_after(queue, claiming, _LARGEST_CLAIM + _FEW, history=self._history)
        task = asyncio.create_task(reading)
        return ReadAhead(queue, task, {job.id for job in claiming}, monotonic())

    def _note(self, batch: Batch, asked: int, took: float) -> None:
        self._last_batch = len(batch.jobs)
        self._claim_time += (took - self._claim_time) * 0.3
        self._heads.note(batch.lost, asked)

    async def _candidates(self, queue: str, want: int) -> list[StoredJob]:
        ahead, self._ahead_of_claim = self._ahead_of_claim, None
        if ahead is not None:
            found = await ahead.take(queue)
            if found:
                self._deep = True
                return found[:want]
        where = self.triage.to_ask_for(queue)
        if where is not None:
            found = await self._store.claims.candidates(queue, want, where=where, history=self._history)
            self._deep |= len(found) >= want
            return found
        # Leave to idle workers the jobs that they could run at once.
        free = max(0, self._slots.free - len(self._slots.waiting))
        spare = self._peers.idle_slots(queue) if want > free else 0
        found = await self._store.claims.candidates(queue, want + spare, history=self._history)
        self._deep |= len(found) >= want + spare
        return found[: max(free, min(want, len(found) - spare))]

    def _admit(self, batch: Batch, asked: float, out_of_turn: Container[DocumentId] = ()) -> None:
        ready = []
        for job in batch.jobs:
            gates = self.limiter.taken(job)
            claimed = self._claimed(job, batch.claim, asked, gates or [])
            self._claimed_jobs.add(claimed)
            if gates is None or job.id in out_of_turn:
                self._completer.add(claimed, Released())
            elif not self.limiter.parking.park(claimed):
                ready.append(claimed)
        if len(ready) <= _FEW:
            self._remember(ready)
        self._slots.admit(ready)

    def _claimed(self, job: StoredJob, claim: str, asked: float, gates: list[Gate]) -> ClaimedJob:
        handler = self._handlers.get(job.name)
        assert handler is not None
        until = self.limiter.claim_end(asked)
        if gates:
            until = min(until, slots_until(gates))
        return ClaimedJob(
            job, claim, handler, asked, until, self._policies.guarantee(job, handler), gates, ahead=job.ahead
        )

    def _remember(self, those: list[ClaimedJob]) -> None:
        """Keep the ids of jobs that were claimed in small batches for a while: hints about them come too late."""
        for claimed in those:
            self._recent[claimed.id] = None
        while len(self._recent) > _REMEMBERED:
            del self._recent[next(iter(self._recent))]

    async def _settle_unclear(self) -> None:
        """Learn the outcome of claims whose reply was lost: jobs that were claimed are run, and no claim leaks."""
        while self._unclear:
            asked, batch = monotonic(), self._unclear[0]
            settled = await self._store.claims.resolve(batch)
            out_of_turn = await self.limiter.out_of_turn(settled.jobs)
            del self._unclear[0]
            self._admit(settled, asked, out_of_turn)
            self.limiter.not_claimed(job.id for job in batch.jobs)
