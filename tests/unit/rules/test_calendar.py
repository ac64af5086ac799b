"""Calendars: sets of days as values, and searching them."""

from __future__ import annotations

import pickle
from datetime import date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring import Calendar, InvalidSchedule
from mainspring.rules.calendars.day_sets import AnyDays

dates = st.dates(date(2023, 1, 1), date(2026, 12, 31))
calendars = st.builds(
    lambda days, spans, yearly, weekdays: Calendar(
        days, ranges=[(first, first + timedelta(days=n)) for first, n in spans], yearly=yearly, weekdays=weekdays
    ),
    st.lists(dates, max_size=5),
    st.lists(st.tuples(dates, st.integers(0, 30)), max_size=3),
    st.lists(dates.map(lambda day: (day.month, day.day)), max_size=3),
    st.lists(st.sampled_from(("MON", "TUE", "SAT", "SUN")), max_size=3),
)


def test_a_day_is_in_it_by_date_range_year_or_weekday() -> None:
    calendar = Calendar(
        ["2026-12-24", date(2026, 12, 31)],
        ranges=[("2026-08-03", "2026-08-14")],
        yearly=["12-25", (2, 29), "1-1"],
        weekdays=["SUN", "saturday"],
    )
    for inside in ("2026-12-24", "2026-12-31", "2026-08-03", "2026-08-14", "1999-12-25", "2024-02-29", "2026-06-06"):
        assert calendar.contains(date.fromisoformat(inside)), inside
    for outside in ("2025-12-24", "2026-08-17", "2026-07-31", "2026-02-27"):
        assert not calendar.contains(date.fromisoformat(outside)), outside
    assert calendar.weekdays == ("SAT", "SUN")
    assert calendar.yearly == ((1, 1), (2, 29), (12, 25))


def test_order_and_doubles_do_not_matter() -> None:
    one = Calendar(["2026-01-02", "2026-01-01"], ranges=[("2026-03-01", "2026-03-05"), ("2026-03-06", "2026-03-09")])
    other = Calendar([date(2026, 1, 1), "2026-01-02", "2026-01-01"], ranges=[("2026-03-01", "2026-03-09")])
    assert one == other
    assert hash(one) == hash(other)
    assert one != Calendar(["2026-01-01"])


@settings(deadline=None)
@given(calendars, calendars, dates)
def test_a_union_contains_what_either_does(one: Calendar, other: Calendar, day: date) -> None:
    assert (one | other).contains(day) == (one.contains(day) or other.contains(day))


@settings(deadline=None)
@given(calendars)
def test_documents_and_pickles_give_the_same_calendar_back(calendar: Calendar) -> None:
    assert Calendar.from_document(calendar.to_document()) == calendar
    calendar.contains(date(2026, 1, 1))
    assert pickle.loads(pickle.dumps(calendar)) == calendar


@settings(deadline=None)
@given(st.lists(calendars, min_size=1, max_size=3), dates)
def test_the_next_and_the_previous_day_in_and_out_are_found(some: list[Calendar], day: date) -> None:
    days = AnyDays([calendar.searchable for calendar in some])
    start = day.toordinal()
    forward, back = range(start, start + 3000), range(start, start - 3000, -1)
    assert (start in days) == any(calendar.contains(day) for calendar in some)
    assert days.next_in(start) in (
        next((one for one in forward if one in days), None),
        *_beyond(forward, days.next_in(start)),
    )
    assert days.previous_in(start) in (
        next((one for one in back if one in days), None),
        *_beyond(back, days.previous_in(start)),
    )
    assert days.next_out(start) == next((one for one in forward if one not in days), None)
    assert days.previous_out(start) == next((one for one in back if one not in days), None)


def _beyond(searched: range, found: int | None) -> list[int]:
    """What was found farther away than was searched; that none is nearer is told by the first search."""
    return [found] if found is not None and found not in searched else []


def test_a_day_that_comes_every_four_years_is_found_across_the_century() -> None:
    days = Calendar(yearly=["02-29"]).searchable
    assert days.next_in(date(2096, 3, 1).toordinal()) == date(2104, 2, 29).toordinal()
    assert days.previous_in(date(2104, 2, 28).toordinal()) == date(2096, 2, 29).toordinal()


def test_days_that_never_end_have_no_end() -> None:
    everything = Calendar(weekdays=["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"]).searchable
    assert everything.next_out(1000) is None
    halves = AnyDays(
        [
            Calendar(weekdays=["MON", "TUE", "WED"]).searchable,
            Calendar(weekdays=["THU", "FRI", "SAT", "SUN"]).searchable,
        ]
    )
    assert halves.next_out(1000) is None
    assert halves.previous_out(10_000) is None


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"days": ["24.12.2026"]}, r"'24\.12\.2026' is not a date; write it as 2030-12-24"),
        ({"days": ["2026-02-30"]}, "is not a date"),
        ({"days": [datetime(2026, 1, 1)]}, "A calendar has dates"),
        ({"days": "2026-01-01"}, "days must be a list"),
        ({"days": 5}, "days must be a list"),
        ({"ranges": [("2026-02-01", "2026-01-01")]}, "ends before it begins"),
        ({"ranges": ["2026-02-01"]}, r"\(first, last\)"),
        ({"ranges": [("2026-02-01",)]}, r"\(first, last\)"),
        ({"yearly": ["25.12."]}, 'month and day, such as "12-25"'),
        ({"yearly": ["02-30"]}, 'month and day, such as "12-25"'),
        ({"yearly": [(13, 1)]}, 'month and day, such as "12-25"'),
        ({"weekdays": ["SONNTAG"]}, "one of MON, TUE"),
        ({"weekdays": [6]}, "one of MON, TUE"),
        ({"weekdays": "SAT"}, "weekdays must be a list"),
        ({"description": 5}, "description must be text"),
        ({"description": "x" * 1001}, "at most 1000 characters"),
        ({"days": [date.fromordinal(n + 700_000) for n in range(20_001)]}, "at most 20,000"),
    ],
)
def test_what_is_no_calendar_is_refused_with_its_cure(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidSchedule, match=complaint):
        Calendar(**options)


@pytest.mark.parametrize("document", [None, [], {"day": []}, {"days": [], "kind": "x"}])
def test_what_is_no_document_of_a_calendar_is_refused(document: Any) -> None:
    with pytest.raises(InvalidSchedule, match="A calendar's document has days, ranges"):
        Calendar.from_document(document)


def test_a_time_is_not_a_day() -> None:
    with pytest.raises(InvalidSchedule, match=r"ask for \.date\(\)"):
        Calendar().contains(datetime(2026, 1, 1))


def test_twenty_thousand_days_are_enough() -> None:
    days = [date.fromordinal(n + 700_000) for n in range(0, 40_000, 2)]
    calendar = Calendar(days)
    assert calendar.contains(days[-1])
    assert not calendar.contains(days[-1] + timedelta(days=1))
    assert Calendar.from_document(calendar.to_document()) == calendar
