"""Zones: their changes as the files have them, and wall times turned into instants under a policy."""

from __future__ import annotations

import struct
import zoneinfo
from datetime import UTC, datetime, timedelta, timezone
from importlib import resources
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.fuzzing import FULL
from mainspring.errors import InvalidSchedule
from mainspring.rules.zones.zone import BLOCK, EARLIEST, LATEST, find_zone, in_zone, instants, segments
from unit.rules.cron.oracle import Window, changes
from unit.rules.cron.writing import FOLDS, GAPS

OLD = (
    "Africa/Cairo", "Africa/Casablanca", "Africa/Freetown", "Africa/Monrovia", "America/Juneau", "America/New_York",
    "America/Sao_Paulo", "Antarctica/Troll", "Asia/Gaza", "Asia/Tehran", "Australia/Lord_Howe", "Europe/Berlin",
    "Europe/Dublin", "Europe/Lisbon", "Europe/Moscow", "Pacific/Apia", "Pacific/Kwajalein",
)  # fmt: skip
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def zone_file(key: str) -> bytes:
    """The file of a zone, found where `zoneinfo` finds it."""
    for folder in zoneinfo.TZPATH:
        if (file := Path(folder) / key).is_file():
            return file.read_bytes()
    package, _, name = f"tzdata/zoneinfo/{key}".rpartition("/")
    return resources.files(package.replace("/", ".")).joinpath(name).read_bytes()


def written(key: str) -> list[tuple[datetime, int, int]]:
    """The changes of the offset that a zone's file lists in its 64-bit part; a rule for later years may follow."""
    data = zone_file(key)
    counts = struct.unpack(">6l", data[20:44])
    start = 44 + counts[3] * 5 + counts[4] * 6 + counts[5] + counts[2] * 8 + counts[1] + counts[0]
    _, _, _, number, kinds, _ = struct.unpack(">6l", data[start + 20 : start + 44])
    start += 44
    times = struct.unpack(f">{number}q", data[start : start + 8 * number])
    indexes = data[start + 8 * number : start + 9 * number]
    start += 9 * number
    offsets = [struct.unpack(">l", data[start + 6 * kind : start + 6 * kind + 4])[0] for kind in range(kinds)]
    found, before = [], offsets[0]
    for time, index in zip(times, indexes, strict=True):
        if offsets[index] != before and time > -4_000_000_000:
            found.append((EPOCH + timedelta(seconds=time), before, offsets[index]))
        before = offsets[index]
    return found


def transitions(zone: ZoneInfo, start: datetime, end: datetime) -> list[tuple[datetime, int, int]]:
    """The changes of the offset within the segments of a zone: their instants, and the offsets before and after."""
    found: list[tuple[datetime, int, int]] = []
    low, high = int(start.timestamp()), int(end.timestamp())
    for number in range(low // BLOCK, high // BLOCK + 1):
        for before, after in pairwise(segments(zone, number)):
            here = max(low, number * BLOCK) <= after.start < min(high, (number + 1) * BLOCK)
            if here and before.offset != after.offset:
                found.append((EPOCH + timedelta(seconds=after.start), before.offset, after.offset))
    return found


@pytest.mark.parametrize("key", sorted(available_timezones()) if FULL else OLD)
def test_the_changes_of_a_zone_are_those_of_its_file(key: str) -> None:
    listed = written(key)
    if not listed:
        pytest.skip("it never changed")
    start, end = listed[0][0] - timedelta(days=30), listed[-1][0] + timedelta(seconds=1)
    assert transitions(find_zone(key), start, end) == listed


@pytest.mark.slow
def test_the_changes_of_all_zones_are_found_from_2020_to_2037() -> None:
    known: dict[str, list[tuple[datetime, timedelta, timedelta]]] = {}
    for zone, *change in changes():
        known.setdefault(zone, []).append(tuple(change))  # type: ignore[arg-type]
    start, end = datetime(2020, 1, 1, tzinfo=UTC), datetime(2038, 1, 1, tzinfo=UTC)
    for key, expected in known.items():
        found = transitions(find_zone(key), start, end)
        assert [(at, timedelta(seconds=before), timedelta(seconds=after)) for at, before, after in found] == expected


def test_a_change_belongs_to_the_time_that_it_begins() -> None:
    berlin = find_zone("Europe/Berlin")
    at = datetime(2026, 3, 29, 1, tzinfo=UTC)
    second = timedelta(seconds=1)
    assert len(transitions(berlin, at, at + second)) == 1
    assert len(transitions(berlin, at - second, at)) == 0
    assert len(transitions(berlin, at + second, at + timedelta(days=100))) == 0
    assert transitions(find_zone("UTC"), at - timedelta(days=4000), at) == []


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10), GAPS, FOLDS)
def test_wall_times_around_a_change_are_the_instants_at_which_clocks_show_them(start: int, gap: str, fold: str) -> None:
    for zone, at, _, _ in changes()[start::41]:
        window = Window(zone, at, 8.0)
        for wall in window.walls[240:-240:7]:
            real = window.instants.get(wall, [])
            expected = {"first": real[:1], "last": real[-1:], "both": real}[fold]
            if not real and gap == "after":
                expected = [next(moment for moment, shown in window.minutes if shown > wall)]
            found = instants(wall, find_zone(zone), gap, fold)  # type: ignore[arg-type]
            assert list(found) == expected
            assert all(type(moment.tzinfo) is timezone for moment in found)


def test_fractions_of_a_second_are_kept_where_the_wall_time_exists() -> None:
    wall = datetime(2026, 10, 25, 2, 30, 0, 250_000)
    assert [moment.isoformat() for moment in instants(wall, find_zone("Europe/Berlin"), fold="both")] == [
        "2026-10-25T02:30:00.250000+02:00",
        "2026-10-25T02:30:00.250000+01:00",
    ]
    lost = instants(datetime(2026, 3, 29, 2, 30, 0, 250_000), find_zone("Europe/Berlin"))
    assert [moment.isoformat() for moment in lost] == ["2026-03-29T03:00:00+02:00"]


def test_at_the_ends_of_time_there_are_no_instants() -> None:
    for wall in (datetime.min, datetime.max):
        assert instants(wall, find_zone("Asia/Tokyo")) == ()
    assert EARLIEST < 0 < LATEST


def test_an_instant_is_shown_with_the_offset_of_its_zone() -> None:
    shown = in_zone(datetime(2026, 10, 25, 1, 30, tzinfo=UTC), find_zone("Europe/Berlin"))
    assert shown.isoformat() == "2026-10-25T02:30:00+01:00"
    assert (shown.tzname(), type(shown.tzinfo), shown.fold) == ("CET", timezone, 0)


def test_a_zone_without_a_name_is_refused() -> None:
    with resources.files("tzdata.zoneinfo.Europe").joinpath("Berlin").open("rb") as file:
        nameless = ZoneInfo.from_file(file)
    with pytest.raises(InvalidSchedule, match="A time zone without a name cannot be stored"):
        find_zone(nameless)


def test_a_zone_of_python_is_taken_as_it_is() -> None:
    zone = ZoneInfo("Europe/Berlin")
    assert find_zone(zone) is zone
    assert find_zone(UTC).key == "UTC"
    with pytest.raises(InvalidSchedule, match="timezone must be an IANA name"):
        find_zone(timezone(timedelta(hours=1)))
