"""`scheduler.monitor`: watching the whole: health, statistics, recent failures, and changes as they happen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import datetime, timedelta

from mainspring.client.core import Core
from mainspring.client.jobs import Jobs
from mainspring.client.per_store import PerStore
from mainspring.engine.limits.controls import read_view
from mainspring.engine.services.change_feed import ChangeFeed
from mainspring.errors import Unavailable
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.jobs.foreign import ForeignDocuments
from mainspring.model.jobs.job import Job, JobState
from mainspring.model.jobs.retry import Seconds, seconds
from mainspring.model.views.changes import Change, check_place, make_change_filter
from mainspring.model.views.health import Health, judge, unreachable
from mainspring.model.views.search import check_limit
from mainspring.model.views.statistics import Statistics, make_statistics, make_window
from mainspring.spelling import spelled_verbs
from mainspring.store import Store


@spelled_verbs
class Monitor:
    """The verbs for watching the whole."""

    def __init__(self, core: Core, jobs: Jobs, feed: PerStore[ChangeFeed]) -> None:
        self._core = core
        self._jobs = jobs
        self._feed = feed

    async def failures(self, limit: int = 20, *, scope: Scope = EVERYTHING) -> list[Job]:
        """The jobs whose attempts failed last, the latest failure first, whatever has become of them since: those that
        are tried again, those that succeeded later, and dead letters. What failed is in their `attempts`.

        With a scope, the latest 5,000 of each kind are looked through.
        """
        limit = check_limit(limit)
        store = await self._core.store()
        return [self._jobs.decode(document) for document in await store.recent_failures.latest(limit, scope)]

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
        store = await self._core.store()
        window = make_window(start, store.clock.now() if end is None else end, step)
        return make_statistics(window, await store.statistics.read(window, name, queue, scope))

    async def health(self) -> Health:
        """Whether what is due gets done, and if not, why. MongoDB being away is an answer, too."""
        try:
            return await self._look_after(await self._core.store())
        except Unavailable as error:
            return unreachable(
                self._core.link.clock.now(), f"MongoDB cannot be reached, or has no primary now: {error}"
            )

    async def foreign_documents(self, limit: int = 20) -> ForeignDocuments:
        """The documents in the jobs collection that are no jobs, and are left alone: how many, and up to `limit` of
        them, each with the reason."""
        limit = check_limit(limit)
        return await (await self._core.store()).foreign.look(limit)

    async def _look_after(self, store: Store) -> Health:
        await store.connection.keep_clock(max_age=5.0)
        paused = read_view(await store.controls.find()).paused_queues
        workers = tuple(await store.workers.live_in_full())
        return judge(
            store.clock.now(),
            workers,
            await store.health.first_due(paused),
            await store.health.first_lease_end(),
            await store.health.first_firing(),
        )

    async def follow(
        self,
        *,
        name: str | None = None,
        queue: str | None = None,
        id: str | None = None,
        state: JobState | None = None,
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
        interest = make_change_filter(name, queue, id, state, scope)
        place = None if after is None else check_place(after)
        silence = None if beat is None else seconds(beat, "beat")
        store = await self._core.store()
        async with aclosing(self._feed.of(store).follow(interest, place, silence)) as changes:
            async for change in changes:
                yield change
