"""Nights on which clocks change: the policies by hand, in zones that change in every way that zones have."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime, timedelta
from importlib import resources
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.rules.cron import Cron
from mainspring.rules.zones.zone import find_zone
from unit.rules.cron import writing
from unit.rules.cron.comparing import compare, make
from unit.rules.cron.oracle import Meaning, Window


def firings(expression: str, zone: str, start: str, end: str, gap: str = "after", fold: str = "first") -> list[str]:
    """What fires between two wall times, as day, hour and offset; all that a rule can be asked must agree."""
    cron = Cron(expression, zone, gap=gap, fold=fold)  # type: ignore[arg-type]
    first, last = (datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)) for text in (start, end))
    found = list(cron.between(first, last))
    assert cron.count(first, last) == len(found)
    for earlier, later in pairwise(found):
        assert cron.next(earlier) == later
        assert cron.previous(later) == earlier
    return [f"{moment:%d %H:%M}{moment.isoformat()[19:]}" for moment in found]


BERLIN = "Europe/Berlin"
MARCH = ("2026-03-28T12:00", "2026-03-30T12:00")
OCTOBER = ("2026-10-24T12:00", "2026-10-26T12:00")


def test_a_time_that_does_not_exist_fires_at_the_first_instant_after() -> None:
    assert firings("30 2 * * *", BERLIN, *MARCH) == ["29 03:00+02:00", "30 02:30+02:00"]


def test_a_time_that_does_not_exist_can_be_skipped() -> None:
    assert firings("30 2 * * *", BERLIN, *MARCH, gap="skip") == ["30 02:30+02:00"]


def test_several_times_in_one_gap_fire_once() -> None:
    assert firings("0,15,30,45 2 29 3 *", BERLIN, *MARCH) == ["29 03:00+02:00"]


def test_a_lost_time_and_a_real_one_at_the_same_instant_are_one_firing() -> None:
    assert firings("0 2,3 29 3 *", BERLIN, *MARCH) == ["29 03:00+02:00"]
    assert firings("30 1-3 29 3 *", BERLIN, *MARCH) == ["29 01:30+01:00", "29 03:00+02:00", "29 03:30+02:00"]


def test_a_time_that_happens_twice_fires_in_the_first_pass() -> None:
    assert firings("30 2 * * *", BERLIN, *OCTOBER) == ["25 02:30+02:00", "26 02:30+01:00"]


def test_a_time_that_happens_twice_can_fire_in_the_last_pass() -> None:
    assert firings("30 2 * * *", BERLIN, *OCTOBER, fold="last") == ["25 02:30+01:00", "26 02:30+01:00"]


def test_a_time_that_happens_twice_can_fire_in_both() -> None:
    expected = ["25 02:30+02:00", "25 02:30+01:00", "26 02:30+01:00"]
    assert firings("30 2 * * *", BERLIN, *OCTOBER, fold="both") == expected


@pytest.mark.parametrize(("gap", "fold"), [("after", "first"), ("skip", "last"), ("after", "both")])
def test_stars_follow_real_time_whatever_the_policy(gap: str, fold: str) -> None:
    night = ("2026-03-29T01:00", "2026-03-29T04:00")
    assert firings("*/30 * * * *", BERLIN, *night, gap, fold) == [
        "29 01:00+01:00", "29 01:30+01:00", "29 03:00+02:00", "29 03:30+02:00",
    ]  # fmt: skip
    assert firings("30 * * * *", BERLIN, *night, gap, fold) == ["29 01:30+01:00", "29 03:30+02:00"]
    assert firings("*/30 2 * * *", BERLIN, *night, gap, fold) == []
    assert firings("*/30 0 2 * * *", BERLIN, *night, gap, fold) == []
    night = ("2026-10-25T01:30", "2026-10-25T03:30")
    assert firings("*/30 * * * *", BERLIN, *night, gap, fold) == [
        "25 01:30+02:00", "25 02:00+02:00", "25 02:30+02:00", "25 02:00+01:00", "25 02:30+01:00", "25 03:00+01:00",
    ]  # fmt: skip
    assert firings("30 * * * *", BERLIN, *night, gap, fold) == ["25 01:30+02:00", "25 02:30+02:00", "25 02:30+01:00"]
    assert firings("*/30 2 * * *", BERLIN, *night, gap, fold) == [
        "25 02:00+02:00", "25 02:30+02:00", "25 02:00+01:00", "25 02:30+01:00",
    ]  # fmt: skip


def test_ranges_and_h_are_fixed_times_even_when_they_are_all_there_is() -> None:
    night = ("2026-10-25T01:30", "2026-10-25T03:30")
    assert firings("0-59/30 2 * * *", BERLIN, *night) == ["25 02:00+02:00", "25 02:30+02:00"]
    assert firings("0 0-23 * * *", BERLIN, *night) == ["25 02:00+02:00", "25 03:00+01:00"]
    hashed = Cron("H 2 * * *", BERLIN, seed="a")
    around = (datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 3, 29, 12, tzinfo=UTC))
    assert [found.isoformat() for found in hashed.between(*around)] == ["2026-03-29T03:00:00+02:00"]


def test_every_second_hour_is_left_out_when_it_does_not_exist() -> None:
    """Hours that begin with a star follow real time: 02:00 is not made up for at 03:00."""
    expected = ["10 00:00-05:00", "10 04:00-04:00", "10 06:00-04:00"]
    assert firings("0 */2 * * *", "America/New_York", "2024-03-10T00:00", "2024-03-10T08:00") == expected


NIGHTS = [
    # half an hour, in Lord Howe
    ("15 2 * * *", "Australia/Lord_Howe", "2026-10-04", ["04 02:30+11:00"]),
    ("45 1 * * *", "Australia/Lord_Howe", "2026-04-05", ["05 01:45+11:00"]),
    ("0 */2 * * *", "Australia/Lord_Howe", "2024-04-07T01:00", ["07 02:00+10:30", "07 04:00+10:30"]),
    # clocks go back for Ramadan, and forward after it
    ("30 2 * * *", "Africa/Casablanca", "2026-02-15", ["15 02:30+01:00"]),
    ("30 2 * * *", "Africa/Casablanca", "2026-03-22", ["22 03:00+01:00"]),
    # daylight saving that is negative by law
    ("30 1 * * *", "Europe/Dublin", "2026-03-29", ["29 02:00+01:00"]),
    ("30 1 * * *", "Europe/Dublin", "2026-10-25", ["25 01:30+01:00"]),
    # midnight does not exist
    ("0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00", ["04 01:00-02:00"]),
    ("30 0 4 11 *", "America/Sao_Paulo", "2018-11-03", ["04 01:00-02:00"]),
    ("@daily", "Africa/Cairo", "2026-04-23T12:00", ["24 01:00+03:00"]),
    ("0 0 * * SUN", "Asia/Beirut", "2026-03-28", ["29 01:00+03:00"]),
    ("15 0 1 10 *", "America/Asuncion", "2023-09-30", ["01 01:00-03:00"]),
    # the hour before midnight happens twice
    ("30 23 * * *", "America/Sao_Paulo", "2018-02-17", ["17 23:30-02:00"]),
    ("0 0 18 2 *", "America/Sao_Paulo", "2018-02-17T12:00", ["18 00:00-03:00"]),
    # two hours, and three
    ("30 1 * * *", "Antarctica/Troll", "2026-03-29", ["29 03:00+02:00"]),
    ("30 2 * * *", "Antarctica/Troll", "2026-10-25T00:00", ["25 02:30+02:00"]),
    # three quarters past
    ("0 3 * * *", "Pacific/Chatham", "2026-09-27", ["27 03:45+13:45"]),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "zone", "start", "expected"), NIGHTS)
def test_zones_change_in_many_ways(expression: str, zone: str, start: str, expected: list[str]) -> None:
    end = (datetime.fromisoformat(start) + timedelta(hours=36)).isoformat()
    assert firings(expression, zone, start, end)[: len(expected)] == expected


def test_a_day_that_never_was_fires_when_the_next_one_begins() -> None:
    """Samoa went to the other side of the date line, without a 30th of December 2011."""
    days = ("2011-12-29T00:00", "2012-01-02T00:00")
    assert firings("0 12 * * *", "Pacific/Apia", *days) == [
        "29 12:00-10:00", "31 00:00+14:00", "31 12:00+14:00", "01 12:00+14:00",
    ]  # fmt: skip
    assert firings("0 12 * * FRI", "Pacific/Apia", *days) == ["31 00:00+14:00"]
    assert firings("0 12 * * FRI", "Pacific/Apia", *days, gap="skip") == []
    assert firings("0 0 * * *", "Pacific/Apia", *days) == ["29 00:00-10:00", "31 00:00+14:00", "01 00:00+14:00"]
    assert firings("0 */12 * * *", "Pacific/Apia", *days) == [
        "29 00:00-10:00", "29 12:00-10:00", "31 00:00+14:00", "31 12:00+14:00", "01 00:00+14:00", "01 12:00+14:00",
    ]  # fmt: skip


def test_kwajalein_lost_a_day_too() -> None:
    days = ("1993-08-19T00:00", "1993-08-24T00:00")
    found = firings("0 12 * * *", "Pacific/Kwajalein", *days)
    assert found == ["19 12:00-12:00", "20 12:00-12:00", "22 00:00+12:00", "22 12:00+12:00", "23 12:00+12:00"]


def test_a_day_that_happened_twice_fires_as_the_policy_says() -> None:
    """Alaska came from the other side of the date line in 1867; its offsets had odd seconds."""
    days = ("1867-10-16T00:00", "1867-10-21T00:00")
    once = firings("0 18 * * *", "America/Juneau", *days)
    last = firings("0 18 * * *", "America/Juneau", *days, fold="last")
    both = firings("0 18 * * *", "America/Juneau", *days, fold="both")
    assert len(once) == len(last) == len(both) - 1
    assert set(once) | set(last) == set(both)
    assert once != last


def test_offsets_with_seconds_are_kept() -> None:
    found = Cron("0 0 * * *", "Europe/Berlin").next(datetime(1890, 1, 1, tzinfo=UTC))
    assert found is not None
    assert found.isoformat() == "1890-01-02T00:00:00+00:53:28"
    assert found.tzname() == "LMT"


def test_what_comes_out_of_a_repeated_hour_equals_itself_in_utc() -> None:
    """A datetime of a ZoneInfo would not: in such an hour it equals nothing of another zone."""
    cron = Cron("30 2 25 10 *", BERLIN, fold="both")
    first, second = cron.between(datetime(2026, 10, 24, tzinfo=UTC), datetime(2026, 10, 26, tzinfo=UTC))
    assert first == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert second == datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    assert (first.hour, first.minute, first.tzname(), second.tzname()) == (2, 30, "CEST", "CET")


def test_a_question_from_within_a_repeated_hour_counts_its_fold() -> None:
    cron = Cron("*/20 * * * *", BERLIN)
    zone = ZoneInfo(BERLIN)
    first = cron.next(datetime(2026, 10, 25, 2, 30, tzinfo=zone))
    second = cron.next(datetime(2026, 10, 25, 2, 30, tzinfo=zone, fold=1))
    assert first == datetime(2026, 10, 25, 0, 40, tzinfo=UTC)
    assert second == datetime(2026, 10, 25, 1, 40, tzinfo=UTC)
    fixed = Cron("40 2 * * *", BERLIN)
    assert fixed.next(datetime(2026, 10, 25, 2, 30, tzinfo=zone, fold=1)) == datetime(2026, 10, 26, 1, 40, tzinfo=UTC)
    assert fixed.previous(datetime(2026, 10, 25, 2, 30, tzinfo=zone, fold=1)) == datetime(
        2026, 10, 25, 0, 40, tzinfo=UTC
    )


def test_a_rule_whose_every_time_is_skipped_has_no_next_one() -> None:
    cron = Cron("30 2 * 3 SUNL", BERLIN, gap="skip")
    assert cron.next(datetime(2026, 1, 1, tzinfo=UTC)) is None
    before = cron.previous(datetime(2026, 1, 1, tzinfo=UTC))
    assert before is not None
    assert before.year == 1980  # since the year after, clocks change on that very night


def test_a_new_rule_of_a_zone_takes_effect(tmp_path: Path) -> None:
    """As after a restart: the zone's file is read again, and nothing of the old one is left."""
    place = tmp_path / "Test" / "Changing"
    place.parent.mkdir()
    zoneinfo.reset_tzpath(to=[str(tmp_path)])
    try:
        moment = datetime(2026, 7, 1, tzinfo=UTC)
        for source, hour in (("Europe/Berlin", 7), ("Asia/Tokyo", 0), ("America/New_York", 13)):
            place.write_bytes(zone_file(source))
            ZoneInfo.clear_cache(only_keys=["Test/Changing"])
            found = Cron.from_document({"kind": "cron", "expression": "0 9 * * *", "timezone": "Test/Changing"}).next(
                moment
            )
            assert found is not None
            assert found.astimezone(UTC).hour == hour
    finally:
        zoneinfo.reset_tzpath()
        ZoneInfo.clear_cache(only_keys=["Test/Changing"])


def zone_file(key: str) -> bytes:
    folder, _, name = key.partition("/")
    return resources.files(f"tzdata.zoneinfo.{folder}").joinpath(name).read_bytes()


HISTORY = [
    ("Pacific/Apia", "2011-12-30T10:00"),
    ("Pacific/Kwajalein", "1993-08-21T12:00"),
    ("America/Sao_Paulo", "2018-11-04T03:00"),
    ("America/Sao_Paulo", "2018-02-18T02:00"),
    ("Asia/Pyongyang", "2018-05-04T15:00"),
    ("Asia/Kathmandu", "1985-12-31T18:30"),
    ("America/Caracas", "2016-05-01T07:00"),
    ("Africa/Monrovia", "1972-01-07T00:44:30"),
    ("Africa/Freetown", "1939-09-01T01:00"),
    ("Pacific/Kiritimati", "1994-12-31T10:40"),
    ("Asia/Manila", "1990-05-20T16:00"),
    ("Europe/Lisbon", "1992-09-27T01:00"),
]


@settings(max_examples=20, deadline=None)
@given(st.one_of(writing.every_day, writing.five_fields), writing.GAPS, writing.FOLDS)
@pytest.mark.slow
def test_history_agrees_with_the_oracle(expression: str, gap: str, fold: str) -> None:
    meaning = Meaning(expression)
    for zone, text in HISTORY:
        middle = datetime.fromisoformat(text).replace(tzinfo=UTC, second=0)
        window = around(zone, middle)
        if all(wall.second == 0 for _, wall in window.minutes):
            compare(window, make(expression, zone, gap, fold), meaning)


KNOWN: dict[tuple[str, datetime], Window] = {}


def around(zone: str, middle: datetime) -> Window:
    if (zone, middle) not in KNOWN:
        KNOWN[zone, middle] = Window(zone, middle, 60.0)
    return KNOWN[zone, middle]


# Notes


def noted(
    expression: str, zone: str, start: str, fold: str = "first", days: int = 2
) -> list[tuple[str, tuple[str, ...]]]:
    cron = Cron(expression, zone, fold=fold)  # type: ignore[arg-type]
    first = datetime.fromisoformat(start).replace(tzinfo=ZoneInfo(zone))
    return [(f"{found:%d %H:%M}", cron.notes(found)) for found in cron.between(first, first + timedelta(days=days))]


def test_a_note_says_what_did_not_exist() -> None:
    assert noted("30 2 * * *", BERLIN, MARCH[0]) == [
        ("29 03:00", ("02:30 does not exist on this night in Europe/Berlin; fires at 03:00 instead",)),
        ("30 02:30", ()),
    ]
    several = noted("0,30 2 29 3 *", BERLIN, MARCH[0])
    assert several[0][1] == (
        "02:00 and 02:30 do not exist on this night in Europe/Berlin; fires once, at 03:00 instead",
    )
    many = noted("0-59 2 29 3 *", BERLIN, MARCH[0])
    assert many[0][1] == (
        "02:00, 02:01 and others do not exist on this night in Europe/Berlin; fires once, at 03:00 instead",
    )


def test_a_note_about_another_day_says_which() -> None:
    assert noted("0 12 * * FRI", "Pacific/Apia", "2011-12-29T00:00", days=3)[0] == (
        "31 00:00",
        ("2011-12-30 12:00 does not exist in Pacific/Apia; fires at 2011-12-31 00:00 instead",),
    )


def test_a_note_says_which_pass_it_is() -> None:
    note = "02:30 happens twice on this night in Europe/Berlin; this is the {} pass"
    assert noted("30 2 * * *", BERLIN, OCTOBER[0], fold="both") == [
        ("25 02:30", (note.format("first"),)),
        ("25 02:30", (note.format("second"),)),
        ("26 02:30", ()),
    ]
    assert noted("30 2 * * *", BERLIN, OCTOBER[0], fold="last")[0][1] == (note.format("second"),)


def test_there_are_no_notes_where_nothing_happened_or_nothing_fires() -> None:
    cron = Cron("30 2 * * *", BERLIN)
    assert cron.notes(datetime(2026, 7, 1, 0, 30, tzinfo=UTC)) == ()
    assert cron.notes(datetime(2026, 3, 29, 1, 0, 1, tzinfo=UTC)) == ()
    assert cron.notes(datetime(2026, 3, 29, 1, 0, 0, 5, tzinfo=UTC)) == ()
    assert cron.notes(datetime(2026, 10, 25, 1, 30, tzinfo=UTC)) == ()
    assert len(cron.notes(datetime(2026, 3, 29, 3, 0, tzinfo=find_zone(BERLIN)))) == 1
    assert Cron("30 2 * * *", BERLIN, gap="skip").notes(datetime(2026, 3, 29, 1, tzinfo=UTC)) == ()
