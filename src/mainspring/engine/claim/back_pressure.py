"""Back-pressure: delays or refuses the jobs of producers when a queue has as many pending jobs as it may.

Every job that `schedule()` and `schedule_bulk()` store passes here first. For a queue with a bound this process keeps
an estimate: the last count, and the jobs that it has stored itself since. A count is used for a fraction of a second
that depends on its cost, 0.2 s with 10,000 jobs, and never longer than a second. So the processes together go beyond
the bound by no more than each of them stores within that time, and no process by itself does.

All pending jobs are counted, due or not, ready or held (`Jobs.count_pending`). Jobs of schedules, retries and changes
of stored jobs by hand do not pass here, and are never delayed.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
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


class Backlog:
    """This process's estimate of one bounded queue."""

    def __init__(self, store: Store, queue: str, bound: Bound) -> None:
        self._store = store
        self._queue = queue
        self.bound = bound
        self._counted = 0
        self._stored = 0
        """The number of jobs that this process has stored since the last count began."""
        self._under_way = 0
        self._use_until = float("-inf")
        self._counting = asyncio.Lock()
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
        return self.bound.max_pending - self._counted - self._stored - self._under_way

    async def enter(self, draft: Draft, *, patient: bool = True) -> None:
        """Let one job in; if there is no room, wait for it or raise QueueFull. A call of `left` must follow."""
        if await self.take(draft):
            return
        if not (self.waits and patient):
            raise self.full
        async with self._line:  # one caller polls for all, and they enter in the order in which they came
            pause = _FIRST_PAUSE
            while not await self._take(draft):
                await asyncio.sleep(pause * random.uniform(0.7, 1.3))
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def take(self, draft: Draft) -> bool:
        """Take room for one more job, unless other callers wait for room; return whether there was any."""
        return not self._line.locked() and await self._take(draft)

    async def _take(self, draft: Draft) -> bool:
        if self._is_old():
            await self._count()
        if self._room <= 0 and not await self._adds_nothing(draft):
            return False
        self._under_way += 1
        return True

    def left(self, number: int, *, stored: bool = True) -> None:
        """Note that jobs which were let in are stored now, or will not be."""
        self._under_way -= number
        self._stored += number if stored else 0

    def _is_old(self) -> bool:
        """Whether to count anew; later while jobs are being stored, since a count may or may not include these."""
        past = monotonic() - self._use_until
        return past >= (_LONGEST_USE if self._under_way else 0.0)

    async def _count(self) -> None:
        async with self._counting:
            if not self._is_old():
                return  # another caller has just counted
            began, before = monotonic(), self._stored
            try:
                self._counted = await self._store.jobs.count_pending(self._queue, self.bound.max_pending + 1)
                self._stored -= before
            except Unavailable:
                pass  # use the last count; storing the job will raise if the database is still unavailable
            self._use_until = monotonic() + self._worth(monotonic() - began)

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
        stored = True
        try:
            document, stored = await store.inserts.insert(draft)
            return document, stored
        finally:
            backlog.left(1, stored=stored)

    async def check(self, store: Store, draft: Draft) -> None:
        """Refuse a job that is to be part of a transaction if there is no room: an open transaction must not wait."""
        backlog = self.of(store, draft.queue)
        if backlog is not None:
            await backlog.enter(draft, patient=False)
            backlog.left(1)

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
        self._under_way: Counter[Backlog] = Counter()

    async def chunk(self, source: Iterator[Item], most: int) -> list[Item]:
        """The next items, with QueueFull in place of each refused one; an empty list when there are no more."""
        let_in: list[Item] = []
        items = chain(self._held_back, source)
        while len(let_in) < most and (item := next(items, None)) is not None:
            backlog = self._backlogs.of(self._store, item.queue) if isinstance(item, Draft) else None
            if backlog is None or isinstance(item, Exception):
                let_in.append(item)
            elif await backlog.take(item):
                self._under_way[backlog] += 1
                let_in.append(item)
            elif not backlog.waits:
                let_in.append(backlog.full)
            elif let_in:
                self._held_back = [item]  # the items that have been let in are stored first
                return let_in
            else:
                await backlog.enter(item)
                self._under_way[backlog] += 1
                let_in.append(item)
        self._held_back = []
        return let_in

    def stored(self, chunk: Iterable[Item]) -> None:
        """Note that these items have been stored, or could not be."""
        for item in chunk:
            backlog = self._backlogs.of(self._store, item.queue) if isinstance(item, Draft) else None
            if backlog is not None and self._under_way[backlog]:
                self._under_way[backlog] -= 1
                backlog.left(1)

    def close(self) -> None:
        """Give back the room of items that were let in and never stored, as when the bulk was cancelled."""
        for backlog, number in self._under_way.items():
            backlog.left(number, stored=False)
        self._under_way.clear()
