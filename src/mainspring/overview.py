"""The verbs that show queues and workers as a whole."""

from __future__ import annotations

from mainspring.model.controls import Paused
from mainspring.model.limits import QUEUE
from mainspring.model.overview import QueueStatus, WorkerStatus
from mainspring.store.controls import pauses_in
from mainspring.verbs import Verbs


class OverviewVerbs(Verbs):
    """The part of the Scheduler that gives an overview."""

    async def queues(self) -> list[QueueStatus]:
        """The queues that have live jobs, that workers ask for, or that are paused, by their names."""
        store = await self._store()
        pauses = _whole_queues(pauses_in(await store.controls.find()))
        return await store.overview.queues(pauses, {*self._queue_limits, *pauses})

    async def workers(self) -> list[WorkerStatus]:
        """The worker processes that are there, and those that were lately, by when they were heard of last."""
        return await (await self._store()).overview.workers()


def _whole_queues(pauses: list[Paused]) -> dict[str, Paused]:
    return {pause.target: pause for pause in pauses if pause.scope == QUEUE and pause.key is None}
