"""At: a list of instants."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring import At, InvalidSchedule
from unit.rules.agreement import check, utc

near = st.datetimes(datetime(2025, 1, 1), datetime(2025, 1, 3), timezones=st.just(UTC))


def test_it_fires_at_its_instants_in_order_and_once() -> None:
    one, two = utc("2026-01-01"), datetime(2026, 1, 1, 0, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    rule = At([one, two, one])
    assert rule.instants == (two, one)
    assert rule.next(utc("2025-01-01")) == two
    assert rule.next(one) is None
    assert rule.previous(two) is None


@settings(deadline=None)
@given(st.lists(near, min_size=1, max_size=30), near)
def test_next_previous_between_and_count_agree(instants: list[datetime], start: datetime) -> None:
    found = check(At(instants), start, start + timedelta(days=1))
    kept = {at.replace(microsecond=at.microsecond // 1000 * 1000) for at in instants}
    assert found == sorted(at for at in kept if start <= at < start + timedelta(days=1))


def test_ten_thousand_instants_are_enough() -> None:
    instants = [utc("2026-01-01") + timedelta(minutes=n) for n in range(10_001)]
    assert len(At(instants[:-1]).instants) == 10_000
    with pytest.raises(InvalidSchedule, match="at most 10,000"):
        At(instants)


@pytest.mark.parametrize(
    ("instants", "complaint"),
    [
        ([], "would never fire; give at least one"),
        (utc("2026-01-01"), "takes a list"),
        ("2026-01-01", "takes a list"),
        (5, "takes a list"),
        ([datetime(2026, 1, 1)], "instant 0=2026-01-01T00:00:00 has no time zone"),
        ([utc("2026-01-01"), "tomorrow"], "instant 1 must be an aware datetime"),
    ],
)
def test_what_is_no_list_of_instants_is_refused(instants: Any, complaint: str) -> None:
    with pytest.raises(InvalidSchedule, match=complaint):
        At(instants)


def test_it_says_what_it_means() -> None:
    days = [utc("2026-01-01") + timedelta(days=n) for n in range(5)]
    assert At(days[:1]).describe() == "at 2026-01-01 00:00:00 UTC"
    assert At(days[:2]).describe() == "at 2026-01-01 00:00:00 UTC and 2026-01-02 00:00:00 UTC"
    assert At(days).describe().endswith("and 3 more times until 2026-01-05")
