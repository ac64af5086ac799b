"""The paths of an older service: creating, listing and getting jobs with other names of fields."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter, Response
from pydantic import ValidationError

from mainspring.api.dependencies import Caller, Operator, Viewer
from mainspring.api.endpoints.jobs import Cursor, Id, Limit, Page, create, created_page, find
from mainspring.api.jobs.idempotency import Made, Once
from mainspring.api.jobs.resources import job_resources
from mainspring.api.problems import Problem
from mainspring.api.settings import ServiceSettings
from mainspring.api.wire.base import check_instant
from mainspring.api.wire.compat import WEBHOOK_PARTS, JobResource, JobsV1Answer, JobV1Answer, JobV1In, JobV1Out
from mainspring.api.wire.job_requests import Creation
from mainspring.errors import JobNotFound
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import Job

router = APIRouter(prefix="/api/v1", tags=["v1"])


@router.post("/create-job", status_code=201, summary="Create a job", response_model=JobV1Answer)
async def create_job(body: JobV1In, caller: Operator, once: Once) -> Response:
    """Create a job that runs once, at `scheduledTime`. The answer names the time zone that was used for a time without
    an offset."""
    creation = _creation(body, caller.service.settings)

    async def make(job_id: str) -> Made:
        made = await create(caller, creation, job_id)
        assert isinstance(made, JobResource)
        return Made(JobV1Answer(job=_job(caller, made)))

    return await once.answer(caller, make)


@router.get("/jobs", summary="List jobs")
async def list_jobs(caller: Viewer, page: Page = 1, limit: Limit = 100, cursor: Cursor = None) -> JobsV1Answer:
    """List the jobs that no schedule has made, newest first. Continue with `next` as the `cursor`, or count pages with
    `page`. If a page is not `complete`, there may be more."""
    found = await created_page(caller, page, limit, cursor, kind="job")
    listed = await job_resources(caller, [one for one in found.things if isinstance(one, Job)])
    return JobsV1Answer(jobs=[_job(caller, one) for one in listed], next=found.next, complete=found.complete)


@router.get("/job/{id:path}", summary="Get a job")
async def get_job(id: Id, caller: Viewer) -> JobV1Answer:
    """Return a job as it is now."""
    found = await find(caller, id)
    if not isinstance(found, Job):
        raise JobNotFound(id)
    [resource] = await job_resources(caller, [found])
    return JobV1Answer(job=_job(caller, resource))


def _creation(body: JobV1In, settings: ServiceSettings) -> Creation:
    run_at = _instant(body.scheduled_time, settings)
    if body.type == "http":
        return _webhook(body.data).model_copy(update={"run_at": run_at})
    if body.type == "email":
        return Creation(type="email", data=body.data, run_at=run_at)
    return Creation(name=body.type, data=body.data, run_at=run_at)


def _webhook(data: Fields) -> Creation:
    """A webhook whose request is in the data."""
    unknown = [name for name in data if name not in (*WEBHOOK_PARTS, "url", "data")]
    if unknown:
        raise Problem(422, f"A webhook has no {unknown[0]!r:.60}; leave it out.", field="data")
    try:
        return Creation.model_validate({"type": "http", **data})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(["data", *map(str, first["loc"])])
        raise Problem(422, f"{where}: {first['msg']}", field=where) from None


def _instant(value: datetime | None, settings: ServiceSettings) -> datetime | None:
    if value is None:
        return None
    try:
        return check_instant(value if value.tzinfo is not None else value.replace(tzinfo=settings.zone))
    except ValueError as error:
        raise Problem(422, f"scheduledTime {error}.", field="scheduledTime") from None


def _job(caller: Caller, resource: JobResource) -> JobV1Out:
    return JobV1Out.of(resource, caller.service.settings.timezone)
