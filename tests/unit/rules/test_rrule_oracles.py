"""RRule against python-dateutil, which walks from the start, and against plain definitions on nights of change."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from dateutil.rrule import rrulestr
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from harness.fuzzing import examples
from mainspring import InvalidSchedule, RRule
from mainspring.rules.rrule.parse import parse
from mainspring.rules.zones.zone import instants
from unit.rules.agreement import check
from unit.rules.writing import texts

WALL = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY")
FLOWING = ("HOURLY", "MINUTELY", "SECONDLY")
starts = st.datetimes(datetime(1990, 1, 1), datetime(2040, 12, 31)).map(lambda at: at.replace(microsecond=0))
slow = examples(30, 1_000)

# Zones and days on which their clocks change, by an hour or less, forward and back, at night and at midnight.
NIGHTS = [
    ("Europe/Berlin", datetime(2026, 3, 29)),
    ("Europe/Berlin", datetime(2026, 10, 25)),
    ("America/New_York", datetime(2026, 3, 8)),
    ("America/New_York", datetime(2026, 11, 1)),
    ("Australia/Lord_Howe", datetime(2026, 4, 5)),
    ("Australia/Lord_Howe", datetime(2026, 10, 4)),
    ("Africa/Cairo", datetime(2026, 4, 24)),
    ("Africa/Cairo", datetime(2026, 10, 30)),
    ("Asia/Kolkata", datetime(2026, 3, 29)),
]


def make(text: str, zone: str, start: datetime, **policy: str) -> RRule:
    """A rule; one that never fires is not of interest here."""
    start = start if start.tzinfo else start.replace(tzinfo=ZoneInfo(zone))
    try:
        return RRule(text, zone, start=start, **policy)  # type: ignore[arg-type]
    except InvalidSchedule as error:
        assume("never fires" not in str(error))
        raise


def walked(text: str, start: datetime, end: datetime, rule: RRule) -> Iterator[datetime]:
    """What dateutil finds before `end`; not asked for more when nothing comes for long, since it would walk there."""
    following = rule.next(end.replace(tzinfo=UTC))
    assume(following is not None and following.year < end.year + 40)
    return _until(iter(rrulestr(text, dtstart=start)), end)


def _until(found: Iterator[datetime], end: datetime) -> Iterator[datetime]:
    for at in found:
        if at >= end:
            return
        yield at


@slow
@given(texts(WALL), starts, st.integers(20, 5000))
@example("FREQ=YEARLY;BYDAY=20MO", datetime(1997, 5, 19, 9), 2000)
@example("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2", datetime(1997, 9, 29, 9), 400)
@example("FREQ=MONTHLY;INTERVAL=18;BYMONTHDAY=10,11,12,13,14,15", datetime(1997, 9, 10, 9), 3000)
@example("FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8", datetime(1996, 11, 5, 9), 5000)
@example("FREQ=MONTHLY", datetime(2024, 1, 31), 800)
@example("FREQ=YEARLY", datetime(2024, 2, 29), 5000)
def test_days_and_coarser_are_as_dateutil_walks_them(text: str, start: datetime, days: int) -> None:
    rule = make(text, "UTC", start)
    expected = list(islice(walked(text, start, start + timedelta(days=days), rule), 300))
    found = rule.between(start.replace(tzinfo=UTC), (start + timedelta(days=days)).replace(tzinfo=UTC))
    assert [at.replace(tzinfo=None) for at in islice(found, 300)] == expected


@slow
@given(texts(FLOWING), starts, st.integers(1, 300))
def test_hours_minutes_and_seconds_are_as_dateutil_walks_them(text: str, start: datetime, hours: int) -> None:
    rule = make(text, "UTC", start)
    end = start + timedelta(hours=hours)
    following = rule.next(end.replace(tzinfo=UTC))
    assume(following is not None and following.year < end.year + 2)
    try:
        expected = list(islice(_until(iter(rrulestr(text, dtstart=start)), end), 300))
    except ValueError:  # "empty rule": where dateutil does not look far enough
        return
    found = rule.between(start.replace(tzinfo=UTC), end.replace(tzinfo=UTC))
    assert [at.replace(tzinfo=None) for at in islice(found, 300)] == expected


@slow
@given(texts((*WALL, *FLOWING)), starts, st.sampled_from(NIGHTS), st.integers(0, 900))
def test_next_previous_between_and_count_agree(
    text: str, start: datetime, night: tuple[str, datetime], days: int
) -> None:
    rule = make(text, night[0], start)
    begin = start.replace(tzinfo=UTC) + timedelta(days=days, microseconds=days)
    end = begin + timedelta(days=400)
    thousandth = next(islice(rule.between(begin, end), 100, None), end)
    check(rule, begin, thousandth)


@slow
@given(
    texts(("DAILY", "WEEKLY", "MONTHLY")),
    st.sampled_from(NIGHTS),
    st.integers(0, 60),
    st.integers(0, 2880),
    st.sampled_from(("after", "skip")),
    st.sampled_from(("first", "last", "both")),
)
@example("FREQ=DAILY;BYHOUR=2;BYMINUTE=0,30", NIGHTS[0], 3, 0, "after", "both")
@example("FREQ=DAILY;BYHOUR=2,3;BYMINUTE=0,30", NIGHTS[0], 3, 0, "after", "first")
@example("FREQ=DAILY;BYHOUR=1,2;BYMINUTE=30", NIGHTS[1], 3, 0, "skip", "last")
def test_wall_times_on_nights_of_change_follow_the_policy(
    text: str, night: tuple[str, datetime], days: int, minutes: int, gap: str, fold: str
) -> None:
    zone, middle = ZoneInfo(night[0]), night[1]
    start = middle - timedelta(days=days + 3, minutes=minutes)
    rule = make(text, night[0], start, gap=gap, fold=fold)
    begin, end = middle - timedelta(days=2), middle + timedelta(days=3)
    walls = [at for at in walked(text, start, end + timedelta(days=1), rule) if at >= begin - timedelta(days=1)]
    mapped = {at for wall in walls for at in instants(wall, zone, gap, fold)}  # type: ignore[arg-type]
    low, high = begin.replace(tzinfo=UTC), end.replace(tzinfo=UTC)
    assert check(rule, low, high) == sorted(at for at in mapped if low <= at < high)


@pytest.mark.parametrize("night", NIGHTS, ids=lambda night: f"{night[0]} {night[1]:%Y-%m-%d}")
@settings(max_examples=10, deadline=None)
@given(texts(("HOURLY", "MINUTELY")), st.integers(0, 3000))
@example("FREQ=HOURLY", 90)
@example("FREQ=MINUTELY;INTERVAL=7;BYHOUR=1,2,3", 600)
def test_hours_and_minutes_pass_as_they_do_on_nights_of_change(
    night: tuple[str, datetime], text: str, minutes: int
) -> None:
    zone, middle = ZoneInfo(night[0]), night[1].replace(tzinfo=UTC)
    text = ";".join(part for part in text.split(";") if not part.startswith(("BYSECOND", "BYSETPOS")))
    start = middle - timedelta(days=2, minutes=minutes)
    rule = make(text, night[0], start)
    low, high = middle - timedelta(hours=9), middle + timedelta(hours=9)
    assert check(rule, low, high) == [at for at in _minutes(low, high) if _fires(text, start, at, zone)]


def _minutes(start: datetime, end: datetime) -> Iterator[datetime]:
    while start < end:
        yield start
        start += timedelta(minutes=1)


def _fires(text: str, start: datetime, at: datetime, zone: ZoneInfo) -> bool:
    """The definition: the right distance from the start in real time, and a wall clock that shows what is asked for."""
    pattern, began, wall = parse(text).pattern, start.astimezone(zone), at.astimezone(zone)
    unit = timedelta(hours=1) if text.startswith("FREQ=HOURLY") else timedelta(minutes=1)
    origin = start - (timedelta(minutes=began.minute) if text.startswith("FREQ=HOURLY") else timedelta(0))
    minutes = pattern.minutes or ((began.minute,) if text.startswith("FREQ=HOURLY") else range(60))
    month_length = (wall.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)
    return (
        (at - origin) // unit % pattern.interval == 0
        and wall.minute in minutes
        and (not pattern.hours or wall.hour in pattern.hours)
        and (not pattern.months or wall.month in pattern.months)
        and (not pattern.weekdays or (0, wall.weekday()) in pattern.weekdays)
        and (
            not pattern.month_days
            or wall.day in pattern.month_days
            or wall.day - month_length.day - 1 in pattern.month_days
        )
    )


@slow
@given(st.sampled_from(range(1, 54)), st.booleans(), st.sampled_from(range(7)), st.integers(1950, 2100))
def test_week_numbers_at_the_turn_of_the_year_are_those_of_iso(
    number: int, backwards: bool, weekday: int, year: int
) -> None:
    """Where dateutil is wrong: Python's own calendar of weeks tells."""
    day = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")[weekday]
    text = f"FREQ=YEARLY;BYWEEKNO={-number if backwards else number};BYDAY={day}"
    rule = RRule(text, start=datetime(year, 1, 1, tzinfo=UTC))
    found = {at.date() for at in rule.between(datetime(year, 1, 1, tzinfo=UTC), datetime(year + 8, 1, 1, tzinfo=UTC))}
    days = (
        datetime(year, 1, 1) + timedelta(days=n) for n in range((datetime(year + 8, 1, 1) - datetime(year, 1, 1)).days)
    )
    expected = set()
    for at in days:
        iso = at.isocalendar()
        weeks = datetime(iso.year, 12, 28).isocalendar().week
        if iso.weekday == weekday + 1 and (iso.week - weeks - 1 if backwards else iso.week) == (
            -number if backwards else number
        ):
            expected.add(at.date())
    assert found == expected
