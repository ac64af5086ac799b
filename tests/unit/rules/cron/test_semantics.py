"""What expressions mean, case by case, with dates that anybody can look up in a calendar."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta, timezone
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.errors import InvalidSchedule
from mainspring.rules.cron import Cron
from unit.rules.cron import writing
from unit.rules.cron.comparing import make


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def coming(expression: str, after: str, count: int) -> list[str]:
    """The next firings in UTC, as days when they are at midnight."""
    firings = Cron(expression).between(at(after), at(after) + timedelta(days=366 * 45))
    return [moment.strftime("%Y-%m-%dT%H:%M:%S").removesuffix("T00:00:00") for moment in islice(firings, count)]


@pytest.mark.parametrize(
    ("expression", "after", "expected"),
    [
        # leap years
        ("0 0 29 2 *", "2024-03-01", ["2028-02-29", "2032-02-29"]),
        ("0 0 29 2 *", "2096-03-01", ["2104-02-29"]),
        ("0 0 29 2 *", "1896-03-01", ["1904-02-29"]),
        ("0 0 29 2 *", "1996-03-01", ["2000-02-29"]),
        ("0 0 * 2 MON#5", "2026-01-01", ["2044-02-29"]),
        # day of month or day of week, and the stars that make it and
        ("0 0 13 * FRI", "2026-01-01", ["2026-01-02", "2026-01-09", "2026-01-13", "2026-01-16"]),
        ("0 0 30 2 1", "2026-01-01", ["2026-02-02", "2026-02-09", "2026-02-16", "2026-02-23", "2027-02-01"]),
        ("0 0 */2 * MON", "2026-01-01", ["2026-01-05", "2026-01-19", "2026-02-09", "2026-02-23"]),
        ("0 0 1-31/2 * MON", "2026-01-01", ["2026-01-01", "2026-01-03", "2026-01-05", "2026-01-07", "2026-01-09"]),
        ("0 0 13 * */5", "2026-01-01", ["2026-02-13", "2026-03-13", "2026-09-13", "2026-11-13"]),
        ("0 0 *,5 * MON", "2026-01-01", ["2026-01-05", "2026-01-12"]),
        ("0 0 ? * MON", "2026-01-01", ["2026-01-05", "2026-01-12"]),
        ("0 0 13 * ?", "2026-01-01", ["2026-01-13", "2026-02-13"]),
        ("0 0 ? * ?", "2026-01-01", ["2026-01-01", "2026-01-02"]),
        ("0 0 * * *", "2026-01-01", ["2026-01-01", "2026-01-02"]),
        ("0 0 L * MON", "2026-01-20", ["2026-01-26", "2026-01-31", "2026-02-02"]),
        # the end of the month, workdays, weekdays by number
        ("0 0 L * *", "2028-01-01", ["2028-01-31", "2028-02-29", "2028-03-31", "2028-04-30"]),
        ("0 0 L-3 * *", "2026-01-01", ["2026-01-28", "2026-02-25", "2026-03-28", "2026-04-27"]),
        ("0 0 L-30 * *", "2026-01-01", ["2026-01-01", "2026-03-01", "2026-05-01", "2026-07-01"]),
        ("0 0 LW * *", "2026-01-01", ["2026-01-30", "2026-02-27", "2026-03-31", "2026-04-30", "2026-05-29"]),
        ("0 0 15W * *", "2026-01-01", ["2026-01-15", "2026-02-16", "2026-03-16", "2026-04-15"]),
        ("0 0 15W 8 *", "2026-01-01", ["2026-08-14"]),
        ("0 0 1W * *", "2026-01-31", ["2026-02-02", "2026-03-02", "2026-04-01"]),
        ("0 0 1W 8 *", "2026-01-01", ["2026-08-03"]),
        ("0 0 31W * *", "2026-01-01", ["2026-01-30", "2026-03-31", "2026-05-29", "2026-07-31"]),
        ("0 0 * * FRIL", "2026-01-01", ["2026-01-30", "2026-02-27", "2026-03-27"]),
        ("0 0 ? * 5L", "2026-01-01", ["2026-01-30", "2026-02-27", "2026-03-27"]),
        ("0 0 * * MON#2", "2026-01-01", ["2026-01-12", "2026-02-09", "2026-03-09"]),
        ("0 0 * * 0#5", "2026-01-01", ["2026-03-29", "2026-05-31", "2026-08-30"]),
        ("0 0 * * 7#5", "2026-01-01", ["2026-03-29", "2026-05-31", "2026-08-30"]),
        ("0 0 * * L", "2026-01-01", ["2026-01-03", "2026-01-10"]),
        ("0 0 * * MON#1,FRIL", "2026-01-01", ["2026-01-05", "2026-01-30", "2026-02-02", "2026-02-27"]),
        # ranges that wrap, steps, names
        ("0 0 28-2 * *", "2026-02-01", ["2026-02-01", "2026-02-02", "2026-02-28", "2026-03-01", "2026-03-02"]),
        ("0 0 1 NOV-FEB *", "2026-01-15", ["2026-02-01", "2026-11-01", "2026-12-01", "2027-01-01", "2027-02-01"]),
        ("0 0 * * fri-Mon", "2026-01-01", ["2026-01-02", "2026-01-03", "2026-01-04", "2026-01-05", "2026-01-09"]),
        ("0 22-1 * * *", "2026-01-01", ["2026-01-01", "2026-01-01T01:00:00", "2026-01-01T22:00:00"]),
        ("5/25 3 * * *", "2026-01-01", ["2026-01-01T03:05:00", "2026-01-01T03:30:00", "2026-01-01T03:55:00"]),
        ("0 0 31 * *", "2026-01-01", ["2026-01-31", "2026-03-31", "2026-05-31", "2026-07-31", "2026-08-31"]),
        ("0 0 1 */5 *", "2026-01-02", ["2026-06-01", "2026-11-01", "2027-01-01"]),
        # six fields
        ("*/30 59 23 31 12 *", "2026-01-01", ["2026-12-31T23:59:00", "2026-12-31T23:59:30", "2027-12-31T23:59:00"]),
        ("59-1 0 0 1 1 *", "2026-01-01T00:00:01", ["2026-01-01T00:00:01", "2026-01-01T00:00:59", "2027-01-01"]),
        # macros
        ("@yearly", "2026-01-02", ["2027-01-01", "2028-01-01"]),
        ("@monthly", "2026-01-02", ["2026-02-01", "2026-03-01"]),
        ("@weekly", "2026-01-01", ["2026-01-04", "2026-01-11"]),
        ("@hourly", "2026-01-01T22:30:00", ["2026-01-01T23:00:00", "2026-01-02"]),
    ],
)
def test_it_fires_on_these_days(expression: str, after: str, expected: list[str]) -> None:
    assert coming(expression, after, len(expected)) == expected


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("2026-01-01T08:59:59.999999", "2026-01-01T09:00:00"),
        ("2026-01-01T09:00:00", "2026-01-02T09:00:00"),
        ("2026-01-01T09:00:00.000001", "2026-01-02T09:00:00"),
        ("2026-01-01T08:00:00.5", "2026-01-01T09:00:00"),
    ],
)
def test_next_is_strictly_after(after: str, expected: str) -> None:
    assert Cron("0 9 * * *").next(at(after)) == at(expected)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("2026-01-02T09:00:00.000001", "2026-01-02T09:00:00"),
        ("2026-01-02T09:00:00", "2026-01-01T09:00:00"),
        ("2026-01-02T08:59:59.999999", "2026-01-01T09:00:00"),
    ],
)
def test_previous_is_strictly_before(before: str, expected: str) -> None:
    assert Cron("0 9 * * *").previous(at(before)) == at(expected)


def test_between_has_its_start_but_not_its_end() -> None:
    cron = Cron("0 9 * * *")
    day = timedelta(days=1)
    nine = at("2026-01-01T09:00")
    assert list(cron.between(nine, nine + day)) == [nine]
    assert list(cron.between(nine + timedelta(microseconds=1), nine + day)) == []
    assert list(cron.between(nine, nine + day + timedelta(microseconds=1))) == [nine, nine + day]
    assert list(cron.between(nine, nine)) == []
    assert list(cron.between(nine + day, nine)) == []


def test_between_is_lazy() -> None:
    firings = Cron("* * * * * *").between(at("2026-01-01"), at("9999-01-01"))
    assert next(firings) == at("2026-01-01")
    assert next(firings) == at("2026-01-01T00:00:01")


@pytest.mark.parametrize("expression", ["* * * * *", "* * * * * *", "0 0 29 2 *", "0 12 L * *"])
def test_time_ends_a_few_days_before_datetimes_do(expression: str) -> None:
    cron = Cron(expression, "Pacific/Kiritimati")
    assert cron.next(datetime.max.replace(tzinfo=UTC)) is None
    assert cron.next(datetime.max.replace(tzinfo=timezone(timedelta(hours=-23)))) is None
    assert cron.previous(datetime.min.replace(tzinfo=UTC)) is None
    assert cron.previous(datetime.min.replace(tzinfo=timezone(timedelta(hours=23)))) is None
    first, last = cron.next(datetime.min.replace(tzinfo=UTC)), cron.previous(datetime.max.replace(tzinfo=UTC))
    assert first is not None
    assert last is not None
    assert first.astimezone(UTC).year < 9
    assert last.astimezone(UTC).year > 9990


def test_the_years_before_1970_and_after_2100_are_like_any_others() -> None:
    assert Cron("0 9 * * MON").next(at("1899-12-31")) == at("1900-01-01T09:00")
    assert Cron("0 9 * * MON").previous(at("1600-01-04")) == at("1600-01-03T09:00")
    assert Cron("0 9 29 2 *").next(at("2396-03-01")) == at("2400-02-29T09:00")


def test_what_comes_out_has_a_fixed_offset_and_shows_the_time_on_the_wall() -> None:
    found = Cron("30 9 * * *", "Asia/Kolkata").next(at("2026-01-01"))
    assert found is not None
    assert type(found.tzinfo) is timezone
    assert found.isoformat() == "2026-01-01T09:30:00+05:30"
    assert found.tzname() == "IST"
    assert Cron("0 9 * * *").next(at("2026-01-01")).tzinfo is UTC  # type: ignore[union-attr]


@pytest.mark.parametrize("moment", ["2026-01-01", datetime(2026, 1, 1), None, 5, at("2026-01-01").date()])
def test_what_names_no_instant_is_refused(moment: object) -> None:
    cron = Cron("* * * * *")
    now = at("2026-01-01")
    for ask in (
        lambda: cron.next(moment),  # type: ignore[arg-type]
        lambda: cron.previous(moment),  # type: ignore[arg-type]
        lambda: cron.between(moment, now),  # type: ignore[arg-type]
        lambda: cron.count(now, moment),  # type: ignore[arg-type]
        lambda: cron.notes(moment),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidSchedule, match=r"must be an aware datetime|has no time zone.*datetime\.now\(UTC\)"):
            ask()


def test_the_zone_of_the_question_does_not_matter() -> None:
    cron = Cron("0 9 * * *", "Asia/Tokyo")
    moment = at("2026-06-01T11:00")
    for zone in (UTC, ZoneInfo("America/New_York"), ZoneInfo("Asia/Tokyo"), timezone(timedelta(hours=-5, minutes=-30))):
        assert cron.next(moment.astimezone(zone)) == at("2026-06-02T00:00")


@settings(max_examples=200, deadline=None)
@given(writing.expressions, st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)))
def test_next_and_previous_are_inverse(expression: str, moment: datetime) -> None:
    cron = make(expression, "UTC", "after", "first")
    later, earlier = cron.next(moment), cron.previous(moment)
    assert later is not None
    assert earlier is not None
    assert earlier < moment < later
    here = cron.next(earlier)
    assert here in (later, moment)
    assert cron.previous(later) == (moment if here == moment else earlier)


# H


def test_h_is_the_same_in_every_process_and_version() -> None:
    """These are promised: who changes them moves everybody's jobs."""
    assert coming_h("H H * * *", "daily-report") == "01 21:55"
    assert coming_h("H(0-29)/10 H(8-17) H * *", "daily-report") == "04 17:05"


def coming_h(expression: str, seed: str) -> str:
    found = Cron(expression, seed=seed).next(at("2026-01-01"))
    assert found is not None
    return found.strftime("%d %H:%M")


@pytest.mark.slow
def test_h_spreads_schedules_over_its_reach() -> None:
    minutes = Counter(compile_minute("H * * * *", seed) for seed in range(6000))
    assert set(minutes) == set(range(60))
    assert max(minutes.values()) < 2 * 100
    halves = {compile_minute("H(0-29) * * * *", seed) for seed in range(1000)}
    assert halves == set(range(30))
    wrapped = {compile_minute("H(55-4) * * * *", seed) for seed in range(1000)}
    assert wrapped == {55, 56, 57, 58, 59, 0, 1, 2, 3, 4}


def compile_minute(expression: str, seed: int) -> int:
    found = Cron(expression, seed=f"schedule-{seed}").next(at("2026-01-01T00:59:59"))
    assert found is not None
    return found.minute


def test_h_chooses_each_field_apart() -> None:
    crons = [Cron("H H * * *", seed=str(seed)) for seed in range(500)]
    pairs = {(found.hour, found.minute) for cron in crons if (found := cron.next(at("2026-01-01")))}
    assert len(pairs) > 300


def test_h_with_a_step_begins_within_the_first_step() -> None:
    starts = set()
    for seed in range(200):
        cron = Cron("H/15 * * * *", seed=str(seed))
        minutes = [found.minute for found in cron.between(at("2026-01-01"), at("2026-01-01T01:00"))]
        assert minutes == list(range(minutes[0], 60, 15))
        assert len(minutes) == 4
        starts.add(minutes[0])
    assert starts == set(range(15))


def test_h_in_the_days_of_a_month_is_one_that_every_month_has() -> None:
    days = {found.day for seed in range(500) if (found := Cron("0 0 H * *", seed=str(seed)).next(at("2026-01-31")))}
    assert days == set(range(1, 29))


def test_without_a_seed_h_is_valid_and_always_the_same() -> None:
    assert Cron("H H * * *").next(at("2026-01-01")) == Cron("h h * * *", seed="").next(at("2026-01-01"))
