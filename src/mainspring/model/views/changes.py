"""Changes of jobs, schedules and controls as they happen. Pure.

A change has nothing of a job's content: no data, result, error or log, only its name, its queue, its state and its
progress.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
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
    """One change. `type` is job, schedule or control. A gap says that changes may have been missed. A beat is a sign of
    life that the follower requested; it comes when there was no change for a while."""

    type: str
    id: str | None
    """The place in the stream, to go on behind it later; None where there is no such place."""
    at: datetime
    change: str = ""
    """Of a job: created, started, progress, suspended, completed, failed, retried, released, requeued, cancelled or
    expired. Of a schedule: created, changed or deleted. Of a control: set or removed. Of a gap: the reason."""
    key: str | None = None
    """The id of the job or schedule; of a control its kind: pause, limit or breaker."""
    name: str | None = None
    queue: str | None = None
    state: str | None = None
    """The new state of a job, or of a breaker."""
    percent: float | None = None
    schedule_id: str | None = None
    """Of a job: the schedule that made it."""
    flow_id: str | None = None
    """Of a member of a flow: the id of the flow's root. A follower with a scope gets it only of the flow that it
    follows, since a root may be out of its scope."""


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """The changes that a follower wants to receive, and may."""

    name: str | None = None
    queue: str | None = None
    key: str | None = None
    state: str | None = None
    scope: Scope = EVERYTHING
    flow_id: str | None = None

    def told(self, change: Change) -> Change:
        """A change that the follower wants, as it may see it."""
        hidden = change.flow_id is not None and self.flow_id is None and not self.scope.everything
        return replace(change, flow_id=None) if hidden else change

    def wants(self, change: Change) -> bool:
        if change.type in (GAP, BEAT):
            return True
        return self._asked(change) and self._may_see(change)

    def _asked(self, change: Change) -> bool:
        pairs = ((self.name, change.name), (self.queue, change.queue), (self.state, change.state))
        own = self.key is None or self.key in (change.key, change.schedule_id)
        own = own and (self.flow_id is None or self.flow_id in (change.key, change.flow_id))
        return own and all(wanted is None or wanted == found for wanted, found in pairs)

    def _may_see(self, change: Change) -> bool:
        scope = self.scope
        if change.type == CONTROL and change.name is None and scope.queues is not None:
            return change.queue in scope.queues  # it concerns all jobs of that queue, of whatever name
        return scope.everything or scope.allows(change.queue, change.name)


def make_change_filter(
    name: str | None,
    queue: str | None,
    key: str | None,
    state: str | None,
    scope: Scope = EVERYTHING,
    flow_id: str | None = None,
) -> ChangeFilter:
    """Check the conditions of a filter."""
    for value, what in ((name, "name"), (queue, "queue"), (key, "id"), (flow_id, "flow_id")):
        if value is not None:
            check_name(value, what)
    if state is not None and state not in STATES:
        raise ConfigurationError(f"There is no state {state!r:.100}.{suggestion(str(state), STATES)}")
    return ChangeFilter(name, queue, key, state, scope, flow_id)


def check_place(value: object) -> str:
    """Check a place in the stream, which is the id of an earlier change."""
    if not isinstance(value, str) or not _PLACE.fullmatch(value):
        raise ConfigurationError(
            "This is not a place in the stream of changes; give the id of the last change received."
        )
    return value


def job_change(state: str | None, fields: frozenset[str], outcome: str | None, gone: frozenset[str]) -> str | None:
    """The kind of a job's change, by its new state, the fields that were set and removed, and the outcome of the
    attempt that was added. None where the change is not reported."""
    if "v" in fields:
        return "created"  # a raw insert counts as created when it is adopted
    if state is None:
        return "progress" if "progress" in fields else None
    if state == "running":
        return "started"
    if state == "blocked":
        return "requeued" if "finished_at" in gone else "suspended"
    if state != "pending":
        return state
    if outcome is not None:
        return "retried"
    return "requeued" if "finished_at" in gone else "released"


def control_target(scope: object, target: object, queue: object = None) -> tuple[str | None, str | None]:
    """The name and the queue of a control's target; both of them where it is for a name in one queue."""
    if not isinstance(target, str):
        return None, None
    if scope == NAME:
        return target, queue if isinstance(queue, str) else None
    return None, (target if scope == QUEUE else None)
