"""A recurrence rule as a value: its parts, how a start completes them, and its text in one fixed form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from mainspring.rules import english

FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
YEARLY, MONTHLY, WEEKLY, DAILY, HOURLY, MINUTELY, SECONDLY = range(7)
WEEKDAYS = tuple(name[:2].upper() for name in english.WEEKDAYS)

Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Pattern:
    """The parts of a rule. Lists are sorted and have no duplicates; an empty list was not given."""

    freq: int
    interval: int = 1
    count: int | None = None
    until: str | None = None
    week_start: int = 0
    """Monday is 0."""
    months: Numbers = ()
    week_numbers: Numbers = ()
    year_days: Numbers = ()
    month_days: Numbers = ()
    weekdays: tuple[tuple[int, int], ...] = ()
    """Pairs of an ordinal and a weekday: (-1, 4) is the last Friday, (0, 4) every Friday."""
    hours: Numbers = ()
    minutes: Numbers = ()
    seconds: Numbers = ()
    positions: Numbers = ()

    @property
    def follows_real_time(self) -> bool:
        """Whether it counts hours, minutes or seconds of real time, not of wall time."""
        return self.freq >= HOURLY

    def completed(self, start: datetime) -> Pattern:
        """The rule with the parts that it left open taken from the wall time of its start."""
        pattern = self
        if self.freq < HOURLY and not self.hours:
            pattern = replace(pattern, hours=(start.hour,))
        if self.freq < MINUTELY and not self.minutes:
            pattern = replace(pattern, minutes=(start.minute,))
        if self.freq < SECONDLY and not self.seconds:
            pattern = replace(pattern, seconds=(start.second,))
        return pattern._with_days(start)

    def _with_days(self, start: datetime) -> Pattern:
        if self.freq > WEEKLY or self.weekdays or self.month_days or self.year_days:
            return self
        if self.freq == WEEKLY or self.week_numbers:
            return replace(self, weekdays=((0, start.weekday()),))
        months = self.months or ((start.month,) if self.freq == YEARLY else ())
        return replace(self, months=months, month_days=(start.day,))

    def endless(self) -> Pattern:
        """The rule without the parts that depend on its start: each period, without an end."""
        return replace(self, interval=1, count=None, until=None)

    def text(self) -> str:
        """The rule as RFC 5545 writes it, always in the same order."""
        days = ",".join(f"{nth or ''}{WEEKDAYS[day]}" for nth, day in self.weekdays)
        parts = {
            "FREQ": FREQUENCIES[self.freq],
            "INTERVAL": str(self.interval) if self.interval != 1 else "",
            "COUNT": str(self.count or ""),
            "UNTIL": self.until or "",
            "WKST": WEEKDAYS[self.week_start] if self.week_start else "",
            "BYMONTH": _joined(self.months),
            "BYWEEKNO": _joined(self.week_numbers),
            "BYYEARDAY": _joined(self.year_days),
            "BYMONTHDAY": _joined(self.month_days),
            "BYDAY": days,
            "BYHOUR": _joined(self.hours),
            "BYMINUTE": _joined(self.minutes),
            "BYSECOND": _joined(self.seconds),
            "BYSETPOS": _joined(self.positions),
        }
        return ";".join(f"{name}={value}" for name, value in parts.items() if value)


def _joined(numbers: Numbers) -> str:
    return ",".join(map(str, numbers))
