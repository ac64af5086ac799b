"""The verbs for looking at jobs and changing them by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from datetime import datetime
from typing import Any

from mainspring.config import check_name
from mainspring.engine.waiting import Waiting
from mainspring.errors import ConfigurationError, WaitTimeout
from mainspring.handlers import check_data, stored_version
from mainspring.model.draft import check_instant, check_tags, make_draft
from mainspring.model.job import STATES, Job
from mainspring.model.retry import Retry, Seconds, seconds
from mainspring.model.sealing import encrypt_like
from mainspring.store.codec import document_id, encode_data
from mainspring.store.connection import Document
from mainspring.verbs import Verbs


class JobVerbs(Verbs):
    """The part of the Scheduler that looks at jobs and changes them."""

    _waiting: Waiting | None = None

    async def get_job(self, job_id: str) -> Job:
        """The job as it is stored now. Raises JobNotFound."""
        store = await self._store()
        return store.sealer.decode(await store.jobs.get(document_id(job_id)))

    async def jobs(
        self,
        *,
        state: str | None = None,
        name: str | None = None,
        queue: str | None = None,
        tag: str | None = None,
        schedule_id: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[Job]:
        """Jobs that match, one after the other: finished ones and those of a schedule newest first, pending ones in
        their order."""
        if state is not None and state not in STATES:
            raise ConfigurationError(f"There is no state {state!r}; the states are {', '.join(STATES)}.")
        if limit is not None and limit < 0:
            raise ConfigurationError(f"limit must be 0 or more, not {limit}.")
        store = await self._store()
        async for document in store.jobs.find(state, name, queue, tag, schedule_id, limit):
            yield store.sealer.decode(document)

    async def wait(self, job_id: str, timeout: Seconds | None = None) -> Job:
        """Wait until a job has ended, in whatever way, and return it. Raises WaitTimeout, and JobNotFound."""
        store = await self._store()
        waiting = self._waiting = self._waiting or Waiting(store)
        limit = None if timeout is None else seconds(timeout, "timeout")
        try:
            async with asyncio.timeout(limit):
                return await waiting.wait(document_id(job_id))
        except TimeoutError:
            raise WaitTimeout(f"Job {job_id} has not ended within {limit:g} s; it goes on.") from None

    async def cancel(self, job_id: str, reason: str = "") -> Job:
        """Cancel a pending job at once, or ask a running one to stop (it is told within two seconds).

        A job that has ended already is returned as it is.
        """
        store = await self._store()
        document, ended = await store.jobs.cancel(document_id(job_id), reason)
        job = store.sealer.decode(document)
        if ended:
            self._events.emit("job:cancel", job)
        return job

    async def retry(self, job_id: str, *, request_id: str | None = None) -> Job:
        """Run a failed, cancelled or completed job again, as a new round of attempts. Asked again with the same
        `request_id`, a text of your choice, it returns the job as it is: the round that it has begun is the one."""
        request = None if request_id is None else check_name(request_id, "request_id")
        return await self._again((await self._store()).jobs.retry(document_id(job_id), request))

    async def run_now(self, job_id: str) -> Job:
        """Make a pending job due at once."""
        return await self._again((await self._store()).jobs.run_now(document_id(job_id)))

    async def update(
        self,
        job_id: str,
        *,
        data: Mapping[str, Any] | None = None,
        run_at: datetime | None = None,
        delay: Seconds | None = None,
        priority: int | None = None,
        queue: str | None = None,
        expires_at: datetime | None = None,
        start_within: Seconds | None = None,
        timeout: Seconds | None = None,
        retry: Retry | int | None = None,
        tags: Sequence[str] | None = None,
    ) -> Job:
        """Change a pending job. What is not given stays as it is."""
        store = await self._store()
        if data is not None:
            handler = self._handlers.own((await self.get_job(job_id)).name)
            check_data(handler, data)
        draft = make_draft(
            "update",
            None,
            run_at=run_at,
            delay=delay,
            priority=priority,
            queue=queue,
            expires_at=None if expires_at is None else check_instant(expires_at, "expires_at"),
            start_within=start_within,
            timeout=timeout,
            retry=retry,
            tags=None if tags is None else check_tags(tags),
        )
        fields = store.inserts.changes(draft)
        given: dict[str, Any] = {
            "run_at": run_at if run_at is not None else delay,
            "priority": priority,
            "queue": queue,
            "expires_at": expires_at,
            "start_within": start_within,
            "timeout": timeout,
            "retry": retry,
            "tags": tags,
        }
        changed = {key: fields[key] for key, value in given.items() if value is not None}
        if data is not None:
            encoded = encode_data(data, store.connection.settings.max_data)
            changed |= self._seal_like(await store.jobs.get(document_id(job_id)), encoded)
            if handler is not None:
                changed["data_v"] = stored_version(handler)
        if not changed:
            return await self.get_job(job_id)
        return await self._again(store.jobs.edit(document_id(job_id), changed))

    def _seal_like(self, stored: Document, data: Mapping[str, Any]) -> Document:
        """New data for a stored job as it is to be stored: what was encrypted before is encrypted again."""
        encrypt = self._secrecy.encrypt(str(stored.get("name")), encrypt_like(stored.get("data")))
        document = {"_id": stored["_id"], "name": stored.get("name"), "data": data, "sealed": encrypt}
        if encrypt is None:
            return {"data": data}
        self._secrecy.sealer.check(document)
        sealed = self._secrecy.sealer.sealed(document)
        return {"data": sealed["data"], "sealed": sealed.get("sealed")}

    async def delete(self, job_id: str) -> None:
        """Delete a job that is not running."""
        store = await self._store()
        await store.jobs.delete(document_id(job_id))

    async def _again(self, change: Awaitable[Document]) -> Job:
        document = await change
        if document.get("ready"):
            self._due(document)
        return self._secrecy.sealer.decode(document)

    def _due(self, document: Document) -> None:
        """This process knows of a job that may be due: its worker, if it has one, need not be told by others."""
