"""Except: rules without the days of calendars, against a filter that looks at every firing."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.fuzzing import examples
from mainspring import (
    AnyOf,
    At,
    Calendar,
    CalendarNotFound,
    Cron,
    Every,
    Except,
    InvalidSchedule,
    RRule,
    Rule,
)
from mainspring.rules import anchored
from mainspring.rules.zones.zone import instants
from unit.rules.agreement import check, utc

BEGIN = date(2026, 3, 1)
DAY = timedelta(days=1)
WEEKEND = Calendar(weekdays=["SAT", "SUN"])

days = st.integers(0, 60).map(lambda n: BEGIN + timedelta(days=n))
calendars = st.builds(
    lambda singles, spans, weekdays, yearly: Calendar(
        singles, ranges=[(first, first + timedelta(days=n)) for first, n in spans], weekdays=weekdays, yearly=yearly
    ),
    st.lists(days, max_size=6),
    st.lists(st.tuples(days, st.integers(0, 40)), max_size=2),
    st.lists(st.sampled_from(("MON", "WED", "SAT", "SUN")), max_size=2),
    st.lists(days.map(lambda day: (day.month, day.day)), max_size=2),
)
rules: st.SearchStrategy[Any] = st.one_of(
    st.builds(
        lambda text, zone, gap, fold: Cron(text, zone, gap=gap, fold=fold),
        st.sampled_from(("0 9 * * *", "30 2 * * *", "30 2,14 * * 5-7", "0 */6 * * *", "15 0 1,15 * *", "0 12 29 2 *")),
        st.sampled_from(("UTC", "Europe/Berlin", "America/New_York", "Pacific/Auckland", "Africa/Cairo")),
        st.sampled_from(("after", "skip")),
        st.sampled_from(("first", "last", "both")),
    ),
    st.integers(1, 200).map(lambda h: Every(timedelta(hours=h), anchor=utc("2026-02-27T03:00"))),
    st.just(RRule("FREQ=WEEKLY;BYDAY=FR,SA", "Europe/Berlin", start=utc("2026-01-02T17:00"))),
)


def expected(rule: Any, zone: ZoneInfo, excluded: Calendar, then: str, start: datetime, end: datetime) -> set[datetime]:
    """The definition: look at every firing, and carry it day by day."""
    found = set()
    for at in rule.between(start - 80 * DAY, end + 80 * DAY):
        wall = at.astimezone(zone).replace(tzinfo=None)
        day = wall.date()
        for _ in range(32):
            if not excluded.contains(day):
                break
            day += {"next": DAY, "previous": -DAY, "skip": 32 * DAY}[then]
        else:
            continue
        if day == wall.date():
            found.add(at)
        elif then != "skip" and not excluded.contains(day):
            there = datetime.combine(day, wall.time())
            found |= set(instants(there, zone, getattr(rule, "gap", "after"), getattr(rule, "fold", "first")))
    return {at for at in found if start <= at < end}


@examples(30, 1_000)
@given(rules, calendars, calendars, st.sampled_from(("skip", "next", "previous")), st.integers(-20, 60))
def test_it_fires_as_a_filter_over_all_firings_says(
    inner: Any, one: Calendar, other: Calendar, then: str, begin: int
) -> None:
    rule = Except(inner, "one", "other", then=then).bind("x", {"one": one, "other": other})
    start = utc("2026-03-01T05:00") + timedelta(days=begin)
    end = start + 25 * DAY
    zone = ZoneInfo(inner.zones[0] if inner.zones else "UTC")
    assert check(rule, start, end) == sorted(expected(inner, zone, one | other, then, start, end))


@settings(max_examples=40, deadline=None)
@given(rules, calendars, st.sampled_from(("skip", "next", "previous")))
def test_every_firing_of_the_rule_fires_is_moved_or_is_skipped(inner: Any, one: Calendar, then: str) -> None:
    rule = Except(inner, "one", then=then).bind("x", {"one": one})
    start, end = utc("2026-03-05"), utc("2026-04-20")
    fired = set(rule.between(start - 40 * DAY, end + 40 * DAY))
    skipped = dict(rule.skipped(start, end))
    assert list(skipped) == sorted(skipped)
    notes = " ".join(note for to in fired for note in rule.notes(to))
    for at in inner.between(start, end):
        if at in skipped:
            assert skipped[at] == "one"
        elif at not in fired:
            assert then != "skip"
            assert f"{at:%Y-%m-%d %H:%M}" in notes
    assert all(at in set(inner.between(start, end)) for at in skipped)


def test_a_holiday_is_left_out_and_named() -> None:
    rule = Except(Cron("0 9 * * *", "Europe/Berlin"), "weekend", "holidays")
    calendars = {"weekend": WEEKEND, "holidays": Calendar(["2026-05-01"])}
    bound = rule.bind("report", calendars)
    found = list(bound.between(utc("2026-04-30"), utc("2026-05-05")))
    assert [at.date().isoformat() for at in found] == ["2026-04-30", "2026-05-04"]
    skipped = [(at.date().isoformat(), name) for at, name in bound.skipped(utc("2026-04-30"), utc("2026-05-05"))]
    assert skipped == [("2026-05-01", "holidays"), ("2026-05-02", "weekend"), ("2026-05-03", "weekend")]


def test_a_moved_firing_keeps_its_wall_time_and_tells_where_it_comes_from() -> None:
    # The Sunday on which clocks go forward is excluded; its 09:00 is an hour earlier in UTC than Saturday's.
    rule = Except(Cron("0 9 29 3 *", "Europe/Berlin"), "weekend", then="previous").bind("x", {"weekend": WEEKEND})
    at = rule.next(utc("2026-01-01"))
    assert at is not None
    assert at.isoformat() == "2026-03-27T09:00:00+01:00"
    assert rule.notes(at) == ("moved here from Sunday 2026-03-29 09:00 by the calendar weekend",)
    assert list(rule.skipped(utc("2026-03-01"), utc("2026-04-01"))) == []


def test_a_firing_that_is_moved_onto_a_night_of_change_follows_the_policy() -> None:
    inner = Cron("30 2 28 3 *", "Europe/Berlin")
    calendars = {"off": Calendar(["2026-03-28"])}
    moved = Except(inner, "off", then="next").bind("x", calendars).next(utc("2026-03-01"))
    assert moved is not None
    assert moved.isoformat() == "2026-03-29T03:00:00+02:00"
    lost = Except(Cron("30 2 28 3 *", "Europe/Berlin", gap="skip"), "off", then="next").bind("x", calendars)
    assert [name for _, name in lost.skipped(utc("2026-03-01"), utc("2026-04-01"))] == ["off"]
    assert lost.count(utc("2026-03-01"), utc("2026-04-01")) == 0


def test_firings_that_meet_are_one() -> None:
    rule = Except(Cron("0 9 * * *"), "weekend", then="next").bind("x", {"weekend": WEEKEND})
    monday = utc("2026-03-09")
    assert list(rule.between(monday, monday + DAY)) == [monday + timedelta(hours=9)]
    assert rule.count(monday, monday + DAY) == 1
    assert len(rule.notes(monday + timedelta(hours=9))) == 2


def test_a_firing_is_moved_by_31_days_at_most() -> None:
    closed = Calendar(ranges=[("2026-06-01", "2026-07-01")])
    rule = Except(At([utc("2026-06-01T09:00"), utc("2026-05-31T09:00")]), "closed", then="next")
    bound = rule.bind("x", {"closed": closed})
    assert bound.next(utc("2026-06-01")) == utc("2026-07-02T09:00")
    longer = rule.bind("x", {"closed": Calendar(ranges=[("2026-06-01", "2026-07-02")])})
    assert longer.next(utc("2026-06-01")) is None
    assert list(longer.skipped(utc("2026-06-01"), utc("2026-07-01"))) == [(utc("2026-06-01T09:00"), "closed")]


def test_days_are_those_of_the_zone() -> None:
    at = At([utc("2026-01-01T23:30")])
    calendars = {"off": Calendar(["2026-01-02"])}
    assert Except(at, "off").bind("x", calendars).next(utc("2026-01-01")) == utc("2026-01-01T23:30")
    assert Except(at, "off", timezone="Europe/Berlin").bind("x", calendars).next(utc("2026-01-01")) is None


def test_a_rule_that_fires_every_second_passes_over_excluded_days_in_one_step() -> None:
    rule = Except(Cron("* * * * * *"), "closed").bind("x", {"closed": Calendar(ranges=[("2026-01-02", "2035-12-31")])})
    assert rule.next(utc("2026-01-01T23:59:59")) == utc("2036-01-01")
    assert rule.previous(utc("2036-01-01")) == utc("2026-01-01T23:59:59")
    assert rule.count(utc("2026-01-01"), utc("2036-01-02")) == 2 * 86_400


def test_a_rule_with_nothing_left_is_over() -> None:
    always = {"off": Calendar(weekdays=["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"])}
    for then in ("skip", "next", "previous"):
        rule = Except(Cron("0 9 * * *"), "off", then=then).bind("x", always)
        assert rule.next(utc("2026-01-01")) is None
        assert rule.previous(utc("2026-01-01")) is None
        assert list(rule.between(utc("2026-01-01"), utc("2027-01-01"))) == []
        assert rule.count(utc("2026-01-01"), utc("2027-01-01")) == 0
        assert len(list(rule.skipped(utc("2026-01-01"), utc("2027-01-01")))) == 365


def test_every_rule_of_this_package_can_be_told_to_exclude() -> None:
    assert Every("1h").excluding("holidays") == Except(Every("1h"), "holidays")
    assert RRule("FREQ=DAILY").excluding("a", "b", then="next") == Except(RRule("FREQ=DAILY"), "a", "b", then="next")
    inner = AnyOf(Every("1h"), Cron("0 9 * * *"))
    assert inner.excluding("a", timezone="Asia/Kolkata").timezone == "Asia/Kolkata"


def test_it_needs_its_calendars_to_be_asked() -> None:
    rule = Except(Cron("0 9 * * *"), "holidays")
    with pytest.raises(InvalidSchedule, match="needs the calendars holidays"):
        rule.next(utc("2026-01-01"))
    with pytest.raises(CalendarNotFound, match=r"'holidays'; store one with calendars\.put"):
        rule.bind("x", {"weekend": WEEKEND})


def test_binding_reaches_what_is_inside() -> None:
    rule = Except(Cron("H H * * *"), "off").bind("nightly", {"off": Calendar()})
    assert rule.next(utc("2026-01-01")) == Cron("H H * * *", seed="nightly").next(utc("2026-01-01"))
    outer = Except(Except(Cron("0 9 * * *"), "one"), "two")
    assert outer.calendars == ("two", "one")
    bound = outer.bind("x", {"one": Calendar(["2026-01-01"]), "two": Calendar(["2026-01-02"])})
    start = utc("2026-01-01")
    assert bound.next(start) == utc("2026-01-03T09:00")
    assert [name for _, name in bound.skipped(start, start + 5 * DAY)] == ["one", "two"]


def test_an_open_anchor_inside_is_filled_and_kept() -> None:
    declared = Except(Every("1h"), "off")
    stored = declared.anchored(utc("2026-01-01T00:20"))
    assert anchored(declared, utc("2027-01-01"), stored) == stored
    bound = declared.bind("x", {"off": Calendar()})
    assert bound.count(utc("2026-01-01"), utc("2026-01-02")) == 24
    assert next(iter(bound.between(utc("2026-01-01T00:20"), utc("2026-01-02")))) == utc("2026-01-01T00:20")


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Except(Cron("0 9 * * *")), "names of 1 to 16 calendars"),
        (lambda: Except(Cron("0 9 * * *"), *map(str, range(17))), "names of 1 to 16 calendars"),
        (lambda: Except(Cron("0 9 * * *"), WEEKEND), "store this one with calendars.put"),  # type: ignore[arg-type]
        (lambda: Except(Cron("0 9 * * *"), "a\nb"), "a calendar's name must be printable"),
        (lambda: Except("0 9 * * *", "off"), "must be a rule"),  # type: ignore[arg-type]
        (lambda: Except(Cron("0 9 * * *"), "off", then="later"), "then must be one of 'skip', 'next', 'previous'"),
        (lambda: Except(Cron("0 9 * * *"), "off", timezone="Mars"), "no time zone 'Mars'"),
        (lambda: Except(Every("5m", after="end"), "off"), 'after="end"'),
        (lambda: Except(Cron("* * * * * *"), "off", then="next"), "too often to be moved; use then='skip'"),
        (lambda: Except(Every("30s"), "off", then="previous"), "too often to be moved"),
        (lambda: Except(RRule("FREQ=SECONDLY"), "off", then="next"), "too often to be moved"),
        (
            lambda: Except(AnyOf(Cron("0 9 * * *", "Asia/Tokyo"), Cron("0 9 * * *")), "off"),
            "zones Asia/Tokyo, UTC; name the zone whose days count by timezone",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, complaint: str) -> None:
    with pytest.raises(InvalidSchedule, match=complaint):
        make()


def test_every_minute_is_not_too_often() -> None:
    rule: Rule = Except(Cron("* * * * *"), "off", then="next").bind("x", {"off": Calendar(["2026-01-02"])})
    day = utc("2026-01-03")
    assert rule.count(day, day + DAY) == 1440
    assert rule.next(utc("2026-01-01T23:59")) == day


def test_it_says_what_it_means() -> None:
    rule = Except(Cron("0 9 * * *", "Asia/Kolkata"), "holidays", "weekend")
    assert rule.describe() == "at 09:00, every day, in Asia/Kolkata, but on days of holidays or weekend left out"
    moved = Except(Every("1h"), "holidays", then="next", timezone="Asia/Kolkata")
    assert moved.describe() == "every hour, but on days in Asia/Kolkata of holidays moved to the next other day"


def test_the_ends_of_time_do_no_harm() -> None:
    rule = Except(Cron("0 9 * * *", "Pacific/Kiritimati"), "off", then="next").bind("x", {"off": WEEKEND})
    assert rule.next(datetime.max.replace(tzinfo=UTC)) is None
    assert rule.previous(datetime.min.replace(tzinfo=UTC)) is None
