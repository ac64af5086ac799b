"""Raising the schema version of a database, as `mainspring migrate` does it: in steps, beside the workers."""

from __future__ import annotations

from collections.abc import Callable

from mainspring.client.scheduler import Scheduler, core_of
from mainspring.model.schema_versions import SchemaStatus


async def schema_status(scheduler: Scheduler) -> SchemaStatus:
    """The schema version of the scheduler's database, and what is pending."""
    return await (await core_of(scheduler).store()).migrations.status()


async def migrate(scheduler: Scheduler, tell: Callable[[SchemaStatus], None] | None = None) -> SchemaStatus:
    """Carry out the pending changes of documents, batch by batch, and return the status.

    It can be interrupted at any time: a second call continues. Where workers of an earlier version are alive, all
    documents are changed and the version stays until a call after their end. `tell` is called after each batch.
    """
    migrations = (await core_of(scheduler).store()).migrations
    status = await migrations.record()
    while status.pending and not status.waits:
        status = await migrations.step()
        if tell is not None:
            tell(status)
    return status
