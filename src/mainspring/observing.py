"""The verbs for watching the whole: statistics, health, and changes as they happen."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import datetime, timedelta

from mainspring.engine.controls import read_view
from mainspring.engine.following import Hub
from mainspring.errors import Unavailable
from mainspring.model.access import EVERYTHING, Scope
from mainspring.model.changes import Change, check_place, make_interest
from mainspring.model.health import Health, WorkerFacts, judge, unreachable
from mainspring.model.job import Job
from mainspring.model.retry import Seconds, seconds
from mainspring.model.searching import check_limit
from mainspring.model.statistics import Statistics, make_statistics, make_window
from mainspring.store import Store
from mainspring.store.connection import Document
from mainspring.verbs import Verbs


class ObserveVerbs(Verbs):
    """The part of the Scheduler that watches."""

    _hub: Hub | None = None

    @abstractmethod
    def now(self) -> datetime:
        """The database's clock, as far as this process knows it."""

    async def failures(self, limit: int = 20, *, scope: Scope = EVERYTHING) -> list[Job]:
        """The jobs whose attempts failed last, the latest failure first, whatever has become of them since: those that
        are tried again, those that succeeded later, and dead letters. What failed is in their `attempts`.

        With a scope, the latest 5,000 of each kind are looked through.
        """
        limit = check_limit(limit)
        store = await self._store()
        return [store.sealer.decode(document) for document in await store.failures.latest(limit, scope)]

    async def statistics(
        self,
        start: datetime,
        end: datetime | None = None,
        *,
        step: Seconds = timedelta(hours=1),
        name: str | None = None,
        queue: str | None = None,
        scope: Scope = EVERYTHING,
    ) -> Statistics:
        """How many attempts began and how they ended, how long they took and how late they were: a series, and sums.

        Steps are whole minutes, of which the last two days are known; what is older is told from the beginning of its
        hour. A worker stores what it has counted each second.
        """
        store = await self._store()
        window = make_window(start, store.clock.now() if end is None else end, step)
        return make_statistics(window, await store.statistics.read(window, name, queue, scope))

    async def health(self) -> Health:
        """Whether what is due gets done, and if not, why. MongoDB being away is an answer, too."""
        try:
            return await self._look_after(await self._store())
        except Unavailable as error:
            return unreachable(self.now(), f"MongoDB cannot be reached, or has no primary now: {error}")

    async def _look_after(self, store: Store) -> Health:
        await store.connection.keep_clock(max_age=5.0)
        paused = read_view(await store.controls.find()).paused_queues
        workers = tuple(_worker(document) for document in await store.workers.live_documents())
        return judge(
            store.clock.now(),
            workers,
            await store.progress.first_due(paused),
            await store.progress.first_lease_end(),
            await store.progress.first_firing(),
        )

    async def follow(
        self,
        *,
        name: str | None = None,
        queue: str | None = None,
        id: str | None = None,
        state: str | None = None,
        after: str | None = None,
        beat: Seconds | None = None,
        scope: Scope = EVERYTHING,
    ) -> AsyncIterator[Change]:
        """Changes of jobs, schedules and controls as they happen, for as long as it is iterated.

        `after` is the id of the last change that was got: it goes on right behind it, missing nothing. Where that is
        too long ago, or the reader too slow, a change of the type gap says so; after a slow one, nothing more comes.
        With `beat`, one of the type beat comes first, and whenever nothing has happened for so long. Needs a replica
        set.
        """
        interest = make_interest(name, queue, id, state, scope)
        place = None if after is None else check_place(after)
        silence = None if beat is None else seconds(beat, "beat")
        store = await self._store()
        if self._hub is None or self._hub.store is not store:
            self._hub = Hub(store)
        async with aclosing(self._hub.follow(interest, place, silence)) as changes:
            async for change in changes:
                yield change


def _worker(document: Document) -> WorkerFacts:
    queues = document.get("queues")
    return WorkerFacts(
        str(document["_id"]),
        document["beat_at"],
        document.get("running", 0),
        document.get("concurrency", 0),
        None if queues is None else tuple(queues),
        document.get("started_at"),
    )
