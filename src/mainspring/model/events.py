"""The names of all events, and what their callbacks are given.

Job events carry the `Job` as it was stored, `scheduler:error` the exception, `worker:*` the worker's id; the
scheduler's own start and stop carry nothing. Of the schedules' events, late, missed and skipped carry a `Notice`, pause
the schedule, and undeclared the schedule's id. Breaker events carry the `BreakerStatus`, and are announced by the
process that has moved the breaker. `archive:fail` carries what the hook raised, and the ids of the jobs.
"""

from __future__ import annotations

JOB_EVENTS = (
    "job:created",
    "job:start",
    "job:success",
    "job:fail",
    "job:retry",
    "job:cancel",
    "job:progress",
    "job:snooze",
    "job:rescue",
    "job:expire",
    "job:lost",
)
SCHEDULE_EVENTS = (
    "schedule:late",
    "schedule:missed",
    "schedule:skipped",
    "schedule:pause",
    "schedule:undeclared",
)
BREAKER_EVENTS = (
    "breaker:open",
    "breaker:probe",
    "breaker:close",
)
EVENTS = (
    "scheduler:start",
    "scheduler:stop",
    "scheduler:error",
    "worker:start",
    "worker:stop",
    *JOB_EVENTS,
    *SCHEDULE_EVENTS,
    *BREAKER_EVENTS,
    "archive:fail",
)
