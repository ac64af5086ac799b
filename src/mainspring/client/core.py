"""The shared collaborators of a Scheduler's parts: the link to the database, the program's declarations, its worker.

Every part receives a `Core` in its constructor and keeps its other state to itself. A verb that stores or changes
something notifies the worker of this process through `LocalWorker`, so that the worker need not learn of it from the
database.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mainspring.client.link import Link
from mainspring.client.per_store import PerStore
from mainspring.client.registry import Registry
from mainspring.engine.callbacks import Callbacks, Observers
from mainspring.engine.handlers import Handlers, LiveHandlers
from mainspring.engine.privacy import Privacy
from mainspring.model.jobs.job import Job
from mainspring.store import Store
from mainspring.store.connection import Document
from mainspring.store.jobs.hints import Hint

if TYPE_CHECKING:
    from mainspring.engine.secret_uses import SecretUses
    from mainspring.engine.worker import Worker
    from mainspring.model.privacy.secrets import SecretUse

_LAST_USES = 5.0
"""Seconds that the last uses of secrets may take to be written when the Scheduler stops."""


class LocalWorker:
    """Holds the worker of this process. A forked process begins without one: the worker belongs to its parent."""

    def __init__(self) -> None:
        self._worker: Worker | None = None
        self._process = os.getpid()

    @property
    def current(self) -> Worker | None:
        """The worker that runs in this process."""
        return self._worker if self._process == os.getpid() else None

    @property
    def id(self) -> str | None:
        """The worker's id, as jobs and their attempts name it."""
        worker = self.current
        return None if worker is None else worker.id

    def put(self, worker: Worker) -> None:
        """Keep a worker that has started."""
        self._worker, self._process = worker, os.getpid()

    def take(self) -> Worker | None:
        """Return the worker, and notify it no more."""
        worker, self._worker = self.current, None
        return worker

    def due(self, document: Document) -> None:
        """Give the worker a hint of a job that may be due."""
        if (worker := self.current) is not None:
            worker.hint(Hint(document["_id"], document["queue"], document["run_at"], raw=False))

    def wake(self) -> None:
        """Wake the worker: this process has stored jobs."""
        if (worker := self.current) is not None:
            worker.wake()

    def look(self) -> None:
        """Let the worker poll: this process has made stored jobs due."""
        if (worker := self.current) is not None:
            worker.poll_all()

    def drain(self, worker_id: str) -> None:
        """Let the worker claim and start no more, if it is the one that is drained."""
        if (worker := self.current) is not None and worker.id == worker_id:
            worker.hold()

    def schedules_changed(self) -> None:
        """Notify the worker that this process has changed a schedule or made jobs of one."""
        if (worker := self.current) is not None:
            worker.schedules_changed()

    def controls_changed(self) -> None:
        """Notify the worker that this process has changed a pause, a limit or a breaker."""
        if (worker := self.current) is not None:
            worker.controls_changed()

    def waits_changed(self, waits: Iterable[str]) -> None:
        """Have the worker check these waits, if one runs here; otherwise the sweep of another does."""
        if self.current is not None:
            self.current.waits_changed(waits)

    def operations_changed(self) -> None:
        """This process has created an operation."""
        if (worker := self.current) is not None:
            worker.operations_changed()


class NotedUses:
    """Notes for the audit log which secrets this process uses, and for which jobs."""

    def __init__(self, worker: LocalWorker) -> None:
        self._worker = worker
        self._uses: PerStore[SecretUses] = PerStore(_uses_of)

    async def note(self, store: Store, name: str, use: SecretUse | None) -> None:
        """Note that this process uses a secret: its own code, or the job that `use` names."""
        worker = self._worker.id
        actor = f"process:{socket.gethostname()}:{os.getpid()}" if worker is None else f"worker:{worker}"
        await self._uses.of(store).note(actor, name, use, at_once=worker is None)

    async def flush(self) -> None:
        """Write the noted uses to the audit log now."""
        if (uses := self._uses.current) is not None:
            await uses.flush()

    async def close(self) -> None:
        """Write the noted uses, for a few seconds at most."""
        if (uses := self._uses.take()) is not None:
            await uses.close(_LAST_USES)


def _uses_of(store: Store, before: SecretUses | None) -> SecretUses:
    from mainspring.engine.secret_uses import SecretUses  # few programs use secrets

    return SecretUses(store.audit, before)


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
