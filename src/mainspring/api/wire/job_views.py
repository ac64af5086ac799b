"""A job beside others on the wire: compared with its last success, and with the jobs around it."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, JsonValue

from mainspring.api.wire.base import Instant, Out, jsonable, to_ms
from mainspring.api.wire.jobs import JobOut
from mainspring.model.jobs.comparison import Difference, differences
from mainspring.model.jobs.job import Attempt, Job


class StackAskedOut(Out):
    """The time of a request for a stack. The stack in the job's details is its answer if it is not older."""

    asked_at: Instant


class BriefJob(Out):
    """A job in a list of links."""

    id: str
    name: str
    queue: str
    state: str
    run_at: Instant | None = None
    created_at: Instant | None = None
    finished_at: Instant | None = None
    scheduled_for: Instant | None = None

    @classmethod
    def of(cls, job: Job) -> Self:
        return cls(**{name: getattr(job, name) for name in cls.model_fields})


class RelatedOut(Out):
    """The jobs around a job. A list is bounded; of children, `childrenComplete` says whether these are all."""

    parent: BriefJob | None = None
    children: list[BriefJob]
    children_complete: bool
    runs: list[BriefJob] = Field(description="Other jobs of its schedule, the latest first.")
    holder: BriefJob | None = Field(None, description="The job that has its dedupe key now, if it is another one.")


class DifferenceOut(Out):
    """One place at which two values differ; `hidden`: neither is shown, and they may be equal."""

    path: str
    kind: Literal["added", "removed", "changed", "hidden"]
    before: JsonValue = None
    after: JsonValue = None

    @classmethod
    def of(cls, one: Difference) -> Self:
        return cls(path=one.path, kind=one.kind, before=one.before, after=one.after)


class RunOut(Out):
    """The last attempt of a job, to be compared."""

    duration: int | None = Field(None, description="In milliseconds.")
    worker: str | None = None
    worker_version: str | None = Field(
        None, description="Of Mainspring; known for about an hour after the worker's end."
    )
    data_version: int
    priority: int
    queue: str
    tries: int
    log: list[str]

    @classmethod
    def of(cls, job: Job, versions: dict[str, str | None]) -> Self:
        last = job.attempts[-1] if job.attempts else None
        worker = job.worker or (None if last is None else last.worker)
        return cls(
            duration=None if last is None else to_ms(last.duration),
            worker=worker,
            worker_version=None if worker is None else versions.get(worker),
            data_version=job.data_version,
            priority=job.priority,
            queue=job.queue,
            tries=job.tries,
            log=[str(line) for line in _log_of(job, last)],
        )


def _log_of(job: Job, last: Attempt | None) -> tuple[str, ...]:
    return job.log if job.log or last is None else last.log


class ComparisonOut(Out):
    """A job compared with the last success of its name. `other` is null if none was found; if the answer is not
    `complete`, only the latest 1,000 candidates were searched."""

    other: JobOut | None
    complete: bool
    data: list[DifferenceOut] = Field(default_factory=list)
    data_complete: bool = True
    result: list[DifferenceOut] = Field(default_factory=list)
    result_complete: bool = True
    before: RunOut | None = None
    after: RunOut | None = None

    @classmethod
    def of(cls, job: Job, other: Job | None, complete: bool, versions: dict[str, str | None]) -> Self:
        """Two jobs as the caller may see them."""
        if other is None:
            return cls(other=None, complete=complete)
        data, all_data = _differences(other.data, job.data)
        result, all_results = _differences(other.result, job.result)
        return cls(
            other=JobOut.of(other),
            complete=True,
            data=data,
            data_complete=all_data,
            result=result,
            result_complete=all_results,
            before=RunOut.of(other, versions),
            after=RunOut.of(job, versions),
        )


def _differences(before: Any, after: Any) -> tuple[list[DifferenceOut], bool]:
    found, complete = differences(jsonable(before), jsonable(after))
    return [DifferenceOut.of(one) for one in found], complete
