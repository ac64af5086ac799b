"""The worker that runs jobs in this process, as the verbs see it: there is one, or there is none.

A verb that stores or changes something tells the worker here, which then need not learn of it from the database.
"""

from __future__ import annotations

import os

from mainspring.engine.worker import Worker
from mainspring.store.connection import Document
from mainspring.store.jobs.hints import Hint


class LocalWorker:
    """The place of this process's worker. A forked process begins without one: the worker is the parent's."""

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
        """The worker has started."""
        self._worker, self._process = worker, os.getpid()

    def take(self) -> Worker | None:
        """The worker, which from now on is told nothing more."""
        worker, self._worker = self.current, None
        return worker

    def due(self, document: Document) -> None:
        """This process knows of a job that may be due."""
        if (worker := self.current) is not None:
            worker.hint(Hint(document["_id"], document["queue"], document["run_at"], raw=False))

    def wake(self) -> None:
        """This process has stored jobs."""
        if (worker := self.current) is not None:
            worker.wake()

    def look(self) -> None:
        """This process has made stored jobs due."""
        if (worker := self.current) is not None:
            worker.poll_all()

    def schedules_changed(self) -> None:
        """This process has changed a schedule or made jobs of one."""
        if (worker := self.current) is not None:
            worker.schedules_changed()

    def controls_changed(self) -> None:
        """This process has changed what is paused, limited or broken."""
        if (worker := self.current) is not None:
            worker.controls_changed()

    def operations_changed(self) -> None:
        """This process has created an operation."""
        if (worker := self.current) is not None:
            worker.operations_changed()
