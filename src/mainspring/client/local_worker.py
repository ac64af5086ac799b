"""The worker that runs jobs in this process, if there is one.

A verb that stores or changes something notifies the worker through this, so that the worker need not learn of it from
the database.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from mainspring.engine.worker import Worker
from mainspring.store.connection import Document
from mainspring.store.jobs.hints import Hint


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
