"""The jobs of a flow over time, for a chart: a row for each job, or for each node where there are many jobs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from mainspring.model.jobs.job import FINISHED

MOST_ROWS = 300


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One job, or all jobs of a node."""

    node: str
    id: str | None
    job: str | None
    """The name of the job, or of the jobs where they have the same."""
    state: str | None
    jobs: int
    start: datetime | None
    """When the first one started; None where none has."""
    end: datetime | None
    """When the last one ended; None while one has not."""


@dataclass(frozen=True, slots=True)
class Timeline:
    rows: tuple[TimelineRow, ...]
    by: Literal["job", "node"]
    complete: bool
    """False where some jobs were not looked at, or some rows left out."""


def timeline_of(bars: Sequence[TimelineRow], complete: bool) -> Timeline:
    """The chart of these jobs, the first to start at the top."""
    if complete and len(bars) <= MOST_ROWS:
        return Timeline(tuple(_in_order(bars)), "job", True)
    of_node: dict[str, list[TimelineRow]] = {}
    for bar in bars:
        of_node.setdefault(bar.node, []).append(bar)
    rows = _in_order(_joined(node, found) for node, found in of_node.items())
    return Timeline(tuple(rows[:MOST_ROWS]), "node", complete and len(rows) <= MOST_ROWS)


def _joined(node: str, bars: Sequence[TimelineRow]) -> TimelineRow:
    names = {bar.job for bar in bars}
    ended = all(bar.state in FINISHED for bar in bars)
    return TimelineRow(
        node,
        None,
        names.pop() if len(names) == 1 else None,
        None,
        len(bars),
        min((bar.start for bar in bars if bar.start is not None), default=None),
        max((bar.end for bar in bars if bar.end is not None), default=None) if ended else None,
    )


def _in_order(rows: Iterable[TimelineRow]) -> list[TimelineRow]:
    return sorted(rows, key=lambda row: (row.start is None, row.start, row.node, row.id or ""))
