"""Back-pressure: delays or refuses the jobs of producers when a queue has as many pending jobs as it may.

Every job that `schedule()` and `schedule_bulk()` store passes here first. For a queue with a bound this process keeps
an estimate: the last count, and the jobs that it has stored itself since. A count is used for a fraction of a second
that depends on its cost, 0.2 s with 10,000 jobs, and never longer than a second. So the processes together go beyond
the bound by no more than each of them stores within that time, and no process by itself does.

A count may or may not include the jobs that this process is writing at that moment, so the estimate adds them to it. An
estimate that may have jobs twice never refuses: the jobs in flight land first, and the queue is counted once more.

All pending jobs are counted, due or not, ready or held (`Jobs.count_pending`). Jobs of schedules, retries and changes
of stored jobs by hand do not pass here, and are never delayed.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain

from mainspring.clock import monotonic
from mainspring.errors import QueueFull, Unavailable
from mainspring.model.jobs.draft import Draft
from mainspring.model.jobs.job import PENDING
from mainspring.model.limits.queue_bound import WAIT, Bound
from mainspring.store import Store
from mainspring.store.connection import Document
from mainspring.store.jobs.admission import Item
from mainspring.store.jobs.insert import Stored

_LONGEST_USE = 0.5
# The server counts some three jobs in a microsecond; a count is used for about sixty times as long as that.
_WORTH_OF_A_JOB = 20e-6
_WHEN_EMPTY = 0.1
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.25
# A job in flight may wait for a lock that the open transaction of this very caller holds.
_LONGEST_IN_TRANSACTION = 2.0


class Backlog:
    """This process's estimate of one bounded queue."""

    def __init__(self, store: Store, queue: str, bound: Bound) -> None:
        self._store = store
        self._queue = queue
        self.bound = bound
        self._counted = 0
        self._stored = 0
        """The number of jobs that this process has stored since the last count began."""
        self._let_in = 0
        """The number of jobs that have room and whose writes have not begun; no count includes them."""
        self._in_flight = 0
        """The number of jobs that are being written."""
        self._twice = 0
        """The number of jobs that were in flight during the last count: so many may be in the estimate twice."""
        self._use_until = float("-inf")
        self._counting = asyncio.Lock()
        self._landed = asyncio.Event()
        """Set while no job is in flight."""
        self._landed.set()
        self._line = asyncio.Lock()

    @property
    def waits(self) -> bool:
        """Whether a producer waits for room."""
        return self.bound.when_full == WAIT

    @property
    def full(self) -> QueueFull:
        return QueueFull(self._queue, self.bound.max_pending)

    @property
    def _room(self) -> int:
        return self.bound.max_pending - self._counted - self._stored - self._in_flight - self._let_in

    @property
    def _is_unclear(self) -> bool:
        """Whether there may be room although the estimate says that there is none."""
        return self._room <= 0 < self._room + self._twice

    async def enter(self, draft: Draft) -> None:
        """Let one job in, as `take` does; if there is no room, wait for it or raise QueueFull."""
        if await self.take(draft):
            return
        if not self.waits:
            raise self.full
        async with self._line:  # one caller polls for all, and they enter in the order in which they came
            pause = _FIRST_PAUSE
            while not await self._take(draft):
                await asyncio.sleep(pause * random.uniform(0.7, 1.3))
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def take(self, draft: Draft, patience: float | None = None) -> bool:
        """Take room for one more job, unless other callers wait for room; return whether there was any. A call of
        `begin` or `give_back` must follow. `patience` bounds the wait for jobs in flight, in seconds."""
        return not self._line.locked() and await self._take(draft, patience)

    async def _take(self, draft: Draft, patience: float | None = None) -> bool:
        if self._is_old():
            await self._count()
        await self._make_clear(patience)
        if self._room <= 0 and not await self._adds_nothing(draft):
            return False
        self._let_in += 1
        return True

    def begin(self, number: int) -> None:
        """Note that the writes of jobs that were let in begin; a call of `end` must follow."""
        self._let_in -= number
        self._in_flight += number
        if self._in_flight:
            self._landed.clear()

    def end(self, number: int, *, stored: bool = True) -> None:
        """Note that jobs whose writes had begun are stored now, or will not be."""
        self._in_flight -= number
        self._stored += number if stored else 0
        if not self._in_flight:
            self._landed.set()

    def landed(self, writing: asyncio.Task[tuple[Document, bool]]) -> None:
        """Note that the write of one job has ended; after an error the job may be stored."""
        failed = writing.cancelled() or writing.exception() is not None
        self.end(1, stored=failed or writing.result()[1])

    def give_back(self, number: int) -> None:
        """Give back the room of jobs that were let in and whose writes have not begun."""
        self._let_in -= number

    async def _make_clear(self, patience: float | None) -> None:
        """Count once more after the jobs in flight, while an estimate that may have them twice is all that refuses.

        It ends: meanwhile no other job gets room, and a job that has room lands or fails.
        """
        while self._is_unclear:
            try:
                async with asyncio.timeout(patience):
                    await self._landed.wait()
            except TimeoutError:
                return
            if not await self._count():
                return

    def _is_old(self) -> bool:
        """Whether to count anew; later while jobs are being stored, since a count may or may not include these."""
        past = monotonic() - self._use_until
        return past >= (_LONGEST_USE if self._in_flight else 0.0)

    async def _count(self) -> bool:
        """Count the queue, unless the estimate is new and clear; return whether the database has answered."""
        async with self._counting:
            if not self._is_old() and not self._is_unclear:
                return True  # another caller has just counted
            began, before, answered = monotonic(), self._stored, False
            with suppress(Unavailable):  # use the last count; storing the job will raise if it is still unavailable
                self._counted = await self._store.jobs.count_pending(self._queue, self.bound.max_pending + 1)
                self._stored -= before
                self._twice = self._stored + self._in_flight
                answered = True
            self._use_until = monotonic() + self._worth(monotonic() - began)
            return answered

    def _worth(self, cost: float) -> float:
        """The seconds for which a count is used: longer if it was expensive, and if there is much room."""
        roomy = _WHEN_EMPTY * max(0, self._room) / self.bound.max_pending
        return min(_LONGEST_USE, max(roomy, cost / 2, _WORTH_OF_A_JOB * self._counted))

    async def _adds_nothing(self, draft: Draft) -> bool:
        """Whether a draft only finds, or changes, a job that is stored already."""
        if draft.dedupe_key is None:
            return False
        state = await self._store.dedupe_keys.state_held(draft.dedupe_key)
        return state is not None and (draft.debounce is None or state == PENDING)


class Backlogs:
    """The bounded queues of one Scheduler; storing new jobs goes through here."""

    def __init__(self, bounds: Mapping[str, Bound]) -> None:
        self._bounds = bounds
        self._store: Store | None = None
        self._known: dict[str, Backlog] = {}

    def of(self, store: Store, queue: str) -> Backlog | None:
        """The backlog of a queue, if it has a bound. Backlogs of another connection, on another loop, are dropped."""
        bound = self._bounds.get(queue)
        if bound is None:
            return None
        if store is not self._store:
            self._store, self._known = store, {}
        backlog = self._known.get(queue)
        if backlog is None or backlog.bound is not bound:
            backlog = self._known[queue] = Backlog(store, queue, bound)
        return backlog

    async def insert(self, store: Store, draft: Draft) -> tuple[Document, bool]:
        """Store one job when there is room for it."""
        backlog = self.of(store, draft.queue)
        if backlog is None:
            return await store.inserts.insert(draft)
        await backlog.enter(draft)
        backlog.begin(1)
        # A caller that is cancelled leaves, but its job is written: it is in flight until then.
        writing = asyncio.create_task(store.inserts.insert(draft))
        writing.add_done_callback(backlog.landed)
        return await asyncio.shield(writing)

    async def check(self, store: Store, draft: Draft) -> None:
        """Refuse a job that is to be part of a transaction if there is no room: an open transaction must not wait."""
        backlog = self.of(store, draft.queue)
        if backlog is None:
            return
        if not await backlog.take(draft, _LONGEST_IN_TRANSACTION):
            raise backlog.full
        backlog.begin(1)
        backlog.end(1)  # it counts as stored at once

    async def insert_many(self, store: Store, drafts: Iterable[Item]) -> list[Stored]:
        """Store many jobs: jobs without room are refused, or wait together with the jobs behind them."""
        if not self._bounds:
            return await store.inserts.insert_many(drafts)
        passage = BoundedPassage(self, store)
        try:
            return await store.inserts.insert_many(drafts, passage)
        finally:
            passage.close()


class BoundedPassage:
    """Lets the items of one bulk in, as many at a time as there is room for."""

    def __init__(self, backlogs: Backlogs, store: Store) -> None:
        self._backlogs = backlogs
        self._store = store
        self._held_back: list[Item] = []
        self._let_in: Counter[Backlog] = Counter()
        self._keys: set[tuple[str, str]] = set()
        """The queues and dedupe keys of the items that were let in: further items of a key are the same job."""

    @property
    def waits(self) -> bool:
        return any(number and backlog.waits for backlog, number in self._let_in.items())

    async def chunk(self, source: Iterator[Item], most: int) -> list[Item]:
        """The next items, with QueueFull in place of each refused one; an empty list when there are no more."""
        chunk: list[Item] = []
        items = chain(self._held_back, source)
        while len(chunk) < most and (item := next(items, None)) is not None:
            if not isinstance(item, Draft) or (backlog := self._backlog_of(item)) is None or self._has_room(item):
                chunk.append(item)
                continue
            if not await backlog.take(item):
                if not backlog.waits:
                    chunk.append(backlog.full)
                    continue
                if chunk:
                    self._held_back = [item]  # the items that have been let in are stored first
                    return chunk
                await backlog.enter(item)
            self._let_in[backlog] += 1
            if item.dedupe_key is not None:
                self._keys.add((item.queue, item.dedupe_key))
            chunk.append(item)
        self._held_back = []
        return chunk

    def _has_room(self, item: Draft) -> bool:
        return item.dedupe_key is not None and (item.queue, item.dedupe_key) in self._keys

    @contextmanager
    def storing(self, drafts: Iterable[Draft]) -> Iterator[None]:
        """Note when the writes of items that were let in begin and end."""
        bounded = Counter(backlog for draft in drafts if (backlog := self._backlog_of(draft)) is not None)
        bounded &= self._let_in  # a bound that was set meanwhile has let none of them in
        self._let_in -= bounded
        for backlog, number in bounded.items():
            backlog.begin(number)
        try:
            yield
        finally:
            for backlog, number in bounded.items():
                backlog.end(number)

    def give_back(self, draft: Draft) -> None:
        """Give back the room of an item that was let in and is invalid."""
        backlog = self._backlog_of(draft)
        if backlog is not None and self._let_in[backlog]:
            self._let_in[backlog] -= 1
            backlog.give_back(1)

    def close(self) -> None:
        """Give back the room of items that were let in and never written, as when the bulk was cancelled."""
        for backlog, number in self._let_in.items():
            backlog.give_back(number)
        self._let_in.clear()

    def _backlog_of(self, draft: Draft) -> Backlog | None:
        return self._backlogs.of(self._store, draft.queue)
