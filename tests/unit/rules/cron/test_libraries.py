"""Agreement with other libraries, each within what it can do and where it is right; the rest is said beside it.

A range from a value to itself has odd meanings elsewhere (everything in croniter; cronsim reads `3-3/5` as `3/5`), so
that ranges have two ends here.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from crondst import CronDst, CronDstError
from croniter import CroniterBadDateError, croniter  # type: ignore[import-untyped]
from cronsim import CronSim
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.fuzzing import examples
from mainspring.rules.cron import Cron
from unit.rules.cron.comparing import make
from unit.rules.cron.oracle import Change, changes
from unit.rules.cron.writing import DAYS, MONTHS

pytestmark = pytest.mark.slow

starts = st.datetimes(datetime(1971, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC)).map(
    lambda moment: moment.replace(microsecond=0)
)


def fields(low: int, high: int, *more: str) -> st.SearchStrategy[str]:
    """What all libraries read: values, lists, steps, and ranges that do not wrap."""
    number = st.integers(low, high)
    step = st.integers(1, high).map(str)
    ranges = st.tuples(number, number).filter(lambda pair: pair[0] < pair[1]).map(lambda pair: f"{pair[0]}-{pair[1]}")
    items = [number.map(str), ranges, st.tuples(ranges, step).map("/".join)]
    if more:
        items.append(st.sampled_from(more))
    star = st.one_of(st.just("*"), st.just("*"), step.map("*/{}".format))
    return st.one_of(st.lists(st.one_of(items), min_size=1, max_size=3).map(",".join), star)


plain = st.tuples(fields(0, 59), fields(0, 23), fields(1, 31), fields(1, 12), fields(0, 7)).map(" ".join)
daily = st.tuples(fields(0, 59), fields(0, 4), st.just("* * *")).map(" ".join)
special = st.tuples(
    fields(0, 59),
    fields(0, 59),
    fields(0, 23),
    fields(1, 31, "L", "LW"),
    fields(1, 12, *MONTHS),
    fields(0, 7, *DAYS, "5L", "0L", "1#2", "MON#5"),
).map(" ".join)


def agree(cron: Cron, other: Iterator[datetime], start: datetime, count: int) -> None:
    """The next firings are the same."""
    for expected in islice(other, count):
        found = cron.next(start)
        assert found == expected.astimezone(UTC)
        start = found


@examples(150, 10_000)
@given(special, starts)
def test_cronsim_agrees_in_utc(expression: str, start: datetime) -> None:
    """Only in UTC: with zones it answers with the past in the second pass of an hour, and errs in Lord Howe."""
    agree(make(expression, "UTC", "after", "first"), CronSim(expression, start), start, 10)


@examples(100, 10_000)
@given(special, starts)
def test_cronsim_agrees_backwards(expression: str, start: datetime) -> None:
    cron = make(expression, "UTC", "after", "first")
    found: datetime | None = start
    for expected in islice(CronSim(expression, start, reverse=True), 8):
        assert found is not None
        found = cron.previous(found)
        assert found == expected


@examples(100, 10_000)
@given(plain, starts)
def test_croniter_agrees_in_utc(expression: str, start: datetime) -> None:
    """Not where no month has the day: there it gives up, although the weekday, joined by OR, would do."""
    other: Any = croniter(expression, start, ret_type=datetime, implement_cron_bug=True)
    cron = make(expression, "UTC", "after", "first")
    try:
        agree(cron, iter(other), start, 5)
    except CroniterBadDateError:
        assume(False)


def crondst_knows(change: Change) -> bool:
    """It takes for granted that clocks change on the hour, and by an hour at most."""
    _, at, before, after = change
    return abs(after - before) <= timedelta(hours=1) and (at + before).minute == 0


def test_what_crondst_does_not_know_is_little() -> None:
    unknown = {change[0] for change in changes() if not crondst_knows(change)}
    assert unknown <= {"Antarctica/Casey", "Antarctica/Troll", "Antarctica/Vostok", "NZ-CHAT", "Pacific/Chatham"}


@examples(6, 100)
@given(st.one_of(daily, plain))
def test_crondst_agrees_at_the_changes_of_all_zones(expression: str) -> None:
    try:
        other = CronDst(expression)
    except CronDstError:  # it takes "5,31" in February for impossible, because of the 31
        assume(False)
        raise
    for change in changes():
        if crondst_knows(change):
            zone, start = change[0], change[1] - timedelta(hours=2, minutes=10)
            agree(make(expression, zone, "after", "first"), other.iter(start.astimezone(ZoneInfo(zone))), start, 6)
