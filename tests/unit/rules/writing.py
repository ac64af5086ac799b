"""Recurrence rules as Hypothesis writes them: valid ones, in which python-dateutil keeps to the standard.

Left out is what it reads otherwise: BYWEEKNO without BYDAY (it takes whole weeks), week numbers at the turn of the
year (it takes the length of the wrong year), BYDAY with and without ordinals at once (it wants both to hold), and
BYSETPOS in a first week that is not whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


def some(values: Sequence[int], most: int = 4) -> st.SearchStrategy[str]:
    chosen = st.lists(st.sampled_from(values), min_size=1, max_size=most, unique=True)
    return chosen.map(lambda found: ",".join(map(str, sorted(found))))


def both_ways(high: int) -> list[int]:
    return [*range(1, high + 1), *range(-high, 0)]


plain_days = st.lists(st.sampled_from(DAYS), min_size=1, max_size=4, unique=True).map(",".join)


def nth_days(high: int) -> st.SearchStrategy[str]:
    one = st.tuples(st.sampled_from(both_ways(high)), st.sampled_from(DAYS)).map(lambda pair: f"{pair[0]}{pair[1]}")
    return st.lists(one, min_size=1, max_size=3, unique=True).map(",".join)


def maybe(draw: st.DrawFn, parts: dict[str, str], name: str, values: st.SearchStrategy[str], often: int = 3) -> None:
    """Add a part now and then."""
    if draw(st.integers(0, often)) == 0:
        parts[name] = draw(values)


@st.composite
def texts(draw: st.DrawFn, frequencies: Sequence[str]) -> str:
    """A rule without COUNT and UNTIL."""
    freq = draw(st.sampled_from(frequencies))
    parts = {"FREQ": freq}
    maybe(draw, parts, "INTERVAL", st.integers(1, 20).map(str), 1)
    maybe(draw, parts, "BYMONTH", some(range(1, 13)))
    if freq != "WEEKLY":
        maybe(draw, parts, "BYMONTHDAY", some(both_ways(31)))
    if freq == "YEARLY":
        maybe(draw, parts, "BYYEARDAY", some(both_ways(366)), 6)
        maybe(draw, parts, "BYWEEKNO", some(range(2, 52)), 6)
    _days(draw, parts)
    maybe(draw, parts, "BYHOUR", some(range(24), 6))
    maybe(draw, parts, "BYMINUTE", some(range(60), 6))
    maybe(draw, parts, "BYSECOND", some(range(60)))
    if freq != "WEEKLY" and any(name.startswith("BY") for name in parts):
        maybe(draw, parts, "BYSETPOS", some([*range(1, 7), *range(-6, 0)]))
    return ";".join(f"{name}={value}" for name, value in parts.items())


def _days(draw: st.DrawFn, parts: dict[str, str]) -> None:
    if "BYWEEKNO" in parts:
        parts["BYDAY"] = draw(plain_days)
    elif parts["FREQ"] == "MONTHLY" or (parts["FREQ"] == "YEARLY" and "BYMONTH" in parts):
        maybe(draw, parts, "BYDAY", plain_days | nth_days(5), 2)
    elif parts["FREQ"] == "YEARLY":
        maybe(draw, parts, "BYDAY", plain_days | nth_days(53), 2)
    else:
        maybe(draw, parts, "BYDAY", plain_days, 2)
