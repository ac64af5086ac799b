"""A created thing on the wire: a job, or a schedule when `schedule` (cron), `every` or `repeat` is given.

What it does is one of three: call an `endpoint`, send an email (`type: "email"`), or run the handler of a `name`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AliasChoices, ConfigDict, Field, JsonValue, model_validator

from mainspring.api.wire.base import Answer, In, Instant, InstantIn, Milliseconds, Out
from mainspring.jobtypes.http.request import METHODS

ExecutionType = Literal["AT_LEAST_ONCE", "AT_MOST_ONCE", "EXACTLY_ONCE"]
Method = Literal["POST", "GET", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]
assert set(Method.__args__) == set(METHODS)  # type: ignore[attr-defined]
Text = Annotated[str, Field(min_length=1, max_length=200)]
Cron = Annotated[str, Field(min_length=1, max_length=512, examples=["0 */5 * * * *"])]
Status = int | str


class Repeat(In):
    """When a schedule fires, spelled out: one of `cron`, `every` and `rrule`."""

    cron: Cron | None = None
    every: Milliseconds | Text | None = None
    rrule: Annotated[str, Field(max_length=2000)] | None = None
    timezone: Text | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = [name for name in ("cron", "every", "rrule") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("give one of cron, every and rrule")
        return self


class Times(In):
    """When, and how often."""

    schedule: Cron | None = None
    every: Milliseconds | Text | None = None
    repeat: Repeat | None = None
    timezone: Text | None = None
    run_at: InstantIn | None = None
    delay: Milliseconds | None = None
    start_at: InstantIn | None = None
    end_at: InstantIn | None = None
    max_runs: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = None
    jitter: Milliseconds | None = None
    misfire: Literal["skip", "latest", "all"] | None = None
    overlap: Literal["allow", "skip", "queue_one", "queue_all", "cancel_running"] | None = None
    enabled: bool | None = None


class Request(In):
    """What a webhook asks for."""

    endpoint: Annotated[str, Field(max_length=4000)] | None = Field(
        default=None,
        validation_alias=AliasChoices("endpoint", "url"),
        description="The http or https URL to call.",
        examples=["https://api.example.com/webhook"],
    )
    method: Method | None = None
    headers: dict[str, str] | None = None
    query: dict[str, str | int | float | bool | list[str]] | None = None
    body: JsonValue = None
    timeout: (
        Annotated[
            int, Field(ge=100, le=600_000, description="Milliseconds for one attempt, of a webhook or a handler.")
        ]
        | None
    ) = None
    success: list[Status] | None = None
    retry_on: list[Status] | None = None
    redirects: Annotated[int, Field(ge=0, le=3)] | None = None
    sign_with: list[Text] | None = None


class Manner(In):
    """How it is run."""

    execution_type: ExecutionType | None = None
    retry_attempts: Annotated[int, Field(ge=0, le=1000)] | None = None
    retry_delay: Milliseconds | None = None
    queue: Text | None = None
    priority: Annotated[int, Field(ge=1, le=10)] | None = None
    tags: Annotated[list[Text], Field(max_length=50)] | None = None
    expires_at: InstantIn | None = None
    start_within: Milliseconds | None = None


class Change(Times, Request, Manner):
    """What may be changed of a created thing; what is not given stays as it is."""

    data: dict[str, JsonValue] | None = None


class Creation(Change):
    """What is to be created."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "schedule": "0 */5 * * * *",
                    "endpoint": "https://api.example.com/webhook",
                    "method": "POST",
                    "headers": {"Content-Type": "application/json"},
                    "body": {"event": "scheduled_task", "timestamp": "{{timestamp}}"},
                }
            ]
        }
    )

    type: Literal["http", "email", "job"] | None = None
    name: Text | None = None
    id: Text | None = Field(
        default=None, description="Of a schedule: the id it is to have. One that has it already is replaced."
    )
    dedupe_key: Text | None = None
    dedupe_window: Milliseconds | None = None


class Resource(Out):
    """A created thing as it is now."""

    id: str = Field(serialization_alias="_id")
    job_id: str
    kind: Literal["job", "schedule"]
    type: Literal["http", "email", "job"]
    name: str
    state: str
    enabled: bool
    schedule: str | None = None
    every: int | None = None
    timezone: str | None = None
    endpoint: str | None = None
    method: str | None = None
    headers: dict[str, str] | None = None
    query: dict[str, Any] | None = None
    body: JsonValue = None
    data: dict[str, Any] | None = None
    execution_type: ExecutionType = "AT_LEAST_ONCE"
    retry_attempts: int | None = None
    retry_delay: int | None = None
    queue: str
    priority: int
    tags: list[str] = Field(default_factory=list)
    next_run_at: Instant | None = None
    last_run_at: Instant | None = None
    run_at: Instant | None = None
    finished_at: Instant | None = None
    created_at: Instant
    updated_at: Instant | None = None
    max_runs: int | None = None
    runs: int | None = Field(default=None, description="Of a schedule: how many jobs it has made.")
    attempts: int = 0
    deduplicated: bool | None = Field(default=None, description="True where the job was there already.")
    result: JsonValue = None
    error: str | None = None
    waiting: str | None = Field(default=None, description="Why it waits, where something holds it back.")


class Execution(Out):
    """One try at running a job."""

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


class CreatedAnswer(Answer[list[Resource]]):
    """A page of what was created. Where it is not `complete`, it is short although there may be more: go on with
    `next`."""

    complete: bool


class Deleted(Out):
    """What was deleted."""

    job_id: str
    deleted: bool = True
