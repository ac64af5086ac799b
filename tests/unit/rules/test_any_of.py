"""AnyOf: several rules as one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.fuzzing import examples
from mainspring import AnyOf, At, Calendar, Cron, Every, Except, InvalidSchedule, RRule, Rule
from mainspring.rules import anchored
from unit.rules.agreement import check, utc

START = utc("2026-01-01")
DAY = timedelta(days=1)


def offset(minutes: int) -> datetime:
    return START + timedelta(minutes=minutes)


rules: st.SearchStrategy[Rule] = st.one_of(
    st.builds(lambda m, a: Every(timedelta(minutes=m), anchor=offset(a)), st.integers(1, 300), st.integers(-500, 500)),
    st.lists(st.integers(-100, 3000), min_size=1, max_size=8).map(lambda some: At([offset(m) for m in some])),
    st.sampled_from(("0 9 * * *", "*/15 * * * *", "0 0 1 * *", "30 */2 * * *")).map(Cron),
    st.just(RRule("FREQ=HOURLY;INTERVAL=3", start=START)),
)


@examples(40, 1_000)
@given(st.lists(rules, min_size=1, max_size=5), st.integers(-200, 2000))
def test_it_fires_whenever_one_of_them_does_and_once_where_they_meet(parts: list[Rule], minutes: int) -> None:
    begin, end = offset(minutes), offset(minutes) + DAY
    found = check(AnyOf(*parts), begin, end)
    assert found == sorted({at for rule in parts for at in rule.between(begin, end)})


def test_rules_are_joined_by_a_bar_also_with_cron() -> None:
    hourly, once, daily = Every("1h", anchor=START), At([START]), Cron("0 9 * * *")
    assert hourly | once == AnyOf(hourly, once)
    assert daily | hourly == AnyOf(daily, hourly) == hourly | daily
    assert (hourly | once | daily).rules == (hourly, once, daily)
    with pytest.raises(TypeError):
        hourly | "0 9 * * *"


def test_order_and_doubles_do_not_matter() -> None:
    hourly, daily = Every("1h", anchor=START), Cron("0 9 * * *")
    assert AnyOf(hourly, daily, hourly) == AnyOf(daily, AnyOf(hourly))
    assert hash(AnyOf(hourly, daily)) == hash(AnyOf(daily, hourly))
    assert AnyOf(hourly) != AnyOf(daily)


def test_a_dense_rule_is_not_walked_to_be_counted_with_a_sparse_one() -> None:
    rule = AnyOf(Cron("* * * * * *"), Cron("0 9 * * *"), At([START + timedelta(milliseconds=5)]))
    assert rule.count(START, START + 12 * DAY) == 12 * 86_400 + 1


def test_it_has_the_zones_the_notes_and_the_calendars_of_all() -> None:
    rule = AnyOf(
        Cron("30 2 * * *", "Europe/Berlin"),
        Except(Every("1h", anchor=START), "holidays", timezone="Asia/Kolkata"),
        RRule("FREQ=DAILY", "Europe/Berlin", start=START),
    )
    assert rule.zones == ("Europe/Berlin", "Asia/Kolkata")
    assert rule.calendars == ("holidays",)
    bound = rule.bind("nightly", {"holidays": Calendar(["2026-03-29"])})
    assert bound.notes(utc("2026-03-29T01:00")) == (
        "02:30 does not exist on this night in Europe/Berlin; fires at 03:00 instead",
    )


def test_what_a_calendar_takes_from_one_rule_is_not_skipped_if_another_fires_then() -> None:
    hourly = Except(Every("1h", anchor=START), "holidays")
    rule = AnyOf(hourly, Cron("0 9 * * *")).bind("x", {"holidays": Calendar(["2026-01-01"])})
    assert list(rule.between(START, START + DAY)) == [START + timedelta(hours=9)]
    skipped = list(rule.skipped(START, START + DAY))
    assert len(skipped) == 23
    assert set(skipped) == {(START + timedelta(hours=h), "holidays") for h in range(24) if h != 9}


def test_parts_without_an_anchor_get_one_and_keep_it_when_declared_again() -> None:
    declared = AnyOf(Every("5m"), Every("7m", anchor=utc("2020-01-01")), RRule("FREQ=DAILY"))
    stored = declared.anchored(START)
    assert stored == AnyOf(
        Every("5m", anchor=START), Every("7m", anchor=utc("2020-01-01")), RRule("FREQ=DAILY", start=START)
    )
    assert anchored(declared, utc("2027-01-01"), stored) == stored
    assert stored.anchored(utc("2027-01-01")) is stored


def test_parts_without_an_anchor_count_from_the_beginning_of_a_span() -> None:
    rule = AnyOf(Every("1h"), Every("40m"))
    found = list(rule.between(START, START + timedelta(hours=2)))
    assert [(at - START).seconds // 60 for at in found] == [0, 40, 60, 80]
    assert rule.count(START, START + timedelta(hours=2)) == 4


def nested(depth: int) -> Any:
    rule: Rule = Cron("0 9 * * *")
    for level in range(depth):
        rule = Except(rule, f"level-{level}")
    return rule


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        (lambda: (), "from 1 to 32 different rules"),
        (lambda: [Every(n + 1, anchor=START) for n in range(33)], "from 1 to 32 different rules, not 33"),
        (lambda: ["0 9 * * *"], r"must be a rule, such as Cron"),
        (lambda: [Every], r"must be a rule"),
        (lambda: [Every("5m", after="end")], 'after="end" depends on its runs'),
        (lambda: [nested(4)], "4 levels deep"),
    ],
)
def test_what_cannot_be_joined_is_refused(parts: Any, complaint: str) -> None:
    with pytest.raises(InvalidSchedule, match=complaint):
        AnyOf(*parts())


def test_it_says_what_it_means() -> None:
    rule = AnyOf(Cron("0 9 * * *"), Every("5m"))
    assert rule.describe() == "at 09:00, every day, in UTC; or every 5 minutes"


def test_naive_datetimes_are_refused() -> None:
    rule = AnyOf(Every("5m", anchor=START))
    with pytest.raises(InvalidSchedule, match="has no time zone"):
        rule.next(datetime(2026, 1, 1))
    with pytest.raises(InvalidSchedule, match="has no time zone"):
        rule.between(datetime(2026, 1, 1), datetime(2026, 1, 2, tzinfo=UTC))
