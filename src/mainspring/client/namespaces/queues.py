"""`scheduler.queues`: the list of queues, their limits and their pauses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mainspring.client.core import Core
from mainspring.client.namespaces.pauses import Pauses
from mainspring.config.checks import check_whole
from mainspring.config.settings import check_name
from mainspring.errors import ConfigurationError
from mainspring.model.jobs.retry import Seconds, seconds
from mainspring.model.limits.breaker import Breaker
from mainspring.model.limits.controls import Paused, make_target
from mainspring.model.limits.limits import QUEUE, Limit, Rate
from mainspring.model.limits.queue_bound import WhenFull
from mainspring.model.views.queues import QueueDetail, QueueStatus
from mainspring.model.views.scaling import DRAIN, QueueScale
from mainspring.spelling import spelled_verbs
from mainspring.store import Store
from mainspring.store.limits.controls import pauses_in
from mainspring.store.views.queues import PAGE

_MOST = 500


@spelled_verbs
class Queues:
    """The verbs for queues."""

    def __init__(self, core: Core, pauses: Pauses) -> None:
        self._core = core
        self._pauses = pauses

    def limit(
        self,
        queue: str,
        *,
        concurrency: int | Limit | None = None,
        rate: str | Rate | None = None,
        breaker: Breaker | None = None,
        max_pending: int | None = None,
        when_full: WhenFull | None = None,
    ) -> None:
        """Declare how many jobs of a queue run at once, or start in a span of time, across all processes. A `breaker`
        stops starting jobs for a while when too many attempts fail.

        With `max_pending`, this process schedules no more jobs while the queue has that many pending ones: `schedule()`
        raises QueueFull or, with `when_full="wait"`, waits until there is room.
        """
        self._core.registry.limit_queue(queue, concurrency, rate, breaker, max_pending, when_full)

    async def pause(
        self, queue: str, *, key: Mapping[str, Any] | None = None, reason: str = "", actor: str | None = None
    ) -> Paused:
        """Pause a queue: workers start none of its jobs until you resume it. With `key`, such as `{"tenant": "acme"}`,
        the pause applies only to jobs that have this value in their data. Running jobs continue. If no job or worker
        has this queue now, the pause is still stored, and its `note` and a warning in the log say so."""
        return await self._pauses.put(make_target(None, queue, key), reason, actor)

    async def resume(self, queue: str, *, key: Mapping[str, Any] | None = None) -> Paused | None:
        """End the pause of this queue and key, and return it. Return None if there was none."""
        return await self._pauses.remove(make_target(None, queue, key))

    async def all(self) -> list[QueueStatus]:
        """List the first 500 queues by name: those that have unfinished jobs, that workers serve, that are paused, or
        in which attempts ended in the last half hour."""
        found: list[QueueStatus] = []
        after: str | None = ""
        while after is not None and len(found) < _MOST:
            page, after = await self.page(after=after)
            found += page
        return found

    async def page(self, *, after: str = "", limit: int = PAGE) -> tuple[list[QueueStatus], str | None]:
        """List up to 20 queues by name, starting after the name `after`. Also return the name to continue after, or
        None at the end. The cost does not grow with the number of jobs: see `QueueStatus.counted`."""
        check_whole(limit, "limit", 1, PAGE)
        store = await self._core.store()
        pauses = await self._paused(store)
        return await store.queues.page(pauses, self._core.registry.queue_limits, after, limit)

    async def some(self, queues: Sequence[str]) -> list[QueueStatus]:
        """List the given queues, at most 20, without those that do not exist."""
        names = sorted({check_name(queue, "a queue's name") for queue in queues})
        check_whole(len(names), "The number of queues", 0, PAGE)
        store = await self._core.store()
        return await store.queues.some(names, await self._paused(store))

    async def get(self, queue: str) -> QueueDetail:
        """Return one queue, what its waiting jobs wait for, and the names of the jobs that are due next."""
        check_name(queue, "a queue's name")
        store = await self._core.store()
        return await store.queues.detail(queue, (await self._paused(store)).get(queue))

    async def scale(self, queue: str, *, drain: Seconds = DRAIN, slots: int | None = None) -> QueueScale:
        """Return how many workers a queue needs to finish its ready jobs within `drain`, based on their measured run
        time. `slots` is how many jobs one worker runs at once. The default is the mean of the live workers that serve
        the queue or, without any, this Scheduler's setting `concurrency`."""
        check_name(queue, "a queue's name")
        within = seconds(drain, "drain")
        if not within:
            raise ConfigurationError("drain must be more than 0 seconds.")
        if slots is not None:
            check_whole(slots, "slots", 1, 100_000)
        store = await self._core.store()
        paused = (await self._paused(store)).get(queue)
        return await store.queues.scale(queue, paused, within, slots, self._core.link.settings.concurrency)

    async def _paused(self, store: Store) -> dict[str, Paused]:
        return _whole_queues(pauses_in(await store.controls.find_pauses()))


def _whole_queues(pauses: list[Paused]) -> dict[str, Paused]:
    return {pause.target: pause for pause in pauses if pause.scope == QUEUE and pause.key is None}
