"""Expressions at random, for Hypothesis: valid ones in all of the syntax, with a liking for the nights of changes."""

from __future__ import annotations

from hypothesis import strategies as st

DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
GAPS = st.sampled_from(("after", "skip"))
FOLDS = st.sampled_from(("first", "last", "both"))


def _numbers(low: int, high: int) -> st.SearchStrategy[str]:
    return st.integers(low, high).map(str)


def _items(values: st.SearchStrategy[str], steps: int) -> st.SearchStrategy[str]:
    """A value, a range, either of them with a step; ranges may wrap."""
    step = st.integers(1, steps).map(str)
    ranges = st.tuples(values, values).map("-".join)
    return st.one_of(values, values, ranges, st.tuples(st.one_of(values, ranges), step).map("/".join))


def _field(items: st.SearchStrategy[str], steps: int) -> st.SearchStrategy[str]:
    star = st.one_of(st.just("*"), st.integers(1, steps).map(lambda step: f"*/{step}"))
    return st.one_of(st.lists(items, min_size=1, max_size=3).map(",".join), star)


seconds = st.one_of(st.just("0"), _numbers(0, 59), _field(_items(_numbers(0, 59), 60), 60))
minutes = _field(_items(_numbers(0, 59), 60), 60)
_night = st.one_of(_numbers(0, 4), _numbers(0, 23), st.sampled_from(("22", "23")))
hours = _field(_items(_night, 24), 24)
_dates = st.one_of(
    _items(_numbers(1, 31), 31),
    st.sampled_from(("L", "LW", "L-1", "L-3", "1W", "15W", "31W", "28-3")),
)
dates = st.one_of(st.sampled_from(("*", "*", "?")), _field(_dates, 31))
months = st.one_of(st.just("*"), _field(_items(st.one_of(_numbers(1, 12), st.sampled_from(MONTHS)), 12), 12))
_weekday = st.one_of(_numbers(0, 7), st.sampled_from(DAYS))
_weekdays = st.one_of(
    _items(_weekday, 7),
    st.builds("{}L".format, _weekday),
    st.builds("{}#{}".format, _weekday, st.integers(1, 5)),
    st.just("L"),
)
weekdays = st.one_of(st.sampled_from(("*", "*", "?")), _field(_weekdays, 7))

five_fields = st.tuples(minutes, hours, dates, months, weekdays).map(" ".join)
six_fields = st.tuples(seconds, minutes, hours, dates, months, weekdays).map(" ".join)
expressions = st.one_of(five_fields, six_fields)
often = st.tuples(seconds, minutes, hours, st.just("* * *")).map(" ".join)
_few_seconds = st.one_of(_numbers(0, 59), st.sampled_from(("0,30", "*/30", "5/25", "59-1")))
every_day = st.one_of(
    st.tuples(minutes, hours, st.just("* * *")).map(" ".join),
    st.tuples(_few_seconds, minutes, hours, st.just("* * *")).map(" ".join),
)
some_days = st.one_of(five_fields, st.tuples(_few_seconds, five_fields).map(" ".join))
