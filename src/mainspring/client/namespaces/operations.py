"""`scheduler.operations`: one verb on many jobs, as an object that can be previewed, followed and cancelled.

An operation is stored, and the workers carry it out in batches. It starts a few seconds after its creation, so that it
can be undone: one that is cancelled before changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from mainspring.client.core import Core
from mainspring.client.jobs import Jobs
from mainspring.client.views.searching import Searcher
from mainspring.config.checks import check_whole
from mainspring.config.settings import check_actor, check_name
from mainspring.durations import Duration
from mainspring.errors import ConfigurationError, InvalidOperation, WaitTimeout
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.jobs.job import Job
from mainspring.model.jobs.retry import Seconds, seconds
from mainspring.model.operations.operations import (
    START_AFTER,
    LeftAlone,
    OperationFacts,
    OperationPreview,
    OperationProgress,
    Order,
    Verb,
    check_start_after,
    check_why,
    make_order,
)
from mainspring.model.unreadable import Listed
from mainspring.model.views.search import JobFilter
from mainspring.spelling import spelled_verbs
from mainspring.store.connection import Document
from mainspring.store.fitting import read, readable
from mainspring.store.shapes import OPERATION
from mainspring.store.views.search import packed, unpacked
from mainspring.store.views.walks import Place

_LOOK_EVERY = 0.2


@dataclass(frozen=True)
class Operation(OperationFacts):
    """One verb applied to many jobs, as it was when it was read."""

    _verbs: Operations | None = field(default=None, repr=False, compare=False, kw_only=True)

    def _face(self) -> Operations:
        if self._verbs is None:
            raise ConfigurationError("This operation was not read from a Scheduler, so its methods cannot be used.")
        return self._verbs

    async def refresh(self) -> Operation:
        """Return the operation as it is now."""
        return await self._face().get(self.id)

    async def wait(self, timeout: Seconds | None = None) -> Operation:
        """Wait until it has ended, and return it. Workers carry it out.

        Raise WaitTimeout; the operation continues.
        """
        return await self._face()._wait_for(self.id, timeout)

    async def cancel(self) -> Operation:
        """Stop it. If it has not started, it changes no job; changes that it has made remain."""
        return await self._face().cancel(self.id)


@spelled_verbs
class Operations:
    """The verbs for operations."""

    def __init__(self, core: Core, jobs: Jobs, searcher: Searcher) -> None:
        self._core = core
        self._jobs = jobs
        self._searcher = searcher

    async def create(
        self,
        verb: Verb,
        filter: JobFilter | None = None,
        *,
        ids: Sequence[str] | str | None = None,
        priority: int | None = None,
        queue: str | None = None,
        reason: str = "",
        start_after: Duration = START_AFTER,
        actor: str | None = None,
        operation_id: str | None = None,
        scope: Scope = EVERYTHING,
    ) -> Operation:
        """Store an operation that retries, cancels, runs now or deletes many jobs, or changes their priority or queue.

        The operation acts on the jobs that match the `filter`, which must not be empty, or on those with these `ids`,
        1,000 at most. The filter and the cutoff time are frozen: jobs created later are never touched, and a job that
        no longer matches when its turn comes is skipped. `priority` is for the verb "set_priority", `queue` for "move".
        Each job is changed once, by the same rules as the verb for a single job; jobs that the verb refuses are
        counted.

        The operation starts after `start_after`; until then you can cancel it before it changes anything.
        `operation_id` is its id: a second call with the same id returns that operation and creates no other. No job
        outside the `scope` is touched.
        """
        order = self._order(verb, filter, ids, priority, queue, scope)
        why, delay, signed = check_why(reason), check_start_after(start_after), check_actor(actor)
        identity = None if operation_id is None else check_name(operation_id, "operation_id")
        store = await self._core.store()
        counted = await store.operations.preview(order)
        document = await store.operations.create(order, counted, why, signed, delay, identity)
        self._core.worker.operations_changed()
        return replace(self._operation(document), sample=self._decoded(counted.sample))

    async def preview(
        self,
        verb: Verb,
        filter: JobFilter | None = None,
        *,
        ids: Sequence[str] | str | None = None,
        priority: int | None = None,
        queue: str | None = None,
        scope: Scope = EVERYTHING,
    ) -> OperationPreview:
        """Return how many jobs an operation would act on now, and some of them. Nothing is stored or changed."""
        order = self._order(verb, filter, ids, priority, queue, scope)
        counted = await (await self._core.store()).operations.preview(order)
        return OperationPreview(counted.count, counted.capped, self._decoded(counted.sample))

    async def get(self, operation_id: str) -> Operation:
        """Return the operation as it is stored now. Raise OperationNotFound."""
        return self._operation(await (await self._core.store()).operations.get(_id(operation_id)))

    async def all(self, limit: int = 100, *, after: Operation | None = None) -> Listed[Operation]:
        """List the latest operations, newest first. For the next page, pass the last operation as `after`. Operations
        that have ended are kept as long as ledgers (the setting `keep_ledger`). `unreadable` of the list names
        documents that cannot be read."""
        check_whole(limit, "limit", 1, 10_000)
        place = None if after is None else (after.created_at, after.id)
        return (await self._page(limit, place))[0]

    async def cancel(self, operation_id: str) -> Operation:
        """Stop an operation. If it has not started, it changes no job. If it has, it stops where it is, and the changes
        it has made remain. An operation that has ended stays as it is."""
        return self._operation(await (await self._core.store()).operations.cancel(_id(operation_id)))

    async def _page(self, limit: int, place: Place | None) -> tuple[Listed[Operation], Place | None]:
        """The operations behind a place, and the place behind them; None at the end."""
        found = await (await self._core.store()).operations.find(limit, place)
        last = (found[-1].get("created_at"), found[-1]["_id"]) if len(found) == limit else None
        return readable(found, OPERATION, self._decode), last

    # -- making and reading ------------------------------------------------------------------------------------------

    def _order(
        self,
        verb: Verb,
        filter: Mapping[str, Any] | None,
        ids: Sequence[str] | str | None,
        priority: int | None,
        queue: str | None,
        scope: Scope,
    ) -> Order:
        """What is asked for, checked. Jobs of which it would tell a value that is not shown are not meant."""
        order = make_order(verb, filter, ids, priority, queue, scope)
        if order.search is None:
            return order
        try:
            return replace(order, search=self._searcher.tellable(order.search))
        except ConfigurationError as error:
            raise InvalidOperation(str(error), "filter.data") from None

    async def _wait_for(self, operation_id: str, timeout: Seconds | None) -> Operation:
        limit = None if timeout is None else seconds(timeout, "timeout")
        with suppress(TimeoutError):
            async with asyncio.timeout(limit):
                while True:
                    operation = await self.get(operation_id)
                    if operation.finished:
                        return operation
                    await asyncio.sleep(_LOOK_EVERY)
        raise WaitTimeout(
            f"Operation {operation_id} has not ended within {limit:g} s; it continues while a worker runs."
        )

    def _decoded(self, documents: Sequence[Document]) -> tuple[Job, ...]:
        return tuple(self._jobs.decode(document) for document in documents)

    def _operation(self, document: Document) -> Operation:
        return read(document, OPERATION, self._decode, "The operation")

    def _decode(self, document: Document) -> Operation:
        order = Order.from_document(document)
        return Operation(
            id=str(document["_id"]),
            verb=order.verb,
            state=document["state"],
            reason=document["reason"],
            count=document["count"],
            capped=document["capped"],
            cutoff=document["cutoff"],
            created_at=document["created_at"],
            starts_at=document["starts_at"],
            filter=order.filter,
            ids=order.ids,
            named=document.get("named"),
            priority=order.priority,
            queue=order.queue,
            created_by=document.get("actor"),
            scope=order.scope,
            started_at=document.get("started_at"),
            finished_at=document.get("finished_at"),
            updated_at=document.get("stepped_at"),
            progress=_progress(document),
            error=document.get("error"),
            _verbs=self,
        )


async def page_of(operations: Operations, limit: int, after: str | None) -> tuple[Listed[Operation], str | None]:
    """A page of operations, the newest first, and the cursor of the next one; for the service."""
    found, place = await operations._page(limit, None if after is None else tuple(unpacked(after)["place"]))
    return found, None if place is None else packed({"place": list(place)})


def _progress(document: Document) -> OperationProgress:
    reasons = tuple(
        LeftAlone(one["job"], "refused" if one["refused"] else "skipped", one["reason"])
        for one in document.get("reasons", ())
    )
    return OperationProgress(document["changed"], document["skipped"], document["refused"], reasons)


def _id(operation_id: object) -> str:
    if not isinstance(operation_id, str) or not operation_id:
        raise ConfigurationError(f"An operation's id is a non-empty text, not {operation_id!r}.")
    return operation_id
