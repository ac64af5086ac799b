"""`scheduler.queues`: the list of queues, their limits and their pauses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring.client.core import Core
from mainspring.client.namespaces.pauses import Pauses
from mainspring.model.limits.breaker import Breaker
from mainspring.model.limits.controls import Paused, make_target
from mainspring.model.limits.limits import QUEUE, Limit, Rate
from mainspring.model.limits.queue_bound import WhenFull
from mainspring.model.views.overview import QueueStatus
from mainspring.spelling import spelled_verbs
from mainspring.store.limits.controls import pauses_in


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
        starts none of them for a while when too many attempts fail.

        With `max_pending`, this process does not schedule beyond so many pending jobs of the queue: it gets QueueFull
        or, with `when_full="wait"`, waits until there is room.
        """
        self._core.registry.limit_queue(queue, concurrency, rate, breaker, max_pending, when_full)

    async def pause(
        self, queue: str, *, key: Mapping[str, Any] | None = None, reason: str = "", actor: str | None = None
    ) -> Paused:
        """Pause a queue: workers start none of its jobs until it is resumed. With `key`, such as `{"tenant": "acme"}`,
        the pause applies only to jobs that have this value in their data. Running jobs go on. If no job or worker has
        this queue now, the pause is stored all the same, and its `note` and a warning in the log say so."""
        return await self._pauses.put(make_target(None, queue, key), reason, actor)

    async def resume(self, queue: str, *, key: Mapping[str, Any] | None = None) -> Paused | None:
        """End the pause of the same queue and key, and return it; None if there was none."""
        return await self._pauses.remove(make_target(None, queue, key))

    async def all(self) -> list[QueueStatus]:
        """List the queues that have unfinished jobs, that workers serve, or that are paused, by name."""
        store = await self._core.store()
        pauses = _whole_queues(pauses_in(await store.controls.find()))
        return await store.overview.queues(pauses, {*self._core.registry.queue_limits, *pauses})


def _whole_queues(pauses: list[Paused]) -> dict[str, Paused]:
    return {pause.target: pause for pause in pauses if pause.scope == QUEUE and pause.key is None}
