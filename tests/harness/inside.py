"""The one door through which tests reach the inside of a Scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mainspring import Scheduler
from mainspring.client.core import Core
from mainspring.client.scheduler import core_of
from mainspring.engine.callbacks import Callbacks
from mainspring.engine.claim.back_pressure import Backlogs
from mainspring.engine.handlers import Handlers
from mainspring.engine.limits.job_gates import Limits
from mainspring.engine.services.archive import Archive
from mainspring.engine.services.change_feed import ChangeFeed
from mainspring.engine.worker import Worker
from mainspring.store import Store
from mainspring.store.connection import Document
from mainspring.store.jobs.claim import Batch


class Inside:
    """What a Scheduler is made of."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.core: Core = core_of(scheduler)

    async def store(self) -> Store:
        """The store, connected."""
        return await self.core.store()

    @property
    def open_store(self) -> Store:
        """The store that is connected already."""
        return self.core.link.open_store()

    @property
    def worker(self) -> Worker:
        """The worker, which runs."""
        worker = self.core.worker.current
        assert worker is not None
        return worker

    @property
    def handlers(self) -> Handlers:
        return self.core.handlers

    @property
    def events(self) -> Callbacks:
        return self.core.events

    @property
    def archive(self) -> Archive:
        return self.core.registry.archive

    @property
    def limits(self) -> Limits:
        """The limits as this process knows them."""
        return self._scheduler._scheduling._drafts._limits

    @property
    def backlogs(self) -> Backlogs:
        return self._scheduler._scheduling._backlogs

    @property
    def feed(self) -> ChangeFeed:
        """The change feed, which is open."""
        feed = self._scheduler.monitor._feed.current
        assert feed is not None
        return feed

    @contextmanager
    def without_limits(self) -> Iterator[None]:
        """Let jobs be scheduled as by a process that knows of no limits."""
        drafts = self._scheduler._scheduling._drafts
        limits, drafts._limits = drafts._limits, Limits(Handlers(), {})
        try:
            yield
        finally:
            drafts._limits = limits


def inside(scheduler: Scheduler) -> Inside:
    """What a Scheduler is made of."""
    return Inside(scheduler)


def documents_of(batch: Batch) -> list[Document]:
    """The documents of the jobs that a claim got."""
    return [job.document for job in batch.jobs]
