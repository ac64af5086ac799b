"""Jobs, schedules and attempts as they leave: redacted, in the names and units of the wire.

Values of headers that are likely to be credentials are not shown; a reference to a secret is, since it tells nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, cast

from pydantic_core import to_jsonable_python

from mainspring.api.service import Service
from mainspring.api.timing import cron_text, period_ms, zone_text
from mainspring.api.wire.base import to_ms
from mainspring.api.wire.resources import Execution, ExecutionType, Resource
from mainspring.jobtypes.http.request import WebhookRequest
from mainspring.jobtypes.http.scrubbing import is_credential
from mainspring.model.guarantee import AT_LEAST_ONCE
from mainspring.model.job import FINISHED, PENDING, RUNNING, Attempt, Job
from mainspring.model.redaction import REDACTED
from mainspring.model.reserved import EMAIL, HTTP, cure_for
from mainspring.model.retry import Retry
from mainspring.schedules import Schedule

_REFERENCE = re.compile(r"(?:[A-Za-z]+ )?secret://[A-Za-z0-9_-]+")
_TYPES: Mapping[str, Literal["http", "email"]] = {HTTP: "http", EMAIL: "email"}


def resource_of(service: Service, made: Job | Schedule) -> Resource:
    """A created thing as it may be shown."""
    return _of_job(service, made) if isinstance(made, Job) else _of_schedule(service, made)


def _of_job(service: Service, job: Job) -> Resource:
    shown = service.scheduler.shown(job)
    return Resource(
        kind="job",
        enabled=True,
        next_run_at=job.run_at if job.state == PENDING else None,
        last_run_at=_last_run(job),
        run_at=job.run_at,
        finished_at=job.finished_at,
        attempts=len(job.attempts) + job.attempts_cut,
        deduplicated=job.deduplicated or None,
        result=jsonable(shown.result),
        error=None if shown.error is None else str(shown.error),
        waiting=_waiting(service, shown),
        **_common(job, shown.data),
    )


def _of_schedule(service: Service, schedule: Schedule) -> Resource:
    shown = service.scheduler.shown_schedule(schedule)
    return Resource(
        kind="schedule",
        enabled=schedule.paused is None,
        schedule=cron_text(schedule.rule),
        every=period_ms(schedule.rule),
        timezone=zone_text(schedule.rule),
        next_run_at=schedule.next_at,
        last_run_at=schedule.last_at,
        updated_at=schedule.updated_at,
        max_runs=schedule.policy.max_runs,
        runs=schedule.runs,
        **_common(schedule, shown.data),
    )


def _common(made: Job | Schedule, shown: Mapping[str, Any]) -> dict[str, Any]:
    """What jobs and schedules have alike. `shown` is the data as it may be shown."""
    return {
        "id": made.id,
        "job_id": made.id,
        "type": _TYPES.get(made.name, "job"),
        "name": made.name,
        "state": made.state,
        "execution_type": _execution_type(made.executes),
        "queue": made.queue,
        "priority": made.priority,
        "tags": list(made.tags),
        "created_at": made.created_at,
        **_retries(made.retry),
        **_what(made.name, shown, None if made.kept is not None else made.data),
    }


def _execution_type(executes: str | None) -> ExecutionType:
    return cast(ExecutionType, (executes or AT_LEAST_ONCE).upper())


def _retries(retry: Retry | None) -> dict[str, Any]:
    if retry is None:
        return {}
    delay = None if callable(retry.delay) else to_ms(retry.delay)
    return {"retry_attempts": retry.attempts - 1, "retry_delay": delay}


def _last_run(job: Job) -> datetime | None:
    if job.state == RUNNING:
        return job.started_at
    return job.attempts[-1].started_at if job.attempts else None


def _waiting(service: Service, job: Job) -> str | None:
    if job.state != PENDING:
        return None
    if job.name == EMAIL and service.settings.smtp_url is None and job.held is None:
        return f"There is no SMTP server to send mail by. {cure_for(EMAIL)}"
    return None if job.held is None else job.held.note


def _what(name: str, shown: Mapping[str, Any], plain: Mapping[str, Any] | None) -> dict[str, Any]:
    """What it does: of a webhook the request by its parts, of all others the data."""
    request = shown.get("request") if name == HTTP else None
    if not isinstance(request, Mapping):
        return {"data": jsonable(shown)}
    headers = request.get("headers")
    return {
        "endpoint": _text(request.get("url")),
        "method": str(request.get("method", WebhookRequest.model_fields["method"].default)),
        "headers": _headers(headers, plain) if isinstance(headers, Mapping) else None,
        "query": jsonable(request.get("query")),
        "body": jsonable(request.get("body")),
        "data": jsonable(shown.get("data")),
    }


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _headers(shown: Mapping[str, Any], plain: Mapping[str, Any] | None) -> dict[str, str]:
    """Headers as they may be shown. `plain` is the data as it is, where none of it is encrypted."""
    stored = ((plain or {}).get("request") or {}).get("headers") or {}
    return {name: _header(name, str(value), str(stored.get(name, ""))) for name, value in shown.items()}


def _header(name: str, shown: str, stored: str) -> str:
    if _REFERENCE.fullmatch(stored):
        return stored
    return REDACTED if is_credential(name) else shown


def jsonable(value: Any) -> Any:
    """A value as JSON can have it; what MongoDB can hold beyond that is shown as text."""
    return to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="strings", fallback=str)


# -- attempts ------------------------------------------------------------------------------------------------------


def executions_of(service: Service, job: Job, owner: str) -> list[Execution]:
    """The attempts at a job, the newest first, and before them the one that is running. `owner` is what was created:
    the job itself, or its schedule."""
    shown = service.scheduler.shown(job)
    found = [_running(shown, owner)] if job.state == RUNNING else []
    last = len(shown.attempts) - 1
    for place in range(last, -1, -1):
        found.append(_execution(shown, shown.attempts[place], owner, newest=place == last))
    return found


def newest_first(executions: Iterable[Execution]) -> list[Execution]:
    """Executions of several jobs in one order; those that are running came last."""
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
    return Execution(
        id=f"{job.id}:{attempt.token}",
        job_id=owner,
        run_id=job.id,
        status="success" if succeeded else "failure",
        outcome=attempt.outcome,
        started_at=attempt.started_at,
        completed_at=attempt.ended_at,
        duration=to_ms(attempt.duration),
        response_code=code,
        response_body=body,
        error_message=None if succeeded else _message(attempt),
        attempt=attempt.number,
        scheduled_at=due_at(job, attempt),
        worker=attempt.worker,
        log=[str(line) for line in attempt.log],
    )


def due_at(job: Job, attempt: Attempt) -> datetime | None:
    """When an attempt was due. It has noted that itself where run_at has moved on; older releases did not."""
    ended_it = attempt.token == job.token and job.state in FINISHED and attempt.outcome != "retried"
    return job.scheduled_for or attempt.run_at or (job.run_at if ended_it else None)


def _answer(answer: Any) -> tuple[int | None, str | None]:
    if not isinstance(answer, Mapping):
        return None, None
    code, body = answer.get("status"), answer.get("body")
    return code if isinstance(code, int) else None, body if isinstance(body, str) else None


def _message(attempt: Attempt) -> str:
    return attempt.outcome if attempt.error is None else attempt.error.message or attempt.error.type
