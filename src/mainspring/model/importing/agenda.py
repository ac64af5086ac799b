"""Agenda's jobs (the collection agendaJobs), for versions 4 to 6. Pure.

A document with `repeatInterval` or `repeatAt` is a schedule; any other is a single job, which has finished where
`nextRunAt` is null.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mainspring.errors import ConfigurationError
from mainspring.model.fields import Fields
from mainspring.model.importing.intervals import read_interval
from mainspring.model.importing.plan import CannotImport, Choices, LeftOut, Planned, instant, plan_job, plan_schedule
from mainspring.rules.cron import Cron
from mainspring.rules.every import Every
from mainspring.rules.rule import Rule

COLLECTION = "agendaJobs"
_AT = re.compile(r"(?:at )?(\d{1,2})(?::(\d{2}))?\s*(am|pm)?", re.IGNORECASE)
_LOCAL = "Agenda uses the zone of its own machine where repeatTimezone is missing; here it is {}."


def read_agenda(document: Mapping[str, Any], choices: Choices) -> Planned:
    """The job or schedule of a document."""
    source_id, name = str(document.get("_id")), str(document.get("name"))
    try:
        return _read(source_id, name, document, choices)
    except (CannotImport, ConfigurationError) as error:
        return LeftOut(source_id, name, "refused", str(error))


def _read(source_id: str, name: str, document: Mapping[str, Any], choices: Choices) -> Planned:
    disabled = document.get("disabled") is True
    options: Fields = {"priority": _priority(document.get("priority"))}
    notes = ["It runs there now: stop Agenda before you apply."] if document.get("lockedAt") is not None else []
    data = document.get("data")
    repeats = document.get("repeatInterval") or document.get("repeatAt")
    if not repeats:
        if document.get("nextRunAt") is None:
            return LeftOut(source_id, name, "finished", "It has run, and is not to run again.")
        if disabled:
            raise CannotImport("It is disabled there; enable it, or leave it.")
        run_at = instant(document["nextRunAt"], "nextRunAt")
        return plan_job(source_id, name, data, choices, {**options, "run_at": run_at}, notes)
    rule, more = _rule(document, choices)
    if document.get("skipDays"):
        raise CannotImport("It has skipDays; make the schedule by hand, with a calendar (docs/howto/calendars.md).")
    for field, option in (("startDate", "start_at"), ("endDate", "end_at")):
        if document.get(field) is not None:
            options[option] = instant(document[field], field)
    given = {**options, "overlap": "skip", "paused": disabled or None}
    return plan_schedule(source_id, name, data, rule, choices, given, [*notes, *more])


def _rule(document: Mapping[str, Any], choices: Choices) -> tuple[Rule, list[str]]:
    zone = document.get("repeatTimezone")
    notes = [] if zone else [_LOCAL.format(choices.timezone)]
    zone = str(zone or choices.timezone)
    interval = document.get("repeatInterval")
    if not interval:
        return _daily(str(document["repeatAt"]), zone), notes
    if document.get("repeatAt"):
        raise CannotImport("It has both repeatInterval and repeatAt; Mainspring cannot tell which one counts.")
    length = read_interval(interval)
    if length is None:
        return Cron(str(interval), zone), notes
    anchor = document.get("nextRunAt") or document.get("lastRunAt")
    return Every(length, anchor=None if anchor is None else instant(anchor, "nextRunAt")), []


def _daily(text: str, zone: str) -> Rule:
    match = _AT.fullmatch(text.strip())
    if match is None:
        raise CannotImport(f"Its repeatAt {text!r:.60} is no time of day such as 3:30pm.")
    hour, minute, half = int(match[1]), int(match[2] or 0), (match[3] or "").lower()
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    return Cron(f"{minute} {hour} * * *", zone)


def _priority(value: Any) -> int | None:
    """Agenda's 20 (highest) to -20 (lowest) as 1 to 9; 0 is 5."""
    words = {"highest": 20, "high": 10, "normal": 0, "low": -10, "lowest": -20}
    number = words.get(value, 0) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return min(10, max(1, round(5 - number / 5)))
