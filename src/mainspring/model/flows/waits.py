"""The waits of a blocked job: the predecessors, signals and times that it waits for. Pure.

A handler that waits has one wait for each `ctx.call` or `ctx.map` that is not over; a node of a declared flow has one
for all its predecessors, and `when` says which ends of theirs start it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

When = Literal["success", "done", "failure"]
SUCCESS, DONE, FAILURE = "success", "done", "failure"
MOST_WAITS = 16
"""The most waits by predecessors, and the most signals, that a job has at once."""
SMALL = 64
"""Up to this many predecessors, many waits are looked at with one query."""


def tolerated(tolerate: float, total: int) -> int:
    """How many of so many predecessors may end badly: a number, or a fraction of them. A fraction counts as it is
    written: 0.29 of 100 are 29, although the nearest binary number is below that."""
    if not isinstance(tolerate, float) or tolerate >= 1:
        return int(tolerate)
    return int(Decimal(repr(tolerate)) * total)


def wrong_tolerance(tolerate: object, of: str) -> str | None:
    """Why this is no number of jobs that may end badly; None where it is one."""
    if isinstance(tolerate, bool) or not isinstance(tolerate, int | float) or not tolerate >= 0:
        return f"tolerate is a number of {of}, or a fraction such as 0.01, not {tolerate!r}."
    if isinstance(tolerate, float) and tolerate >= 1:
        return f"As a fraction, tolerate is below 1; {tolerate!r} is not. Give a whole number."
    return None


@dataclass(frozen=True, slots=True)
class Predecessors:
    """One wait for jobs. The jobs name its id in `before`; `total` is how many there were when it was sealed."""

    id: str
    total: int
    tolerate: int = 0
    """How many of them may end badly."""
    fail_fast: bool = False
    """Whether the wait is over as soon as more than that have."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Everything that a job waits for."""

    on: tuple[Predecessors, ...] = ()
    signals: tuple[str, ...] = ()
    until: datetime | None = None
    since: datetime | None = None
    when: str | None = None
    """Of a node of a declared flow; a handler that waits is run in any case, and judges the ends itself."""
    sealed: bool = True
    deleted: tuple[tuple[str, str], ...] = ()
    """The predecessors that were deleted by hand, each with its wait: they count as failed."""
    timers: tuple[tuple[str, datetime], ...] = ()
    """The waits for signals that end at a time, by their names."""
    past: tuple[Predecessors, ...] = ()
    """Waits of the same handler that are over and left no step, since too many predecessors ended badly."""

    def deleted_from(self, wait: str) -> list[str]:
        """The predecessors of this wait that were deleted by hand."""
        return [job for of, job in self.deleted if of == wait]

    def find(self, wait: str) -> Predecessors | None:
        """The wait of this id, if all its predecessors are known to exist."""
        return next((one for one in (*self.on, *self.past) if one.id == wait), None) if self.sealed else None

    @property
    def ids(self) -> list[str]:
        return [one.id for one in self.on]

    def joined(self, other: Waits) -> Waits:
        """Both waits, of a handler that waits at several places at once."""
        known = set(self.ids)
        on = (*self.on, *(one for one in other.on if one.id not in known))
        until = min((one for one in (self.until, other.until) if one is not None), default=None)
        past = tuple(dict.fromkeys((*self.past, *other.past)))
        signals = tuple(dict.fromkeys((*self.signals, *other.signals)))
        timers = tuple({**dict(self.timers), **dict(other.timers)}.items())
        return replace(self, on=on, signals=signals, until=until, timers=timers, past=past)

    def to_document(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "ids": self.ids,
            "total": [one.total for one in self.on],
            "tolerate": [one.tolerate for one in self.on],
            "fail_fast": [one.fail_fast for one in self.on],
            "sealed": self.sealed,
            "since": self.since,
        }
        past = [{"id": one.id, "total": one.total} for one in self.past[-MOST_WAITS:]]
        rare: dict[str, Any] = {"past": past, "signals": list(self.signals), "until": self.until, "when": self.when}
        rare["deleted"] = [{"wait": wait, "job": job} for wait, job in self.deleted]
        rare["timers"] = [{"wait": wait, "until": until} for wait, until in self.timers]
        return document | {key: value for key, value in rare.items() if value}


def read_waits(stored: Any) -> Waits | None:
    """The waits of a stored job; None where it has none, or another program has written something else there."""
    if not isinstance(stored, Mapping) or not isinstance(stored.get("ids"), list):
        return None
    ids = [one for one in stored["ids"] if isinstance(one, str)]
    total, tolerate, fast = (_list(stored.get(key), len(ids)) for key in ("total", "tolerate", "fail_fast"))
    on = tuple(
        Predecessors(one, _whole(total[place]), _whole(tolerate[place]), fast[place] is True)
        for place, one in enumerate(ids)
    )
    until, since, when = stored.get("until"), stored.get("since"), stored.get("when")
    return Waits(
        on,
        tuple(one for one in _entries(stored.get("signals")) if isinstance(one, str)),
        until if isinstance(until, datetime) else None,
        since if isinstance(since, datetime) else None,
        when if when in (SUCCESS, DONE, FAILURE) else None,
        stored.get("sealed") is True,
        tuple(
            (one["wait"], one["job"])
            for one in _entries(stored.get("deleted"))
            if isinstance(one, Mapping) and isinstance(one.get("wait"), str) and isinstance(one.get("job"), str)
        ),
        tuple(
            (one["wait"], one["until"])
            for one in _entries(stored.get("timers"))
            if isinstance(one, Mapping) and isinstance(one.get("wait"), str) and isinstance(one.get("until"), datetime)
        ),
        tuple(
            Predecessors(one["id"], _whole(one.get("total")))
            for one in _entries(stored.get("past"))
            if isinstance(one, Mapping) and isinstance(one.get("id"), str)
        ),
    )


def _entries(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _list(value: Any, length: int) -> list[Any]:
    return value if isinstance(value, list) and len(value) == length else [None] * length


def _whole(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0
