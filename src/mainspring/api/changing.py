"""Changing what was created: what is given is merged into what is stored, and checked as a new one would be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic.alias_generators import to_camel

from mainspring.api.problems import Problem
from mainspring.api.resources import (
    ONCE,
    changed_retry,
    checked_mail,
    checked_webhook,
    manner_of,
    refuse_schedule_fields,
    refuse_webhook_fields,
    refusing,
    request_fields,
    seconds,
)
from mainspring.api.service import Caller
from mainspring.api.timing import rule_field, rule_of
from mainspring.api.wire.resources import Change, Request
from mainspring.model.job import Job
from mainspring.model.redaction import ENCRYPTED, REDACTED
from mainspring.model.reserved import EMAIL, HTTP
from mainspring.model.retry import Retry
from mainspring.schedules import Schedule

_REMOVABLE = ("start_at", "end_at", "max_runs", "jitter")
_OF_SCHEDULES = ("start_at", "end_at", "max_runs", "misfire", "overlap")
_OF_JOBS = ("run_at", "delay", "expires_at")


async def change_schedule(caller: Caller, schedule: Schedule, change: Change) -> Schedule:
    """Edit a schedule. One that is to be disabled is paused first, so that nothing fires in between."""
    for name in _OF_JOBS:
        if getattr(change, name) is not None:
            raise Problem(
                422, f"{to_camel(name)} is for a single job; a schedule has startAt and endAt.", field=to_camel(name)
            )
    edits = _schedule_edits(caller, schedule, change)
    if change.enabled is False:
        schedule = await caller.scheduler.pause_schedule(schedule.id, actor=caller.actor)
    if edits:
        with refusing():
            schedule = await caller.scheduler.edit_schedule(schedule.id, **edits)
    if change.enabled is True:
        schedule = await caller.scheduler.resume_schedule(schedule.id)
    return schedule


async def change_job(caller: Caller, job: Job, change: Change) -> Job:
    """Update a pending job."""
    _refuse_for_job(job, change)
    edits = _edits(caller, job, change)
    edits |= {"run_at": change.run_at, "delay": seconds(change.delay), "expires_at": change.expires_at}
    edits.pop("executes")
    with refusing():
        return await caller.scheduler.update(job.id, **_given(edits))


def _refuse_for_job(job: Job, change: Change) -> None:
    if rule_field(change) is not None:
        raise Problem(422, "A job cannot become a schedule; create one.", field=rule_field(change))
    refuse_schedule_fields(change)
    if change.enabled is False:
        raise Problem(422, "Only a schedule can be disabled; cancel the job instead.", field="enabled")
    if change.execution_type is not None and change.execution_type.lower() != (job.executes or "at_least_once"):
        raise Problem(422, "What a job executes is chosen when it is created.", field="executionType")


def _schedule_edits(caller: Caller, schedule: Schedule, change: Change) -> dict[str, Any]:
    with refusing(rule_field(change) or "timezone"):
        rule = rule_of(change, caller.service.settings.timezone, schedule.rule)
    edits = _edits(caller, schedule, change)
    edits |= {name: getattr(change, name) for name in _OF_SCHEDULES}
    edits |= {"repeat": rule, "jitter": seconds(change.jitter)}
    removed = [name for name in _REMOVABLE if name in change.model_fields_set and getattr(change, name) is None]
    return _given(edits) | ({"remove": removed} if removed else {})


def _edits(caller: Caller, before: Job | Schedule, change: Change) -> dict[str, Any]:
    """What jobs and schedules have in common."""
    _check_queue(caller, before, change)
    edits = manner_of(before.name, change, caller.service.settings)
    edits["retry"] = _retry(before.retry, change)
    return {**edits, "queue": change.queue, "data": _data(caller, before, change)}


def _check_queue(caller: Caller, before: Job | Schedule, change: Change) -> None:
    if change.queue is not None and not caller.principal.scope.allows(change.queue, before.name):
        raise Problem(403, "This key reaches other queues only; nothing was changed.", field="queue")


def _retry(before: Retry | None, change: Change) -> Retry | None:
    once = change.execution_type == ONCE
    if change.retry_attempts is None and change.retry_delay is None:
        return Retry(attempts=1) if once and before is not None and before.attempts > 1 else None
    return changed_retry(change, before or Retry())


def _data(caller: Caller, before: Job | Schedule, change: Change) -> dict[str, Any] | None:
    """The data as it is to be; None where it stays as it is."""
    data = None if change.data is None else restored(change.data, _own_data(before))
    if before.name == HTTP:
        return _webhook(caller, before, change, data)
    refuse_webhook_fields(change)
    if change.endpoint is not None:
        raise Problem(422, "Only a webhook has an endpoint; create one.", field="endpoint")
    return checked_mail(data) if before.name == EMAIL and data is not None else data


def _own_data(before: Job | Schedule) -> Any:
    return before.data.get("data") if before.name == HTTP else before.data


def _webhook(caller: Caller, before: Job | Schedule, change: Change, data: Any) -> dict[str, Any] | None:
    given = request_fields(change)
    removed = {name for name in Request.model_fields if name in change.model_fields_set and name not in given}
    if not given and not removed - {"endpoint"} and data is None:
        return None
    stored: Mapping[str, Any] = before.data.get("request") or {}
    kept = {name: value for name, value in stored.items() if name not in removed}
    merged = {**kept, **restored(given, stored)}
    return checked_webhook(
        merged,
        before.data.get("data") if data is None else data,
        caller.service.settings,
        before.data.get("traceparent"),
    )


def restored(given: Any, stored: Any) -> Any:
    """What was given, with what is stored in place of what was not shown: who sends back what he was shown means it to
    stay."""
    if given in (REDACTED, ENCRYPTED) and stored is not None:
        return stored
    if isinstance(given, Mapping) and isinstance(stored, Mapping):
        return {name: restored(value, stored.get(name)) for name, value in given.items()}
    if isinstance(given, list) and isinstance(stored, list) and len(given) == len(stored):
        return [restored(one, other) for one, other in zip(given, stored, strict=True)]
    return given


def _given(edits: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in edits.items() if value is not None}
