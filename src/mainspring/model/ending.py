"""How an attempt can end, as values.

The executor makes exactly one of these for every claimed job; the completer hands it to the store, which knows the
one write for each. `Ending.event` is the event that is announced once the write is known to be stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mainspring.model.job import JobError

PROCESS_DIED = "ProcessDied"
"""The type of the error of an attempt whose process, not the worker's, died under it."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The base of all endings."""

    outcome: ClassVar[str] = ""
    event: ClassVar[str | None] = None


@dataclass(frozen=True, slots=True)
class Completed(Ending):
    """The handler returned."""

    result: Any = None
    note: str | None = None
    outcome: ClassVar[str] = "completed"
    event: ClassVar[str | None] = "job:success"


@dataclass(frozen=True, slots=True)
class Retried(Ending):
    """The handler failed and the job goes back to the queue, to be due after `delay` seconds."""

    delay: float
    error: JobError
    outage: bool | None = True
    """What it means to breakers: what the job needs is down, or is not, or None: it tells nothing of that."""
    outcome: ClassVar[str] = "retried"
    event: ClassVar[str | None] = "job:retry"


@dataclass(frozen=True, slots=True)
class Failed(Ending):
    """The handler failed for good; the job is a dead letter."""

    error: JobError
    outage: bool | None = True
    """As of `Retried`."""
    outcome: ClassVar[str] = "failed"
    event: ClassVar[str | None] = "job:fail"


@dataclass(frozen=True, slots=True)
class Abandoned(Failed):
    """The handler of a job that executes at most once was started, and nobody waits for its end: it is not run again.
    Where somebody has asked to cancel the job, it is cancelled instead."""


@dataclass(frozen=True, slots=True)
class Snoozed(Ending):
    """The handler asked to be run later; it costs no attempt."""

    delay: float
    reason: str = ""
    outcome: ClassVar[str] = "snoozed"
    event: ClassVar[str | None] = "job:snooze"


@dataclass(frozen=True, slots=True)
class Cancelled(Ending):
    """The job was cancelled, by its handler or from outside."""

    reason: str = ""
    outcome: ClassVar[str] = "cancelled"
    event: ClassVar[str | None] = "job:cancel"


@dataclass(frozen=True, slots=True)
class Released(Ending):
    """The worker gives the job back undone, at once; it costs no attempt. `started` tells whether a handler ran."""

    started: bool = False
    outcome: ClassVar[str] = "released"


@dataclass(frozen=True, slots=True)
class Committed(Ending):
    """The handler's own transaction has completed the job already; there is nothing left to write."""

    result: Any = None
    outcome: ClassVar[str] = "completed"
    event: ClassVar[str | None] = "job:success"


@dataclass(frozen=True, slots=True)
class Lost(Ending):
    """The claim was lost while the handler ran; nothing may be written."""

    outcome: ClassVar[str] = "lost"
    event: ClassVar[str | None] = "job:lost"
