"""Creating jobs and schedules: from the body of a request to the call of the Scheduler.

Everything is checked before anything is stored, the data in `data_checks.py`. Refusals name the field and the cure, and
repeat no values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic.alias_generators import to_camel

from mainspring.api.dependencies import Caller
from mainspring.api.jobs.data_checks import check_data, check_secrets, data_of, refusing
from mainspring.api.problems import Problem
from mainspring.api.settings import ServiceSettings
from mainspring.api.wire.base import span_seconds
from mainspring.api.wire.flows import FlowIn
from mainspring.api.wire.job_requests import Creation, Request, Times, Work, rule_field, rule_of
from mainspring.client.flows.builder import FlowBuilder
from mainspring.client.namespaces.schedules import Schedule
from mainspring.errors import CalendarNotFound, ScheduleNotFound
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.access.namespaces import has_name, is_named_in, namespace_of
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import DEFAULT_QUEUE, Job
from mainspring.model.jobs.reserved_names import EMAIL, HTTP, QUEUES, RESERVED
from mainspring.model.jobs.retry import Retry
from mainspring.rules import Rule

ONCE = "AT_MOST_ONCE"
_EXACTLY = "EXACTLY_ONCE"
_LONGEST_PAUSE = 3600.0
_OF_WEBHOOKS = tuple(name for name in Request.model_fields if name not in ("endpoint", "timeout"))
_OF_JOBS = ("run_at", "delay", "expires_at", "dedupe_key")
_OF_BURSTS = ("dedupe_window", "debounce", "debounce_max", "throttle")
_WITH_KEY = ("dedupe_key", "debounce", "throttle")
"""The options with which a job has a dedupe key, given or by default."""
OF_SCHEDULES = (
    *("start_at", "end_at", "max_runs", "jitter", "misfire", "misfire_grace", "misfire_limit", "start_deadline"),
    *("overlap", "pause_after"),
)


@dataclass(frozen=True, slots=True)
class Plan:
    """The arguments for the Scheduler; a rule makes it a schedule."""

    name: str
    data: Fields = field(repr=False)
    queue: str | None
    rule: Rule | None
    options: Fields
    schedule_id: str | None = None
    paused: bool = False

    def as_item(self) -> Fields:
        """A plan without a rule as an item of `Scheduler.schedule_bulk`."""
        return {"name": self.name, "data": self.data, **self.options}

    def named(self, job_id: str) -> Fields:
        """The item with the id of its job; a debounced one may change a job that exists, and gets none."""
        return self.as_item() if "debounce" in self.options else {**self.as_item(), "job_id": job_id}


def make_plan(creation: Creation, settings: ServiceSettings, traceparent: str | None = None) -> Plan:
    """Check the body of a request, and make the arguments for the Scheduler from it."""
    name = _name_of(creation)
    rule, times = timed(creation, settings)
    data = data_of(name, creation, settings, traceparent)
    queue = creation.queue or QUEUES.get(name)
    options = {**run_options_of(name, creation, settings), **times, "queue": queue}
    options |= {"version": _version(name, creation), "encrypt": creation.encrypt, "label": _label(name, creation)}
    given = {key: value for key, value in options.items() if value is not None}
    return Plan(name, data, queue, rule, given, creation.id, creation.enabled is False)


def _name_of(creation: Creation) -> str:
    kind = creation.type or ("http" if creation.endpoint is not None else "job")
    if (kind == "http") != (creation.endpoint is not None):
        what = "A webhook needs an endpoint" if kind == "http" else f"An endpoint is for webhooks, not type {kind}"
        raise Problem(422, f"{what}; give one of endpoint, type email and name.", field="endpoint")
    if kind != "http":
        refuse_webhook_fields(creation)
    return _own_name(creation.name) if kind == "job" else HTTP if kind == "http" else EMAIL


def _label(name: str, creation: Creation) -> str | None:
    """The label of a job. The name of a webhook or a mail is its label: what they do is known."""
    own = creation.name if name in QUEUES else None
    if own is not None and creation.label is not None:
        raise Problem(422, "The name of a webhook or a mail is its label; give one of them.", field="label")
    if own is not None and own.startswith(RESERVED):
        raise Problem(422, f"Names that begin with {RESERVED} are Mainspring's own; choose another.", field="name")
    return own or creation.label


def _version(name: str, creation: Creation) -> int | None:
    if creation.data_version is not None and name in QUEUES:
        raise Problem(422, "dataVersion is for the data of a handler of your own.", field="dataVersion")
    return creation.data_version


def _own_name(name: str | None) -> str:
    if name is None:
        raise Problem(
            422, "The work is missing: give an endpoint to call, type email, or the name of a handler.", field="name"
        )
    if name.startswith(RESERVED):
        raise Problem(422, f"Names that begin with {RESERVED} are Mainspring's own; choose another.", field="name")
    return name


def refuse_webhook_fields(change: Work) -> None:
    for name in _OF_WEBHOOKS:
        if name in change.model_fields_set and getattr(change, name) is not None:
            raise Problem(422, f"{to_camel(name)} is for webhooks, which have an endpoint.", field=to_camel(name))


# -- options and times ---------------------------------------------------------------------------------------------


def run_options_of(name: str, change: Work, settings: ServiceSettings) -> Fields:
    """The options of a run, as arguments of `Scheduler.schedule`."""
    if change.execution_type == _EXACTLY and name in QUEUES:
        raise Problem(
            422,
            "Nothing outside of the database can be done exactly once; use AT_LEAST_ONCE, where a receiver knows "
            "repeats by their id, or AT_MOST_ONCE.",
            field="executionType",
        )
    options: Fields = {"priority": change.priority, "tags": change.tags}
    options["guarantee"] = None if change.execution_type is None else change.execution_type.lower()
    options["start_within"] = change.start_within
    options["timeout"] = None if name in QUEUES else change.timeout
    options["retry"] = retry_of(name, change, settings)
    return options


def retry_of(name: str, change: Work, settings: ServiceSettings) -> Retry | None:
    """The retry policy; None leaves it to the handler, if the request gives none for a job with a handler."""
    usual = Retry(settings.retry_attempts + 1, settings.retry_delay_ms / 1000)
    if change.execution_type == ONCE and change.retry_attempts is None:
        return None
    if change.retry_attempts is None and change.retry_delay is None:
        return usual if name in QUEUES else None
    return changed_retry(change, usual)


def changed_retry(change: Work, before: Retry) -> Retry:
    """The policy `before` with the given values of a change."""
    attempts, delay = change.retry_attempts, change.retry_delay
    pause = before.delay if delay is None else span_seconds(delay)
    longest = max(_LONGEST_PAUSE, pause) if isinstance(pause, float) else _LONGEST_PAUSE
    return Retry(before.attempts if attempts is None else attempts + 1, pause, max_delay=longest)


def timed(body: Creation | FlowIn, settings: ServiceSettings) -> tuple[Rule | None, Fields]:
    """The rule of a schedule, or None for a single job or flow; and its times, as arguments of `Scheduler.schedule`."""
    with refusing(rule_field(body)):
        rule = rule_of(body, settings.timezone)
    if rule is not None:
        for name in _OF_BURSTS:
            if getattr(body, name, None) is not None:
                text = f"A schedule has no {to_camel(name)}, since each of its firings makes one job; leave it out."
                raise Problem(422, text, field=to_camel(name))
        return rule, {key: getattr(body, key) for key in (*_OF_JOBS, *OF_SCHEDULES)}
    if body.enabled is False:
        raise Problem(422, "Only a schedule can be disabled; leave enabled out, or give a schedule.", field="enabled")
    if body.id is not None:
        raise Problem(422, "An id is chosen for schedules only; a job gets one. See Idempotency-Key.", field="id")
    refuse_schedule_fields(body)
    return None, {key: getattr(body, key, None) for key in (*_OF_JOBS, *_OF_BURSTS)}


def refuse_schedule_fields(change: Times) -> None:
    for name in (*OF_SCHEDULES, "timezone"):
        if getattr(change, name) is not None:
            raise Problem(
                422, f"{to_camel(name)} is for schedules; give schedule, every or repeat with it.", field=to_camel(name)
            )


# -- storing -------------------------------------------------------------------------------------------------------


def check_plan(caller: Caller, plan: Plan) -> Plan:
    """Refuse a queue or name out of the caller's reach. If the key has queues, the plan names its queue."""
    scope = caller.principal.scope
    if scope.everything:
        return plan
    queue = plan.queue or DEFAULT_QUEUE
    if not scope.allows(queue, plan.name):
        where = "queue" if not scope.allows_queue(queue) else "name"
        raise Problem(403, "The queue or name is out of this key's scope; nothing was created.", field=where)
    if scope.queues is not None:
        plan.options["queue"] = queue  # otherwise the queue that its handler declares would be used
    if plan.rule is not None:
        check_calendars(caller, plan.rule)
    if any(name in plan.options for name in _WITH_KEY):
        plan.options["dedupe_namespace"] = namespace_of(scope, queue, plan.name)
    return plan


def check_calendars(caller: Caller, rule: Rule, before: Rule | None = None) -> None:
    """Refuse a calendar out of the caller's reach with the same error as a missing one. `before` is the changed rule:
    calendars that it already refers to may stay."""
    for name in rule.calendars:
        if not has_name(caller.scope, name) and (before is None or name not in before.calendars):
            raise CalendarNotFound(name)


async def store_plan(caller: Caller, plan: Plan, job_id: str) -> Job | Schedule:
    """Store the job or the schedule of a plan. A second call with the same id stores no second one."""
    check_plan(caller, plan)
    await check_secrets(caller, plan.name, plan.queue or DEFAULT_QUEUE, plan.data)
    await check_data(caller, plan.name, plan.data, plan.options.get("version"))
    with refusing():
        if plan.rule is None:
            return await _schedule_job(caller, plan, job_id)
        return await put_schedule(caller, plan, job_id)


async def _schedule_job(caller: Caller, plan: Plan, job_id: str) -> Job:
    asked = plan.named(job_id)
    job: Job = await caller.scheduler.schedule(**asked)
    check_holder(caller, asked, job)
    return job


def check_holder(caller: Caller, item: Mapping[str, Any], job: Job) -> None:
    """Refuse a dedupe key that belongs to a job of another name, in another queue, or moved out of the caller's reach.
    An answer with that job would claim that the requested job exists."""
    if not job.deduplicated or job.id == item.get("job_id"):
        return
    same = job.name == item["name"] and item.get("queue") in (None, job.queue)
    if not same or not caller.scope.allows(job.queue, job.name):
        raise Problem(
            409, "This dedupeKey is held by a job of another name or queue; choose another.", field="dedupeKey"
        )


async def put_schedule(caller: Caller, plan: Plan, job_id: str, flow: FlowBuilder | None = None) -> Schedule:
    """Store the schedule of a plan, which makes jobs, or starts this flow."""
    scheduler, rule = caller.scheduler, plan.rule
    assert rule is not None
    if plan.schedule_id is not None:
        await _check_id(caller, plan, plan.schedule_id)
    identity = plan.schedule_id or job_id
    data = plan.data if flow is None else None  # a flow has its own
    schedule = await scheduler.schedule(
        flow or plan.name, data, repeat=rule, schedule_id=identity, paused=plan.paused, **plan.options
    )
    if plan.paused and schedule.paused is None:  # it existed already
        return await scheduler.schedules.pause(schedule.id, actor=caller.actor)
    return schedule


async def _check_id(caller: Caller, plan: Plan, schedule_id: str) -> None:
    """Refuse an id that a key with a scope may not choose: one outside of its namespace that none of its own schedules
    has. The answer is the same whether or not a schedule out of its reach has the id."""
    if await _exists(caller, schedule_id, caller.scope):
        return
    namespace = namespace_of(caller.scope, plan.queue or DEFAULT_QUEUE, plan.name)
    if namespace is None:
        return
    if not is_named_in(namespace, schedule_id):
        raise Problem(
            422,
            f"Ids that this key chooses begin with {namespace!r} here and have no other colon, such as "
            f"{namespace}nightly; or leave the id out.",
            field="id",
        )
    if await _exists(caller, schedule_id, EVERYTHING):  # only a caller without a scope can have stored it
        raise Problem(409, "This id is in use; choose another.", field="id")


async def _exists(caller: Caller, schedule_id: str, scope: Scope) -> bool:
    try:
        await caller.scheduler.schedules.get(schedule_id, scope=scope)
    except ScheduleNotFound:
        return False
    return True
