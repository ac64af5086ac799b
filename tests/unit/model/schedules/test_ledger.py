"""The ledger: what became of every firing, from the rules that were in force and the few rows that are kept."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from mainspring import Calendar, Cron, Every, Except
from mainspring.model.schedules.ledger import (
    BACKFILLED,
    DUE,
    EXPECTED,
    LATE,
    MISSED,
    ON_TIME,
    OUTCOMES,
    SKIPPED,
    TRIGGERED,
    Book,
    Entry,
    Era,
    Row,
    entries,
)
from mainspring.model.schedules.times import Times, firing_id
from mainspring.rules import Rule

T0 = datetime(2030, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
MOMENT = timedelta(milliseconds=1)
HOURLY = Every("1h", anchor=T0)


def hour(number: float) -> datetime:
    return T0 + number * HOUR


def era(rule: Rule, since: float = 0, until: float | None = None, jitter: float = 0.0) -> Era:
    return Era(hour(since), None if until is None else hour(until), Times("s", rule, jitter=jitter))


def read(
    *eras: Era,
    rows: Sequence[Row] = (),
    cursor: float = 0,
    paused: float | None = None,
    now: float = 0,
    start: float = 0,
    end: float = 6,
    limit: int = 1000,
) -> list[Entry]:
    book = Book(eras, rows, hour(cursor), None if paused is None else hour(paused), hour(now))
    return entries(book, hour(start), hour(end), limit)


def brief(found: Sequence[Entry]) -> list[tuple[float, str, str]]:
    return [((entry.at - T0) / HOUR, entry.outcome, entry.reason) for entry in found]


def row(at: float, outcome: str, reason: str = "", until: float | None = None, job: str | None = None) -> Row:
    return Row(hour(at), hour(at if until is None else until), outcome, reason, job_id=job)


def test_a_firing_before_the_cursor_without_a_row_was_on_time_and_names_its_job() -> None:
    found = read(era(HOURLY), cursor=2, now=2, end=3)
    assert found == [Entry(hour(n), ON_TIME, job_id=firing_id("s", hour(n))) for n in (1, 2)]


def test_a_firing_after_the_cursor_is_due_when_its_time_has_come_and_expected_before() -> None:
    assert brief(read(era(HOURLY), cursor=1, now=3, end=5)) == [
        (1, ON_TIME, ""),
        (2, DUE, ""),
        (3, DUE, ""),
        (4, EXPECTED, ""),
    ]


def test_jitter_decides_what_is_due_and_the_firing_keeps_its_instant() -> None:
    found = read(era(HOURLY, jitter=3000), cursor=0, now=1, end=2)
    assert brief(found) == [(1, EXPECTED, "")]


def test_what_a_row_says_counts_for_its_firing() -> None:
    late = Row(hour(1), hour(1), LATE, late_by=HOUR / 2, job_id="j")
    skipped = row(2, SKIPPED, "overlap: a is still going")
    assert read(era(HOURLY), rows=[late, skipped], cursor=2, now=2, end=3) == [
        Entry(hour(1), LATE, late_by=HOUR / 2, job_id="j"),
        Entry(hour(2), SKIPPED, "overlap: a is still going"),
    ]


def test_a_row_of_a_span_counts_for_every_firing_in_it_and_for_no_other() -> None:
    span = row(2, MISSED, "the latest run stands for it", until=4, job="s@latest")
    found = read(era(HOURLY), rows=[span], cursor=6, now=6, end=7)
    assert [entry.outcome for entry in found] == [ON_TIME, MISSED, MISSED, MISSED, ON_TIME, ON_TIME]
    assert [entry.job_id for entry in found[1:4]] == ["s@latest"] * 3


def test_the_row_of_one_firing_counts_more_than_that_of_a_span_around_it() -> None:
    rows = [row(1, SKIPPED, "paused", until=3), row(2, BACKFILLED, job="j")]
    assert brief(read(era(HOURLY), rows=rows, cursor=3, now=3, end=4)) == [
        (1, SKIPPED, "paused"),
        (2, BACKFILLED, ""),
        (3, SKIPPED, "paused"),
    ]


def test_runs_by_hand_stand_between_the_firings_in_order() -> None:
    rows = [row(2.5, TRIGGERED, "why not", job="s!x"), row(0.5, TRIGGERED, job="s!y")]
    assert brief(read(era(HOURLY), rows=rows, cursor=3, now=3, end=4)) == [
        (0.5, TRIGGERED, ""),
        (1, ON_TIME, ""),
        (2, ON_TIME, ""),
        (2.5, TRIGGERED, "why not"),
        (3, ON_TIME, ""),
    ]


def test_a_run_by_hand_at_the_instant_of_a_firing_is_an_entry_of_its_own() -> None:
    found = read(era(HOURLY), rows=[row(1, TRIGGERED, job="s!x")], cursor=1, now=1, end=2)
    assert sorted((entry.outcome, entry.job_id) for entry in found) == [
        (ON_TIME, firing_id("s", hour(1))),
        (TRIGGERED, "s!x"),
    ]


def test_while_it_is_paused_what_comes_due_is_skipped_and_the_future_is_open() -> None:
    assert brief(read(era(HOURLY), cursor=1, paused=1.5, now=3, end=5)) == [
        (1, ON_TIME, ""),
        (2, SKIPPED, "paused"),
        (3, SKIPPED, "paused"),
        (4, EXPECTED, ""),
    ]


def test_each_firing_is_that_of_the_rule_that_was_in_force_at_its_time() -> None:
    half = Every("30m", anchor=T0)
    assert brief(read(era(HOURLY, 0, 2), era(half, 2, 3), era(HOURLY, 3), cursor=4, now=4, end=5)) == [
        (1, ON_TIME, ""),
        (2, ON_TIME, ""),
        (2.5, ON_TIME, ""),
        (3, ON_TIME, ""),
        (4, ON_TIME, ""),
    ]


def test_nothing_is_told_of_a_gap_between_two_eras() -> None:
    assert [entry.at for entry in read(era(HOURLY, 0, 1), era(HOURLY, 3), cursor=5, now=5)] == [
        hour(1),
        hour(4),
        hour(5),
    ]


def test_an_era_that_is_over_expects_nothing_more() -> None:
    assert brief(read(era(HOURLY, 0, 2), cursor=2, now=4)) == [(1, ON_TIME, ""), (2, ON_TIME, "")]


def test_what_a_calendar_took_away_is_told_with_the_calendars_name() -> None:
    rule = Except(Cron("0 */12 * * *"), "holidays").bind("s", {"holidays": Calendar(["2030-01-02"])})
    found = read(era(rule), cursor=72, now=72, end=73)
    assert brief(found) == [
        (12, ON_TIME, ""),
        (24, SKIPPED, "calendar holidays"),
        (36, SKIPPED, "calendar holidays"),
        (48, ON_TIME, ""),
        (60, ON_TIME, ""),
        (72, ON_TIME, ""),
    ]


def test_firings_of_a_rule_that_counts_from_ends_are_known_by_their_rows_alone() -> None:
    rows = [row(1.1, ON_TIME, job="a"), row(2.7, LATE, job="b")]
    after = era(Every("1h", after="end"))
    assert [entry.job_id for entry in read(after, rows=rows, cursor=2.7, now=4)] == ["a", "b"]


def test_a_rule_that_counts_from_ends_may_come_before_or_after_another_one() -> None:
    after = Every("1h", after="end")
    rows = [row(1, LATE, job="x"), row(2.7, ON_TIME, job="a"), row(4.1, ON_TIME, job="b"), row(5, MISSED)]
    found = read(era(HOURLY, 0, 2), era(after, 2, 4.5), era(HOURLY, 4.5), rows=rows, cursor=5, now=5)
    assert brief(found) == [(1, LATE, ""), (2, ON_TIME, ""), (2.7, ON_TIME, ""), (4.1, ON_TIME, ""), (5, MISSED, "")]


def test_the_window_includes_its_start_and_not_its_end() -> None:
    assert [entry.at for entry in read(era(HOURLY), start=2, end=4)] == [hour(2), hour(3)]
    assert read(era(HOURLY), start=2, end=2) == read(era(HOURLY), start=3, end=2) == []


def test_no_more_is_told_than_was_asked_for_also_of_a_window_of_centuries() -> None:
    found = read(era(HOURLY), end=24 * 365 * 1000, limit=3)
    assert [entry.at for entry in found] == [hour(n) for n in (1, 2, 3)]


def test_every_outcome_is_one_of_those_that_are_known() -> None:
    assert set(OUTCOMES) == {ON_TIME, LATE, SKIPPED, MISSED, BACKFILLED, TRIGGERED, EXPECTED, DUE}
