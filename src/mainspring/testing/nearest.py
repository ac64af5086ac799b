"""How a job differs from the one that a test expects, and which of several differs least. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from typing import Any

from mainspring.model.jobs.job import Job

_SHOWN = 10
_WIDTH = 200


@dataclass(frozen=True)
class Expected:
    """The job that a test expects; None stands for anything."""

    name: str
    data: Mapping[str, Any] | None = None
    matching: Mapping[str, Any] | Callable[[Job], bool] | None = None
    queue: str | None = None
    state: str | None = None
    run_at: datetime | None = None

    def differences(self, job: Job) -> list[str]:
        """How a job differs; empty if it is as expected."""
        found = [] if job.name == self.name else [f"its name is {job.name!r}"]
        for option, expected in (("queue", self.queue), ("state", self.state), ("run_at", self.run_at)):
            value = getattr(job, option)
            if expected is not None and value != expected:
                found.append(f"{option} is {_short(value)}, not {_short(expected)}")
        if self.data is not None:
            found += _compared("data", self.data, job.data, exact=True)
        if callable(self.matching):
            found += [] if self.matching(job) else ["matching() returns False"]
        elif self.matching is not None:
            found += _compared("data", self.matching, job.data, exact=False)
        return found

    def __str__(self) -> str:
        parts = [repr(self.name)]
        if self.data is not None:
            parts.append(f"with data {_short(dict(self.data))}")
        if self.matching is not None:
            what = "for which matching() is true" if callable(self.matching) else f"with {_short(dict(self.matching))}"
            parts.append(what)
        for option in ("queue", "state", "run_at"):
            if (value := getattr(self, option)) is not None:
                parts.append(f"{option} {_short(value)}")
        return ", ".join([" ".join(parts[:2]), *parts[2:]])


def nearest(expected: Expected, jobs: list[Job]) -> str:
    """The jobs as lines of text, with their differences, the nearest first."""
    if not jobs:
        return "Nothing was scheduled."
    rated = [(job, expected.differences(job)) for job in jobs]
    rated.sort(key=lambda one: (-_likeness(one[0].name, expected.name), len(one[1])))
    lines = [f"  {_line(job)}" + (f"\n      {'; '.join(found)}" if found else "") for job, found in rated[:_SHOWN]]
    more = [f"  … and {len(rated) - _SHOWN:,} more"] if len(rated) > _SHOWN else []
    return "\n".join(["Scheduled were, the nearest first:", *lines, *more])


def _likeness(name: str, expected: str) -> float:
    return 1.0 if name == expected else SequenceMatcher(None, name, expected).ratio() / 2


def _line(job: Job) -> str:
    return f"{job.name!r} {_short(dict(job.data))}, queue {job.queue!r}, {job.state}"


def _compared(path: str, expected: Any, found: Any, *, exact: bool) -> list[str]:
    """The paths at which values differ. Unless `exact`, further keys of a mapping do not count."""
    if not (isinstance(expected, Mapping) and isinstance(found, Mapping)):
        return [] if expected == found else [f"{path} is {_short(found)}, not {_short(expected)}"]
    differences = []
    for key in expected:
        if key not in found:
            differences.append(f"{path}.{key} is missing")
        else:
            differences += _compared(f"{path}.{key}", expected[key], found[key], exact=exact)
    if exact:
        differences += [
            f"{path}.{key} is {_short(found[key])}, and was not expected" for key in found.keys() - expected
        ]
    return differences


def _short(value: Any) -> str:
    text = str(value) if isinstance(value, datetime) else repr(value)
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}…"
