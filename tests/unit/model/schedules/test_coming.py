"""Counting the coming firings of many schedules: the counts are those of the rules, however they are computed."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import At, Cron, Every, InvalidSchedule, RRule, Rule
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.schedules.coming import (
    ComingBucket,
    Counting,
    Timed,
    Window,
    changes_of,
    group_of,
    make_window,
)
from mainspring.model.schedules.times import Times

NOW = datetime(2026, 3, 25, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
WEEK = Window(NOW, HOUR, 7 * 24)


def timed(id: str, rule: Rule, *, queue: str = "default", name: str = "work", **more: Any) -> Timed:
    bounds = {key: more.pop(key) for key in ("start_at", "end_at", "jitter") if key in more}
    times = Times(id, rule.bind(id, {}), **bounds)
    return Timed(id, name, queue, times, group_of(times), **more)


def buckets(*schedules: Timed, window: Window = WEEK, now: datetime = NOW, **options: Any) -> tuple[ComingBucket, ...]:
    counting = Counting()
    assert counting.count(schedules, window, now, work=10**9)
    return counting.coming(schedules, window, now, options.get("scope", EVERYTHING), options.get("heaviest", 0))[0]


RULES = [
    Cron("0 9 * * *", "Europe/Paris"),
    Cron("*/5 * * * *"),
    Cron("* * * * *"),
    Cron("30 2 * * *", "Europe/Paris"),
    Cron("*/20 * * * * *"),
    Cron("H H * * *"),
    Every("7m", anchor=NOW - timedelta(days=3, seconds=11)),
    Every("10h", anchor=NOW + timedelta(days=1)),
    RRule("FREQ=HOURLY;INTERVAL=5", start=NOW),
    At([NOW + timedelta(hours=5), NOW + timedelta(hours=5, minutes=1)]),
]


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_every_bucket_has_the_firings_of_the_rule(rule: Rule) -> None:
    expected: Counter[datetime] = Counter()
    herds: Counter[datetime] = Counter()
    for at in rule.bind("s", {}).between(WEEK.start, WEEK.end):
        start = WEEK.edge((at - WEEK.start) // WEEK.step)
        expected[start] += 1
        herds[start] += at - start < MINUTE
    found = buckets(timed("s", rule))
    assert {one.at: one.firings for one in found} == expected
    assert {one.at: one.herd for one in found} == {at: herds[at] for at in expected}


@pytest.mark.parametrize("rule", [Every("7m", anchor=NOW - HOUR), Cron("*/5 * * * *"), Cron("0 9 * * *")], ids=repr)
def test_firings_before_the_start_and_after_the_end_of_a_schedule_do_not_count(rule: Rule) -> None:
    start, end = NOW + timedelta(hours=30, minutes=3), NOW + timedelta(hours=60, minutes=10)
    found = buckets(timed("s", rule, start_at=start, end_at=end))
    assert sum(one.firings for one in found) == len(list(rule.between(start, end + timedelta(milliseconds=1))))


def test_schedules_with_the_same_rule_are_counted_together_and_named_by_weight() -> None:
    hourly = [timed(f"h{number}", Cron("0 * * * *")) for number in range(30)]
    dense = timed("dense", Cron("*/10 * * * *"), name="heavy")
    first = buckets(*hourly, dense, heaviest=3)[0]
    assert (first.firings, first.schedules, first.herd) == (36, 31, 31)
    assert [(one.id, one.name, one.firings) for one in first.heaviest] == [
        ("dense", "heavy", 6),
        ("h0", "work", 1),
        ("h1", "work", 1),
    ]


def test_two_ids_whose_h_stands_for_the_same_minute_are_one_group() -> None:
    groups = {timed(f"s{number}", Cron("H * * * *")).group for number in range(500)}
    assert len(groups) <= 60


def test_a_herd_that_jitter_spreads_is_none() -> None:
    found = buckets(timed("a", Cron("0 * * * *"), jitter=600.0), timed("b", Cron("0 * * * *")))
    assert {(one.firings, one.herd) for one in found} == {(2, 1)}


def test_a_paused_schedule_and_one_out_of_the_scope_do_not_count() -> None:
    mine = timed("mine", Cron("0 * * * *"), queue="mine")
    all = [mine, timed("theirs", Cron("0 * * * *"), queue="theirs"), timed("p", Cron("0 * * * *"), paused=True)]
    counting = Counting()
    counting.count(all, WEEK, NOW)
    found, seen, paused, zones = counting.coming(all, WEEK, NOW, Scope(("mine",)), 5)
    assert {one.firings for one in found} == {1}
    assert {heavy.id for one in found for heavy in one.heaviest} == {"mine"}
    assert (seen, paused, zones) == (1, 0, {"UTC": 1})
    assert counting.coming(all, WEEK, NOW, EVERYTHING, 0)[1:3] == (3, 1)


def test_the_last_runs_of_a_schedule_and_firings_skipped_by_hand_are_respected() -> None:
    hourly = Cron("0 * * * *")
    assert sum(one.firings for one in buckets(timed("s", hourly, left=5))) == 5
    assert sum(one.firings for one in buckets(timed("s", Cron("* * * * *"), left=100))) == 100
    found = buckets(timed("s", hourly, decided=NOW + 3 * HOUR))
    assert found[0].at == NOW + 4 * HOUR
    later = Window(NOW + 3 * HOUR, HOUR, 24)
    assert sum(one.firings for one in buckets(timed("s", hourly, left=5), window=later)) == 3


def test_a_rule_that_counts_from_the_end_of_runs_has_one_known_firing() -> None:
    found = buckets(timed("s", Every("5m", after="end"), only=NOW + timedelta(minutes=90)))
    assert [(one.at, one.firings) for one in found] == [(NOW + HOUR, 1)]
    assert buckets(timed("s", Every("5m", after="end"))) == ()


def test_buckets_that_are_over_are_left_out() -> None:
    found = buckets(timed("s", Cron("30 * * * *")), now=NOW + timedelta(hours=10, minutes=30))
    assert found[0].at == NOW + 10 * HOUR


def test_work_is_bounded_and_continued_by_the_next_call() -> None:
    schedules = [timed(f"s{number}", Cron(f"{number} * * * *")) for number in range(60)]
    counting, calls = Counting(), 1
    while not counting.count(schedules, WEEK, NOW, work=1000):
        calls += 1
        assert calls < 60
    assert calls > 5
    assert {one.firings for one in counting.coming(schedules, WEEK, NOW, EVERYTHING, 0)[0]} == {60}


def test_the_nights_on_which_clocks_change_are_told_with_the_schedules_of_the_zone() -> None:
    found = changes_of({"Europe/Paris": 3, "UTC": 9, "America/New_York": 1, "No/Where": 1}, WEEK)
    assert [(change.zone, change.at, change.by, number) for change, number in found] == [
        ("Europe/Paris", datetime(2026, 3, 29, 1, tzinfo=UTC), HOUR, 3)
    ]
    assert found[0][0].words == ("02:00 becomes 03:00 in Europe/Paris: the times between do not exist on this day")
    autumn = Window(datetime(2026, 10, 24, tzinfo=UTC), HOUR, 48)
    assert [change.words for change, _ in changes_of({"Europe/Paris": 1}, autumn)] == [
        "03:00 becomes 02:00 in Europe/Paris: the times between happen twice on this day"
    ]


def test_a_window_without_bounds_is_a_day_from_the_bucket_of_now_on() -> None:
    now = datetime(2026, 3, 25, 10, 17, 5, 123000, tzinfo=UTC)
    assert make_window(None, None, "1h", now) == Window(datetime(2026, 3, 25, 10, tzinfo=UTC), HOUR, 24)


@pytest.mark.parametrize(
    ("end", "step"), [(NOW, "1h"), (NOW + HOUR, "1s"), (NOW + HOUR, "8d"), (NOW + timedelta(days=2), "1m")]
)
def test_a_window_that_cannot_be_is_refused(end: datetime, step: str) -> None:
    with pytest.raises(InvalidSchedule):
        make_window(NOW, end, step, NOW)


def test_the_bucket_of_now_has_the_firings_of_its_coming_minutes() -> None:
    now = NOW + timedelta(hours=9, minutes=30, seconds=20)
    some = [
        timed("tens", Cron("*/10 * * * *")),
        timed("passed", Cron("0 * * * *")),
        timed("grid", Every("7m", anchor=NOW)),
        timed("few", Cron("*/20 * * * *"), left=1),
        timed("spread", Cron("59 * * * *"), jitter=5),
    ]
    hours = buckets(*some, now=now, heaviest=5)
    minutes = buckets(*some, now=now, window=Window(NOW + 9 * HOUR, MINUTE, 60))
    assert [one.at for one in hours[:2]] == [NOW + 9 * HOUR, NOW + 10 * HOUR] and minutes[0].at == now.replace(second=0)
    assert (hours[0].firings, hours[0].herd, hours[0].schedules) == (9, 0, 4)
    assert hours[0].firings == sum(one.firings for one in minutes)
    assert {one.id: one.firings for one in hours[0].heaviest} == {"tens": 3, "grid": 4, "few": 1, "spread": 1}
    assert (hours[1].herd, hours[1].schedules) == (2, 4), "an hour that has not begun has all of its firings"
