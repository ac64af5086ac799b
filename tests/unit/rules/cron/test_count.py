"""How many firings there are, computed: equal to what comes out one by one, and as cheap for a century as for a day."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.rules.cron import Cron
from mainspring.rules.year_days import YearDays
from unit.rules.cron import writing
from unit.rules.cron.comparing import make

ZONES = st.sampled_from(
    (
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "Africa/Casablanca",
        "Pacific/Apia",
        "Asia/Kolkata",
    )
)
moments = st.datetimes(datetime(2009, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]


@pytest.mark.parametrize(
    ("expression", "start", "end", "expected"),
    [
        ("* * * * * *", utc(2026, 1, 1), utc(2026, 1, 13), 12 * 86400),
        ("* * * * *", utc(2026, 1, 1), utc(2027, 1, 1), 365 * 1440),
        ("0 9 * * *", utc(2000, 1, 1), utc(2400, 1, 1), 146_097),
        ("0 9 * * MON", utc(2000, 1, 1), utc(2400, 1, 1), 146_097 // 7),
        ("0 0 29 2 *", utc(2000, 1, 1), utc(2400, 1, 1), 97),
        ("0 0 29 2 *", utc(1, 2, 1), utc(9999, 1, 1), 2424),
        ("0 0 13 * */5", utc(2026, 1, 1), utc(2027, 1, 1), 5),
        ("0 0 L * *", utc(2026, 1, 15), utc(2036, 1, 15), 120),
        ("*/7 * * * *", utc(2026, 1, 1, 0, 1), utc(2026, 1, 1, 1, 1), 9),
        ("0 9 * * *", utc(2026, 1, 1, 9), utc(2026, 1, 2, 9), 1),
        ("0 9 * * *", utc(2026, 1, 1, 9, 0, 1), utc(2026, 1, 2, 9), 0),
        ("0 9 * * *", utc(2026, 1, 2), utc(2026, 1, 1), 0),
    ],
)
def test_there_are_so_many(expression: str, start: datetime, end: datetime, expected: int) -> None:
    assert Cron(expression).count(start, end) == expected


@pytest.mark.parametrize(
    ("expression", "gap", "fold", "march", "october"),
    [
        ("30 2 * * *", "after", "first", 1, 1),
        ("30 2 * * *", "skip", "first", 0, 1),
        ("30 2 * * *", "after", "both", 1, 2),
        ("0,30 2-3 * * *", "after", "first", 2, 4),
        ("0,30 2-3 * * *", "skip", "both", 2, 6),
        ("* * * * *", "after", "first", 23 * 60, 25 * 60),
        ("0-59 0-23 * * *", "after", "first", 23 * 60, 24 * 60),
        ("0-59 0-23 * * *", "skip", "both", 23 * 60, 25 * 60),
    ],
)
def test_the_nights_of_changes_count_as_the_policy_says(
    expression: str, gap: Any, fold: Any, march: int, october: int
) -> None:
    cron = Cron(expression, "Europe/Berlin", gap=gap, fold=fold)
    zone = ZoneInfo("Europe/Berlin")
    for month, day, expected in ((3, 29, march), (10, 25, october)):
        start, end = (datetime(2026, month, number, tzinfo=zone) for number in (day, day + 1))
        assert cron.count(start, end) == expected
        assert len(list(cron.between(start, end))) == expected


@settings(max_examples=150, deadline=None)
@given(writing.some_days, ZONES, writing.GAPS, writing.FOLDS, moments, st.floats(0, 40))
def test_as_many_as_come_out(expression: str, zone: str, gap: str, fold: str, start: datetime, days: float) -> None:
    cron = make(expression, zone, gap, fold)
    end = start + timedelta(days=days)
    if cron.count(start, end) > 2000:
        end = start + timedelta(days=days / 40)
    found = list(cron.between(start, end))
    assert cron.count(start, end) == len(found)
    assert found == sorted(set(found))
    if found:
        assert cron.next(start - timedelta(microseconds=1)) == found[0]
        assert cron.previous(end) == found[-1]


@settings(max_examples=150, deadline=None)
@given(writing.expressions, ZONES, writing.GAPS, writing.FOLDS, st.tuples(moments, moments, moments))
def test_the_parts_of_a_time_add_up(
    expression: str, zone: str, gap: str, fold: str, times: tuple[datetime, datetime, datetime]
) -> None:
    cron = make(expression, zone, gap, fold)
    first, second, third = sorted(times)
    assert cron.count(first, third) == cron.count(first, second) + cron.count(second, third)


def test_counting_does_not_grow_with_what_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[str] = Counter()
    original = YearDays.year

    def counting(days: YearDays, year: int) -> tuple[int, int]:
        calls["years"] += 1
        return original(days, year)

    monkeypatch.setattr(YearDays, "year", counting)
    cron = Cron("* * * * * *")
    assert cron.count(utc(2026, 1, 1), utc(2026, 1, 13)) == 12 * 86400
    assert calls["years"] <= 24
    calls.clear()
    assert cron.count(utc(2000, 1, 1), utc(2400, 1, 1)) == 146_097 * 86400
    assert calls["years"] <= 401 * 5
