"""The verbs that read jobs, wait for them and change them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar, Unpack

from mainspring.client.core import Core
from mainspring.client.per_store import PerStore
from mainspring.client.views.explaining import Explainer
from mainspring.config.settings import check_name
from mainspring.engine.handler import check_data, stored_version
from mainspring.engine.wait_for_end import Waiting
from mainspring.errors import ConfigurationError, InvalidJob, StepError, WaitTimeout
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.jobs.draft import make_draft
from mainspring.model.jobs.job import PENDING, Job, bind
from mainspring.model.jobs.options import JobChanges
from mainspring.model.jobs.retry import Seconds, seconds
from mainspring.model.limits.controls import held_by_pause
from mainspring.model.operations.operations import Verb
from mainspring.model.views.search import JobFilter
from mainspring.spelling import suggestion, taken_elsewhere
from mainspring.store import Store
from mainspring.store.bounded_values import encode_data, encode_step
from mainspring.store.codec import document_id
from mainspring.store.connection import Document
from mainspring.store.flows.tree import WITH_PARENT
from mainspring.store.limits.controls import pauses_in
from mainspring.store.limits.wait_lists import BY_LIMIT

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
        """Return the job as it is stored now; if it is pending and its queue or name is paused, `waiting_for` names the
        pause. Raise JobNotFound, also if the job is out of the `scope`."""
        store = await self._core.store()
        job = self.decode(await store.jobs.get(document_id(job_id), scope))
        if job.state != PENDING or job.waiting_for is not None:
            return job
        held = held_by_pause(pauses_in(await store.controls.find_in_force()), job, BY_LIMIT)
        return job if held is None else bind(replace(job, waiting_for=held), self)

    async def wait(self, job_id: str, timeout: Seconds | None = None) -> Job:
        """Wait until a job has ended, in any state, and return it. Raise JobNotFound, or WaitTimeout with the reason
        why the job has not ended; during a longer wait, this reason is logged after some seconds."""
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
        """Cancel a pending job at once, or ask a running one to stop: its worker learns of it within two seconds.

        A job that has ended already is returned as it is.
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
        `request_id`, a text of your choice, begins no further round and returns the job as it is."""
        request = None if request_id is None else check_name(request_id, "request_id")
        return await self._again((await self._core.store()).jobs.retry(document_id(job_id), request))

    async def signal(self, job_id: str, name: str, payload: Any = None, *, id: str | None = None) -> Job:
        """Send a signal to a job, whose handler gets the payload from `ctx.wait_for(name)`. A signal that arrives
        before the handler waits is kept. A second one with the same `id`, a text of your choice, changes nothing. Raise
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
        """Change a pending job; `JobChanges` lists the changes. A field whose change is not given stays as it is."""
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
