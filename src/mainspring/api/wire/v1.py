"""The bodies of the older service whose paths begin with /api/v1."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import ConfigDict, Field, JsonValue

from mainspring.api.wire.base import In, Instant, Out


class JobIn(In):
    """A job for a moment."""

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
        default=None, description="Without an offset it is in the service's time zone. Missing or past: at once."
    )


class JobOut(Out):
    """Such a job as it is now."""

    type: str
    data: dict[str, Any]
    status: str
    scheduled_time: Instant
    timezone: str = Field(description="The zone in which times without an offset are read.")
    id: str = Field(serialization_alias="_id")
    created_at: Instant
    finished_at: Instant | None = None
    result: JsonValue = None
    error: str | None = None
    waiting: str | None = None
    version: int = Field(default=0, serialization_alias="__v")


class One(Out):
    """One job."""

    success: bool = True
    job: JobOut


class Many(Out):
    """A page of jobs."""

    success: bool = True
    jobs: list[JobOut]
    next: str | None = None
    complete: bool = True
