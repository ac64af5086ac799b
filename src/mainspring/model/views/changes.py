"""Changes of jobs, schedules and controls as they happen. Pure.

Nothing that a job carries is told: no data, result, error or log, only what it is called, where it stands and how it
fares.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from mainspring.config.settings import check_name
from mainspring.errors import ConfigurationError
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.jobs.job import STATES
from mainspring.model.limits.limits import NAME, QUEUE
from mainspring.spelling import suggestion

JOB, SCHEDULE, CONTROL = "job", "schedule", "control"
GAP, BEAT = "gap", "beat"
_PLACE = re.compile(r"[0-9A-F]{16,2000}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Change:
    """Something that has changed. `type` is job, schedule or control; or gap, where something may have been missed; or
    beat, where nothing has happened for a while and the follower wants to know that."""

    type: str
    id: str | None
    """The place in the stream, to go on behind it later; None where there is no such place."""
    at: datetime
    change: str = ""
    """Of a job: created, started, progress, completed, failed, retried, released, requeued, cancelled or expired. Of a
    schedule: created, changed or deleted. Of a control: set or removed. Of a gap: why."""
    key: str | None = None
    """The id of the job or schedule; of a control its kind: pause, limit or breaker."""
    name: str | None = None
    queue: str | None = None
    state: str | None = None
    """The state that the job has come to, or a breaker is in."""
    percent: float | None = None
    schedule_id: str | None = None
    """Of a job: the schedule that has made it."""


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """Which changes a follower wants to receive, and may."""

    name: str | None = None
    queue: str | None = None
    key: str | None = None
    state: str | None = None
    scope: Scope = EVERYTHING

    def wants(self, change: Change) -> bool:
        if change.type in (GAP, BEAT):
            return True
        return self._asked(change) and self._may_see(change)

    def _asked(self, change: Change) -> bool:
        pairs = ((self.name, change.name), (self.queue, change.queue), (self.state, change.state))
        own = self.key is None or self.key in (change.key, change.schedule_id)
        return own and all(wanted is None or wanted == found for wanted, found in pairs)

    def _may_see(self, change: Change) -> bool:
        scope = self.scope
        if change.type == CONTROL and change.name is None and scope.queues is not None:
            return change.queue in scope.queues  # it concerns the jobs of its names there as well
        return scope.everything or scope.allows(change.queue, change.name)


def make_change_filter(
    name: str | None, queue: str | None, key: str | None, state: str | None, scope: Scope = EVERYTHING
) -> ChangeFilter:
    """An interest as it was asked for, checked."""
    for value, what in ((name, "name"), (queue, "queue"), (key, "id")):
        if value is not None:
            check_name(value, what)
    if state is not None and state not in STATES:
        raise ConfigurationError(f"There is no state {state!r:.100}.{suggestion(str(state), STATES)}")
    return ChangeFilter(name, queue, key, state, scope)


def check_place(value: object) -> str:
    """A place in the stream, as an earlier change told it."""
    if not isinstance(value, str) or not _PLACE.fullmatch(value):
        raise ConfigurationError(
            "This is not a place in the stream of changes; give the id of the last change received."
        )
    return value


def job_change(state: str | None, fields: frozenset[str], outcome: str | None, gone: frozenset[str]) -> str | None:
    """The kind of change of a job: by the state it came to, the fields that it set and removed, and the outcome
    of the attempt that it added. None where that is nothing to tell of."""
    if "v" in fields:
        return "created"  # a raw insert is one from its adoption on
    if state is None:
        return "progress" if "progress" in fields else None
    if state == "running":
        return "started"
    if state != "pending":
        return None if state == "blocked" else state
    if outcome is not None:
        return "retried"
    return "requeued" if "finished_at" in gone else "released"


def control_target(scope: object, target: object, queue: object = None) -> tuple[str | None, str | None]:
    """The name and the queue that a control is for; both of them where it is for a name in one queue."""
    if not isinstance(target, str):
        return None, None
    if scope == NAME:
        return target, queue if isinstance(queue, str) else None
    return None, (target if scope == QUEUE else None)
