"""Copies of jobs: a new job with the name, the data and the options of an earlier one, and some of them changed.

Values that are not shown are never taken from the word that stands for them. Where the data is given, it is given
whole; a webhook or a mail follows the rules of its update. Data that is not given is copied in the store's own form,
encrypted where it was encrypted.
"""

from __future__ import annotations

from mainspring.api.dependencies import Caller
from mainspring.api.jobs.create import ONCE, Plan, refuse_webhook_fields, run_options_of
from mainspring.api.jobs.hidden_values import refuse_flow_data, refuse_marks
from mainspring.api.jobs.update import changed_data, retry_after
from mainspring.api.problems import Problem
from mainspring.api.wire.job_requests import Copy
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import Job
from mainspring.model.jobs.reserved_names import QUEUES
from mainspring.model.privacy.encrypted_values import Encrypt, encrypt_like, encrypted_places


def plan_copy(caller: Caller, job: Job, copy: Copy) -> Plan:
    """The new job, checked as far as it can be without reading."""
    refuse_flow_data(job.name)
    data = _data(caller, job, copy)
    options = {**_options_of(job), **_given(caller, job, copy)}
    queue = copy.queue or job.queue
    options["queue"] = queue
    options["encrypt"] = _encryption(job)
    options["version"] = (copy.data_version if copy.data is not None else None) or job.data_version
    return Plan(job.name, data, queue, None, {key: value for key, value in options.items() if value is not None})


def _data(caller: Caller, job: Job, copy: Copy) -> Fields:
    if job.name not in QUEUES:
        refuse_webhook_fields(copy)
        if copy.data is not None:
            refuse_marks(copy.data, "data")
            return dict(copy.data)
    changed = changed_data(caller, job, copy)
    data = dict(job.data) if changed is None else changed
    if encrypted_places(data):
        raise Problem(
            422, "Its data is encrypted, and this service has no key for it; give the data again.", field="data"
        )
    return data


def _options_of(job: Job) -> Fields:
    """The options of the earlier job. Its times and its dedupe key were its own."""
    return {
        "priority": job.asked_priority or job.priority,
        "tags": list(job.tags) or None,
        "label": job.label,
        "guarantee": job.guarantee,
        "timeout": job.timeout,
        "start_within": job.start_within,
        "retry": job.retry_policy,
    }


def _given(caller: Caller, job: Job, copy: Copy) -> Fields:
    options = run_options_of(job.name, copy, caller.service.settings)
    options["retry"] = retry_after(job.retry_policy, copy)
    if copy.execution_type == ONCE:
        options["guarantee"] = ONCE.lower()
    times = ("run_at", "delay", "expires_at", "dedupe_key", "dedupe_window")
    options |= {name: getattr(copy, name) for name in times}
    return {name: value for name, value in options.items() if value is not None}


def _encryption(job: Job) -> bool | list[str] | None:
    """What the earlier job had encrypted, so that no such value becomes plain."""
    encrypt: Encrypt | None = None if job.kept is None else encrypt_like(job.kept.data)
    if encrypt is None:
        return None
    return True if encrypt.all else list(encrypt.paths)
