"""Job names by their failures, run times or numbers of attempts, each against the same time a week before. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args

from mainspring.errors import ConfigurationError
from mainspring.model.views.statistics import Counts
from mainspring.model.views.windows import HOUR, Window, make_window
from mainspring.spelling import suggestion

NameOrder = Literal["failing", "slowest", "busiest"]
NAME_ORDERS: tuple[NameOrder, ...] = get_args(NameOrder)
WEEK = timedelta(days=7)
_TAIL = 0.95
ByKind = Mapping[tuple[str, str], Counts]


@dataclass(frozen=True, slots=True)
class NameCounts:
    """The counts of a job name, and those of a week earlier."""

    name: str
    counts: Counts
    before: Counts


@dataclass(frozen=True, slots=True)
class NameStatistics:
    """The counts of job names in a window, and in the same window a week earlier, widened to whole hours."""

    start: datetime
    end: datetime
    before_start: datetime
    before_end: datetime
    names: tuple[NameCounts, ...]


def check_order(order: object) -> NameOrder:
    """Check the option `order`."""
    for known in NAME_ORDERS:
        if order == known:
            return known
    raise ConfigurationError(f"There is no order {order!r:.100}.{suggestion(str(order), NAME_ORDERS)}")


def make_windows(start: object, end: object) -> tuple[Window, Window]:
    """A window, and the whole hours around the same window a week before."""
    window = make_window(start, end)
    return window, make_window(window.start - WEEK, window.end - WEEK, max(window.step, HOUR))


def make_name_statistics(
    now: tuple[Window, ByKind], before: tuple[Window, ByKind], order: NameOrder, limit: int
) -> NameStatistics:
    """The first names in an order. Names without the quality that the order is about are left out."""
    (window, counted), (earlier, counted_before) = now, before
    names, names_before = _by_name(counted), _by_name(counted_before)
    rank = _RANKS[order]
    ranked = sorted(((rank(counts), name) for name, counts in names.items()), key=lambda one: (-one[0], one[1]))
    chosen = tuple(
        NameCounts(name, names[name], names_before.get(name, Counts())) for value, name in ranked[:limit] if value > 0
    )
    return NameStatistics(window.start, window.end, earlier.start, earlier.end, chosen)


def _by_name(kinds: ByKind) -> dict[str, Counts]:
    names: dict[str, Counts] = {}
    for (_, name), counts in kinds.items():
        names.setdefault(name, Counts()).add(counts)
    return names


def _tail(counts: Counts) -> float:
    longest = counts.percentile(_TAIL)
    return 0.0 if longest is None else longest / timedelta(milliseconds=1)


_RANKS: Mapping[NameOrder, Callable[[Counts], float]] = {
    "failing": lambda counts: float(counts.unsuccessful),
    "slowest": _tail,
    "busiest": lambda counts: float(counts.executions),
}
