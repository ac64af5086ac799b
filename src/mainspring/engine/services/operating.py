"""Carrying operations on: one batch at a time, for as long as their creators may do so."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from mainspring.engine.services.archive import Archive, remove_finished
from mainspring.errors import ConfigurationError
from mainspring.model.access.api_keys import KEY_ACTOR, OPERATOR, Scope
from mainspring.model.access.audit import Entry
from mainspring.model.access.audit_filter import AuditFilter
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import Job
from mainspring.model.operations.operations import CANCELLED, ENDED, RUNNING, WAITING
from mainspring.store import Store
from mainspring.store.connection import Document

END = "operation.end"
_REVOKED = "The API key that created the operation is revoked, has expired, or has lost its rights; it was stopped."
_ROWS = 50
_TOLD = ("verb", "filter", "priority", "queue", "reason", "state", "count", "capped", "changed", "skipped", "refused")

Announce = Callable[[Job], None]


def is_under_way(operation: Document) -> bool:
    """Whether an operation has jobs left to act on."""
    return operation["state"] in (WAITING, RUNNING)


async def carry_on(store: Store, archive: Archive, operation: Document, cancelled: Announce | None = None) -> Document:
    """Start an operation whose time has come, or deal with its next batch; returns it as it is then. `cancelled` is
    told of each job that the operation has ended. An operation that cannot go on has failed."""
    if not await _may_go_on(store, operation):
        return await store.operations.fail(operation, _REVOKED)
    if operation["state"] == WAITING:
        return await store.operations.start(operation)
    try:
        return await store.operations.step(
            operation, partial(remove_finished, store, archive), None if cancelled is None else _told(store, cancelled)
        )
    except ConfigurationError as error:
        return await store.operations.fail(operation, str(error))


async def finish(store: Store, operation: Document, worker: str) -> None:
    """Count what was in hand when an operation was ended from outside, and write its end to the audit log, unless that
    is done. One that was cancelled before it started has nothing to tell."""
    operation = await store.operations.settle(operation)
    if operation["state"] not in ENDED or "batch" in operation:
        return
    if "started_at" in operation or operation["state"] != CANCELLED:
        rows = await store.audit.find(AuditFilter(target=operation["_id"]), limit=_ROWS)
        if not any(row.action == END for row in rows):
            await store.audit.append(Entry(f"worker:{worker}", END, operation["_id"], after=_account_of(operation)))
    await store.operations.close(operation)


async def _may_go_on(store: Store, operation: Document) -> bool:
    """Whether the creator of an operation may still do what it does: an API key, as long as it is in force and has its
    role and scope."""
    actor: str = operation.get("actor", "")
    if not actor.startswith(KEY_ACTOR):
        return True
    key = await store.api_keys.get(actor.removeprefix(KEY_ACTOR))
    if key is None or not key.is_live(store.clock.now()) or not key.may(OPERATOR):
        return False
    return key.scope.covers(Scope.from_document(operation["scope"]))


def _told(store: Store, cancelled: Announce) -> Callable[[Any], None]:
    def tell(documents: Any) -> None:
        for document in documents:
            cancelled(store.cipher.decode(document))

    return tell


def _account_of(operation: Document) -> Fields:
    """The audit entry of an operation that has ended."""
    account = {name: operation[name] for name in (*_TOLD, "error", "actor") if name in operation}
    return account | ({"ids": len(operation["ids"])} if "ids" in operation else {})
