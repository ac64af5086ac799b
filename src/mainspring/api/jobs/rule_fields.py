"""Rules of schedules on the wire: read from `schedule`, `every` or `repeat`, and shown as these."""

from __future__ import annotations

from datetime import timedelta

from mainspring.api.problems import Problem
from mainspring.api.wire.job_requests import OneRule, Repeat, Times
from mainspring.rules import AnyOf, At, Every, Except, RRule, Rule
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
    usual = zone or _zone_of(before) or default_zone
    if spelled_out.any is not None:
        parts = AnyOf(*(_rule(one, one.timezone or usual) for one in spelled_out.any))
        return _with_calendars(spelled_out, parts, zone)
    if zone is not None and spelled_out.cron is None and spelled_out.rrule is None:
        raise Problem(422, "Fixed intervals and instants have no time zone; leave it out.", field="timezone")
    return _rule(spelled_out, usual)


def _rule(one: OneRule, zone: str) -> Rule:
    return _with_calendars(one, _bare(one, zone))


def _with_calendars(one: OneRule, rule: Rule, zone: str | None = None) -> Rule:
    """The rule without the days of calendars; in the zone whose days count, where its parts have several."""
    return Except(rule, *one.calendars, then=one.then or "skip", timezone=zone) if one.calendars else rule


def _bare(one: OneRule, zone: str) -> Rule:
    gap, fold = one.gap or "after", one.fold or "first"
    if one.cron is not None:
        return Cron(one.cron, zone, gap=gap, fold=fold)
    if one.rrule is not None:
        return RRule(one.rrule, zone, start=one.start, gap=gap, fold=fold)
    if one.every is not None:
        period = one.every if isinstance(one.every, str) else timedelta(milliseconds=one.every)
        return Every(period, anchor=one.anchor, after=one.after or "start")
    return At(one.at or ())


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
    if isinstance(before, AnyOf | Except):
        raise Problem(422, "This rule has parts; give it again, as repeat, with its time zones.", field="timezone")
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
