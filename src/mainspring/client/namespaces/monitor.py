"""`scheduler.monitor`: health, statistics, recent failures, and changes as they happen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import datetime

from mainspring.client.core import Core
from mainspring.client.jobs import Jobs
from mainspring.client.per_store import PerStore
from mainspring.client.views.doctor_facts import read_doctor_facts
from mainspring.client.views.problem_facts import read_facts
from mainspring.engine.limits.controls import read_view
from mainspring.engine.services.change_feed import ChangeFeed
from mainspring.errors import Unavailable
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.doctor.findings import DoctorReport
from mainspring.model.doctor.work_checks import make_findings
from mainspring.model.jobs.foreign import ForeignDocuments
from mainspring.model.jobs.job import Job, JobState
from mainspring.model.jobs.retry import Seconds, seconds
from mainspring.model.views.changes import Change, check_place, make_change_filter
from mainspring.model.views.health import Health, judge, unreachable
from mainspring.model.views.judging import make_report
from mainspring.model.views.name_statistics import (
    NameOrder,
    NameStatistics,
    check_order,
    make_name_statistics,
    make_windows,
)
from mainspring.model.views.problems import OverviewReport
from mainspring.model.views.search import check_limit
from mainspring.model.views.statistics import Statistics, make_statistics
from mainspring.model.views.windows import make_window
from mainspring.spelling import spelled_verbs
from mainspring.store import Store


@spelled_verbs
class Monitor:
    """The verbs for health, statistics, failures and changes."""

    def __init__(self, core: Core, jobs: Jobs, feed: PerStore[ChangeFeed]) -> None:
        self._core = core
        self._jobs = jobs
        self._feed = feed

    async def failures(self, limit: int = 20, *, scope: Scope = EVERYTHING) -> list[Job]:
        """List the jobs with the latest failed attempts, latest failure first: jobs that will be retried, jobs that
        succeeded later, and dead letters. The failures are in their `attempts`.

        With a scope, the latest 375 jobs of each kind are searched.
        """
        limit = check_limit(limit)
        store = await self._core.store()
        return [self._jobs.decode(document) for document in await store.recent_failures.latest(limit, scope)]

    async def statistics(
        self,
        start: datetime,
        end: datetime | None = None,
        *,
        step: Seconds | None = None,
        name: str | None = None,
        queue: str | None = None,
        scope: Scope = EVERYTHING,
    ) -> Statistics:
        """Return a time series and totals: how many attempts started, their outcomes, durations and delays, and how
        long the oldest due job had waited.

        Steps are whole minutes. Numbers per minute are kept for two days; older numbers are kept per full hour. Without
        `step`, the length of the window determines it. A worker stores its counts every second.
        """
        store = await self._core.store()
        window = make_window(start, store.clock.now() if end is None else end, step)
        deploys = await store.statistics.deploys(window) if scope.everything else []
        return make_statistics(window, await store.statistics.read(window, name, queue, scope), deploys)

    async def name_statistics(
        self,
        start: datetime,
        end: datetime | None = None,
        *,
        order: NameOrder = "failing",
        limit: int = 10,
        queue: str | None = None,
        scope: Scope = EVERYTHING,
    ) -> NameStatistics:
        """Return the counts of each job name between two instants, and those of the same window a week earlier. `order`
        puts the most `failing`, the `slowest` or the `busiest` names first.

        The earlier window is widened to whole hours, since counts per minute are kept for only two days.
        """
        limit, order = check_limit(limit), check_order(order)
        store = await self._core.store()
        window, before = make_windows(start, store.clock.now() if end is None else end)
        return make_name_statistics(
            (window, await store.statistics.kinds(window, queue, scope)),
            (before, await store.statistics.kinds(before, queue, scope)),
            order,
            limit,
        )

    async def overview(self, *, scope: Scope = EVERYTHING) -> OverviewReport:
        """List the problems, worst first, each as a sentence with its target and its cures: what fails, is late, stuck,
        paused, limited, broken or without workers. The cost is bounded, however many jobs are stored; a number that
        reached the bound is `capped`."""
        store = await self._core.store()
        await store.connection.keep_clock(max_age=5.0)
        return make_report(await read_facts(store, scope))

    async def doctor(self) -> DoctorReport:
        """Check the installation: the server's version and nodes, clocks, indexes, oplog, TLS, users and keys, and the
        workers, leases, jobs and schedules. Each finding says what was checked, its status, and what to do."""
        store = await self._core.store()
        await store.connection.keep_clock(max_age=5.0)
        return make_findings(await read_doctor_facts(store, embedded=self._core.link.embedded))

    async def health(self) -> Health:
        """Check whether due jobs are being run and, if not, why. If MongoDB is unavailable, the result says so."""
        try:
            return await self._look_after(await self._core.store())
        except Unavailable as error:
            return unreachable(
                self._core.link.clock.now(), f"MongoDB cannot be reached, or has no primary now: {error}"
            )

    async def foreign_documents(self, limit: int = 20) -> ForeignDocuments:
        """Return the number of foreign documents in the jobs collection, and up to `limit` of them, each with the
        reason why it is not a job. Mainspring leaves these documents alone."""
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
        flow_id: str | None = None,
        state: JobState | None = None,
        after: str | None = None,
        beat: Seconds | None = None,
        scope: Scope = EVERYTHING,
    ) -> AsyncIterator[Change]:
        """Iterate over changes of jobs, schedules and controls as they happen. This needs a replica set.

        `id` selects a job, or a schedule and its jobs; `flow_id` selects a flow and its jobs. `after` is the id of the
        last change that you received: the stream continues right after it and misses nothing. If that change is too
        old, or the reader too slow, the stream yields a change of the type gap; for a slow reader it is the last one.
        With `beat`, the stream starts with a change of the type beat, and yields another after each such time without a
        change.
        """
        interest = make_change_filter(name, queue, id, state, scope, flow_id)
        place = None if after is None else check_place(after)
        silence = None if beat is None else seconds(beat, "beat")
        store = await self._core.store()
        async with aclosing(self._feed.of(store).follow(interest, place, silence)) as changes:
            async for change in changes:
                yield interest.told(change)
