"""The verbs that read jobs, wait for them and change them.

All waits of a process share one query, sent often at first and less often later. A long wait logs once what the job is
waiting for: a worker may be missing, or its handler.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar, Unpack

from mainspring.client.core import Core
from mainspring.client.per_store import PerStore
from mainspring.client.views.explaining import Explainer
from mainspring.clock import monotonic
from mainspring.config.settings import check_name
from mainspring.engine.handler import check_data, stored_version
from mainspring.errors import (
    ConfigurationError,
    InvalidJob,
    JobNotFound,
    MainspringError,
    StepError,
    Unavailable,
    WaitTimeout,
)
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.explain.explanation import HANDLER, KEY, VERSION, WORKER, Explanation
from mainspring.model.jobs.draft import make_draft
from mainspring.model.jobs.job import PENDING, RUNNING, Job, bind
from mainspring.model.jobs.options import JobChanges
from mainspring.model.jobs.retry import Seconds, seconds
from mainspring.model.limits.controls import held_by_pause
from mainspring.model.operations.operations import Verb
from mainspring.model.printable import printable
from mainspring.model.views.search import JobFilter
from mainspring.spelling import suggestion, taken_elsewhere
from mainspring.store import Store
from mainspring.store.bounded_values import encode_data, encode_step
from mainspring.store.codec import DocumentId, document_id
from mainspring.store.connection import Document
from mainspring.store.flows.tree import WITH_PARENT
from mainspring.store.jobs.stored_job import stored_jobs
from mainspring.store.limits.controls import pauses_in
from mainspring.store.limits.wait_lists import BY_LIMIT

logger = logging.getLogger("mainspring")

_SOONEST, _LATEST = 0.01, 0.5
# The seconds after which a wait logs its reason, and the most that asking for the reason may take.
PATIENCE = 5.0
_ASKING = 5.0
# Gates that do not open by themselves as time passes or other jobs end.
_ALARMING = (WORKER, HANDLER, VERSION, KEY)

F = TypeVar("F", bound=Callable[..., Any])


def _on_many(verb: Verb) -> Callable[[F], F]:
    """Mark a verb for one job: a call with a filter is refused with the verb for many jobs."""
    cure = f" It is about one job; for many: scheduler.operations.create({verb!r}, {{'{{word}}': …}})."
    return taken_elsewhere(JobFilter.__annotations__, cure)


class Jobs:
    """Reads stored jobs, waits for them and changes them."""

    def __init__(self, core: Core, explainer: Explainer) -> None:
        self._core = core
        self._waits = PerStore[Waiting](lambda store, _: Waiting(store, explainer.explain))

    def decode(self, document: Document, *, deduplicated: bool = False) -> Job:
        """The job of a stored document, with its verbs."""
        return bind(self._core.privacy.cipher.decode(document, deduplicated=deduplicated), self)

    def close(self) -> None:
        """End the waits that are under way."""
        waits = self._waits.take()
        if waits is not None:
            waits.close()

    async def get_job(self, job_id: str, *, scope: Scope = EVERYTHING) -> Job:
        """Return the job as it is stored now. If it is pending and its queue or name is paused, `waiting_for` names the
        pause. Raise JobNotFound if there is no such job within the `scope`."""
        store = await self._core.store()
        job = self.decode(await store.jobs.get(document_id(job_id), scope))
        if job.state != PENDING or job.waiting_for is not None:
            return job
        held = held_by_pause(pauses_in(await store.controls.find_in_force()), job, BY_LIMIT)
        return job if held is None else bind(replace(job, waiting_for=held), self)

    async def wait(self, job_id: str, timeout: Seconds | None = None) -> Job:
        """Wait until a job has ended, in any state, and return it. Raise JobNotFound, or WaitTimeout with the reason
        why the job has not ended. A longer wait logs this reason after some seconds."""
        store = await self._core.store()
        waiting = self._waits.of(store)
        limit = None if timeout is None else seconds(timeout, "timeout")
        try:
            async with asyncio.timeout(limit):
                return bind(await waiting.wait(document_id(job_id)), self)
        except TimeoutError:
            why = await waiting.why(job_id)
            raise WaitTimeout(f"Job {job_id} has not ended within {limit:g} s. {why}".rstrip()) from None

    @_on_many("cancel")
    async def cancel(self, job_id: str, reason: str = "") -> Job:
        """Cancel a pending job at once, or ask a running job to stop: its worker receives the request within two
        seconds.

        A job that has already ended is returned unchanged.
        """
        store = await self._core.store()
        document, ended = await store.jobs.cancel(document_id(job_id), reason)
        job = self.decode(document)
        held = document.get("before") or []
        if ended:
            self._core.events.emit("job:cancel", job)
        if document.get("spawned"):
            tree = await store.trees.cancel_below(document, reason or WITH_PARENT)
            held = [*held, *tree.waits]
        if held and (ended or document.get("spawned")):
            await self.check_waits(store, held)
        return job

    async def check_waits(self, store: Store, waits: list[str]) -> None:
        """Check waits whose predecessors this process has ended, if no worker runs here to do it."""
        if self._core.worker.current is not None:
            self._core.worker.waits_changed(waits)
        else:
            await store.checks.check(waits)

    @_on_many("retry")
    async def retry(self, job_id: str, *, request_id: str | None = None) -> Job:
        """Run a failed, cancelled or completed job again, as a new round of attempts. A second call with the same
        `request_id`, a text of your choice, starts no further round and returns the job as it is."""
        request = None if request_id is None else check_name(request_id, "request_id")
        return await self._again((await self._core.store()).jobs.retry(document_id(job_id), request))

    async def signal(self, job_id: str, name: str, payload: Any = None, *, id: str | None = None) -> Job:
        """Send a signal to a job. Its handler gets the payload from `ctx.wait_for(name)`. A signal that arrives before
        the handler waits is kept. A second signal with the same `id`, a text of your choice, has no effect. Raise
        JobNotFound, or JobStateError if the job has ended."""
        store = await self._core.store()
        name = check_name(name, "a signal's name")
        signal_id = secrets.token_hex(12) if id is None else check_name(id, "id")
        try:
            most = store.connection.settings.max_result
            value, _ = encode_step(f"The payload of signal {name!r}", payload, most, verb="send")
        except StepError as error:
            raise InvalidJob(str(error)) from None
        await store.signals.send(document_id(job_id), name, signal_id, value)
        job = self.decode(await store.jobs.get(document_id(job_id)))
        self._core.worker.look()
        return job

    @_on_many("run")
    async def run_now(self, job_id: str) -> Job:
        """Make a pending job due at once."""
        return await self._again((await self._core.store()).jobs.run_now(document_id(job_id)))

    async def update(self, job_id: str, *, data: Mapping[str, Any] | None = None, **changes: Unpack[JobChanges]) -> Job:
        """Change a pending job. `JobChanges` lists the changes. Fields that you do not pass stay as they are."""
        known = JobChanges.__annotations__.keys()
        for unknown in changes.keys() - known:
            raise ConfigurationError(f"update() has no argument {unknown!r}.{suggestion(unknown, sorted(known))}")
        store = await self._core.store()
        if data is not None:
            name = (await self.get_job(job_id)).name
            handler = self._core.handlers.own(name)
            data = check_data(handler, data)
            await self._core.live_handlers.look(store, name)
        fields = store.inserts.changes(make_draft("update", None, **changes))
        given = {"run_at" if key == "delay" else key for key, value in changes.items() if value is not None}
        changed = {key: fields[key] for key in given}
        if data is not None:
            encoded = encode_data(data, store.connection.settings.max_data)
            changed |= self._core.privacy.seal_like(await store.jobs.get(document_id(job_id)), encoded)
            if handler is not None:
                changed["data_v"] = stored_version(handler)
        if not changed:
            return await self.get_job(job_id)
        return await self._again(store.jobs.edit(document_id(job_id), changed))

    @_on_many("delete")
    async def delete(self, job_id: str) -> None:
        """Delete a job that is not running."""
        store = await self._core.store()
        held = await store.jobs.delete(document_id(job_id))
        if held:
            await self.check_waits(store, held)

    async def _again(self, change: Awaitable[Document]) -> Job:
        document = await change
        if document.get("ready"):
            self._core.worker.due(document)
        return self.decode(document)


# -- waiting ---------------------------------------------------------------------------------------------------------


class Waiting:
    """The waits of one Scheduler."""

    def __init__(self, store: Store, explain: Callable[[str], Awaitable[Explanation]]) -> None:
        self.store = store
        self._explain = explain
        self._futures: dict[DocumentId, set[asyncio.Future[Job]]] = defaultdict(set)
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    async def wait(self, job_id: DocumentId) -> Job:
        """Wait until a job has ended, with any outcome, and return it."""
        future: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
        self._futures[job_id].add(future)
        self._news.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look())
        try:
            return await future
        finally:
            self._futures[job_id].discard(future)
            if not self._futures[job_id]:
                del self._futures[job_id]

    def close(self) -> None:
        """End all waits that are under way with an error that says why."""
        if self._task is not None:
            self._task.cancel()
        for futures in self._futures.values():
            _settle(
                futures, MainspringError("The scheduler was stopped while it waited for the job; the job continues.")
            )

    async def why(self, job_id: str) -> str:
        """The reason why a job has not ended, in words; empty if it cannot be found out."""
        explanation = await self._ask(job_id)
        return "" if explanation is None else explanation.text

    async def _ask(self, job_id: str) -> Explanation | None:
        try:
            async with asyncio.timeout(_ASKING):
                return await self._explain(job_id)
        except (MainspringError, TimeoutError):
            return None

    async def _tell(self) -> None:
        """Log what the job of the oldest wait is waiting for."""
        job_id = str(next(iter(self._futures)))
        explanation = await self._ask(job_id)
        if explanation is None or explanation.holding is None or explanation.job.state == RUNNING:
            return
        job, more = explanation.job, len(self._futures) - 1
        others = f" ({more} more jobs are waited for)" if more else ""
        logger.log(
            logging.WARNING if explanation.holding.kind in _ALARMING else logging.INFO,
            "Still waiting for job %s (%s): %s%s",
            *(printable(job.id), printable(job.name), printable(explanation.text), others),
            extra={"job_id": job.id, "job_name": job.name, "queue": job.queue},
        )

    async def _look(self) -> None:
        pause = _SOONEST
        began, told = monotonic(), False
        while self._futures:
            if self._news.is_set():
                self._news.clear()
                pause = _SOONEST
            try:
                await self.run_once()
            except Unavailable:
                pause = _LATEST
            except Exception as error:
                for futures in self._futures.values():
                    _settle(futures, error)
                return
            if not told and monotonic() - began >= PATIENCE and self._futures:
                told = True
                await self._tell()
            try:
                async with asyncio.timeout(pause):
                    await self._news.wait()
            except TimeoutError:
                pause = min(pause * 1.3, _LATEST)

    async def run_once(self) -> None:
        """Read all awaited jobs at once, and settle the waits for jobs that have ended or are gone."""
        asked = list(self._futures)
        ended = {job.id: job for job in stored_jobs(await self.store.jobs.finished_among(asked))}
        rest = [job_id for job_id in asked if job_id not in ended]
        there = await self.store.jobs.existing_among(rest) if rest else set()
        for job_id in asked:
            if job_id in ended:
                _settle(self._futures.get(job_id, set()), self.store.cipher.decode(ended[job_id].document))
            elif job_id not in there:
                _settle(self._futures.get(job_id, set()), JobNotFound(str(job_id)))


def _settle(futures: set[asyncio.Future[Job]], outcome: Job | Exception) -> None:
    for future in list(futures):
        if future.done():
            continue
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
