"""The shapes that clients of older services expect: a job or a schedule as a `Resource`, an attempt as an `Execution`,
and the jobs of /api/v1.

A `Resource` has every field of `JobOut` or `ScheduleOut`, and the older names in addition. The others are the job or
attempt of `wire/jobs.py` under other names.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, JsonValue

from mainspring.api.wire.base import Answer, In, Instant, Out
from mainspring.api.wire.job_requests import ExecutionType
from mainspring.api.wire.jobs import JobOut
from mainspring.api.wire.schedules import ScheduleOut
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import JobError

WEBHOOK_PARTS = ("endpoint", "method", "headers", "query", "body")


class OlderNames(Out):
    """The names that clients of older services expect, beside those of `JobOut` or `ScheduleOut`. Jobs and schedules
    both have all of them, so that such a client can read a list without a look at the `kind`."""

    older_id: str = Field(serialization_alias="_id", description="The same as `id`, and so is `jobId`.")
    job_id: str
    kind: Literal["job", "schedule"]
    type: Literal["http", "email", "job"]
    enabled: bool
    schedule: str | None = Field(default=None, description="The rule of a schedule, if it is a cron expression.")
    every: int | None = Field(default=None, description="The interval of a schedule, in milliseconds.")
    timezone: str | None = None
    endpoint: str | None = None
    method: str | None = None
    headers: dict[str, str] | None = None
    query: Fields | None = None
    body: JsonValue = None
    execution_type: ExecutionType = "AT_LEAST_ONCE"
    retry_attempts: int | None = None
    retry_delay: int | None = None
    next_run_at: Instant | None = None
    last_run_at: Instant | None = None
    run_at: Instant | None = None
    finished_at: Instant | None = None
    updated_at: Instant | None = None
    max_runs: int | None = None
    attempts: int = Field(default=0, description="The number of all attempts of a job; `/detail` lists them.")
    deduplicated: bool | None = Field(default=None, description="True if the job existed already.")
    result: JsonValue = None
    waiting: str | None = Field(default=None, description="The reason why it waits.")


class JobResource(JobOut, OlderNames):
    """A job as it is now: every field of a job of the other paths, and the names of older services. `data` of a webhook
    is what is stored: its request, and in `data.data` the values of its templates."""

    kind: Literal["job"]
    runs: int | None = Field(default=None, description="Always null: only schedules count runs.")


class ScheduleResource(ScheduleOut, OlderNames):
    """A schedule as it is now: every field of a schedule of `/api/schedules`, and the names of older services."""

    kind: Literal["schedule"]


Resource = Annotated[JobResource | ScheduleResource, Field(discriminator="kind")]
"""A job or a schedule."""


class Execution(Out):
    """One attempt of a job."""

    id: str = Field(serialization_alias="_id")
    job_id: str
    run_id: str
    status: Literal["success", "failure", "running"]
    outcome: str
    started_at: Instant | None = None
    completed_at: Instant | None = None
    duration: int | None = None
    response_code: int | None = None
    response_body: str | None = None
    error_message: str | None = None
    attempt: int
    scheduled_at: Instant | None = None
    worker: str | None = None
    log: list[str] = Field(default_factory=list)


class ResourceAnswer(Answer[Resource]):
    """A job or a schedule."""


class CreatedAnswer(Answer[list[Resource]]):
    """A page of jobs and schedules. If it is not `complete`, there may be more: continue with `next`."""

    complete: bool


class Deleted(Out):
    """The id of a deleted job or schedule."""

    job_id: str
    deleted: bool = True


# -- /api/v1 -----------------------------------------------------------------------------------------------------------


class JobV1In(In):
    """A job that runs once."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "email",
                    "data": {
                        "to": "user@example.com",
                        "subject": "Scheduled Email",
                        "message": "Hello.",
                    },
                    "scheduledTime": "2026-12-24T18:00:00",
                }
            ]
        }
    )

    type: Annotated[
        str,
        Field(min_length=1, max_length=200, description="email, http (its request in `data`) or a handler's name."),
    ]
    data: dict[str, JsonValue] = Field(default_factory=dict)
    scheduled_time: datetime | None = Field(
        default=None,
        description="A time without an offset is in the service's time zone. If missing or in the past, the job is "
        "due at once.",
    )


class JobV1Out(Out):
    """A job in the shape of /api/v1."""

    type: str
    data: Fields
    status: str
    scheduled_time: Instant | None
    timezone: str = Field(description="The zone in which times without an offset are read.")
    id: str = Field(serialization_alias="_id")
    created_at: Instant | None
    finished_at: Instant | None = None
    result: JsonValue = None
    error: str | None = None
    waiting: str | None = None
    version: int = Field(default=0, serialization_alias="__v")

    @classmethod
    def of(cls, resource: JobResource, timezone: str) -> Self:
        same = ("id", "created_at", "finished_at", "result", "waiting")
        return cls(
            type=resource.name if resource.type == "job" else resource.type,
            data=_data(resource),
            status=resource.state,
            scheduled_time=resource.run_at or resource.created_at,
            timezone=timezone,
            error=None if resource.error is None else str(JobError(resource.error.type, resource.error.message)),
            **{name: getattr(resource, name) for name in same},
        )


def _data(resource: JobResource) -> Fields:
    if resource.type != "http":
        return resource.data
    if resource.method is None:  # its request is encrypted as a whole, or another program has stored it in another form
        return {"data": resource.data}
    values = resource.data.get("data")
    parts = {name: getattr(resource, name) for name in WEBHOOK_PARTS}
    parts["data"] = values if isinstance(values, dict) else None
    return {name: value for name, value in parts.items() if value is not None}


class JobV1Answer(Out):
    """One job."""

    success: bool = True
    job: JobV1Out


class JobsV1Answer(Out):
    """A page of jobs."""

    success: bool = True
    jobs: list[JobV1Out]
    next: str | None = None
    complete: bool = True
