"""Every: a grid that never drifts, in whole milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring import Every, InvalidSchedule
from unit.rules.agreement import check, utc

ANCHOR = utc("2026-01-01")
instants = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))
periods = st.integers(100, 10**9).map(lambda ms: timedelta(milliseconds=ms))


def test_the_anchor_is_the_first_firing_and_nothing_comes_before_it() -> None:
    rule = Every("5m", anchor=ANCHOR)
    assert rule.next(ANCHOR - timedelta(days=100)) == ANCHOR
    assert rule.next(ANCHOR) == ANCHOR + timedelta(minutes=5)
    assert rule.previous(ANCHOR) is None
    assert rule.previous(ANCHOR + timedelta(microseconds=1)) == ANCHOR
    assert rule.count(ANCHOR - timedelta(days=1), ANCHOR + timedelta(minutes=6)) == 2


def test_firings_are_shown_in_utc() -> None:
    rule = Every("1h", anchor=datetime(2026, 1, 1, 9, tzinfo=ZoneInfo("Asia/Kolkata")))
    assert [at.isoformat() for at in rule.between(ANCHOR, utc("2026-01-01T05"))] == [
        "2026-01-01T03:30:00+00:00",
        "2026-01-01T04:30:00+00:00",
    ]


@settings(deadline=None)
@given(instants, periods, instants, st.integers(0, 40))
def test_next_previous_between_and_count_agree(anchor: datetime, period: timedelta, start: datetime, many: int) -> None:
    check(Every(period, anchor=anchor), start, start + period * many + timedelta(milliseconds=1))


@settings(deadline=None)
@given(periods, st.integers(0, 10**14))
def test_it_does_not_drift_in_ten_thousand_years(period: timedelta, tick: int) -> None:
    anchor = datetime(1, 2, 1, tzinfo=UTC)
    step = period // timedelta(milliseconds=1)
    last = datetime(9999, 11, 1, tzinfo=UTC) - anchor
    tick %= last // period
    exact = anchor + timedelta(milliseconds=tick * step)
    rule = Every(period, anchor=anchor)
    assert rule.next(exact - timedelta(microseconds=1)) == exact
    assert rule.previous(exact + timedelta(microseconds=1)) == exact
    assert rule.count(anchor, exact) == tick


def test_a_million_firings_are_counted_without_being_made() -> None:
    rule = Every("1s", anchor=ANCHOR)
    assert rule.count(ANCHOR, ANCHOR + timedelta(days=400_000)) == 400_000 * 86_400


def test_it_is_over_at_the_end_of_time() -> None:
    rule = Every("1w", anchor=ANCHOR)
    assert rule.next(datetime.max.replace(tzinfo=UTC)) is None
    assert rule.previous(datetime.min.replace(tzinfo=UTC)) is None


def test_without_an_anchor_it_counts_from_the_instant_it_is_asked_about() -> None:
    rule = Every("5m")
    assert rule.next(ANCHOR) == ANCHOR + timedelta(minutes=5)
    assert rule.previous(ANCHOR) == ANCHOR - timedelta(minutes=5)
    assert list(rule.between(ANCHOR, ANCHOR + timedelta(minutes=6))) == [ANCHOR, ANCHOR + timedelta(minutes=5)]
    assert rule.count(ANCHOR, ANCHOR + timedelta(minutes=6)) == 2


def test_a_schedule_gives_it_an_anchor_unless_it_has_one() -> None:
    filled = Every("5m").anchored(ANCHOR + timedelta(microseconds=1234))
    assert filled == Every("5m", anchor=ANCHOR + timedelta(milliseconds=1))
    assert filled.anchored(ANCHOR) is filled


def test_after_end_counts_from_the_end_of_a_run_and_has_no_grid() -> None:
    rule = Every("10m", after="end")
    assert (rule.after, rule.period) == ("end", timedelta(minutes=10))
    assert rule.next(ANCHOR) == ANCHOR + timedelta(minutes=10)
    assert rule.anchored(ANCHOR) is rule
    with pytest.raises(InvalidSchedule, match="leave anchor out, or set start_at"):
        Every("10m", after="end", anchor=ANCHOR)


@pytest.mark.parametrize(
    ("period", "options", "complaint"),
    [
        ("50ms", {}, "between 100 milliseconds and ten years"),
        (0, {}, "between 100 milliseconds and ten years"),
        ("600w", {}, "between 100 milliseconds and ten years"),
        (timedelta(days=-1), {}, "between 100 milliseconds and ten years"),
        ("5m", {"anchor": datetime(2026, 1, 1)}, "has no time zone"),
        ("5m", {"anchor": "2026-01-01"}, "must be an aware datetime"),
        ("5m", {"after": "never"}, '"start" or "end"'),
    ],
)
def test_what_makes_no_sense_is_refused(period: Any, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidSchedule, match=complaint):
        Every(period, **options)


def test_a_naive_datetime_is_refused_wherever_it_is_given() -> None:
    rule, naive = Every("5m", anchor=ANCHOR), datetime(2026, 1, 1)
    for ask in (rule.next, rule.previous, rule.notes, rule.anchored):
        with pytest.raises(InvalidSchedule, match=r"has no time zone.*ZoneInfo"):
            ask(naive)
    for span in (rule.between, rule.count):
        with pytest.raises(InvalidSchedule, match="has no time zone"):
            span(ANCHOR, naive)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (Every("5m"), "every 5 minutes"),
        (Every("1h"), "every hour"),
        (Every("1h30m"), "every 1 hour 30 minutes"),
        (Every("10d"), "every 10 days"),
        (Every("2w", anchor=utc("2026-01-01T09:30")), "every 2 weeks, from 2026-01-01 09:30 UTC"),
        (Every("90s", after="end"), "1 minute 30 seconds after the end of each run"),
    ],
)
def test_it_says_what_it_means(rule: Every, text: str) -> None:
    assert rule.describe() == text
