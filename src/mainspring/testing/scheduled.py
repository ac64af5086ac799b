"""`assert_scheduled()` and `assert_not_scheduled()`: what a test expects to find scheduled.

They look at the jobs in the database, in whatever state; at those of the eager mode; or at those that a handler has
scheduled through the context of `make_context()`. The error shows what was scheduled instead, the nearest first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, cast, get_args, overload

from mainspring.client.job_functions import name_of
from mainspring.client.scheduler import Scheduler
from mainspring.clock import truncate
from mainspring.engine.handlers import Named
from mainspring.errors import ConfigurationError
from mainspring.model.jobs.job import PENDING, STATES, Job, JobState
from mainspring.model.jobs.reserved_names import FLOW_NAMES
from mainspring.spelling import suggestion
from mainspring.sync import Scheduler as BlockingScheduler
from mainspring.testing.contexts import BlockingRecordingContext, RecordingContext
from mainspring.testing.eager import Eager
from mainspring.testing.either import AnyScheduler, blocking, either
from mainspring.testing.nearest import Expected, nearest
from mainspring.testing.recording import Scheduled

Matching = Mapping[str, Any] | Callable[[Job], bool]
Recorded = RecordingContext | BlockingRecordingContext | Eager
_MOST = 10_000


@overload
def assert_scheduled(
    where: Scheduler,
    name: Named,
    data: Mapping[str, Any] | None = None,
    *,
    matching: Matching | None = None,
    queue: str | None = None,
    state: JobState | None = None,
    run_at: datetime | None = None,
    count: int | None = None,
) -> Awaitable[list[Job]]: ...
@overload
def assert_scheduled(
    where: BlockingScheduler | Recorded,
    name: Named,
    data: Mapping[str, Any] | None = None,
    *,
    matching: Matching | None = None,
    queue: str | None = None,
    state: JobState | None = None,
    run_at: datetime | None = None,
    count: int | None = None,
) -> list[Job]: ...
def assert_scheduled(
    where: AnyScheduler | Recorded,
    name: Named,
    data: Mapping[str, Any] | None = None,
    *,
    matching: Matching | None = None,
    queue: str | None = None,
    state: JobState | None = None,
    run_at: datetime | None = None,
    count: int | None = None,
) -> Any:
    """Assert that a job was scheduled, at least once or exactly `count` times, and return all jobs that match.

    `data` is the whole data, `matching` a part of it or a function of the job. `where` is a Scheduler, the value of an
    `eager()` block, or a context of `make_context()`.
    """
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 0):
        raise ConfigurationError(f"count is a number from 0 on, not {count!r}.")
    expected = _expected(name, data, matching, queue, state, run_at)

    def judge(jobs: list[Job]) -> list[Job]:
        found = [job for job in jobs if not expected.differences(job)]
        if count is None and not found:
            raise AssertionError(f"No job {expected} was scheduled. {nearest(expected, jobs)}")
        if count is not None and len(found) != count:
            raise AssertionError(
                f"The job {expected} was scheduled {_times(len(found))}, not {_times(count)}. {nearest(expected, jobs)}"
            )
        return found

    return _judged(where, "assert_scheduled()", judge)


@overload
def assert_not_scheduled(
    where: Scheduler,
    name: Named,
    data: Mapping[str, Any] | None = None,
    *,
    matching: Matching | None = None,
    queue: str | None = None,
    state: JobState | None = None,
    run_at: datetime | None = None,
) -> Awaitable[None]: ...
@overload
def assert_not_scheduled(
    where: BlockingScheduler | Recorded,
    name: Named,
    data: Mapping[str, Any] | None = None,
    *,
    matching: Matching | None = None,
    queue: str | None = None,
    state: JobState | None = None,
    run_at: datetime | None = None,
) -> None: ...
def assert_not_scheduled(
    where: AnyScheduler | Recorded,
    name: Named,
    data: Mapping[str, Any] | None = None,
    *,
    matching: Matching | None = None,
    queue: str | None = None,
    state: JobState | None = None,
    run_at: datetime | None = None,
) -> Any:
    """Assert that no such job was scheduled. The arguments are those of `assert_scheduled()`."""
    expected = _expected(name, data, matching, queue, state, run_at)

    def judge(jobs: list[Job]) -> None:
        found = [job for job in jobs if not expected.differences(job)]
        if found:
            raise AssertionError(f"The job {expected} was scheduled, {_times(len(found))}. {nearest(expected, found)}")

    return _judged(where, "assert_not_scheduled()", judge)


def _expected(
    name: Named,
    data: Mapping[str, Any] | None,
    matching: Matching | None,
    queue: str | None,
    state: str | None,
    run_at: datetime | None,
) -> Expected:
    if state is not None and state not in STATES:
        raise ConfigurationError(f"There is no state {state!r}.{suggestion(state, get_args(JobState))}")
    return Expected(name_of(name), data, matching, queue, state, None if run_at is None else truncate(run_at))


def _judged(where: Any, helper: str, judge: Callable[[list[Job]], Any]) -> Any:
    """The verdict on the jobs of any place; an awaitable for an async Scheduler."""
    if isinstance(where, Eager):
        return judge([run.job for run in where.runs])
    if isinstance(where, RecordingContext | BlockingRecordingContext):
        record = where.record
        return judge([_as_job(one) for one in (*record.scheduled, *record.children)])

    async def verb(inner: Scheduler) -> Any:
        return judge(await _stored(inner))

    outcome = either(where, helper, verb)
    return blocking(where, outcome) if isinstance(where, BlockingScheduler) else outcome


async def _stored(scheduler: Scheduler) -> list[Job]:
    """The jobs in the database, without the roots of flows, which Mainspring makes itself."""
    return [job async for job in scheduler.jobs(limit=_MOST) if job.name not in FLOW_NAMES]


def _as_job(asked: Scheduled) -> Job:
    options = asked.options
    at = cast("datetime", options.get("run_at"))
    queue, priority = options.get("queue") or "default", options.get("priority") or 5
    return Job("", asked.name, asked.data, PENDING, queue, priority, at, at)


def _times(number: int) -> str:
    return {0: "never", 1: "once"}.get(number, f"{number} times")
