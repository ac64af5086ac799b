"""Edits of dead letters that are webhooks or mails: each is checked like a change of that job.

The request must name these dead letters by their ids, since the check depends on the stored values of each.
"""

from __future__ import annotations

from typing import Any

from mainspring.api.dependencies import Caller
from mainspring.api.jobs.data_checks import check_secrets, checked_mail, checked_webhook
from mainspring.api.jobs.hidden_values import Webhook, recipients_of, refuse_flow_data, refuse_marks, shown_data
from mainspring.api.problems import Problem
from mainspring.api.wire.dead_letters import RetryIn
from mainspring.errors import JobNotFound
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import Job
from mainspring.model.jobs.reserved_names import EMAIL, HTTP

_MOST = 500
_PARTS = ("request", "data")


async def checked_edit(caller: Caller, body: RetryIn) -> Fields | None:
    """Check and return the edit of the data of dead letters. Edited webhooks and mails must be valid."""
    if not (body.data or body.remove):
        return body.data
    if body.filter is not None and body.filter.name not in (None, HTTP, EMAIL):
        refuse_flow_data(body.filter.name)
        return body.data
    if body.ids is None or len(body.ids) > _MOST:
        text = (
            f"Webhooks and mails are edited by their ids, at most {_MOST} at a time; give other jobs' name as a filter."
        )
        raise Problem(422, text, field="ids")
    jobs = [job for job_id in body.ids if (job := await _found(caller, job_id)) is not None]
    for job in jobs:
        refuse_flow_data(job.name)
        if job.name == EMAIL:
            _check_mail(caller, job, body)
    webhooks = [job for job in jobs if job.name == HTTP]
    if not webhooks:
        return body.data
    _check_parts(body, mixed=len(webhooks) < len(jobs))
    edits = [await _checked(caller, job, body) for job in webhooks]
    return None if body.data is None else {**body.data, **edits[0]}


def _check_mail(caller: Caller, job: Job, body: RetryIn) -> None:
    """Refuse an invalid mail, and other recipients for a mail with values that the caller was not shown and has not
    given."""
    given = body.data or {}
    merged = {name: value for name, value in {**job.data, **given}.items() if name not in body.remove}
    shown = {**shown_data(caller, job), **given}
    if recipients_of(merged) != recipients_of(job.data) and any(merged[name] != shown.get(name) for name in merged):
        text = "The mail has values that are not shown, which no other recipient gets; give them again."
        raise Problem(422, text, field="data")
    checked_mail(merged, caller.service.settings)


def _check_parts(body: RetryIn, *, mixed: bool) -> None:
    if mixed:
        raise Problem(422, "Webhooks are edited apart from other jobs; name only one kind.", field="ids")
    if not set(body.data or ()) <= set(_PARTS) or not set(body.remove) <= {"data"}:
        raise Problem(422, "Of a webhook, request and data can be edited, and data removed.", field="data")
    refuse_marks((body.data or {}).get("request"), "data.request")


async def _checked(caller: Caller, job: Job, body: RetryIn) -> Fields:
    """Check the edit of a webhook. Return the request as it is stored, and its target, if the request is edited."""
    stored, given = Webhook.of(caller, job), body.data or {}
    request = given.get("request", stored.request)
    if not isinstance(request, dict):
        raise Problem(422, "A webhook's request is an object with a url.", field="data.request")
    data, visible = (None, None) if "data" in body.remove else (stored.data, stored.shown_data)
    if "data" in given:
        data = visible = _object(given["data"])
    checked = checked_webhook(request, data, caller.service.settings)
    stored.check_templates(request, data, visible)
    await check_secrets(caller, HTTP, job.queue, checked)
    return {part: checked[part] for part in ("request", "target")} if "request" in given else {}


def _object(value: Any) -> Fields:
    if not isinstance(value, dict):
        raise Problem(422, "The data of a webhook is an object.", field="data.data")
    return value


async def _found(caller: Caller, job_id: str) -> Job | None:
    """A dead letter within the caller's reach; None if it is missing: the redrive skips it."""
    try:
        job = await caller.scheduler.get_job(job_id)
    except JobNotFound:
        return None
    return job if caller.principal.scope.allows(job.queue, job.name) else None
