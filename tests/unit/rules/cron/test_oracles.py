"""Against a brute force of our own, at every change of every zone, and day by day over centuries."""

from __future__ import annotations

import calendar
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.fuzzing import LONG, examples
from unit.rules.cron import writing
from unit.rules.cron.comparing import EXAMPLES, compare, make
from unit.rules.cron.oracle import Meaning, Window, changes

pytestmark = [LONG, pytest.mark.slow]
CHUNKS = 16
HOURS = 8.0

at_changes = settings(max_examples=EXAMPLES, deadline=None, print_blob=True)


@lru_cache(maxsize=1)
def windows(chunk: int) -> list[Window]:
    return [Window(zone, at, HOURS) for zone, at, _, _ in changes()[chunk::CHUNKS]]


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_rules_fire_as_the_oracle_says_at_every_change_of_every_zone(chunk: int) -> None:
    around = windows(chunk)

    @at_changes
    @given(st.one_of(writing.every_day, writing.every_day, writing.some_days), writing.GAPS, writing.FOLDS)
    def check(expression: str, gap: str, fold: str) -> None:
        meaning = Meaning(expression)
        for window in around:
            compare(window, make(expression, window.zone, gap, fold), meaning)

    check()


@settings(max_examples=EXAMPLES, deadline=None)
@given(writing.often, writing.GAPS, writing.FOLDS)
def test_rules_that_fire_every_few_seconds_fire_as_the_oracle_says(expression: str, gap: str, fold: str) -> None:
    meaning = Meaning(expression)
    for zone, at, _, _ in changes()[::97]:
        compare(Window(zone, at, HOURS), make(expression, zone, gap, fold), meaning)


def test_no_change_of_any_zone_is_left_out() -> None:
    assert len(changes()) > 1000
    assert len({zone for zone, _, _, _ in changes()}) > 40
    assert sum(len(changes()[chunk::CHUNKS]) for chunk in range(CHUNKS)) == len(changes())


@examples(50, 10_000)
@given(writing.expressions, st.dates(date(1850, 1, 1), date(2300, 1, 1)))
def test_days_are_those_of_the_oracle(expression: str, start: date) -> None:
    cron = make(expression, "UTC", "after", "first")
    meaning = Meaning(expression)
    times = sorted((h, m, s) for h in meaning.hours for m in meaning.minutes for s in meaning.seconds)
    first = datetime(start.year, start.month, start.day, tzinfo=UTC)
    days = [one for one in (first + timedelta(days=number) for number in range(800)) if meaning.matches_day(one.date())]
    assert cron.count(first, first + timedelta(days=800)) == len(days) * len(times)
    found = cron.next(first - timedelta(seconds=1))
    for day in days[:40]:
        assert found == day.replace(hour=times[0][0], minute=times[0][1], second=times[0][2])
        found = cron.next(day.replace(hour=23, minute=59, second=59))


def test_the_oracle_knows_the_calendar() -> None:
    """The oracle is checked by hand, too: else both could be wrong in the same way."""
    fridays = Meaning("0 0 ? * FRIL")
    assert [day for day in range(1, 32) if fridays.matches_day(date(2026, 1, day))] == [30]
    nearest = Meaning("0 0 1W,31W * ?")
    assert [day for day in range(1, 32) if nearest.matches_day(date(2026, 8, day))] == [3, 31]
    assert [day for day in range(1, 32) if nearest.matches_day(date(2026, 1, day))] == [1, 30]
    assert calendar.weekday(2026, 1, 31) == calendar.SATURDAY
    wrapped = Meaning("50-10/5 22-2 * NOV-FEB FRI-MON")
    assert wrapped.minutes == {50, 55, 0, 5, 10}
    assert (wrapped.hours, wrapped.months) == ({22, 23, 0, 1, 2}, {11, 12, 1, 2})
