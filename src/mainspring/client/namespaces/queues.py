"""`scheduler.queues`: the queues as a whole, their limits and their pauses."""

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
        """Declare how many jobs of a queue run at once, or start in a stretch of time, across all processes. A
        `breaker` keeps them back for a while when too many attempts fail.

        With `max_pending`, hold this process up when it would schedule more than so many: it is refused with QueueFull,
        or, with `when_full="wait"`, waits until there is room.
        """
        self._core.registry.limit_queue(queue, concurrency, rate, breaker, max_pending, when_full)

    async def pause(
        self, queue: str, *, key: Mapping[str, Any] | None = None, reason: str = "", actor: str | None = None
    ) -> Paused:
        """Start no more jobs of a queue until it is resumed; with `key`, such as `{"tenant": "acme"}`, only none of
        those that have this value in their data. Running jobs go on. Where no job or worker has this queue now, the
        pause is made all the same, and its `note` and a warning in the log say so."""
        return await self._pauses.put(make_target(None, queue, key), reason, actor)

    async def resume(self, queue: str, *, key: Mapping[str, Any] | None = None) -> Paused | None:
        """End a pause that was made with the same queue and key; returns it, and None where there was none."""
        return await self._pauses.remove(make_target(None, queue, key))

    async def all(self) -> list[QueueStatus]:
        """The queues that have live jobs, that workers ask for, or that are paused, by their names."""
        store = await self._core.store()
        pauses = _whole_queues(pauses_in(await store.controls.find()))
        return await store.overview.queues(pauses, {*self._core.registry.queue_limits, *pauses})


def _whole_queues(pauses: list[Paused]) -> dict[str, Paused]:
    return {pause.target: pause for pause in pauses if pause.scope == QUEUE and pause.key is None}
