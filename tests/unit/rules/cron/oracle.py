"""What cron means, written as plainly as possible and apart from the implementation: sets, loops and calendars.

`Meaning` reads an expression by splitting text and matches a wall time field by field. `Window` steps through the real
minutes around an instant and notes what the clock on the wall shows at each; `firings` then applies the policy in plain
words. Nothing here is fast, and nothing here is shared with `mainspring.rules.cron`.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

MINUTE = timedelta(minutes=1)
MONTH_NAMES = {name.upper(): number for number, name in enumerate(calendar.month_abbr) if name}
DAY_NAMES = {"SUN": 0, "MON": 1, "TUE": 2, "WED": 3, "THU": 4, "FRI": 5, "SAT": 6}
Change = tuple[str, datetime, timedelta, timedelta]
"""A zone, the instant of a change, and the offsets before and after."""


def expand(text: str, low: int, high: int, names: dict[str, int]) -> set[int]:
    """The values of a field, found by walking from value to value; a Sunday is 0 whether it is written as 0 or 7."""
    found: set[int] = set()
    for item in text.split(","):
        reach, _, step = item.partition("/")
        first, _, last = reach.partition("-")
        if reach in ("*", "?"):
            start, end = low, high
        else:
            start = names.get(first) if first in names else int(first)  # type: ignore[assignment]
            end = names[last] if last in names else int(last) if last else start
            if step and not last:
                end = 7 if names is DAY_NAMES else high
        everything = (start, end) == (0, 7)
        if names is DAY_NAMES:
            start, end = start % 7, end % 7
        walk = [start]
        while (walk[-1] != end or (everything and len(walk) == 1)) and len(walk) < 100:
            walk.append(low if walk[-1] == high else walk[-1] + 1)
        found.update(walk[:: int(step) if step else 1])
    return found


class Meaning:
    """An expression with five or six fields, without H and macros."""

    def __init__(self, expression: str) -> None:
        fields = expression.upper().split()
        if len(fields) == 5:
            fields.insert(0, "0")
        self.fields = fields
        self.seconds = expand(fields[0], 0, 59, {})
        self.minutes = expand(fields[1], 0, 59, {})
        self.hours = expand(fields[2], 0, 23, {})
        self.months = expand(fields[4], 1, 12, MONTH_NAMES)
        self.real_time = any(field.startswith("*") for field in fields[:3])
        self.days: dict[date, bool] = {}

    def matches_minute(self, wall: datetime) -> bool:
        return wall.minute in self.minutes and wall.hour in self.hours and self.matches_day(wall.date())

    def matches_day(self, day: date) -> bool:
        if day not in self.days:
            self.days[day] = day.month in self.months and self._day(day)
        return self.days[day]

    def _day(self, day: date) -> bool:
        by_date = any(_date_matches(item, day) for item in self.fields[3].split(","))
        by_weekday = any(_weekday_matches(item, day) for item in self.fields[5].split(","))
        if self.fields[3][0] in "*?" or self.fields[5][0] in "*?":
            return by_date and by_weekday
        return by_date or by_weekday


def _date_matches(item: str, day: date) -> bool:
    month = [date(day.year, day.month, n + 1) for n in range(calendar.monthrange(day.year, day.month)[1])]
    workdays = [one for one in month if one.weekday() < 5]
    if item == "LW":
        return day == workdays[-1]
    if item.startswith("L"):
        return day == month[-1] - timedelta(days=int(item[2:] or 0))
    if item.endswith("W"):
        wanted = int(item[:-1])
        return wanted <= len(month) and day == min(workdays, key=lambda one: abs(one.day - wanted))
    return day.day in expand(item, 1, 31, {})


def _weekday_matches(item: str, day: date) -> bool:
    weekday = (day.weekday() + 1) % 7
    if "#" in item:
        name, _, number = item.partition("#")
        return weekday in expand(name, 0, 6, DAY_NAMES) and (day.day - 1) // 7 + 1 == int(number)
    if item == "L":
        return weekday == 6
    if item.endswith("L"):
        return weekday in expand(item[:-1], 0, 6, DAY_NAMES) and (day + timedelta(days=7)).month != day.month
    return weekday in expand(item, 0, 6, DAY_NAMES)


class Window:
    """The real minutes around an instant, and what the clock on the wall shows at each of them."""

    def __init__(self, zone: str, middle: datetime, hours: float) -> None:
        info = ZoneInfo(zone)
        self.zone = zone
        self.middle = middle
        self.start, self.end = middle - timedelta(hours=hours / 2), middle + timedelta(hours=hours / 2)
        self.minutes: list[tuple[datetime, datetime]] = []
        moment = middle - timedelta(hours=hours)
        while moment < middle + timedelta(hours=hours):
            self.minutes.append((moment, moment.astimezone(info).replace(tzinfo=None, fold=0)))
            moment += MINUTE
        self.instants: dict[datetime, list[datetime]] = {}
        for moment, wall in self.minutes:
            self.instants.setdefault(wall, []).append(moment)
        first, last = min(self.instants), max(self.instants)
        self.walls = [first + number * MINUTE for number in range((last - first) // MINUTE + 1)]

    def firings(self, meaning: Meaning, gap: str, fold: str) -> list[datetime]:
        """What fires within the inner half of the window, in UTC."""
        found = set(self._real(meaning) if meaning.real_time else self._by_policy(meaning, gap, fold))
        return sorted(moment for moment in found if self.start <= moment < self.end)

    def _real(self, meaning: Meaning) -> Iterator[datetime]:
        """Whenever the clock on the wall matches."""
        for moment, wall in self.minutes:
            if meaning.matches_minute(wall):
                yield from (moment + timedelta(seconds=second) for second in meaning.seconds)

    def _by_policy(self, meaning: Meaning, gap: str, fold: str) -> Iterator[datetime]:
        """Each wall time that matches: where it is, where it is twice, and where it is not."""
        for wall in self.walls:
            if meaning.matches_minute(wall):
                real = self.instants.get(wall, [])
                if not real and gap == "after":
                    yield next(moment for moment, shown in self.minutes if shown > wall)
                chosen = {"first": real[:1], "last": real[-1:], "both": real}[fold]
                for moment in chosen:
                    yield from (moment + timedelta(seconds=second) for second in meaning.seconds)


@lru_cache(maxsize=1)
def changes() -> list[Change]:
    """Every change of an offset from 2020 to 2037, in all zones that have any; of zones that are alike, one."""
    known: dict[tuple[tuple[datetime, timedelta, timedelta], ...], str] = {}
    for zone in sorted(available_timezones()):
        found = tuple(_changes(ZoneInfo(zone)))
        if found:
            known.setdefault(found, zone)
    return [(zone, *change) for found, zone in known.items() for change in found]


def _changes(zone: ZoneInfo) -> Iterator[tuple[datetime, timedelta, timedelta]]:
    moment, end = datetime(2020, 1, 1, tzinfo=UTC), datetime(2038, 1, 1, tzinfo=UTC)
    before = _offset(zone, moment)
    while moment < end:
        later = moment + timedelta(days=7)
        after = _offset(zone, later)
        if after != before:
            yield _first_minute(zone, moment, later, before), before, after
        moment, before = later, after


def _first_minute(zone: ZoneInfo, low: datetime, high: datetime, before: timedelta) -> datetime:
    """The first minute with another offset; at `high` the offset has changed, and it changes once from `low` on."""
    while high - low > MINUTE:
        middle = low + (high - low) // (2 * MINUTE) * MINUTE
        low, high = (middle, high) if _offset(zone, middle) == before else (low, middle)
    return high


def _offset(zone: ZoneInfo, moment: datetime) -> timedelta:
    offset = moment.astimezone(zone).utcoffset()
    assert offset is not None
    return offset
