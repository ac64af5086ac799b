"""A worker's view of the other live workers.

Their number and their free slots are always a little old, and only speed depends on them. Whether another worker can
run a job that this one cannot decides whether the job is held, and is asked of the database each time.
"""

from __future__ import annotations

from mainspring.clock import monotonic
from mainspring.model.workers import WorkerStatus
from mainspring.store import Store
from mainspring.store.jobs.requirements import Requirement


class Peers:
    """The live workers, as the registry had them a few seconds ago."""

    def __init__(self, store: Store, worker: str) -> None:
        self._store = store
        self._worker = worker
        self._live: list[WorkerStatus] = []
        self._refreshed_at = float("-inf")

    @property
    def age(self) -> float:
        return monotonic() - self._refreshed_at

    async def refresh(self) -> None:
        self._live = await self._store.workers.live()
        self._refreshed_at = monotonic()

    def rank(self, queue: str | None) -> tuple[int, int]:
        """This worker's place among the workers that serve a queue, and their number. It counts itself, even if the
        registry does not have its beat yet, or has an old one."""
        serving = {peer.id for peer in self._live if queue is None or peer.serves(queue)}
        serving.add(self._worker)
        return sum(worker < self._worker for worker in serving), len(serving)

    @property
    def names(self) -> set[str]:
        """The names that live workers have handlers of their own for."""
        return {name for peer in self._live for name in peer.handlers or ()}

    def idle_slots(self, queue: str) -> int:
        """The number of jobs that the other workers of a queue could start at once."""
        return sum(
            max(0, peer.concurrency - peer.running)
            for peer in self._live
            if peer.id != self._worker and peer.serves(queue)
        )

    async def another_meets(self, queue: str, requirement: Requirement) -> bool:
        """Whether another live worker of this queue meets a requirement, by the registry as it is now."""
        found = await self._store.workers.with_handler(requirement.name, queue)
        return any(requirement.met_by(peer, queue) for peer in found if peer.id != self._worker)
