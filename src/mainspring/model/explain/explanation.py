"""Explanations of why a job does not run: the gates between it and its run, in words and as data. Pure.

An `Explanation` is made from the gates that `model/explain/reasons/` describes, and adds nothing to them: the gate that
holds the job is the first that is not open, and unknown facts are not mentioned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from mainspring.model.jobs.job import Job
from mainspring.rules.instants import instant_text

STATE, DEPENDENCY, OVERLAP, TIME, SEQUENCE = "state", "dependency", "overlap", "time", "sequence"
QUEUE_PAUSED, PAUSED, BREAKER = "queue_paused", "paused", "breaker"
WORKER, HANDLER, VERSION, KEY = "worker", "handler", "version", "key"
CONCURRENCY, FAIRNESS, RATE, LINE, WITHHELD = "concurrency", "fairness", "rate", "line", "withheld"
SLOTS, POSITION = "slots", "position"

# The gates in a few words each, for jobs that several gates block.
_BRIEFLY = {
    STATE: "its state",
    DEPENDENCY: "jobs that it depends on",
    OVERLAP: "an earlier run of its schedule",
    TIME: "its time has not come",
    SEQUENCE: "its sequence",
    QUEUE_PAUSED: "its queue is paused",
    PAUSED: "it is paused",
    BREAKER: "a breaker is open",
    WORKER: "no worker serves its queue",
    HANDLER: "no worker has its handler",
    VERSION: "its data is newer than the handlers",
    KEY: "no worker has its key",
    CONCURRENCY: "a limit is reached",
    FAIRNESS: "others have their turn",
    RATE: "a rate is used up",
    LINE: "a line before it",
    WITHHELD: "it is held",
    SLOTS: "all slots are busy",
    POSITION: "jobs before it in its queue",
}


@dataclass(frozen=True, slots=True)
class ExplainedGate:
    """One gate between a job and its run: whether it lets the job pass now, the reason in words, and the facts."""

    kind: str
    open: bool
    text: str
    data: dict[str, Any] = field(default_factory=dict)

    def to_document(self) -> dict[str, Any]:
        """The gate as plain values for JSON."""
        return {"kind": self.kind, "open": self.open, "text": self.text, "data": plain(self.data)}


@dataclass(frozen=True, slots=True)
class Explanation:
    """The reasons why a job does not run, at the instant `at` of the server's clock.

    `gates` lists every gate between the job and its run, in order. `holding` is the first one that does not let the job
    pass, or None. `text` says so in a sentence or two.
    """

    job: Job
    at: datetime
    gates: tuple[ExplainedGate, ...]
    holding: ExplainedGate | None
    text: str

    @classmethod
    def of(cls, job: Job, at: datetime, gates: Sequence[ExplainedGate]) -> Explanation:
        """The explanation by these gates."""
        closed = [gate for gate in gates if not gate.open]
        return cls(job, at, tuple(gates), closed[0] if closed else None, _text(closed))

    def to_document(self) -> dict[str, Any]:
        """The explanation as plain values for JSON."""
        job = self.job
        return {
            "job": {"id": job.id, "name": job.name, "queue": job.queue, "priority": job.priority, "state": job.state},
            "at": instant_text(self.at),
            "text": self.text,
            "holding": None if self.holding is None else self.holding.kind,
            "gates": [gate.to_document() for gate in self.gates],
        }

    def __str__(self) -> str:
        return self.text


def _text(closed: Sequence[ExplainedGate]) -> str:
    if not closed:
        return "Nothing holds it: a worker claims it at its next poll."
    first, *rest = closed
    if not rest:
        return first.text
    if len(rest) == 1:
        return f"{first.text} {rest[0].text}"
    return f"{first.text} Also in its way: {', '.join(dict.fromkeys(_BRIEFLY[gate.kind] for gate in rest))}."


def plain(value: Any) -> Any:
    """A value with instants as text and durations as seconds, so that it can be written as JSON."""
    if isinstance(value, datetime):
        return instant_text(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


# -- words -----------------------------------------------------------------------------------------------------------

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def span(length: timedelta | float) -> str:
    """A length of time in words: "0.4 s", "12 s", "4 min 12 s", "3 h 5 min", "2 d 4 h"."""
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    seconds = max(0.0, seconds)
    if seconds < 10:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(seconds)
    for size, unit, smaller, less in ((_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "min"), (_MINUTE, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size:,} {unit}" + (f" {rest} {less}" if rest else "")
    return f"{whole} s"


def plural(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def listed(names: Sequence[str], most: int = 5) -> str:
    """Some names in a row, the rest as a number."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def are(number: int) -> str:
    return "is" if number == 1 else "are"


def brief(text: str, most: int = 200) -> str:
    """The beginning of a text that may be long, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most]}…"


def sentence(text: str) -> str:
    """A text that begins and ends as a sentence does."""
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."
