"""Counting attempts, percentiles from bins, and the grid of a series."""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import ConfigurationError
from mainspring.model.views.statistics import (
    BOUNDS,
    OTHERS,
    OUTCOMES,
    WAIT_BOUNDS,
    Counted,
    Counts,
    Tally,
    make_statistics,
    summed,
)
from mainspring.model.views.windows import MOST_POINTS, make_window

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def test_attempts_of_one_minute_name_and_queue_are_counted_together() -> None:
    tally = Tally()
    for second in (0, 30, 59, 60):
        tally.ended(NOON + timedelta(seconds=second), "default", "work", "completed", 0.02)
    tally.ended(NOON, "other", "work", "failed", 1.0)
    counted = {(kind.at, kind.queue, kind.name): one for kind, one in tally.take()}
    assert counted[NOON, "default", "work"].completed == 3
    assert counted[NOON + MINUTE, "default", "work"].completed == 1
    assert counted[NOON, "other", "work"].failed == 1
    assert tally.take() == []


def test_the_lateness_of_what_starts_early_is_nothing() -> None:
    tally = Tally()
    tally.began(NOON, "default", "work", timedelta(seconds=2))
    tally.began(NOON, "default", "work", timedelta(seconds=-5))
    ((_, counts),) = tally.take()
    assert (counts.started, counts.lateness_ms, counts.mean_lateness) == (2, 2000, timedelta(seconds=1))


def test_too_many_names_are_counted_as_others() -> None:
    tally = Tally()
    for number in range(2000):
        tally.ended(NOON, "default", f"name-{number}", "completed", 0.0)
    counted = tally.take()
    assert len(counted) < 600
    assert summed([counts for _, counts in counted]).completed == 2000
    assert any(kind.name == kind.queue == OTHERS for kind, _ in counted)


def test_every_attempt_is_in_one_outcome_and_a_snooze_is_no_execution() -> None:
    counts = Counts()
    for outcome in OUTCOMES:
        counts.ended(outcome, 5)
    assert (counts.executions, counts.unsuccessful, counts.snoozed, sum(counts.bins)) == (5, 3, 1, 6)


@given(st.lists(st.integers(min_value=0, max_value=2_000_000), min_size=1, max_size=200), st.integers(1, 100))
def test_a_percentile_lies_within_the_bin_of_the_true_one(durations: list[int], percent: int) -> None:
    counts = Counts()
    for duration in durations:
        counts.ended("completed", duration)
    true = sorted(durations)[-(-percent * len(durations) // 100) - 1]
    place = bisect_left(BOUNDS, true)
    told = counts.percentile(percent / 100)
    assert told is not None
    low, high = (0, *BOUNDS)[place], (*BOUNDS, BOUNDS[-1])[place]
    assert timedelta(milliseconds=low) <= told <= timedelta(milliseconds=high)


def test_nothing_has_no_percentile_and_no_mean() -> None:
    assert (Counts().percentile(0.5), Counts().mean_duration, Counts().mean_lateness) == (None, None, None)


def test_a_window_is_widened_to_whole_steps() -> None:
    zone = timezone(timedelta(hours=2))
    window = make_window(NOON.astimezone(zone) + timedelta(minutes=7), NOON + timedelta(minutes=61), HOUR)
    assert (window.start, window.end, window.starts) == (NOON, NOON + 2 * HOUR, [NOON, NOON + HOUR])


@pytest.mark.parametrize(
    ("start", "end", "step", "message"),
    [
        (NOON, NOON, HOUR, "end must be after start"),
        (NOON, NOON - HOUR, HOUR, "end must be after start"),
        (NOON, NOON + HOUR, 0, "step must be a whole number of minutes"),
        (NOON, NOON + HOUR, 90, "step must be a whole number of minutes"),
        (NOON, NOON + HOUR, "1", "step='1' lacks a unit"),
        (NOON, NOON + (MOST_POINTS + 1) * MINUTE, MINUTE, "Use longer steps"),
        (NOON, NOON + (MOST_POINTS + 1) * MINUTE, 2 * MINUTE, "use steps of 5 minutes"),
        (NOON.replace(tzinfo=None), NOON, HOUR, "has no time zone"),
        ("noon", NOON, HOUR, "must be an aware datetime"),
    ],
)
def test_a_wrong_window_is_refused_with_what_would_be_right(
    start: object, end: object, step: object, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make_window(start, end, step)  # type: ignore[arg-type]


def test_a_series_has_the_steps_in_which_nothing_happened() -> None:
    one, other = Counts(completed=2), Counts(failed=1)
    series = make_statistics(
        make_window(NOON, NOON + 3 * HOUR, HOUR),
        [Counted(NOON, one), Counted(NOON + 2 * HOUR, other), Counted(NOON + 9 * HOUR, other)],
    )
    assert [(point.counts.completed, point.counts.failed) for point in series.points] == [(2, 0), (0, 0), (0, 1)]
    assert (series.total.completed, series.total.failed, one.completed) == (2, 1, 2)


def test_the_step_of_a_series_suits_its_length() -> None:
    lengths = {
        "15 minutes": (15 * MINUTE, MINUTE),
        "an hour": (HOUR, MINUTE),
        "six hours": (6 * HOUR, 5 * MINUTE),
        "a day": (24 * HOUR, 10 * MINUTE),
        "a week": (7 * 24 * HOUR, HOUR),
        "thirty days": (30 * 24 * HOUR, 6 * HOUR),
        "a year": (365 * 24 * HOUR, 48 * HOUR),
    }
    assert {words: make_window(NOON, NOON + length).step for words, (length, _) in lengths.items()} == {
        words: step for words, (_, step) in lengths.items()
    }


@given(st.integers(min_value=1, max_value=5 * 365 * 24 * 60))
def test_a_window_without_a_step_has_neither_few_nor_many_steps(minutes: int) -> None:
    window = make_window(NOON, NOON + minutes * MINUTE)
    assert min(minutes, 20) <= len(window.starts) <= 260


@given(st.lists(st.integers(min_value=0, max_value=200_000_000), min_size=1, max_size=200), st.integers(1, 100))
def test_a_percentile_of_the_waits_lies_within_the_bin_of_the_true_one(waits: list[int], percent: int) -> None:
    counts = Counts()
    for wait in waits:
        counts.began(wait)
    true = sorted(waits)[-(-percent * len(waits) // 100) - 1]
    place = bisect_left(WAIT_BOUNDS, true)
    told = counts.wait_percentile(percent / 100)
    assert told is not None
    low, high = (0, *WAIT_BOUNDS)[place], (*WAIT_BOUNDS, WAIT_BOUNDS[-1])[place]
    assert timedelta(milliseconds=low) <= told <= timedelta(milliseconds=high)
    assert sum(counts.waits) == counts.started == len(waits)


def test_the_oldest_of_a_step_is_the_oldest_of_its_minutes() -> None:
    found = [
        Counted(NOON, Counts(), timedelta(seconds=5)),
        Counted(NOON + MINUTE, Counts(), timedelta(seconds=50)),
        Counted(NOON + 2 * MINUTE, Counts(), None),
    ]
    series = make_statistics(make_window(NOON, NOON + 2 * HOUR, HOUR), found)
    assert [point.oldest for point in series.points] == [timedelta(seconds=50), None]
