"""Rules of schedules on the wire: read from `schedule`, `every` or `repeat`, and shown as these."""

from __future__ import annotations

from datetime import timedelta

from mainspring.api.problems import Problem
from mainspring.api.wire.job_requests import Repeat, Times
from mainspring.rules import At, Every, Except, RRule, Rule
from mainspring.rules.cron import Cron

_CHOICES = ("schedule", "every", "repeat")


def rule_of(times: Times, default_zone: str, before: Rule | None = None) -> Rule | None:
    """The requested rule, or None. A time zone alone changes the zone of the rule `before`."""
    given = [name for name in _CHOICES if getattr(times, name) is not None]
    if len(given) > 1:
        raise Problem(422, f"Give one of schedule, every and repeat, not {' and '.join(given)}.", field=given[1])
    if not given:
        return _in_zone(before, times.timezone)
    if times.repeat is not None and times.repeat.timezone is not None and times.timezone is not None:
        raise Problem(422, "Give the time zone once.", field="timezone")
    zone = times.timezone or (times.repeat.timezone if times.repeat is not None else None)
    spelled_out = times.repeat or Repeat.model_validate({"cron": times.schedule, "every": times.every})
    rule = _bare(spelled_out, zone, zone or _zone_of(before) or default_zone)
    return Except(rule, *spelled_out.calendars) if spelled_out.calendars else rule


def _bare(repeat: Repeat, asked: str | None, zone: str) -> Rule:
    if repeat.cron is not None:
        return Cron(repeat.cron, zone)
    if repeat.rrule is not None:
        return RRule(repeat.rrule, zone)
    if asked is not None:
        raise Problem(422, "Fixed intervals and instants have no time zone; leave it out.", field="timezone")
    every = repeat.every
    if every is not None:
        period = every if isinstance(every, str) else timedelta(milliseconds=every)
        return Every(period, after=repeat.after or "start")
    return At(repeat.at or ())


def rule_field(times: Times) -> str | None:
    """The field that has the rule, for errors about it."""
    return next((name for name in _CHOICES if getattr(times, name) is not None), None)


def _in_zone(before: Rule | None, zone: str | None) -> Rule | None:
    if before is None or zone is None:
        return None
    if isinstance(before, Cron):
        return Cron(before.expression, zone, gap=before.gap, fold=before.fold)
    if isinstance(before, RRule):
        return RRule(before.text, zone, start=before.start, gap=before.gap, fold=before.fold)
    raise Problem(422, "A fixed interval has no time zone; leave it out.", field="timezone")


def _zone_of(rule: Rule | None) -> str | None:
    return rule.timezone if isinstance(rule, Cron | RRule) else None


def cron_text(rule: Rule) -> str | None:
    """The rule's cron expression, if it is one."""
    return rule.expression if isinstance(rule, Cron) else None


def period_ms(rule: Rule) -> int | None:
    """The rule's interval in milliseconds, if it is one."""
    return rule.period // timedelta(milliseconds=1) if isinstance(rule, Every) else None


def zone_text(rule: Rule) -> str | None:
    """The rule's time zone, if it has one."""
    return _zone_of(rule)
