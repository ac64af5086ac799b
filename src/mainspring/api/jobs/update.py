"""Changes of jobs and schedules: given fields are merged into the stored ones, and checked as for a new one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic.alias_generators import to_camel

from mainspring.api.dependencies import Caller
from mainspring.api.jobs.create import (
    OF_SCHEDULES,
    ONCE,
    changed_retry,
    check_calendars,
    refuse_schedule_fields,
    refuse_webhook_fields,
    run_options_of,
)
from mainspring.api.jobs.data_checks import (
    check_data,
    check_secrets,
    checked_mail,
    checked_webhook,
    refusing,
    request_fields,
)
from mainspring.api.jobs.flow_reach import check_firings
from mainspring.api.jobs.hidden_values import (
    Webhook,
    recipients_of,
    refuse_flow_data,
    refuse_marks,
    restored,
    shown_data,
)
from mainspring.api.problems import Problem
from mainspring.api.wire.base import jsonable
from mainspring.api.wire.job_requests import Change, Request, Work, rule_field, rule_of
from mainspring.client.namespaces.schedules import Schedule
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import Job
from mainspring.model.jobs.reserved_names import EMAIL, HTTP
from mainspring.model.jobs.retry import Retry

_REMOVABLE = ("start_at", "end_at", "max_runs", "jitter", "start_deadline", "pause_after")
_OF_JOBS = ("run_at", "delay", "expires_at")


async def change_schedule(caller: Caller, schedule: Schedule, change: Change) -> Schedule:
    """Edit a schedule. A schedule to be disabled is paused before the edit, so that it does not fire in between."""
    for name in _OF_JOBS:
        if getattr(change, name) is not None:
            raise Problem(
                422, f"{to_camel(name)} is for a single job; a schedule has startAt and endAt.", field=to_camel(name)
            )
    check_firings(caller, schedule)
    edits = _schedule_edits(caller, schedule, change)
    await _check_secrets(caller, schedule, edits)
    if change.enabled is False:
        schedule = await caller.scheduler.schedules.pause(schedule.id, actor=caller.actor)
    if edits:
        with refusing():
            schedule = await caller.scheduler.schedules.edit(schedule.id, **edits)
    if change.enabled is True:
        schedule = await caller.scheduler.schedules.resume(schedule.id)
    return schedule


async def change_job(caller: Caller, job: Job, change: Change) -> Job:
    """Update a pending job."""
    _refuse_for_job(job, change)
    edits = _edits(caller, job, change)
    edits |= {"run_at": change.run_at, "delay": change.delay, "expires_at": change.expires_at}
    edits.pop("guarantee")
    await _check_secrets(caller, job, edits)
    if edits["data"] is not None:
        await check_data(caller, job.name, edits["data"], job.data_version)
    with refusing():
        return await caller.scheduler.update(job.id, **_given(edits))


def _refuse_for_job(job: Job, change: Change) -> None:
    if rule_field(change) is not None:
        raise Problem(422, "A job cannot become a schedule; create one.", field=rule_field(change))
    refuse_schedule_fields(change)
    if change.enabled is False:
        raise Problem(422, "Only a schedule can be disabled; cancel the job instead.", field="enabled")
    if change.execution_type is not None and change.execution_type.lower() != (job.guarantee or "at_least_once"):
        raise Problem(422, "The executionType of a job cannot be changed after its creation.", field="executionType")


def _schedule_edits(caller: Caller, schedule: Schedule, change: Change) -> Fields:
    with refusing(rule_field(change) or "timezone"):
        rule = rule_of(change, caller.service.settings.timezone, schedule.rule)
    if rule is not None:
        check_calendars(caller, rule, schedule.rule)
    edits = _edits(caller, schedule, change)
    edits |= {"repeat": rule, **{name: getattr(change, name) for name in OF_SCHEDULES}}
    removed = [name for name in _REMOVABLE if name in change.model_fields_set and getattr(change, name) is None]
    return _given(edits) | ({"remove": removed} if removed else {})


def _edits(caller: Caller, before: Job | Schedule, change: Change) -> Fields:
    """The edits that jobs and schedules share."""
    _check_queue(caller, before, change)
    edits = run_options_of(before.name, change, caller.service.settings)
    edits["retry"] = retry_after(before.retry_policy, change)
    return {**edits, "queue": change.queue, "data": changed_data(caller, before, change)}


def _check_queue(caller: Caller, before: Job | Schedule, change: Change) -> None:
    if change.queue is not None and not caller.principal.scope.allows(change.queue, before.name):
        raise Problem(403, "The queue is out of this key's scope; nothing was changed.", field="queue")


def retry_after(before: Retry | None, change: Work) -> Retry | None:
    """The policy after a change; None if it stays unchanged."""
    once = change.execution_type == ONCE
    if change.retry_attempts is None and change.retry_delay is None:
        return Retry(attempts=1) if once and before is not None and before.attempts > 1 else None
    return changed_retry(change, before or Retry())


async def _check_secrets(caller: Caller, before: Job | Schedule, edits: Mapping[str, Any]) -> None:
    """Refuse a change of the request, the data or the queue after which a webhook may not use its secrets."""
    data, queue = edits.get("data"), edits.get("queue")
    if data is not None or queue is not None:
        await check_secrets(caller, before.name, queue or before.queue, before.data if data is None else data)


def changed_data(caller: Caller, before: Job | Schedule, change: Work) -> Fields | None:
    """The new data; None if it stays unchanged."""
    if before.name == HTTP:
        return _webhook(caller, before, change)
    refuse_webhook_fields(change)
    if change.endpoint is not None:
        raise Problem(422, "Only a webhook has an endpoint; create one.", field="endpoint")
    if change.data is None:
        return None
    refuse_flow_data(before.name)
    data: Fields = restored(change.data, before.data, shown_data(caller, before))
    if before.name != EMAIL:
        return data
    if recipients_of(data) != recipients_of(before.data):
        refuse_marks(change.data, "data")
    return checked_mail(data, caller.service.settings)


def _webhook(caller: Caller, before: Job | Schedule, change: Work) -> Fields | None:
    given, values = request_fields(change), _values(caller, before, change)
    removed = {name for name in Request.model_fields if name in change.model_fields_set and name not in given}
    if not given and not removed - {"endpoint"} and values is None:
        return None
    stored = Webhook.of(caller, before)
    request = stored.merged(given, removed)
    data, visible = stored.data, stored.shown_data
    if values is not None:
        data, visible = restored(values, stored.data, stored.shown_data), values
    checked = checked_webhook(request, data, caller.service.settings, before.data.get("traceparent"))
    stored.check_templates(request, data, visible)
    return checked


def _values(caller: Caller, before: Job | Schedule, change: Work) -> Fields | None:
    """The new values of a webhook's templates; None if they stay unchanged. A caller may send back the data as it was
    shown, with the request and, perhaps, with other values."""
    if change.data is None:
        return None
    shown: Fields = jsonable(shown_data(caller, before))
    request = change.data.get("request")
    if not (isinstance(request, dict) and "url" in request and change.data.keys() <= shown.keys()):
        return change.data
    if request != shown.get("request"):
        text = "A webhook's request is changed by endpoint, method, headers, query and body, not within data."
        raise Problem(422, text, field="data.request")
    values = change.data.get("data") or {}
    if not isinstance(values, dict):
        raise Problem(422, "The values of a webhook's templates are an object.", field="data.data")
    return None if values == (shown.get("data") or {}) else values


def _given(edits: Mapping[str, Any]) -> Fields:
    return {name: value for name, value in edits.items() if value is not None}
