"""Jobs of APScheduler 3 (MongoDBJobStore): documents with a pickled `job_state`. Pure.

The state is read by `model/importing/pickled.py`, which runs nothing of it. Triggers of the kinds date, interval, cron
and or are translated; the name of the job is the reference of its function, such as `shop.tasks:send`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from mainspring.errors import ConfigurationError
from mainspring.model.fields import Fields
from mainspring.model.importing.apscheduler_cron import read_cron
from mainspring.model.importing.pickled import Recorded, plain, recorded, unpickled
from mainspring.model.importing.plan import (
    CannotImport,
    Choices,
    LeftOut,
    Planned,
    instant,
    named_arguments,
    plan_job,
    plan_schedule,
)
from mainspring.rules.any_of import AnyOf
from mainspring.rules.every import Every
from mainspring.rules.rule import Rule

COLLECTION = "jobs"
_TRIGGERS = "apscheduler.triggers."


def read_apscheduler(document: Mapping[str, Any], choices: Choices) -> Planned:
    """The job or schedule of a document."""
    source_id = str(document.get("_id"))
    name = source_id
    try:
        state = unpickled(bytes(document["job_state"]))
        if not isinstance(state, Mapping) or not isinstance(state.get("func"), str):
            raise CannotImport("Its job_state is not that of APScheduler 3.")
        name = state["func"]
        return _read(source_id, name, state, choices)
    except KeyError:
        return LeftOut(source_id, name, "refused", "It has no job_state; is this the collection of a MongoDBJobStore?")
    except (CannotImport, ConfigurationError, TypeError, AttributeError) as error:
        return LeftOut(source_id, name, "refused", str(error))


def _read(source_id: str, name: str, state: Mapping[str, Any], choices: Choices) -> Planned:
    data = plain(named_arguments(name, list(state.get("args") or ()), dict(state.get("kwargs") or {}), choices))
    trigger = state.get("trigger")
    if not isinstance(trigger, Recorded):
        raise CannotImport("It has no trigger.")
    paused = state.get("next_run_time") is None
    fields = trigger.fields
    if trigger.place == f"{_TRIGGERS}date.DateTrigger":
        if paused:
            raise CannotImport("It is paused there; resume it, or leave it.")
        run_at = instant(fields.get("run_date"), "run_date")
        return plan_job(source_id, name, data, choices, {"run_at": run_at, "start_within": _grace(state)})
    rule = _rule(trigger, choices)
    options = {
        "start_at": _maybe(fields, "start_date", unless=isinstance(rule, Every)),
        "end_at": _maybe(fields, "end_date"),
        "jitter": fields.get("jitter") or None,
        "overlap": "skip" if state.get("max_instances", 1) == 1 else "allow",
        "paused": paused or None,
        **_misfires(state),
    }
    most = state.get("max_instances", 1)
    notes = (
        ()
        if most == 1
        else (f"max_instances={most} is a limit of the handler here: @scheduler.job(concurrency={most}).",)
    )
    return plan_schedule(source_id, name, data, rule, choices, options, notes)


def _rule(trigger: Recorded, choices: Choices) -> Rule:
    kind, fields = trigger.place.removeprefix(_TRIGGERS), trigger.fields
    if kind == "interval.IntervalTrigger":
        length = fields.get("interval")
        if not isinstance(length, timedelta):
            raise CannotImport("Its interval is no length of time.")
        return Every(length, anchor=_maybe(fields, "start_date"))
    if kind in ("cron.CronTrigger", "cron.__init__.CronTrigger"):
        return read_cron(fields, choices.timezone)
    if kind == "combining.OrTrigger":
        return AnyOf(*(_rule(_part(one), choices) for one in fields.get("triggers", ())))
    raise CannotImport(f"Its trigger {kind.rpartition('.')[2]!r} has no equal here; make the schedule by hand.")


def _part(one: Any) -> Recorded:
    """A trigger of a combination, which is kept as a reference to its class, and its state."""
    reference, state = one
    if not isinstance(reference, str):
        raise CannotImport("A trigger of its combination cannot be read.")
    return recorded(reference.replace(":", "."), state)


def _misfires(state: Mapping[str, Any]) -> Fields:
    """Firings within the grace time get their jobs; older ones none, or with no grace time one or all of them."""
    if (grace := _grace(state)) is not None:
        return {"misfire": "skip", "misfire_grace": max(1.0, grace)}
    return {"misfire": "latest" if state.get("coalesce", True) else "all"}


def _grace(state: Mapping[str, Any]) -> float | None:
    grace = state.get("misfire_grace_time")
    return float(grace) if isinstance(grace, int | float) and grace > 0 else None


def _maybe(fields: Mapping[str, Any], key: str, *, unless: bool = False) -> datetime | None:
    value = fields.get(key)
    return None if value is None or unless else instant(value, key).astimezone(UTC)
