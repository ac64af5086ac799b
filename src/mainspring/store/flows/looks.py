"""When the sweep looks at a blocked job: its field `check_at`, as expressions of an update.

A wait is over by the ends of jobs, by a signal or at its own time; the looks repair what a process that died has left
undone. They lie on a grid of time, so that one pass of the sweep looks at thousands of jobs that were blocked at
different times, with as many statements as for one: ten thousand of them would otherwise cost a pass in every second.
"""

from __future__ import annotations

from typing import Any

from mainspring.model.jobs.job import BLOCKED
from mainspring.store.connection import Document
from mainspring.store.schema import Expression

GRID = 5.0
"""The seconds between the instants at which waits are looked at that have not lasted a minute."""
MINUTE = 60.0
_FIRST = 5.0
_MARKED = [{"$gt": [f"${mark}", None]} for mark in ("cancel_tree", "retry_tree")]
_ONLY_WAITS = {"$and": [{"$eq": ["$state", BLOCKED]}, {"$eq": ["$waits.sealed", True]}, {"$not": [{"$or": _MARKED}]}]}


def first_look(now: Expression) -> Document:
    """The first look at a job that is blocked now: in five to ten seconds."""
    return _on_grid(now, int(_FIRST * 1000), GRID)


def later_look(now: Expression) -> Document:
    """The next look at a job whose wait is not over: as long after this one as the wait has lasted, and on full minutes
    once that is a minute. So a wait of days is written a few times only; the chore `check_long_waits` looks at it in
    between. It passes over a job that has more left to be done than a check: that one is looked at every minute."""
    waited = {"$subtract": [now, {"$ifNull": ["$waits.since", now]}]}
    minute = int(MINUTE * 1000)
    pause = {"$cond": [_ONLY_WAITS, waited, {"$min": [waited, minute]}]}
    look = {"$max": [int(_FIRST * 1000), pause]}
    return {"$cond": [{"$gte": [waited, minute]}, _on_grid(now, look, MINUTE), _on_grid(now, look, GRID)]}


def _on_grid(now: Expression, pause: Any, grid: float) -> Document:
    """The first instant of a grid after a pause."""
    later = {"$add": [now, pause, int(grid * 1000)]}
    return {"$dateTrunc": {"date": later, "unit": "second", "binSize": int(grid)}}
