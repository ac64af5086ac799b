"""The names of all events, and the arguments of their callbacks.

Job events carry the `Job` as it was stored, `scheduler:error` the exception, `worker:*` the worker's id; the
scheduler's own start and stop carry nothing. Of the schedules' events, late, missed and skipped carry a `Notice`, pause
the schedule, and undeclared the schedule's id. Breaker events carry the `BreakerStatus`; the process that has moved the
breaker announces them. `archive:fail` carries the exception of the hook, and the ids of the jobs.
"""

from __future__ import annotations

from typing import Literal, get_args

EventName = Literal[
    "scheduler:start",
    "scheduler:stop",
    "scheduler:error",
    "worker:start",
    "worker:stop",
    "job:created",
    "job:start",
    "job:success",
    "job:fail",
    "job:retry",
    "job:cancel",
    "job:progress",
    "job:snooze",
    "job:suspend",
    "job:rescue",
    "job:expire",
    "job:lost",
    "schedule:late",
    "schedule:missed",
    "schedule:skipped",
    "schedule:pause",
    "schedule:undeclared",
    "breaker:open",
    "breaker:probe",
    "breaker:close",
    "archive:fail",
]
EVENTS: tuple[EventName, ...] = get_args(EventName)
JOB_EVENTS: tuple[EventName, ...] = tuple(name for name in EVENTS if name.startswith("job:"))
