"""The outcomes of an attempt, as values.

The executor makes exactly one of these for every claimed job; the completer passes it to the store, which has one write
for each. `Outcome.event` is the event that is announced once the write is known to be stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from mainspring.model.flows.waits import Waits
from mainspring.model.jobs.job import JobError

PROCESS_DIED = "ProcessDied"
"""The type of the error of an attempt whose own process, not the worker's, died."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The base of all outcomes."""

    outcome: ClassVar[str] = ""
    event: ClassVar[str | None] = None


@dataclass(frozen=True, slots=True)
class Completed(Outcome):
    """The handler returned."""

    result: Any = None
    note: str | None = None
    outcome: ClassVar[str] = "completed"
    event: ClassVar[str | None] = "job:success"


@dataclass(frozen=True, slots=True)
class Retried(Outcome):
    """The handler failed and the job goes back to the queue, to be due after `delay` seconds."""

    delay: float
    error: JobError
    outage: bool | None = True
    """Whether the job's dependency is down, for breakers; None where that is unknown."""
    outcome: ClassVar[str] = "retried"
    event: ClassVar[str | None] = "job:retry"


@dataclass(frozen=True, slots=True)
class Failed(Outcome):
    """The handler failed for good; the job is a dead letter."""

    error: JobError
    outage: bool | None = True
    """The same as in `Retried`."""
    outcome: ClassVar[str] = "failed"
    event: ClassVar[str | None] = "job:fail"


@dataclass(frozen=True, slots=True)
class Abandoned(Failed):
    """The handler of a job that runs at most once was started, and its worker does not wait for its end: the job is not
    run again. Where a cancellation was requested, the job is cancelled instead."""


@dataclass(frozen=True, slots=True)
class Snoozed(Outcome):
    """The handler asked to be run later; it costs no attempt."""

    delay: float
    reason: str = ""
    outcome: ClassVar[str] = "snoozed"
    event: ClassVar[str | None] = "job:snooze"


@dataclass(frozen=True, slots=True)
class Suspended(Outcome):
    """The handler waits for children or signals: it is run again when the wait is over. It costs no attempt."""

    waits: Waits
    outcome: ClassVar[str] = "suspended"
    event: ClassVar[str | None] = "job:suspend"


@dataclass(frozen=True, slots=True)
class Continued(Outcome):
    """The handler begins anew, as the next round of its job; it costs no attempt. `fields` are the job's new data, as
    it is stored."""

    fields: Mapping[str, Any]
    outcome: ClassVar[str] = "continued"


@dataclass(frozen=True, slots=True)
class Cancelled(Outcome):
    """The job was cancelled, by its handler or from outside."""

    reason: str = ""
    outcome: ClassVar[str] = "cancelled"
    event: ClassVar[str | None] = "job:cancel"


@dataclass(frozen=True, slots=True)
class Released(Outcome):
    """The worker gives the job back at once, unfinished; it costs no attempt. `started`: a handler ran."""

    started: bool = False
    outcome: ClassVar[str] = "released"


@dataclass(frozen=True, slots=True)
class Committed(Outcome):
    """The handler's own transaction has completed the job already; there is nothing left to write."""

    result: Any = None
    outcome: ClassVar[str] = "completed"
    event: ClassVar[str | None] = "job:success"


@dataclass(frozen=True, slots=True)
class Lost(Outcome):
    """The claim was lost while the handler ran; nothing may be written."""

    outcome: ClassVar[str] = "lost"
    event: ClassVar[str | None] = "job:lost"


@dataclass(frozen=True, slots=True)
class Unstorable(Lost):
    """MongoDB refuses every form of the attempt's end, or the end cannot be written for another permanent reason.
    Nothing is written: the job's lease runs out."""

    reason: str = ""
    outcome: ClassVar[str] = "unstorable"
