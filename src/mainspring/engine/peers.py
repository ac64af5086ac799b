"""What this worker knows of the other live ones. Always a little old; nothing but speed depends on it."""

from __future__ import annotations

from mainspring.clock import monotonic
from mainspring.engine.lacks import Lack
from mainspring.store import Store
from mainspring.store.workers import Peer


class Peers:
    """The live workers, as the registry had them a few seconds ago."""

    def __init__(self, store: Store, worker: str) -> None:
        self._store = store
        self._worker = worker
        self._live: list[Peer] = []
        self._refreshed_at = float("-inf")

    @property
    def age(self) -> float:
        return monotonic() - self._refreshed_at

    async def refresh(self) -> None:
        self._live = await self._store.workers.live()
        self._refreshed_at = monotonic()

    def rank(self, queue: str | None) -> tuple[int, int]:
        """This worker's place among those that serve a queue, and their number."""
        serving = [peer.id for peer in self._live if queue is None or peer.queues is None or queue in peer.queues]
        return (serving.index(self._worker), len(serving)) if self._worker in serving else (0, 1)

    def idle_slots(self, queue: str) -> int:
        """How many jobs the other workers of a queue could start at once."""
        return sum(
            max(0, peer.concurrency - peer.running)
            for peer in self._live
            if peer.id != self._worker and (peer.queues is None or queue in peer.queues)
        )

    def somebody_has(self, name: str) -> bool:
        """Whether another worker has a handler of its own for a name."""
        return any(peer.handlers is not None and name in peer.handlers for peer in self._live)

    def somebody_has_not(self, queue: str, lack: Lack) -> bool:
        """Whether another worker of this queue does not lack what this one does."""
        return any(lack.met_by(peer, queue) for peer in self._live if peer.id != self._worker)
