"""The options of a job, each declared once: for `schedule()`, `update()`, and the jobs that schedules make."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict

from mainspring.model.jobs.retry import Retry, Seconds

Guarantee = Literal["at_least_once", "at_most_once", "exactly_once"]


class CommonOptions(TypedDict, total=False):
    """The options of any job that can be changed as well."""

    priority: int | None
    queue: str | None
    start_within: Seconds | None
    timeout: Seconds | None
    retry: Retry | int | None
    tags: Sequence[str] | None


class TimeOptions(TypedDict, total=False):
    """The times of a single job."""

    run_at: datetime | None
    delay: Seconds | None
    expires_at: datetime | None


class JobChanges(CommonOptions, TimeOptions, total=False):
    """The changes that `update()` takes beside data."""


class TemplateChanges(CommonOptions, total=False):
    """The options of the jobs of a schedule that can be changed."""

    guarantee: Guarantee | None


class TemplateOptions(TemplateChanges, total=False):
    """The options of the jobs of a schedule."""

    version: int | None
    encrypt: bool | Sequence[str] | None
    label: str | None


class FlowOptions(TimeOptions, total=False):
    """The options of a declared flow: those of its root job."""

    queue: str | None
    priority: int | None
    tags: Sequence[str] | None
    start_within: Seconds | None
    dedupe_key: str | None
    dedupe_window: Seconds | None
    dedupe_namespace: str | None
    throttle: Seconds | None
    job_id: str | None


class BatchOptions(TypedDict, total=False):
    """The options of a batch: those of its root job."""

    queue: str | None
    priority: int | None
    tags: Sequence[str] | None


class JobOptions(TemplateOptions, TimeOptions, total=False):
    """The options that `schedule()` takes for a single job."""

    dedupe_key: str | None
    dedupe_window: Seconds | None
    dedupe_namespace: str | None
    debounce: Seconds | None
    debounce_max: Seconds | None
    throttle: Seconds | None
    session: Any
    parent_id: str | None
    job_id: str | None
