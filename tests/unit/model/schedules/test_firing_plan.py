"""What is decided about a schedule: missed firings, late ones, jitter, bounds, and runs that are still going."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring import At, Calendar, Cron, Every
from mainspring.model.schedules.firing_plan import LATE_AFTER, MOST_AT_ONCE, Plan, Policy, Runs, plan, plan_after_end
from mainspring.model.schedules.ledger import LATE, MISSED, ON_TIME, SKIPPED, Row
from mainspring.model.schedules.times import Times, firing_id
from mainspring.rules import Rule
from mainspring.rules.instants import instant_text

T0 = datetime(2030, 1, 1, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
MOMENT = timedelta(milliseconds=1)


def minutely(jitter: float = 0.0, **bounds: Any) -> Times:
    return Times("s", Every("1m", anchor=T0), jitter=jitter, **bounds)


def decide(
    times: Times,
    now: datetime,
    policy: Policy | None = None,
    *,
    cursor: datetime = T0,
    runs: int = 0,
    going: Runs | None = None,
) -> Plan:
    return plan(times, policy or Policy(), cursor, runs, going or Runs(), now)


def made(decided: Plan) -> list[datetime]:
    return [make.at for make in decided.makes]


def told(decided: Plan) -> list[tuple[datetime, datetime, str, str, int]]:
    return [(row.at, row.until, row.outcome, row.reason, row.count) for row in decided.rows]


class Counting:
    """A rule that counts how often it is asked."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.calls = 0

    def next(self, after: datetime) -> datetime | None:
        self.calls += 1
        return self.rule.next(after)

    def previous(self, before: datetime) -> datetime | None:
        self.calls += 1
        return self.rule.previous(before)

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        for found in self.rule.between(start, end):
            self.calls += 1
            yield found

    def count(self, start: datetime, end: datetime) -> int:
        self.calls += 1
        return self.rule.count(start, end)

    def describe(self) -> str:
        return self.rule.describe()

    def notes(self, at: datetime) -> tuple[str, ...]:
        return self.rule.notes(at)

    @property
    def zones(self) -> tuple[str, ...]:
        return self.rule.zones

    @property
    def calendars(self) -> tuple[str, ...]:
        return self.rule.calendars

    def bind(self, schedule_id: str, calendars: Mapping[str, Calendar]) -> Rule:
        return self

    def to_document(self) -> dict[str, Any]:
        return self.rule.to_document()

    def skipped(self, start: datetime, end: datetime) -> Iterator[tuple[datetime, str]]:
        return self.rule.skipped(start, end)


# -- on time, late, not yet ----------------------------------------------------------------------------------------


def test_nothing_is_decided_before_a_firing_is_due() -> None:
    decided = decide(minutely(), T0 + MINUTE - MOMENT)
    assert decided == Plan(T0, T0 + MINUTE)


def test_a_firing_is_made_at_its_very_instant_and_needs_no_row() -> None:
    decided = decide(minutely(), T0 + MINUTE)
    assert made(decided) == [T0 + MINUTE]
    assert (decided.cursor, decided.next_at, decided.rows) == (T0 + MINUTE, T0 + 2 * MINUTE, ())
    assert decided.makes[0].job_id == "s@2030-01-01T00:01:00Z"


def test_a_firing_is_late_after_five_seconds_and_tells_by_how_much() -> None:
    assert decide(minutely(), T0 + MINUTE + LATE_AFTER).rows == ()
    late = decide(minutely(), T0 + MINUTE + LATE_AFTER + MOMENT)
    at = T0 + MINUTE
    assert late.rows == (Row(at, at, LATE, late_by=LATE_AFTER + MOMENT, job_id=firing_id("s", at)),)


def test_each_firing_within_the_grace_gets_a_job_of_its_own_however_late() -> None:
    decided = decide(minutely(), T0 + 5 * MINUTE + MINUTE / 2, Policy(misfire_grace=600))
    assert made(decided) == [T0 + n * MINUTE for n in range(1, 6)]
    assert [row.outcome for row in decided.rows] == [LATE] * 5


@pytest.mark.parametrize("misfire", ["skip", "latest", "all"])
def test_a_firing_is_missed_when_it_is_older_than_the_grace_and_not_when_it_is_just_as_old(misfire: str) -> None:
    times = Times("s", At([T0 + MINUTE]))
    kept = decide(times, T0 + 2 * MINUTE, Policy(misfire=misfire))
    assert made(kept) == [T0 + MINUTE]
    missed = decide(times, T0 + 2 * MINUTE + MOMENT, Policy(misfire=misfire))
    assert made(missed) == ([] if misfire == "skip" else [T0 + MINUTE])
    assert missed.next_at is None


def test_a_grace_of_nothing_misses_what_is_not_made_in_the_same_millisecond() -> None:
    policy = Policy(misfire="skip", misfire_grace=0)
    assert made(decide(minutely(), T0 + MINUTE, policy)) == [T0 + MINUTE]
    assert told(decide(minutely(), T0 + MINUTE + MOMENT, policy)) == [(T0 + MINUTE, T0 + MINUTE, SKIPPED, "misfire", 1)]


# -- what was missed -----------------------------------------------------------------------------------------------

NOW = T0 + 2 * HOUR
"""Of two hours of minutes, the first to the 118th are older than the grace; the 119th is just as old."""


def test_skip_makes_up_for_nothing_and_says_so_in_one_row() -> None:
    decided = decide(minutely(), NOW, Policy(misfire="skip"))
    assert made(decided) == [T0 + 119 * MINUTE, T0 + 120 * MINUTE]
    assert told(decided)[0] == (T0 + MINUTE, T0 + 118 * MINUTE, SKIPPED, "misfire", 118)
    assert [row.outcome for row in decided.rows] == [SKIPPED, LATE]


def test_latest_makes_one_job_that_stands_for_all_that_was_missed() -> None:
    decided = decide(minutely(), NOW)
    assert made(decided) == [T0 + n * MINUTE for n in (118, 119, 120)]
    missed = decided.rows[0]
    assert told(decided)[0] == (T0 + MINUTE, T0 + 117 * MINUTE, MISSED, "the latest run stands for it", 117)
    assert missed.job_id == firing_id("s", T0 + 118 * MINUTE)
    assert [(row.at, row.outcome) for row in decided.rows[1:]] == [(T0 + n * MINUTE, LATE) for n in (118, 119)]


def test_all_makes_up_for_the_latest_ones_up_to_its_limit_in_order() -> None:
    decided = decide(minutely(), NOW, Policy(misfire="all", misfire_limit=10))
    assert made(decided) == [T0 + n * MINUTE for n in range(109, 121)]
    assert told(decided)[0] == (T0 + MINUTE, T0 + 108 * MINUTE, MISSED, "more than 10 were missed", 108)


def test_all_with_room_enough_leaves_nothing_out() -> None:
    decided = decide(minutely(), NOW, Policy(misfire="all", misfire_limit=200))
    assert made(decided) == [T0 + n * MINUTE for n in range(1, 121)]
    assert {row.outcome for row in decided.rows} == {LATE}


def test_a_single_missed_firing_is_made_up_for_and_leaves_no_row_of_missed_ones() -> None:
    decided = decide(Times("s", Every("1h", anchor=T0)), T0 + HOUR + 2 * MINUTE)
    assert [(row.at, row.outcome) for row in decided.rows] == [(T0 + HOUR, LATE)]


@pytest.mark.parametrize("misfire", ["latest", "all"])
def test_nothing_older_than_the_start_deadline_is_made_up_for(misfire: str) -> None:
    decided = decide(Times("s", Every("10m", anchor=T0)), NOW, Policy(misfire=misfire, start_deadline=30))
    assert made(decided) == [NOW]
    assert told(decided) == [(T0 + 10 * MINUTE, T0 + 110 * MINUTE, SKIPPED, "expired", 11)]


def test_the_start_deadline_is_kept_to_the_millisecond() -> None:
    times = Times("s", Every("10m", anchor=T0))
    policy = Policy(misfire="all", start_deadline=1800)
    assert made(decide(times, NOW, policy)) == [T0 + n * MINUTE for n in (90, 100, 110, 120)]
    assert made(decide(times, NOW + MOMENT, policy)) == [T0 + n * MINUTE for n in (100, 110, 120)]
    assert told(decide(times, NOW, policy))[0] == (T0 + 10 * MINUTE, T0 + 80 * MINUTE, SKIPPED, "expired", 8)


def test_latest_stands_also_for_what_is_older_than_the_deadline() -> None:
    decided = decide(minutely(), NOW, Policy(start_deadline=125))
    assert told(decided)[0][2:] == (MISSED, "the latest run stands for it", 117)


def test_missed_firings_are_found_in_the_zone_of_their_rule() -> None:
    # The night of 31 March 2030 in Berlin has no hour from 2 to 3.
    times = Times("s", Cron("30 2 * * *", "Europe/Berlin"))
    decided = decide(
        times, datetime(2030, 4, 2, tzinfo=UTC), Policy(misfire="all"), cursor=datetime(2030, 3, 30, tzinfo=UTC)
    )
    assert [instant_text(at) for at in made(decided)] == [
        "2030-03-30T01:30:00Z",
        "2030-03-31T01:00:00Z",
        "2030-04-01T00:30:00Z",
    ]


@pytest.mark.parametrize("misfire", ["skip", "latest", "all"])
@pytest.mark.parametrize("jitter", [0.0, 0.7])
@pytest.mark.parametrize("rule", [Every("1s", anchor=T0), Cron("* * * * * *"), Cron("*/2 * * * * *", "Europe/Berlin")])
def test_a_million_missed_firings_take_few_questions(rule: Rule, misfire: str, jitter: float) -> None:
    counting = Counting(rule)
    now = T0 + timedelta(seconds=2_000_000)
    limit = 50
    decided = decide(
        Times("s", counting, jitter=jitter), now, Policy(misfire=misfire, misfire_limit=limit, misfire_grace=0)
    )
    wanted = {"skip": 0, "latest": 1, "all": limit}[misfire]
    missed = decided.rows[0]
    assert rule.count(T0 + MOMENT, now) - 3 <= missed.count + wanted <= rule.count(T0 + MOMENT, now + MOMENT)
    assert missed.count >= 999_000
    assert wanted <= len(decided.makes) <= wanted + 2
    assert counting.calls <= 20 + 5 * wanted


def test_one_pass_makes_no_more_than_its_bound_and_the_next_goes_on_from_there() -> None:
    times = Times("s", Every("1s", anchor=T0))
    now = T0 + timedelta(seconds=2500)
    seen: list[datetime] = []
    cursor, passes = T0, 0
    while True:
        decided = decide(times, now, Policy(misfire_grace=86400), cursor=cursor)
        if not decided.makes:
            break
        assert len(decided.makes) <= MOST_AT_ONCE
        seen += made(decided)
        cursor, passes = decided.cursor, passes + 1
    assert passes == 3
    assert seen == [T0 + timedelta(seconds=n) for n in range(1, 2501)]


# -- bounds --------------------------------------------------------------------------------------------------------


def test_nothing_fires_before_start_at_or_after_end_at() -> None:
    times = minutely(start_at=T0 + 3 * MINUTE, end_at=T0 + 5 * MINUTE)
    decided = decide(times, T0 + HOUR, Policy(misfire="all"))
    assert made(decided) == [T0 + n * MINUTE for n in (3, 4, 5)]
    assert decided.next_at is None
    assert times.previous(T0 + HOUR) == T0 + 5 * MINUTE
    assert times.previous(T0 + 3 * MINUTE) is None
    assert times.count(T0, T0 + HOUR) == 3
    assert list(times.between(T0, T0 + HOUR)) == made(decided)


def test_a_start_between_two_firings_waits_for_the_next_one() -> None:
    times = minutely(start_at=T0 + MINUTE + MOMENT)
    assert times.next(T0) == T0 + 2 * MINUTE


def test_max_runs_ends_a_schedule_in_the_middle_of_a_pass() -> None:
    policy = Policy(max_runs=5, misfire_grace=86400)
    decided = decide(minutely(), T0 + HOUR, policy, runs=2)
    assert made(decided) == [T0 + n * MINUTE for n in (1, 2, 3)]
    assert (decided.cursor, decided.next_at) == (T0 + 3 * MINUTE, None)
    over = decide(minutely(), T0 + HOUR, policy, cursor=decided.cursor, runs=5)
    assert over == Plan(decided.cursor, None)


def test_max_runs_leaves_no_more_to_what_was_missed() -> None:
    decided = decide(minutely(), NOW, Policy(misfire="all", max_runs=2))
    assert made(decided) == [T0 + n * MINUTE for n in (117, 118)]
    assert told(decided)[0] == (T0 + MINUTE, T0 + 116 * MINUTE, MISSED, "no more than 2 runs are wanted", 116)
    assert decided.next_at is None


def test_a_run_that_was_skipped_does_not_count_for_max_runs() -> None:
    decided = decide(minutely(), T0 + MINUTE, Policy(max_runs=1, overlap="skip"), going=Runs(["a"]))
    assert (decided.makes, decided.next_at) == ((), T0 + 2 * MINUTE)


# -- jitter --------------------------------------------------------------------------------------------------------


def test_jitter_is_the_same_whoever_computes_it_and_another_for_each_schedule() -> None:
    rule = Every("1h", anchor=T0)
    one, again, other = (Times(name, rule, jitter=600) for name in ("one", "one", "other"))
    firings = [T0 + n * HOUR for n in range(1, 50)]
    assert [one.due(at) for at in firings] == [again.due(at) for at in firings]
    assert [one.due(at) for at in firings] != [other.due(at) for at in firings]
    assert one.due(T0 + HOUR) == datetime(2030, 1, 1, 1, 4, 35, 298000, tzinfo=UTC)  # for ever


def test_jitter_spreads_over_its_whole_length_and_never_beyond() -> None:
    times = Times("s", Every("1h", anchor=T0), jitter=600)
    moved = [(times.due(at) - at).total_seconds() for at in (T0 + n * HOUR for n in range(1, 500))]
    assert all(0 <= by < 600 for by in moved)
    assert min(moved) < 30 and max(moved) > 570 and 250 < sum(moved) / len(moved) < 350


@settings(deadline=None)
@given(st.floats(0.001, 86400), st.integers(100, 7_200_000), st.integers(0, 10**9))
def test_jitter_keeps_the_order_of_firings(jitter: float, period: int, place: int) -> None:
    times = Times("s", Every(timedelta(milliseconds=period), anchor=T0), jitter=jitter)
    at = times.next(T0 + timedelta(milliseconds=place))
    assert at is not None
    following = times.next(at)
    assert following is not None
    assert at <= times.due(at) < following <= times.due(following)
    assert times.due(at) - at <= timedelta(seconds=jitter)


def test_a_firing_is_made_when_its_jitter_is_over_and_named_by_its_own_instant() -> None:
    times = Times("s", Every("1h", anchor=T0), jitter=600)
    at = T0 + HOUR
    due = times.due(at)
    assert due > at
    assert decide(times, due - MOMENT) == Plan(T0, at)
    decided = decide(times, due)
    assert [(make.at, make.due, make.job_id) for make in decided.makes] == [(at, due, "s@2030-01-01T01:00:00Z")]
    assert decided.rows == ()


def test_lateness_and_grace_count_from_the_end_of_the_jitter() -> None:
    times = Times("s", Every("1h", anchor=T0), jitter=600)
    due = times.due(T0 + HOUR)
    late = decide(times, due + MINUTE, Policy(misfire="skip"))
    assert [(row.outcome, row.late_by) for row in late.rows] == [(LATE, MINUTE)]
    assert told(decide(times, due + MINUTE + MOMENT, Policy(misfire="skip")))[0][2:] == (SKIPPED, "misfire", 1)


@settings(deadline=None)
@given(
    period=st.sampled_from([1, 7, 60, 600]),
    jitter=st.sampled_from([0.0, 0.5, 30.0, 5000.0]),
    gone=st.integers(0, 4000),
    misfire=st.sampled_from(["skip", "latest", "all"]),
    grace=st.sampled_from([0, 5, 60, 1000]),
    limit=st.integers(1, 20),
    deadline=st.none() | st.integers(0, 3000),
)
def test_a_plan_is_what_looking_at_every_firing_would_give(
    period: int, jitter: float, gone: int, misfire: str, grace: int, limit: int, deadline: int | None
) -> None:
    times = Times("s", Every(period, anchor=T0), jitter=jitter)
    now = T0 + timedelta(seconds=gone)
    decided = decide(times, now, Policy(misfire, grace, limit, deadline))
    ages = {at: now - times.due(at) for at in times.between(T0 + MOMENT, now + MOMENT)}
    due = {at: age for at, age in ages.items() if age >= timedelta(0)}
    missed = [at for at, age in due.items() if age > timedelta(seconds=grace)]
    fresh = [at for at in missed if deadline is None or due[at] <= timedelta(seconds=deadline)]
    taken = {"skip": [], "latest": fresh[-1:], "all": fresh[-limit:]}[misfire]
    expected = [*taken, *(at for at in due if at not in missed)]
    assert made(decided) == expected[:MOST_AT_ONCE]
    rows = [row for row in decided.rows if row.outcome != LATE]
    assert sum(row.count for row in rows) == len(missed) - len(taken)
    if len(expected) <= MOST_AT_ONCE:
        assert decided.cursor == (max(due) if due else T0)
        assert decided.next_at == times.next(decided.cursor)


# -- runs that are still going -------------------------------------------------------------------------------------


def test_allow_makes_a_run_beside_the_one_that_is_going() -> None:
    going = Runs(["a"])
    decided = decide(minutely(), T0 + MINUTE, going=going)
    assert [make.after for make in decided.makes] == [None] and decided.cancels == ()
    assert going.live == ["a", firing_id("s", T0 + MINUTE)]


def test_skip_makes_no_run_while_one_is_going_and_names_it() -> None:
    decided = decide(minutely(), T0 + MINUTE, Policy(overlap="skip"), going=Runs(["a"]))
    assert told(decided) == [(T0 + MINUTE, T0 + MINUTE, SKIPPED, "overlap: a is still going", 1)]
    assert (decided.makes, decided.cursor, decided.next_at) == ((), T0 + MINUTE, T0 + 2 * MINUTE)


def test_skip_counts_the_runs_of_the_same_pass_too() -> None:
    decided = decide(minutely(), T0 + 3 * MINUTE, Policy(overlap="skip", misfire_grace=600))
    assert made(decided) == [T0 + MINUTE]
    assert [row.reason for row in decided.rows if row.outcome == SKIPPED] == [
        "overlap: s@2030-01-01T00:01:00Z is still going"
    ] * 2


def test_queue_one_lets_one_run_wait_and_skips_the_others() -> None:
    going = Runs(["a"])
    decided = decide(minutely(), T0 + 3 * MINUTE, Policy(overlap="queue_one", misfire_grace=600), going=going)
    first = firing_id("s", T0 + MINUTE)
    assert [(make.job_id, make.after) for make in decided.makes] == [(first, "a")]
    assert [row.reason for row in decided.rows if row.outcome == SKIPPED] == [f"overlap: {first} waits already"] * 2
    assert going.queued == [(first, "a")]


def test_queue_all_lets_each_wait_for_the_one_before_it() -> None:
    going = Runs(["a"])
    decided = decide(minutely(), T0 + 3 * MINUTE, Policy(overlap="queue_all", misfire_grace=600), going=going)
    first, second, third = (firing_id("s", T0 + n * MINUTE) for n in (1, 2, 3))
    assert going.queued == [(first, "a"), (second, first), (third, second)]
    assert [make.after for make in decided.makes] == ["a", first, second]


def test_queue_all_has_room_for_a_thousand() -> None:
    going = Runs(["a"], [(f"q{n}", "a") for n in range(1000)])
    decided = decide(minutely(), T0 + MINUTE, Policy(overlap="queue_all"), going=going)
    assert decided.makes == () and told(decided)[0][3] == "overlap: q999 waits already"


def test_cancel_running_cancels_what_goes_and_what_waits_and_takes_its_place() -> None:
    going = Runs(["a", "b"], [("c", "b")])
    decided = decide(minutely(), T0 + MINUTE, Policy(overlap="cancel_running"), going=going)
    new = firing_id("s", T0 + MINUTE)
    assert set(decided.cancels) == {"a", "b", "c"}
    assert [(make.job_id, make.after) for make in decided.makes] == [(new, "c")]
    assert going.queued == [(new, "c")]


def test_cancel_running_with_nothing_going_makes_a_run_at_once() -> None:
    decided = decide(minutely(), T0 + MINUTE, Policy(overlap="cancel_running"))
    assert decided.cancels == () and decided.makes[0].after is None


def test_a_latest_run_that_is_skipped_since_another_goes_stands_for_nothing() -> None:
    times = Times("s", Every("10m", anchor=T0))
    decided = decide(times, T0 + HOUR + 5 * MINUTE, Policy(overlap="skip"), going=Runs(["a"]))
    assert decided.makes == ()
    missed = decided.rows[0]
    assert (missed.outcome, missed.count, missed.job_id) == (MISSED, 5, None)
    assert missed.reason == "the latest run was to stand for it, and was skipped"


# -- from the end of the run before --------------------------------------------------------------------------------


def after_end(now: datetime, ended_at: datetime = T0, policy: Policy | None = None, **bounds: Any) -> Plan:
    times = Times("s", Every("10m", after="end"), **bounds)
    return plan_after_end(times, policy or Policy(), ended_at, 1, Runs(), now)


def test_a_rule_that_counts_from_the_end_fires_a_period_after_it() -> None:
    assert after_end(T0 + 10 * MINUTE - MOMENT) == Plan(T0, T0 + 10 * MINUTE)
    decided = after_end(T0 + 10 * MINUTE)
    at = T0 + 10 * MINUTE
    assert made(decided) == [at] and decided.next_at is None
    assert decided.rows == (Row(at, at, ON_TIME, job_id=firing_id("s", at)),)


def test_after_a_downtime_it_fires_once_and_late() -> None:
    decided = after_end(T0 + 5 * HOUR)
    assert made(decided) == [T0 + 10 * MINUTE]
    assert [(row.outcome, row.late_by) for row in decided.rows] == [(LATE, 5 * HOUR - 10 * MINUTE)]


def test_it_begins_at_its_start_and_ends_with_its_bounds() -> None:
    assert after_end(T0, start_at=T0 + DAY).next_at == T0 + DAY
    assert after_end(T0, end_at=T0 + 5 * MINUTE).next_at is None
    assert after_end(T0 + HOUR, policy=Policy(max_runs=1)) == Plan(T0, None)


# -- names ---------------------------------------------------------------------------------------------------------


def test_a_firing_is_named_by_its_schedule_and_its_instant_in_utc() -> None:
    berlin = Cron("0 9 * * *", "Europe/Berlin").next(T0)
    assert berlin is not None
    assert firing_id("daily", berlin) == "daily@2030-01-01T08:00:00Z"
    assert firing_id("daily", T0 + MOMENT) == "daily@2030-01-01T00:00:00.001Z"
