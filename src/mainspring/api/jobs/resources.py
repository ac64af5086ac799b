"""Jobs, schedules and attempts as answers: redacted, without workers, actors and jobs out of the caller's scope, and in
the names and units of the wire.

A header that is hidden as a credential is shown if it is a reference to a secret: the reference reveals no value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Any, Literal, Protocol, TypeVar, cast

from mainspring.api.dependencies import Caller, Service
from mainspring.api.wire.base import jsonable, to_ms
from mainspring.api.wire.compat import Execution, JobResource, Resource, ScheduleResource
from mainspring.api.wire.job_requests import ExecutionType, cron_text, period_ms, zone_text
from mainspring.api.wire.jobs import AttemptOut, RequestOut, job_fields
from mainspring.api.wire.schedules import schedule_fields
from mainspring.client.namespaces.schedules import Schedule
from mainspring.jobtypes.http.request import WebhookRequest
from mainspring.model.access.api_keys import KEY_ACTOR
from mainspring.model.access.reach import job_within, relatives_of, schedule_within, with_relatives_among
from mainspring.model.fields import Fields
from mainspring.model.jobs.guarantee import AT_LEAST_ONCE
from mainspring.model.jobs.job import PENDING, RUNNING, Attempt, Job
from mainspring.model.jobs.reserved_names import EMAIL, HTTP, cure_for
from mainspring.model.jobs.retry import Retry, seconds
from mainspring.model.schedules.schedule import SYSTEM

_REFERENCE = re.compile(r"(?:[A-Za-z]+ )?secret://[A-Za-z0-9_-]+")
_TYPES: Mapping[str, Literal["http", "email"]] = {HTTP: "http", EMAIL: "email"}


class Signed(Protocol):
    """Something that an actor has set, perhaps with a reason."""

    @property
    def actor(self) -> str | None: ...


S = TypeVar("S", bound=Signed)
T = TypeVar("T")
_SIGNATURE = {"actor": None, "reason": ""}


def shown_job(caller: Caller, job: Job) -> Job:
    """A job as the caller may see it, apart from the jobs that it names, which `seen_jobs` checks."""
    return job_within(caller.scope, caller.scheduler.privacy.shown(job))


def shown_schedule(caller: Caller, schedule: Schedule) -> Schedule:
    """A schedule as the caller may see it, apart from the actor of its pause, which `with_signed` checks."""
    return schedule_within(caller.scope, caller.scheduler.privacy.shown(schedule))


async def seen_jobs(caller: Caller, jobs: Iterable[Job]) -> list[Job]:
    """Jobs as the caller may see them, each with its parent, its flow and the cause of its end only if they are within
    reach."""
    found = [shown_job(caller, job) for job in jobs]
    named = {one for job in found for one in relatives_of(job)}
    if caller.scope.everything or not named:
        return found
    reached = await caller.backend.jobs_within(named, caller.scope)
    return [with_relatives_among(reached, job) for job in found]


async def seen_job(caller: Caller, job: Job) -> Job:
    return (await seen_jobs(caller, [job]))[0]


async def seen_schedules(caller: Caller, schedules: Iterable[Schedule]) -> list[Schedule]:
    """Schedules as the caller may see them, each with the actor and the reason of its pause only if the caller may know
    the actor."""
    return [shown_schedule(caller, one) for one in await with_signed(caller, schedules, "paused")]


async def signed(caller: Caller, things: Iterable[S]) -> list[S]:
    """Things as the caller may see them: with actor and reason only if the actor is the caller itself, a key that it
    reaches, or Mainspring."""
    found = list(things)
    if caller.scope.everything:
        return found
    known = {actor for actor in {one.actor for one in found} if await _knows(caller, actor)}
    return [one if one.actor in known else _unsigned(one) for one in found]


async def with_signed(caller: Caller, things: Iterable[T], part: str) -> list[T]:
    """Things as the caller may see them: the part with this name, if a thing has it, is shown like `signed` does."""
    found = list(things)
    parts = iter(await signed(caller, [there for one in found if (there := getattr(one, part)) is not None]))
    return [one if getattr(one, part) is None else replace(one, **{part: next(parts)}) for one in found]  # type: ignore[type-var]


async def _knows(caller: Caller, actor: str | None) -> bool:
    if actor in (caller.actor, SYSTEM):
        return True
    if actor is None or not actor.startswith(KEY_ACTOR):
        return False
    key = await caller.scheduler.api_keys.get(actor.removeprefix(KEY_ACTOR))
    return key is not None and caller.scope.covers(key.scope)


def _unsigned(thing: Any) -> Any:
    names = {field.name for field in fields(thing)}
    return replace(thing, **{name: blank for name, blank in _SIGNATURE.items() if name in names})


async def resources_of(caller: Caller, made: Iterable[Job | Schedule]) -> list[Resource]:
    """Jobs and schedules as the caller may see them, in their order."""
    things = list(made)
    jobs = iter(await job_resources(caller, [one for one in things if isinstance(one, Job)]))
    schedules = iter(await schedule_resources(caller, [one for one in things if not isinstance(one, Job)]))
    return [next(jobs) if isinstance(one, Job) else next(schedules) for one in things]


async def resource_of(caller: Caller, made: Job | Schedule) -> Resource:
    return (await resources_of(caller, [made]))[0]


async def job_resources(caller: Caller, jobs: Sequence[Job]) -> list[JobResource]:
    seen = await seen_jobs(caller, jobs)
    return [_of_job(caller, *both) for both in zip(jobs, seen, strict=True)]


async def schedule_resources(caller: Caller, schedules: Sequence[Schedule]) -> list[ScheduleResource]:
    seen = await seen_schedules(caller, schedules)
    states = await caller.backend.last_states(schedules, caller.scope) if schedules else {}
    return [_of_schedule(one, shown, states.get(one.id)) for one, shown in zip(schedules, seen, strict=True)]


def audited(caller: Caller, made: Job | Schedule) -> Fields:
    """The audit entry of a job or a schedule. It is made without a read, which could fail between a change and its
    entry, and may name jobs out of the caller's scope: keys with a scope do not see the audit log."""
    if isinstance(made, Job):
        resource: Resource = _of_job(caller, made, shown_job(caller, made))
    else:
        resource = _of_schedule(made, shown_schedule(caller, made), None)
    left_out: Fields = {"result": True, "deduplicated": True}
    if resource.type == "http":
        left_out["data"] = {"request": True}  # `endpoint`, `headers`, `body` and so on tell it already
    return resource.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=left_out)


def _of_job(caller: Caller, job: Job, seen: Job) -> JobResource:
    """A job that is stored, and the same job as the caller may see it."""
    return JobResource(
        **job_fields(seen),
        **_older_names(job, seen.data),
        kind="job",
        enabled=True,
        next_run_at=job.run_at if job.state == PENDING else None,
        last_run_at=_last_run(job),
        updated_at=job.updated_at,
        attempts=len(job.attempts) + job.attempts_cut,
        deduplicated=job.deduplicated or None,
        waiting=_waiting(caller.service, seen),
    )


def _of_schedule(schedule: Schedule, seen: Schedule, last_state: str | None) -> ScheduleResource:
    """A schedule that is stored, the same schedule as the caller may see it, and the state of its last job."""
    return ScheduleResource(
        **schedule_fields(seen, last_state),
        **_older_names(schedule, seen.data),
        kind="schedule",
        enabled=schedule.paused is None,
        schedule=cron_text(schedule.rule),
        every=period_ms(schedule.rule),
        timezone=zone_text(schedule.rule),
        next_run_at=schedule.next_at,
        last_run_at=schedule.last_at,
        max_runs=schedule.policy.max_runs,
    )


def _older_names(made: Job | Schedule, shown: Mapping[str, Any]) -> Fields:
    """The older names that jobs and schedules share. `shown` is the redacted data."""
    return {
        "older_id": made.id,
        "job_id": made.id,
        "type": _TYPES.get(made.name, "job"),
        "execution_type": _execution_type(made.guarantee),
        **_retries(made.retry_policy),
        **_request(made, shown),
    }


def _execution_type(guarantee: str | None) -> ExecutionType:
    return cast(ExecutionType, (guarantee or AT_LEAST_ONCE).upper())


def _retries(retry: Retry | None) -> Fields:
    if retry is None:
        return {}
    delay = None if callable(retry.delay) else to_ms(seconds(retry.delay, "delay"))
    return {"retry_attempts": retry.attempts - 1, "retry_delay": delay}


def _last_run(job: Job) -> datetime | None:
    if job.state == RUNNING:
        return job.started_at
    return job.attempts[-1].started_at if job.attempts else None


def _waiting(service: Service, job: Job) -> str | None:
    if job.state != PENDING:
        return None
    if job.name == EMAIL and service.settings.smtp_url is None and job.waiting_for is None:
        return f"There is no SMTP server to send mail by. {cure_for(EMAIL)}"
    return None if job.waiting_for is None else job.waiting_for.note


def _request(made: Job | Schedule, shown: Mapping[str, Any]) -> Fields:
    """The parts of a webhook's request; nothing for any other job, and where the request cannot be read."""
    request = shown.get("request") if made.name == HTTP else None
    if not isinstance(request, Mapping):
        return {}
    headers, plain = request.get("headers"), None if made.kept is not None else made.data
    return {
        "endpoint": _text(request.get("url")),
        "method": str(request.get("method", WebhookRequest.model_fields["method"].default)),
        "headers": _headers(headers, plain) if isinstance(headers, Mapping) else None,
        "query": _document(request.get("query")),
        "body": jsonable(request.get("body")),
    }


def request_of(shown: Job, job: Job) -> RequestOut | None:
    """The request of a webhook as it may be shown. `job` is the job as it is stored."""
    found = _request(job, shown.data)
    return RequestOut(**found) if found else None


def _document(value: Any) -> Any:
    return jsonable(value) if isinstance(value, Mapping) else None


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _headers(shown: Mapping[str, Any], plain: Mapping[str, Any] | None) -> dict[str, str]:
    """Headers as they may be shown. `plain` is the stored data, or None if any of it is encrypted."""
    stored = ((plain or {}).get("request") or {}).get("headers") or {}
    return {name: _header(str(value), str(stored.get(name, ""))) for name, value in shown.items()}


def _header(shown: str, stored: str) -> str:
    return stored if is_reference(stored) else shown


def is_reference(value: Any) -> bool:
    """Whether the value of a header is only a reference to a secret."""
    return isinstance(value, str) and _REFERENCE.fullmatch(value) is not None


# -- attempts ------------------------------------------------------------------------------------------------------


def executions_of(caller: Caller, job: Job, owner: str) -> list[Execution]:
    """The attempts of a job, the newest first, preceded by the running one. `owner` is the id of the job itself, or of
    its schedule."""
    shown = shown_job(caller, job)
    found = [_running(shown, owner)] if job.state == RUNNING else []
    last = len(shown.attempts) - 1
    for place in range(last, -1, -1):
        found.append(_execution(shown, shown.attempts[place], owner, newest=place == last))
    return found


def newest_first(executions: Iterable[Execution]) -> list[Execution]:
    """Order the executions of several jobs by their start, the newest first."""
    return sorted(executions, key=lambda one: (one.started_at is not None, one.started_at), reverse=True)


def _running(job: Job, owner: str) -> Execution:
    return Execution(
        id=f"{job.id}:{job.token}",
        job_id=owner,
        run_id=job.id,
        status="running",
        outcome=RUNNING,
        started_at=job.started_at,
        attempt=job.tries,
        scheduled_at=job.scheduled_for or job.run_at,
        worker=job.worker,
        log=[str(line) for line in job.log],
    )


def _execution(job: Job, attempt: Attempt, owner: str, *, newest: bool) -> Execution:
    succeeded = attempt.outcome == "completed"
    answer = job.result if succeeded and newest else attempt.error.details if attempt.error is not None else None
    code, body = _answer(answer) if job.name == HTTP else (None, None)
    out = AttemptOut.of(job, attempt)
    same = ("outcome", "started_at", "duration", "scheduled_at", "worker", "log")
    return Execution(
        id=f"{job.id}:{attempt.token}",
        job_id=owner,
        run_id=job.id,
        status="success" if succeeded else "failure",
        completed_at=out.ended_at,
        response_code=code,
        response_body=body,
        error_message=None if succeeded else _message(attempt),
        attempt=out.number,
        **{name: getattr(out, name) for name in same},
    )


def _answer(answer: Any) -> tuple[int | None, str | None]:
    if not isinstance(answer, Mapping):
        return None, None
    code, body = answer.get("status"), answer.get("body")
    return code if isinstance(code, int) else None, body if isinstance(body, str) else None


def _message(attempt: Attempt) -> str:
    return attempt.outcome if attempt.error is None else attempt.error.message or attempt.error.type
