"""Clocks: how the server's time is learned, and the clock that tests move by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from mainspring.clock import ManualClock, ServerClock, monotonic, truncate

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def _gap(clock: ServerClock, expected: datetime) -> float:
    return abs((clock.now() - expected).total_seconds())


def test_a_reading_sets_the_clock_to_the_servers_time() -> None:
    clock = ServerClock()
    now = monotonic()
    clock.learn(NOON, now - 0.01, now)
    assert _gap(clock, NOON) < 1
    assert clock.at(now - 0.005) == NOON
    assert clock.age < 1


def test_the_servers_answer_is_taken_to_be_from_the_middle_of_the_round_trip() -> None:
    clock = ServerClock()
    clock.learn(NOON, 100.0, 102.0)
    assert clock.at(101.0) == NOON
    assert clock.at(111.5) == NOON + timedelta(seconds=10.5)


def test_a_slower_reading_does_not_replace_a_better_one() -> None:
    clock = ServerClock()
    now = monotonic()
    clock.learn(NOON, now - 0.002, now)
    clock.learn(NOON + timedelta(hours=1), now - 5, now)
    assert _gap(clock, NOON) < 1


def test_a_faster_reading_replaces_a_slower_one() -> None:
    clock = ServerClock()
    now = monotonic()
    clock.learn(NOON, now - 5, now)
    clock.learn(NOON + timedelta(hours=1), now - 0.002, now)
    assert _gap(clock, NOON + timedelta(hours=1)) < 1


def test_an_old_reading_loses_its_worth_so_that_a_new_primary_is_followed() -> None:
    clock = ServerClock()
    now = monotonic()
    clock.learn(NOON, now - 60.002, now - 60)
    clock.learn(NOON + timedelta(hours=1), now - 0.05, now)
    assert _gap(clock, NOON + timedelta(hours=1)) < 1


def test_after_forgetting_any_reading_counts() -> None:
    clock = ServerClock()
    now = monotonic()
    clock.learn(NOON, now - 0.002, now)
    clock.forget()
    clock.learn(NOON + timedelta(hours=1), now - 5, now)
    assert _gap(clock, NOON + timedelta(hours=1)) < 5


def test_before_it_has_learned_anything_it_goes_by_the_local_clock_and_is_infinitely_old() -> None:
    clock = ServerClock()
    assert _gap(clock, datetime.now(UTC)) < 5
    assert clock.age == float("inf")


def test_in_queries_the_server_reads_its_own_clock() -> None:
    assert ServerClock().expression() == "$$NOW"


def test_a_manual_clock_stands_still_until_it_is_moved() -> None:
    clock = ManualClock(NOON)
    assert (clock.now(), clock.at(5.0), clock.expression()) == (NOON, NOON, NOON)
    assert clock.advance(1.5) == NOON + timedelta(seconds=1.5)
    assert clock.advance(timedelta(days=1)) == NOON + timedelta(days=1, seconds=1.5) == clock.now()
    assert clock.advance("1d12h") == NOON + timedelta(days=2, hours=12, seconds=1.5) == clock.now()


def test_a_manual_clock_learns_nothing() -> None:
    clock = ManualClock(NOON)
    clock.learn(datetime(1999, 1, 1, tzinfo=UTC), 0.0, 1.0)
    assert clock.now() == NOON


@pytest.mark.parametrize(
    "instant", [datetime(2030, 1, 1, 12, 0, 0, 123_999, UTC), datetime(2030, 1, 1, 7, 0, 0, 123_999).astimezone()]
)
def test_instants_are_kept_in_whole_milliseconds_rounded_down(instant: datetime) -> None:
    kept = truncate(instant)
    assert kept.microsecond == 123_000 and kept.tzinfo is UTC and kept <= instant


def test_truncating_keeps_the_instant_in_whatever_zone_it_was_given() -> None:
    assert truncate(NOON.astimezone(timezone(timedelta(hours=5)))) == NOON
