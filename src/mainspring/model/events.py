"""The names of all events, and what their callbacks are given.

Job events carry the `Job` as it was stored, `scheduler:error` the exception, `worker:*` the worker's id; the
scheduler's own start and stop carry nothing.
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
EVENTS = ("scheduler:start", "scheduler:stop", "scheduler:error", "worker:start", "worker:stop", *JOB_EVENTS)
