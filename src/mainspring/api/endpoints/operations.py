"""Operations: one verb on many jobs, with a preview, a reason, progress, and a moment to undo it.

A key with a scope touches the jobs within its scope only, whatever the filter says, and sees the operations of keys
whose scope its own contains. Each verb needs the role that it needs for a single job.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from pydantic.alias_generators import to_camel

from mainspring.api.audit.bulk_tally import Tally
from mainspring.api.dependencies import Caller, Operator, Viewer
from mainspring.api.jobs.idempotency import Made, Once
from mainspring.api.jobs.resources import seen_jobs
from mainspring.api.problems import Problem
from mainspring.api.wire.base import Answer, Nothing, UnreadableOut
from mainspring.api.wire.jobs import JobOut
from mainspring.api.wire.operations import (
    OperationCreated,
    OperationDetail,
    OperationIn,
    OperationOut,
    OperationPage,
    OperationPreviewOut,
)
from mainspring.client.namespaces.operations import Operation
from mainspring.errors import InvalidOperation, OperationNotFound
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import Job
from mainspring.model.unreadable import Unreadable

_LIST = "operations"
_READS = 5
"""How often operations are read for a page, of which a key with a scope may see few."""

router = APIRouter(prefix="/api/operations", tags=["operations"])
Cursor = Annotated[
    str | None,
    Query(max_length=4000, pattern=r"^[A-Za-z0-9_=-]+$", description="The `next` of the previous page."),
]
OperationId = Annotated[str, Path(min_length=1, max_length=200, examples=["66f1c2b3a4d5e6f708192a3b"])]


@router.post(
    "",
    summary="Act on many jobs",
    status_code=202,
    response_model=Answer[OperationCreated],
    responses={200: {"model": Answer[OperationPreviewOut], "description": "A dry run: nothing was stored."}},
)
async def create_operation(body: OperationIn, caller: Operator, once: Once) -> Response:
    """Retry, cancel, run now or delete many jobs, or change their priority or queue. The filter and the cutoff time are
    frozen: jobs created later are never touched, and a job that no longer matches when its turn comes is skipped. The
    operation starts after ten seconds, or `startAfter`; if you cancel it before, it changes nothing. Workers carry it
    out in the background, each job once, by the same rules as the verb for a single job. With `dryRun`, the answer says
    how many jobs match and shows some of them, and nothing is stored."""

    async def make(operation_id: str) -> Made:
        await _check_reach(caller, body)
        with _refusing():
            return await (_preview(caller, body) if body.dry_run else _create(caller, body, operation_id))

    return await once.answer(caller, make)


@router.get("", summary="List operations")
async def list_operations(
    caller: Viewer,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Cursor = None,
) -> OperationPage:
    """List the latest operations, newest first."""
    shown: list[Operation] = []
    unreadable: list[Unreadable] = []
    following = await caller.open_cursor(_LIST, cursor)
    for _ in range(_READS):
        found, following = await caller.backend.operations(limit - len(shown), following)
        shown += [one for one in found if _is_visible(caller, one)]
        unreadable += found.unreadable
        if following is None or len(shown) == limit:
            break
    return OperationPage(
        data=[OperationOut.of(one) for one in shown],
        next=await caller.seal_cursor(_LIST, following),
        complete=following is None or len(shown) == limit,
        unreadable=[UnreadableOut(id=one.id, error=one.error) for one in unreadable if caller.scope.everything],
    )


@router.get("/{operation_id}", summary="An operation")
async def get_operation(operation_id: OperationId, caller: Viewer) -> Answer[OperationDetail]:
    """Return an operation as it is now, with its progress and the reasons why jobs were skipped."""
    return Answer(data=OperationDetail.of(await _reached(caller, operation_id)))


@router.post("/{operation_id}/cancel", summary="Cancel an operation")
async def cancel_operation(
    operation_id: OperationId, caller: Operator, body: Nothing | None = None
) -> Answer[OperationDetail]:
    """Stop an operation. If it has not started, it changes no job. If it has, it stops where it is, and the changes it
    has made remain. An operation that has ended stays as it is."""
    before = await _reached(caller, operation_id)
    after = await caller.scheduler.operations.cancel(operation_id)
    await caller.note("operation.cancel", operation_id, before=_told(before), after=_told(after))
    return Answer(data=OperationDetail.of(after))


# -- creating ----------------------------------------------------------------------------------------------------------


async def _check_reach(caller: Caller, body: OperationIn) -> None:
    """Refuse what is out of the caller's scope: a queue to move jobs to, a worker, and a parent or a flow, which is
    as good as missing."""
    if body.queue is not None and not caller.scope.allows_queue(body.queue):
        raise Problem(403, "The queue is out of this key's scope; nothing was changed.", field="queue")
    if body.filter is None or caller.scope.everything:
        return
    if body.filter.worker is not None:
        raise Problem(403, "This key has a scope, and workers are out of it.", field="filter.worker")
    for named in (body.filter.parent_id, body.filter.flow_id):
        if named is not None:
            await caller.job(named)


async def _preview(caller: Caller, body: OperationIn) -> Made:
    preview = await caller.scheduler.operations.preview(body.verb, **_asked(caller, body))
    shown = OperationPreviewOut.of(body, preview, await _shown(caller, preview.sample))
    return Made(Answer(data=shown), 200)


async def _create(caller: Caller, body: OperationIn, operation_id: str) -> Made:
    operation = await caller.scheduler.operations.create(
        body.verb,
        **_asked(caller, body),
        reason=body.reason,
        start_after=body.start_after,
        actor=caller.actor,
        operation_id=operation_id,
    )
    asked = body.model_dump(mode="json", exclude_defaults=True, exclude={"ids"})
    ids = {} if body.ids is None else {"ids": Tally(body.ids).told()}
    await caller.note("operation.create", operation.id, after=asked | ids | _told(operation))
    return Made(Answer(data=OperationCreated.made(operation, await _shown(caller, operation.sample))), 202)


def _asked(caller: Caller, body: OperationIn) -> Fields:
    """Which jobs are meant, and the new value, as the Scheduler takes it."""
    filter = None if body.filter is None else body.filter.given
    asked = {"filter": filter, "ids": body.ids, "priority": body.priority, "queue": body.queue}
    return {**asked, "scope": caller.scope}


@contextmanager
def _refusing() -> Iterator[None]:
    """Refuse what the library refuses, with the field as it is called here."""
    try:
        yield
    except InvalidOperation as error:
        field = ".".join(to_camel(part) for part in error.field.split("."))
        raise Problem(422, str(error), field=field) from None


async def _shown(caller: Caller, jobs: tuple[Job, ...]) -> list[JobOut]:
    return [JobOut.of(job) for job in await seen_jobs(caller, jobs)]


# -- looking -----------------------------------------------------------------------------------------------------------


async def _reached(caller: Caller, operation_id: str) -> Operation:
    operation = await caller.scheduler.operations.get(operation_id)
    if not _is_visible(caller, operation):
        raise OperationNotFound(operation_id)
    return operation


def _is_visible(caller: Caller, operation: Operation) -> bool:
    """Whether the caller could see every job that the operation can touch."""
    return caller.scope.covers(operation.scope)


def _told(operation: Operation) -> Fields:
    """The audit entry of an operation."""
    progress = operation.progress
    counts = {"changed": progress.changed, "skipped": progress.skipped, "refused": progress.refused}
    return {"state": operation.state, "count": operation.count, "capped": operation.capped, **counts}
