"""The shared collaborators of a Scheduler's parts: the link to the database, the program's declarations, its worker.

Every part receives a `Core` in its constructor and keeps its other state to itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from mainspring.client.link import Link
from mainspring.client.local_worker import LocalWorker
from mainspring.client.registry import Registry
from mainspring.client.secret_uses import NotedUses
from mainspring.engine.callbacks import Callbacks, Observers
from mainspring.engine.handlers import Handlers, LiveHandlers
from mainspring.engine.privacy import Privacy
from mainspring.model.jobs.job import Job
from mainspring.store import Store
from mainspring.store.connection import Document


@dataclass(frozen=True, slots=True)
class Core:
    """The collaborators of every part of one Scheduler."""

    link: Link
    registry: Registry
    live_handlers: LiveHandlers
    privacy: Privacy
    worker: LocalWorker
    secret_uses: NotedUses

    @property
    def handlers(self) -> Handlers:
        return self.registry.handlers

    @property
    def events(self) -> Callbacks:
        return self.registry.events

    @property
    def observers(self) -> Observers:
        return self.registry.observers

    async def store(self) -> Store:
        """The store, connected."""
        return await self.link.store()

    def announce(self, document: Document, job: Job) -> None:
        """Tell the callbacks and the worker of this process that it has stored a job."""
        if self.events.wanted("job:created"):
            self.events.emit("job:created", job)
        self.worker.due(document)
