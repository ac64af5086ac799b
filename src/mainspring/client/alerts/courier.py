"""Sends the messages of alerts that no worker can send: the HTTP service runs their jobs itself.

An alert that no worker is alive must not wait for a worker. The service claims such a job as a worker does, by its id,
with a lease and a fence, runs the handler of webhooks or mail on it, and stores the outcome. It registers no worker, so
that the alert stays true, and takes no other jobs. A job that it began and never ended, since it died, is given back by
the next service. Limits and breakers of targets are for workers; there is one message at a time here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from mainspring.client.lifecycle import Lifecycle
from mainspring.client.outgoing.builtin_jobs import BuiltinSettings, Mails, Webhooks, smtp_settings
from mainspring.client.scheduler import Scheduler, core_of, lifecycle_of
from mainspring.clock import monotonic
from mainspring.engine.handler import Handler
from mainspring.engine.handlers import Handlers
from mainspring.engine.run.claimed_jobs import ClaimedJob
from mainspring.engine.run.executor import Executor
from mainspring.engine.run.judge import Policies
from mainspring.engine.vitals import new_worker_id
from mainspring.jobtypes.http.addresses import Allow
from mainspring.model.jobs.reserved_names import EMAIL, HTTP
from mainspring.model.jobs.retry import Retry
from mainspring.store import Store
from mainspring.store.jobs.stored_job import StoredJob
from mainspring.store.jobs.upkeep import NO_HANDLER

# Seconds: the lease is not renewed, so that it is longer than an attempt can be.
_LONGEST_ATTEMPT, _LEASE = 60.0, 120.0
_TRIES = 3


class Courier:
    """Runs the jobs of alerts in a process without a worker."""

    def __init__(self, scheduler: Scheduler, settings: BuiltinSettings) -> None:
        self._core = core_of(scheduler)
        self._lifecycle: Lifecycle = lifecycle_of(scheduler)
        self._webhooks = Webhooks(scheduler, Allow.parse(settings.http_allow))
        self._handlers = Handlers()
        self._handlers.add(Handler(HTTP, self._webhooks.call))
        smtp = smtp_settings(settings)
        if smtp is not None:
            self._handlers.add(Handler(EMAIL, Mails(scheduler, smtp).send))
        self._policies = Policies(self._handlers, Retry(), _LONGEST_ATTEMPT)
        self._id = f"alerts@{new_worker_id()}"

    async def deliver(self, store: Store, ids: Collection[str]) -> int:
        """Run those of these jobs that are due and that no live worker can run; returns their number."""
        await store.rescues.rescue_these(ids)
        ran = 0
        for _ in range(_TRIES):
            due = await store.claims.due_among(ids, or_held=NO_HANDLER)
            stranded = await self._stranded(store, [job for job in due if self._handlers.own(job.name) is not None])
            if not stranded:
                break
            ran += await self._claim_and_run(store, stranded)
        return ran

    async def _claim_and_run(self, store: Store, stranded: Sequence[StoredJob]) -> int:
        """Run these jobs. A worker that lacks the handler may have set some of them aside, or does so meanwhile."""
        await store.upkeep.release_these([job.id for job in stranded])
        asked = monotonic()
        due = await store.claims.due_among([str(job.id) for job in stranded])
        if not due:
            return 0
        batch = await store.claims.claim(due, self._id, _LEASE, self._policies.attempts)
        executor = self._executor(store)
        try:
            await asyncio.gather(*(self._run(store, executor, job, batch.claim, asked) for job in batch.jobs))
        finally:
            await executor.close()
        return len(batch.jobs)

    async def close(self) -> None:
        await self._webhooks.close()

    async def _stranded(self, store: Store, due: Sequence[StoredJob]) -> list[StoredJob]:
        workers = await store.workers.live_in_full() if due else []
        return [job for job in due if not any(one.serves(job.queue) and one.handles(job.name) for one in workers)]

    async def _run(self, store: Store, executor: Executor, job: StoredJob, claim: str, asked: float) -> None:
        handler = self._handlers.own(job.name)
        assert handler is not None
        guarantee = self._policies.guarantee(job, handler)
        claimed = ClaimedJob(job, claim, handler, asked, asked + _LEASE, guarantee)
        outcome = await executor.run(claimed)
        now = store.clock.now()
        await store.finishing.finish([claimed.finish(self._id, claimed.started_at or now, now, outcome)])

    def _executor(self, store: Store) -> Executor:
        return Executor(
            store=store,
            settings=self._core.link.settings,
            events=self._core.events,
            policies=self._policies,
            worker=self._id,
            enqueuer=self._lifecycle.child_scheduling(),
            secrecy=self._core.privacy,
            began=lambda _: None,
        )
