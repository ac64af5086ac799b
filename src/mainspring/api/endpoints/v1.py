"""The paths of an older service: other spellings of creating, listing and getting jobs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fastapi import APIRouter, Response
from pydantic import ValidationError

from mainspring.api.endpoints.created import Cursor, Id, Limit, Page, create, created_page, find
from mainspring.api.idempotency import Made, Once
from mainspring.api.problems import Problem
from mainspring.api.service import Operator, Service, Viewer
from mainspring.api.settings import ServiceSettings
from mainspring.api.showing import resource_of
from mainspring.api.wire.base import check_instant
from mainspring.api.wire.resources import Creation, Resource
from mainspring.api.wire.v1 import JobIn, JobOut, Many, One
from mainspring.model.job import Job

router = APIRouter(prefix="/api/v1", tags=["v1"])
_WEBHOOK_PARTS = ("endpoint", "method", "headers", "query", "body")


@router.post("/create-job", status_code=201, summary="Create a job", response_model=One)
async def create_job(body: JobIn, caller: Operator, once: Once) -> Response:
    """Create a job that runs once, at `scheduledTime`. The answer says in which zone a time without an offset was
    read."""
    creation = _creation(body, caller.service.settings)

    async def make(job_id: str) -> Made:
        return Made(One(job=_job(caller.service, await create(caller, creation, job_id))))

    return await once.answer(caller, make)


@router.get("/jobs", summary="List jobs")
async def list_jobs(caller: Viewer, page: Page = 1, limit: Limit = 100, cursor: Cursor = None) -> Many:
    """Jobs that were created, newest first. Go on with `next` as the `cursor`, or count pages with `page`. A page that
    is not `complete` is short although there may be more."""
    found = await created_page(caller, page, limit, cursor, "job")
    jobs = [_job(caller.service, resource_of(caller.service, one)) for one in found.things]
    return Many(jobs=jobs, next=found.next, complete=found.complete)


@router.get("/job/{id}", summary="Get a job")
async def get_job(id: Id, caller: Viewer) -> One:
    """A job as it is now."""
    found = await find(caller, id)
    if not isinstance(found, Job):
        raise Problem(404, "There is no such job.")
    return One(job=_job(caller.service, resource_of(caller.service, found)))


def _creation(body: JobIn, settings: ServiceSettings) -> Creation:
    run_at = _instant(body.scheduled_time, settings)
    if body.type == "http":
        return _webhook(body.data).model_copy(update={"run_at": run_at})
    if body.type == "email":
        return Creation(type="email", data=body.data, run_at=run_at)
    return Creation(name=body.type, data=body.data, run_at=run_at)


def _webhook(data: dict[str, Any]) -> Creation:
    """A webhook whose request stands in the data."""
    unknown = [name for name in data if name not in (*_WEBHOOK_PARTS, "url", "data")]
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


def _job(service: Service, resource: Resource) -> JobOut:
    return JobOut(
        type=resource.name if resource.type == "job" else resource.type,
        data=_data(resource),
        status=resource.state,
        scheduled_time=resource.run_at or resource.created_at,
        timezone=service.settings.timezone,
        id=resource.id,
        created_at=resource.created_at,
        finished_at=resource.finished_at,
        result=resource.result,
        error=resource.error,
        waiting=resource.waiting,
    )


def _data(resource: Resource) -> dict[str, Any]:
    if resource.type != "http":
        return resource.data or {}
    parts = {name: getattr(resource, name) for name in (*_WEBHOOK_PARTS, "data")}
    return {name: value for name, value in parts.items() if value is not None}
