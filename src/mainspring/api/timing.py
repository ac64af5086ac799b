"""Rules of schedules on the wire: read from `schedule`, `every` or `repeat`, and shown as these."""

from __future__ import annotations

from datetime import timedelta

from mainspring.api.problems import Problem
from mainspring.api.wire.resources import Times
from mainspring.cron import Cron
from mainspring.model.rules import Every, RRule, Rule

_CHOICES = ("schedule", "every", "repeat")


def rule_of(times: Times, default_zone: str, before: Rule | None = None) -> Rule | None:
    """The rule that is asked for; None where none is. A time zone alone changes the one of the rule before."""
    given = [name for name in _CHOICES if getattr(times, name) is not None]
    if len(given) > 1:
        raise Problem(422, f"Give one of schedule, every and repeat, not {' and '.join(given)}.", field=given[1])
    if not given:
        return _in_zone(before, times.timezone)
    if times.repeat is not None and times.repeat.timezone is not None and times.timezone is not None:
        raise Problem(422, "Give the time zone once.", field="timezone")
    zone = times.timezone or (times.repeat.timezone if times.repeat is not None else None)
    cron, every, rrule = times.schedule, times.every, None
    if times.repeat is not None:
        cron, every, rrule = times.repeat.cron, times.repeat.every, times.repeat.rrule
    if cron is not None:
        return Cron(cron, zone or _zone_of(before) or default_zone)
    if rrule is not None:
        return RRule(rrule, zone or _zone_of(before) or default_zone)
    if zone is not None:
        raise Problem(422, "A fixed interval has no time zone; leave it out.", field="timezone")
    assert every is not None
    return Every(every if isinstance(every, str) else timedelta(milliseconds=every))


def rule_field(times: Times) -> str | None:
    """Where the rule is given, for what is wrong with it."""
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
