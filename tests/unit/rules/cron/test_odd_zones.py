"""Zones that no government has thought of yet: changes within hours of each other, and offsets that cross each other.

Such zones are written as files of their own, and compared with the oracle like the real ones.
"""

from __future__ import annotations

import struct
import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mainspring.rules.cron import Cron
from unit.rules.cron import writing
from unit.rules.cron.comparing import EXAMPLES, compare, make
from unit.rules.cron.oracle import Meaning, Window

MIDDLE = datetime(2026, 6, 10, 12, tzinfo=UTC)
HOUR, MINUTE = 3600, 60
ODD = {
    "forward_then_back_beyond": [(0, 0), (10 * HOUR, 2 * HOUR), (12 * HOUR, -30 * MINUTE)],
    "back_then_forward_beyond": [(0, 0), (10 * HOUR, -2 * HOUR), (11 * HOUR, 90 * MINUTE)],
    "twice_back": [(0, 3 * HOUR), (10 * HOUR, 2 * HOUR), (10 * HOUR + 40 * MINUTE, 0)],
    "twice_forward": [(0, -3 * HOUR), (10 * HOUR, -1 * HOUR), (11 * HOUR, 2 * HOUR)],
    "a_day_back_and_two_forward": [(0, 10 * HOUR), (8 * HOUR, -14 * HOUR), (20 * HOUR, 23 * HOUR)],
    "back_and_forth": [(0, 0), (9 * HOUR, HOUR), (10 * HOUR, -HOUR), (11 * HOUR, 2 * HOUR), (12 * HOUR, -2 * HOUR)],
    "lost_twice": [(0, 0), (10 * HOUR, 2 * HOUR), (630 * MINUTE, -HOUR), (645 * MINUTE, 135 * MINUTE)],
    "forward_back_forward": [(0, 0), (10 * HOUR, 2 * HOUR), (12 * HOUR, -30 * MINUTE), (13 * HOUR, 2 * HOUR)],
    "one_name_after_another": [(0, HOUR), (9 * HOUR, HOUR), (11 * HOUR, HOUR)],
}


def zone_file(changes: list[tuple[int, int]]) -> bytes:
    """A file with these changes (seconds of the tenth of June, and the offset from then on), in version 2."""
    start = int(datetime(2026, 6, 10, tzinfo=UTC).timestamp())
    head = b"TZif2" + bytes(15)
    kinds = b"".join(struct.pack(">lBB", offset, 0, 2 * number) for number, (_, offset) in enumerate(changes))
    names = b"".join(f"{chr(65 + number)}\0".encode() for number in range(len(changes)))
    times = b"".join(struct.pack(">q", start + second) for second, _ in changes[1:])
    counts = struct.pack(">6l", 0, 0, 0, len(changes) - 1, len(changes), len(names))
    empty = struct.pack(">6l", 0, 0, 0, 0, 1, 1) + bytes(7)
    return head + empty + head + counts + times + bytes(range(1, len(changes))) + kinds + names + b"\n\n"


@pytest.fixture
def odd_zones(tmp_path: Path) -> Iterator[list[Window]]:
    """The windows around the odd changes, while these zones can be found by name."""
    for name, changes in ODD.items():
        (tmp_path / "Odd").mkdir(exist_ok=True)
        (tmp_path / "Odd" / name).write_bytes(zone_file(changes))
    zoneinfo.reset_tzpath(to=[str(tmp_path)])
    try:
        yield [Window(f"Odd/{name}", MIDDLE, 52.0) for name in ODD]
    finally:
        zoneinfo.reset_tzpath()
        ZoneInfo.clear_cache(only_keys=[f"Odd/{name}" for name in ODD])


def test_odd_zones_agree_with_the_oracle(odd_zones: list[Window]) -> None:
    @settings(max_examples=EXAMPLES, deadline=None)
    @example("0,30 10 * * *", "after", "last")
    @example("0,30 10 * * *", "after", "first")
    @example("0-50/10 9-15 * * *", "after", "last")
    @given(st.one_of(writing.every_day, writing.five_fields), writing.GAPS, writing.FOLDS)
    def check(expression: str, gap: str, fold: str) -> None:
        meaning = Meaning(expression)
        for window in odd_zones:
            compare(window, make(expression, window.zone, gap, fold), meaning)

    check()


@pytest.mark.parametrize("fold", ["first", "last", "both"])
def test_what_is_lost_fires_once_even_where_its_instant_does_not_count(odd_zones: list[Window], fold: str) -> None:
    """From 10:00 to 12:00, and two hours later back to 11:30: what follows the gap is the pass that may not count."""
    cron = Cron("0,30 10 * * *", "Odd/forward_then_back_beyond", fold=fold)  # type: ignore[arg-type]
    found = list(cron.between(datetime(2026, 6, 10, 9, tzinfo=UTC), datetime(2026, 6, 10, 20, tzinfo=UTC)))
    assert [f"{moment:%H:%M %Z}" for moment in found] == ["12:00 B"]
    assert cron.count(datetime(2026, 6, 10, 9, tzinfo=UTC), datetime(2026, 6, 10, 20, tzinfo=UTC)) == 1
    assert cron.previous(datetime(2026, 6, 10, 20, tzinfo=UTC)) == found[0]
    assert len(cron.notes(found[0])) >= 1


def test_a_change_of_the_name_alone_moves_nothing(odd_zones: list[Window]) -> None:
    cron = Cron("30 * * * *", "Odd/one_name_after_another")
    found = list(cron.between(datetime(2026, 6, 10, 7, tzinfo=UTC), datetime(2026, 6, 10, 12, tzinfo=UTC)))
    assert [f"{moment:%H:%M %Z}" for moment in found] == ["08:30 A", "09:30 A", "10:30 B", "11:30 B", "12:30 C"]
