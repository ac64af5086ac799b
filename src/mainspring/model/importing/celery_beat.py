"""Periodic tasks of django-celery-beat, from the JSON of `manage.py dumpdata django_celery_beat`. Pure.

Intervals, crontabs and clocked times are translated; solar events are refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from mainspring.errors import ConfigurationError
from mainspring.model.fields import Fields
from mainspring.model.importing.plan import (
    CannotImport,
    Choices,
    LeftOut,
    Planned,
    named_arguments,
    plan_job,
    plan_schedule,
)
from mainspring.rules.cron import Cron
from mainspring.rules.every import Every
from mainspring.rules.rule import Rule

_APP = "django_celery_beat."
_PERIODS = {"days": 86_400.0, "hours": 3600.0, "minutes": 60.0, "seconds": 1.0, "microseconds": 1e-6}
Rows = Mapping[str, Mapping[Any, Mapping[str, Any]]]


def read_dump(text: str, choices: Choices) -> Iterator[Planned]:
    """The jobs and schedules of a dump."""
    rows = _rows(text)
    for key, task in rows.get("periodictask", {}).items():
        source_id = str(task.get("name") or key)
        name = str(task.get("task"))
        try:
            planned = _read(source_id, name, task, rows, choices)
        except (CannotImport, ConfigurationError) as error:
            planned = LeftOut(source_id, name, "refused", str(error))
        if name != "celery.backend_cleanup":
            yield planned


def _rows(text: str) -> Rows:
    try:
        found = json.loads(text)
        tables: dict[str, dict[Any, Mapping[str, Any]]] = {}
        for row in found:
            if row["model"].startswith(_APP):
                tables.setdefault(row["model"].removeprefix(_APP).lower(), {})[row["pk"]] = row["fields"]
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ConfigurationError(
            "The file is no dump of django-celery-beat; make one with: manage.py dumpdata django_celery_beat"
        ) from None
    if "periodictask" not in tables:
        raise ConfigurationError("The dump has no periodic tasks: manage.py dumpdata django_celery_beat")
    return tables


def _read(source_id: str, name: str, task: Mapping[str, Any], rows: Rows, choices: Choices) -> Planned:
    args, kwargs = _json(task, "args", "[]", list), _json(task, "kwargs", "{}", dict)
    data = named_arguments(name, args, kwargs, choices)
    notes = [] if _json(task, "headers", "{}", dict) == {} else ["Its headers are left out."]
    if task.get("priority") is not None:
        notes.append("Its priority is left out: its meaning depends on Celery's broker.")
    options: Fields = {"queue": task.get("queue") or None, "start_within": task.get("expire_seconds")}
    enabled = task.get("enabled", True) is True
    clocked = _row(rows, "clockedschedule", task.get("clocked"))
    if clocked is not None:
        if not enabled:
            return LeftOut(source_id, name, "finished", "It has run, or is disabled.")
        return plan_job(source_id, name, data, choices, {**options, "run_at": _instant(clocked["clocked_time"])}, notes)
    rule = _rule(task, rows, choices)
    options |= {
        "start_at": None if task.get("start_time") is None else _instant(task["start_time"]),
        "end_at": None if task.get("expires") is None else _instant(task["expires"]),
        "max_runs": 1 if task.get("one_off") is True else None,
        "paused": None if enabled else True,
    }
    return plan_schedule(source_id, name, data, rule, choices, options, notes)


def _rule(task: Mapping[str, Any], rows: Rows, choices: Choices) -> Rule:
    interval = _row(rows, "intervalschedule", task.get("interval"))
    if interval is not None:
        seconds = float(interval["every"]) * _PERIODS[str(interval["period"])]
        anchor = task.get("last_run_at") or task.get("start_time")
        return Every(timedelta(seconds=seconds), anchor=None if anchor is None else _instant(anchor))
    crontab = _row(rows, "crontabschedule", task.get("crontab"))
    if crontab is None:
        raise CannotImport("It has no interval, crontab or clocked time; solar events have no equal here.")
    day, weekday = str(crontab.get("day_of_month", "*")), str(crontab.get("day_of_week", "*"))
    if not day.startswith("*") and not weekday.startswith("*"):
        raise CannotImport(
            "Both its day_of_month and its day_of_week must match in Celery; in a cron expression either is enough. "
            "Make the schedule by hand."
        )
    fields = [crontab.get("minute", "*"), crontab.get("hour", "*"), day, crontab.get("month_of_year", "*"), weekday]
    expression = " ".join("".join(str(field).split()) for field in fields)
    return Cron(expression, str(crontab.get("timezone") or choices.timezone))


def _row(rows: Rows, table: str, key: Any) -> Mapping[str, Any] | None:
    if key is None:
        return None
    found = rows.get(table, {}).get(key)
    if found is None:
        raise CannotImport(f"The dump lacks its row {key!r} of {table}; dump the whole app django_celery_beat.")
    return found


def _json(task: Mapping[str, Any], key: str, usual: str, kind: type) -> Any:
    try:
        value = json.loads(task.get(key) or usual)
    except (ValueError, TypeError):
        raise CannotImport(f"Its {key} is no valid JSON.") from None
    if not isinstance(value, kind):
        raise CannotImport(f"Its {key} is no {'list' if kind is list else 'object'} in JSON.")
    return value


def _instant(text: Any) -> datetime:
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        raise CannotImport(f"{text!r:.60} is no time.") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
