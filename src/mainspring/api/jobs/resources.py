"""Jobs, schedules and attempts as answers: redacted, in the names and units of the wire.

A header that is hidden as a credential is shown if it is a reference to a secret: the reference reveals no value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, cast

from mainspring.api.dependencies import Caller, Service
from mainspring.api.jobs.visibility import shown as within_reach
from mainspring.api.jobs.visibility import shown_schedule
from mainspring.api.wire.base import jsonable, to_ms
from mainspring.api.wire.compat import Execution, Resource
from mainspring.api.wire.job_requests import ExecutionType, cron_text, period_ms, zone_text
from mainspring.api.wire.jobs import AttemptOut, RequestOut, job_fields
from mainspring.client.namespaces.schedules import Schedule
from mainspring.jobtypes.http.request import WebhookRequest
from mainspring.model.fields import Fields
from mainspring.model.jobs.guarantee import AT_LEAST_ONCE
from mainspring.model.jobs.job import PENDING, RUNNING, Attempt, Job
from mainspring.model.jobs.reserved_names import EMAIL, HTTP, cure_for
from mainspring.model.jobs.retry import Retry, seconds

_REFERENCE = re.compile(r"(?:[A-Za-z]+ )?secret://[A-Za-z0-9_-]+")
_TYPES: Mapping[str, Literal["http", "email"]] = {HTTP: "http", EMAIL: "email"}


def resource_of(caller: Caller, made: Job | Schedule) -> Resource:
    """A job or a schedule as the caller may see it."""
    return _of_job(caller, made) if isinstance(made, Job) else _of_schedule(caller, made)


def _of_job(caller: Caller, job: Job) -> Resource:
    shown = within_reach(caller, job)
    fields = job_fields(shown)
    return Resource(
        kind="job",
        enabled=True,
        next_run_at=job.run_at if job.state == PENDING else None,
        last_run_at=_last_run(job),
        updated_at=job.updated_at,
        attempts=len(job.attempts) + job.attempts_cut,
        deduplicated=job.deduplicated or None,
        **{name: fields[name] for name in ("run_at", "finished_at", "result")},
        error=None if shown.error is None else str(shown.error),
        waiting=_waiting(caller.service, shown),
        **_common(job, shown.data),
    )


def _of_schedule(caller: Caller, schedule: Schedule) -> Resource:
    shown = shown_schedule(caller, schedule)
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
        error=schedule.error,
        **_common(schedule, shown.data),
    )


def _common(made: Job | Schedule, shown: Mapping[str, Any]) -> Fields:
    """The fields that jobs and schedules share. `shown` is the redacted data."""
    return {
        "id": made.id,
        "older_id": made.id,
        "job_id": made.id,
        "type": _TYPES.get(made.name, "job"),
        "name": made.name,
        "label": made.label,
        "state": made.state,
        "execution_type": _execution_type(made.guarantee),
        "queue": made.queue,
        "priority": made.priority,
        "tags": list(made.tags),
        "created_at": made.created_at,
        **_retries(made.retry_policy),
        **_what(made.name, shown, None if made.kept is not None else made.data),
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


def _what(name: str, shown: Mapping[str, Any], plain: Mapping[str, Any] | None) -> Fields:
    """The fields that describe the work: the parts of a webhook's request, or the data of any other job."""
    request = shown.get("request") if name == HTTP else None
    if not isinstance(request, Mapping):
        return {"data": jsonable(shown)}
    headers = request.get("headers")
    return {
        "endpoint": _text(request.get("url")),
        "method": str(request.get("method", WebhookRequest.model_fields["method"].default)),
        "headers": _headers(headers, plain) if isinstance(headers, Mapping) else None,
        "query": _document(request.get("query")),
        "body": jsonable(request.get("body")),
        "data": _document(shown.get("data")),
    }


def request_of(shown: Job, job: Job) -> RequestOut | None:
    """The request of a webhook as it may be shown. `job` is the job as it is stored."""
    if job.name != HTTP:
        return None
    found = _what(job.name, shown.data, None if job.kept is not None else job.data)
    return RequestOut(**{key: value for key, value in found.items() if key != "data"}) if "method" in found else None


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
    shown = within_reach(caller, job)
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
