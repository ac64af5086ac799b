"""What this worker knows of the other live ones.

Their number and their free slots are always a little old, and nothing but speed depends on them. Whether another worker
can run what this one cannot decides what becomes of a job, and is asked of the database each time.
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
        """This worker's place among those that serve a queue, and their number. It counts itself, also where its own
        beat is not seen yet, or late."""
        serving = {peer.id for peer in self._live if queue is None or peer.serves(queue)}
        serving.add(self._worker)
        return sum(worker < self._worker for worker in serving), len(serving)

    @property
    def names(self) -> set[str]:
        """The names that live workers have handlers of their own for."""
        return {name for peer in self._live for name in peer.handlers or ()}

    def idle_slots(self, queue: str) -> int:
        """How many jobs the other workers of a queue could start at once."""
        return sum(
            max(0, peer.concurrency - peer.running)
            for peer in self._live
            if peer.id != self._worker and peer.serves(queue)
        )

    async def another_meets(self, queue: str, requirement: Requirement) -> bool:
        """Whether another live worker of this queue meets what this one does not, as the registry has it now."""
        found = await self._store.workers.with_handler(requirement.name, queue)
        return any(requirement.met_by(peer, queue) for peer in found if peer.id != self._worker)
