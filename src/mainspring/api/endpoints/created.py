"""What was created: jobs, and schedules where `schedule`, `every` or `repeat` is given. One resource for both."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Response

from mainspring.api.changing import change_job, change_schedule
from mainspring.api.idempotency import Made, Once
from mainspring.api.problems import Problem
from mainspring.api.resources import carry_out, make_plan, refusing
from mainspring.api.service import Caller, Operator, Viewer
from mainspring.api.showing import executions_of, newest_first, resource_of
from mainspring.api.wire.base import Answer
from mainspring.api.wire.resources import Change, CreatedAnswer, Creation, Deleted, Execution, Resource
from mainspring.creations import CreatedPage
from mainspring.errors import JobNotFound, ScheduleNotFound
from mainspring.model.job import Job
from mainspring.schedules import Schedule

router = APIRouter(prefix="/api/jobs", tags=["jobs"])
FARTHEST = 10_000
# How many runs of a schedule are looked at for their attempts: those that wait have none yet.
_RUNS = 500

Id = Annotated[str, Path(min_length=1, max_length=300, examples=["507f1f77bcf86cd799439011"])]
Page = Annotated[int, Query(ge=1, le=FARTHEST)]
Limit = Annotated[int, Query(ge=1, le=100)]
Cursor = Annotated[str | None, Query(max_length=4000, description="The `next` of the page before.")]
Trace = Annotated[str | None, Header(max_length=200, description="Passed on to a webhook's receiver.")]


async def find(caller: Caller, thing_id: str) -> Job | Schedule:
    """The job, or the schedule, that has this id and is within the caller's reach."""
    try:
        found: Job | Schedule = await caller.scheduler.get_job(thing_id)
    except JobNotFound:
        try:
            found = await caller.scheduler.get_schedule(thing_id)
        except ScheduleNotFound:
            raise Problem(404, "There is no such job.") from None
    caller.check_reach(found.queue, found.name)
    return found


def audited(resource: Resource) -> dict[str, Any]:
    """A created thing as the audit log keeps it."""
    return resource.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"result"})


async def create(caller: Caller, body: Creation, job_id: str, traceparent: str | None = None) -> Resource:
    """Create what is asked for, under this id, and write it down."""
    made = await carry_out(caller, make_plan(body, caller.service.settings, traceparent), job_id)
    resource = resource_of(caller.service, made)
    # With an id of one's own, a job that is there already is what an earlier try has made.
    if not resource.deduplicated or made.id == job_id:
        resource.deduplicated = None
        kind = "job" if isinstance(made, Job) else "schedule"
        await caller.note(f"{kind}.create", made.id, after=audited(resource))
    return resource


@router.post(
    "",
    status_code=201,
    summary="Create a job or a schedule",
    response_model=Answer[Resource],
    responses={200: {"model": Answer[Resource], "description": "A job with this dedupeKey was there already"}},
)
async def create_job(body: Creation, caller: Operator, once: Once, traceparent: Trace = None) -> Response:
    """Create a job that calls an `endpoint`, sends an email (`type`: "email", with the mail in `data`) or runs the
    handler of a `name`. With `schedule` (cron, also with seconds), `every` or `repeat` it becomes a schedule, which
    makes such a job each time it fires. A `runAt` in the past is due at once.

    Header values may refer to secrets: `Bearer secret://name`. Texts may hold templates: `{{timestamp}}`, `{{job.id}}`,
    `{{attempt}}`, `{{scheduled_at}}` and `{{data.path}}`.

    A `dedupeKey` that another job holds answers 200 with that job, and `deduplicated`.
    """

    async def make(job_id: str) -> Made:
        resource = await create(caller, body, job_id, traceparent)
        return Made(Answer(data=resource), 200 if resource.deduplicated else 201)

    return await once.answer(caller, make)


@router.get("", summary="List what was created")
async def list_jobs(caller: Viewer, page: Page = 1, limit: Limit = 20, cursor: Cursor = None) -> CreatedAnswer:
    """Jobs that were created, and schedules, newest first; not the jobs that schedules have made. Go on with `next` as
    the `cursor`, or count pages with `page`. A page never costs much: where a key reaches few of all jobs, it may be
    short, with `next` and `complete: false`. To look for something, use `/api/jobs/search`."""
    found = await created_page(caller, page, limit, cursor)
    listed = [resource_of(caller.service, one) for one in found.things]
    return CreatedAnswer(data=listed, next=found.next, complete=found.complete)


async def created_page(
    caller: Caller, page: int, limit: int, cursor: str | None, kind: str | None = None
) -> CreatedPage[Job | Schedule]:
    """A page of what was created and is within the caller's reach: behind a cursor, or by its number."""
    if cursor is not None and page > 1:
        raise Problem(422, "Give page or cursor, not both.", field="cursor")
    if page * limit > FARTHEST:
        raise Problem(422, f"Pages reach as far as {FARTHEST:,}; go on with a cursor.", field="page")
    scope, skip = caller.principal.scope, (page - 1) * limit
    with refusing("cursor"):
        return await caller.scheduler.created(
            limit, skip=skip, kind=kind, queues=scope.queues, prefixes=scope.prefixes, after=cursor
        )


@router.get("/{id}", summary="Get a job or a schedule")
async def get_job(id: Id, caller: Viewer) -> Answer[Resource]:
    """A created thing as it is now."""
    return Answer(data=resource_of(caller.service, await find(caller, id)))


@router.put("/{id}", summary="Change a job or a schedule")
async def change(id: Id, body: Change, caller: Operator) -> Answer[Resource]:
    """Change what is given and leave the rest as it is. Of a schedule, `enabled` pauses and resumes it, and a new
    time counts from now on; null takes away startAt, endAt, maxRuns and jitter. A job can be changed while it waits;
    after that the answer is 409."""
    before = await find(caller, id)
    old = resource_of(caller.service, before)
    after = await _changed(caller, before, body)
    new = resource_of(caller.service, after)
    if body.model_fields_set:
        kind = "job" if isinstance(after, Job) else "schedule"
        await caller.note(f"{kind}.update", id, before=audited(old), after=audited(new))
    return Answer(data=new)


async def _changed(caller: Caller, before: Job | Schedule, body: Change) -> Job | Schedule:
    if isinstance(before, Job):
        return await change_job(caller, before, body)
    return await change_schedule(caller, before, body)


@router.delete("/{id}", summary="Delete a job or a schedule")
async def delete(id: Id, caller: Operator) -> Answer[Deleted]:
    """Delete a job that is not running, or a schedule. The jobs that a schedule has made stay."""
    found = await find(caller, id)
    before = audited(resource_of(caller.service, found))
    if isinstance(found, Job):
        await caller.scheduler.delete(id)
        await caller.note("job.delete", id, before=before)
    else:
        await caller.scheduler.delete_schedule(id)
        await caller.note("schedule.delete", id, before=before)
    return Answer(data=Deleted(job_id=id))


@router.get("/{id}/executions", summary="List executions")
async def executions(id: Id, caller: Viewer, limit: Limit = 20) -> Answer[list[Execution]]:
    """The attempts at a job, or at all jobs of a schedule, newest first, with the one that is running. A webhook's
    tell what was answered, also where it did not succeed."""
    found = await find(caller, id)
    if isinstance(found, Job):
        return Answer(data=executions_of(caller.service, found, id)[:limit])
    listed: list[Execution] = []
    async for job in caller.scheduler.jobs(schedule_id=found.id, limit=_RUNS):
        listed += executions_of(caller.service, job, id)
        if len(listed) >= limit:
            break
    return Answer(data=newest_first(listed)[:limit])
