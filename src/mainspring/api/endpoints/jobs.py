"""Jobs, and schedules where `schedule`, `every` or `repeat` is given: one resource for both."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Response
from pydantic import Field

from mainspring.api.dependencies import Caller, Operator, Viewer
from mainspring.api.jobs.create import make_plan, store_plan
from mainspring.api.jobs.data_checks import refusing
from mainspring.api.jobs.idempotency import Made, Once
from mainspring.api.jobs.resources import audited, executions_of, newest_first, resource_of, resources_of
from mainspring.api.jobs.update import change_job, change_schedule
from mainspring.api.problems import Problem
from mainspring.api.wire.base import Answer, In
from mainspring.api.wire.compat import CreatedAnswer, Deleted, Execution, Resource, ResourceAnswer
from mainspring.api.wire.job_requests import Change, Creation, Text
from mainspring.client.namespaces.schedules import Schedule
from mainspring.client.service_backend import CreatedPage, Kind
from mainspring.errors import JobNotFound, ScheduleNotFound
from mainspring.model.jobs.job import Job, JobState

router = APIRouter(prefix="/api/jobs", tags=["jobs"])
FARTHEST = 10_000
# How many jobs of a schedule are read for their attempts: pending ones may have none yet.
_RUNS = 500
_LIST = "created"

Id = Annotated[str, Path(min_length=1, max_length=1000, examples=["507f1f77bcf86cd799439011"])]
Page = Annotated[int, Query(ge=1, le=FARTHEST)]
Limit = Annotated[int, Query(ge=1, le=100)]
Cursor = Annotated[str | None, Query(max_length=4000, description="The `next` of the previous page.")]
Trace = Annotated[str | None, Header(max_length=200, description="Passed on to a webhook's receiver.")]


class Listing(In):
    """The filter of a list of jobs and schedules."""

    kind: Kind | None = None
    state: JobState | None = Field(
        None, description="The state of the jobs; `/api/schedules` filters schedules by state."
    )
    name: Text | None = None
    queue: Text | None = None
    tag: Text | None = None
    page: Annotated[int, Field(ge=1, le=FARTHEST)] = 1
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    cursor: Annotated[str, Field(max_length=4000)] | None = Field(None, description="The `next` of the previous page.")


async def find(caller: Caller, thing_id: str) -> Job | Schedule:
    """Find the job or the schedule that has this id and is within the caller's reach."""
    try:
        return await caller.job(thing_id)
    except JobNotFound as missing:
        try:
            return await caller.schedule(thing_id)
        except ScheduleNotFound:
            raise missing from None


async def create(caller: Caller, body: Creation, job_id: str, traceparent: str | None = None) -> Resource:
    """Create a job or a schedule under this id, and write the audit entry."""
    made = await store_plan(caller, make_plan(body, caller.service.settings, traceparent), job_id)
    # A job that exists already and has this request's id was made by an earlier try of the request.
    again = isinstance(made, Job) and made.deduplicated and made.id != job_id
    if not again:
        kind = "job" if isinstance(made, Job) else "schedule"
        await caller.note(f"{kind}.create", made.id, after=audited(caller, made))
    elif body.debounce is not None:  # it has changed that job
        await caller.note("job.update", made.id, after=audited(caller, made))
    resource = await resource_of(caller, made)
    resource.deduplicated = again or None
    return resource


@router.post(
    "",
    status_code=201,
    summary="Create a job or a schedule",
    response_model=ResourceAnswer,
    responses={200: {"model": ResourceAnswer, "description": "A job with this dedupeKey existed already"}},
)
async def create_job(body: Creation, caller: Operator, once: Once, traceparent: Trace = None) -> Response:
    """Create a job that calls an `endpoint`, sends an email (`type`: "email", with the mail in `data`) or runs the
    handler of a `name`. With `schedule` (cron, also with seconds), `every` or `repeat` it becomes a schedule, which
    makes such a job each time it fires. A job with a `runAt` in the past is due at once.

    Header values may refer to secrets: `Bearer secret://name`. Texts may hold templates: `{{timestamp}}`, `{{job.id}}`,
    `{{attempt}}`, `{{scheduled_at}}` and `{{data.path}}`.

    If another job has the same `dedupeKey`, the answer is 200 with that job and `deduplicated`; if that job has another
    name or queue, it is 409. For API keys with a scope, dedupe keys are compared only within that scope.
    """

    async def make(job_id: str) -> Made:
        resource = await create(caller, body, job_id, traceparent)
        return Made(ResourceAnswer(data=resource), 200 if resource.deduplicated else 201)

    return await once.answer(caller, make)


@router.get("", summary="List jobs and schedules")
async def list_jobs(caller: Viewer, query: Annotated[Listing, Query()]) -> CreatedAnswer:
    """List schedules, and jobs that no schedule has made, newest first. Continue with `next` as the `cursor`, or count
    pages with `page`. The cost of a page is bounded: if few match, or the key reaches few, a page may be short, with
    `next` and `complete: false`. `/api/jobs/search` finds the jobs of schedules too, and has more filters."""
    chosen = query.model_dump(include={"kind", "state", "name", "queue", "tag"})
    found = await created_page(caller, query.page, query.limit, query.cursor, **chosen)
    return CreatedAnswer(data=await resources_of(caller, found.things), next=found.next, complete=found.complete)


async def created_page(
    caller: Caller, page: int, limit: int, cursor: str | None, **chosen: Any
) -> CreatedPage[Job | Schedule]:
    """Read a page of the matching jobs and schedules within the caller's reach: after a cursor, or by its number."""
    if cursor is not None and page > 1:
        raise Problem(422, "Give page or cursor, not both.", field="cursor")
    if page * limit > FARTHEST:
        raise Problem(422, f"Pages reach as far as {FARTHEST:,}; go on with a cursor.", field="page")
    scope, skip = caller.principal.scope, (page - 1) * limit
    after = await caller.open_cursor(_LIST, cursor)
    with refusing("cursor"):
        found = await caller.backend.created(
            limit, skip=skip, **chosen, queues=scope.queues, prefixes=scope.prefixes, after=after
        )
    return replace(found, next=await caller.seal_cursor(_LIST, found.next))


@router.get("/{id}", summary="Get a job or a schedule")
async def get_job(id: Id, caller: Viewer) -> ResourceAnswer:
    """Return a job or a schedule as it is now."""
    return ResourceAnswer(data=await resource_of(caller, await find(caller, id)))


@router.put("/{id}", summary="Change a job or a schedule")
async def update_job(id: Id, body: Change, caller: Operator) -> ResourceAnswer:
    """Change the given fields and leave the others as they are. For a schedule, `enabled` pauses and resumes it, a new
    rule applies from now on, and null removes startAt, endAt, maxRuns, jitter, startDeadline or pauseAfter. A job can
    be changed while it is pending; after that the answer is 409."""
    before = await find(caller, id)
    after = await _changed(caller, before, body)
    if body.model_fields_set:
        kind = "job" if isinstance(after, Job) else "schedule"
        await caller.note(f"{kind}.update", id, before=audited(caller, before), after=audited(caller, after))
    return ResourceAnswer(data=await resource_of(caller, after))


async def _changed(caller: Caller, before: Job | Schedule, body: Change) -> Job | Schedule:
    if isinstance(before, Job):
        return await change_job(caller, before, body)
    return await change_schedule(caller, before, body)


@router.delete("/{id}", summary="Delete a job or a schedule")
async def delete_job(id: Id, caller: Operator) -> Answer[Deleted]:
    """Delete a job that is not running, or a schedule. The jobs that a schedule has made stay."""
    found = await find(caller, id)
    before = audited(caller, found)
    if isinstance(found, Job):
        await caller.scheduler.delete(id)
        await caller.note("job.delete", id, before=before)
    else:
        await caller.scheduler.schedules.delete(id)
        await caller.note("schedule.delete", id, before=before)
    return Answer(data=Deleted(job_id=id))


@router.get("/{id}/executions", summary="List executions")
async def list_executions(id: Id, caller: Viewer, limit: Limit = 20) -> Answer[list[Execution]]:
    """List the attempts of a job, or of all jobs of a schedule, newest first, including the running one. An attempt of
    a webhook includes the receiver's response, even if it failed."""
    found = await find(caller, id)
    if isinstance(found, Job):
        return Answer(data=executions_of(caller, found, id)[:limit])
    listed: list[Execution] = []
    async for job in caller.scheduler.jobs(schedule_id=found.id, limit=_RUNS, scope=caller.scope):
        listed += executions_of(caller, job, id)
        if len(listed) >= limit:
            break
    return Answer(data=newest_first(listed)[:limit])
