"""The metrics by name: their kinds, labels and meanings. docs/reference/metrics.md has the same table, and a test
compares both with a real exposition.

Labels are bounded: a process shows the first `MOST_NAMES` job names, `MOST_QUEUES` queues, `MOST_KINDS` pairs of both
and `MOST_SCHEDULES` schedules or breakers that it meets, and counts the others under `OTHER`.
"""

from __future__ import annotations

from dataclasses import dataclass

from mainspring.model.views.statistics import BOUNDS, WAIT_BOUNDS

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
OTHER = "other"
"""The value of a label of everything beyond its bound."""
MOST_NAMES = 100
MOST_QUEUES = 50
MOST_SCHEDULES = 100
MOST_KINDS = 300
"""The pairs of a queue and a name; the others are `OTHER` in both."""
RUN_BUCKETS = tuple(bound / 1000 for bound in BOUNDS)
WAIT_BUCKETS = tuple(bound / 1000 for bound in WAIT_BOUNDS)
"""In seconds: the bounds of the statistics, so that both show the same percentiles."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. A counter's name is without the `_total` that its series have."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str

    @property
    def series(self) -> tuple[str, ...]:
        """The names of its series."""
        if self.kind == COUNTER:
            return (f"{self.name}_total",)
        return (self.name,) if self.kind == GAUGE else tuple(f"{self.name}_{part}" for part in _OF_HISTOGRAM)


_OF_HISTOGRAM = ("bucket", "sum", "count")
_KIND = ("queue", "name")

JOBS_SCHEDULED = Metric("mainspring_jobs_scheduled", COUNTER, _KIND, "Jobs that this process has stored.")
JOBS_FINISHED = Metric(
    "mainspring_jobs_finished",
    COUNTER,
    (*_KIND, "outcome"),
    "Jobs that this process has ended for good: completed, failed, cancelled, expired.",
)
ATTEMPTS = Metric(
    "mainspring_attempts", COUNTER, (*_KIND, "outcome"), "Attempts that this process has ended, by outcome."
)
RUN_SECONDS = Metric("mainspring_job_run_seconds", HISTOGRAM, _KIND, "How long handlers ran.")
WAIT_SECONDS = Metric("mainspring_job_wait_seconds", HISTOGRAM, ("queue",), "How long started attempts had been due.")
CLAIMS_LOST = Metric("mainspring_claims_lost", COUNTER, ("queue",), "Attempts that lost their claim.")
JOBS_RESCUED = Metric(
    "mainspring_jobs_rescued", COUNTER, ("queue",), "Jobs that this process took from workers that are gone."
)
SCHEDULE_LATE = Metric("mainspring_schedule_late", COUNTER, ("schedule",), "Firings that were made late.")
SCHEDULE_MISSED = Metric("mainspring_schedule_missed", COUNTER, ("schedule",), "Firings that were missed.")
SCHEDULE_SKIPPED = Metric("mainspring_schedule_skipped", COUNTER, ("schedule",), "Firings that a policy left out.")
ERRORS = Metric("mainspring_errors", COUNTER, (), "Errors that the worker met and survived, mostly of the database.")
WORKER_SLOTS = Metric("mainspring_worker_slots", GAUGE, ("state",), "The slots of this worker, busy and idle.")
WORKER_CLAIMED = Metric("mainspring_worker_claimed_jobs", GAUGE, (), "The jobs that this worker has claimed.")
WORKER_BEAT_AGE = Metric(
    "mainspring_worker_heartbeat_age_seconds", GAUGE, (), "Since when the database has confirmed no heartbeat."
)
WORKER_LOOP_HELD = Metric(
    "mainspring_worker_loop_held_seconds", GAUGE, (), "For how long the event loop of this worker has not run."
)
BUILD_INFO = Metric("mainspring_build_info", GAUGE, ("version", "python"), "1, with the versions.")

DATABASE_UP = Metric("mainspring_database_up", GAUGE, (), "Whether MongoDB answered when the shared facts were read.")
WORKERS = Metric("mainspring_workers", GAUGE, (), "The live workers.")
SCHEDULE_OVERDUE = Metric(
    "mainspring_schedule_overdue_seconds", GAUGE, (), "For how long the schedule that should have fired first is due."
)
BREAKER_OPEN = Metric("mainspring_breaker_open", GAUGE, ("target",), "1 while a breaker lets no job through.")
QUEUE_READY = Metric("mainspring_queue_ready_jobs", GAUGE, ("queue",), "Jobs that are due and may start now.")
QUEUE_CAPPED = Metric(
    "mainspring_queue_ready_capped", GAUGE, ("queue",), "1 where the ready jobs are more than they were counted."
)
QUEUE_SCHEDULED = Metric("mainspring_queue_scheduled_jobs", GAUGE, ("queue",), "Jobs that are due later.")
QUEUE_WAITING = Metric("mainspring_queue_waiting_jobs", GAUGE, ("queue",), "Jobs that wait at a limit or a pause.")
QUEUE_RUNNING = Metric("mainspring_queue_running_jobs", GAUGE, ("queue",), "Jobs that run.")
QUEUE_OLDEST = Metric(
    "mainspring_queue_oldest_ready_seconds", GAUGE, ("queue",), "For how long the oldest ready job has been due."
)
QUEUE_WORKERS = Metric("mainspring_queue_workers", GAUGE, ("queue",), "The live workers that serve the queue.")
QUEUE_PAUSED = Metric("mainspring_queue_paused", GAUGE, ("queue",), "1 while the queue is paused.")

OF_PROCESS = (
    *(JOBS_SCHEDULED, JOBS_FINISHED, ATTEMPTS, RUN_SECONDS, WAIT_SECONDS, CLAIMS_LOST, JOBS_RESCUED),
    *(SCHEDULE_LATE, SCHEDULE_MISSED, SCHEDULE_SKIPPED, ERRORS, BUILD_INFO),
)
"""Of every process that shows metrics: they count its own work."""
OF_WORKER = (WORKER_SLOTS, WORKER_CLAIMED, WORKER_BEAT_AGE, WORKER_LOOP_HELD)
"""Of a process that runs jobs, as it is now."""
SHARED = (
    *(DATABASE_UP, WORKERS, SCHEDULE_OVERDUE, BREAKER_OPEN, QUEUE_READY, QUEUE_CAPPED, QUEUE_SCHEDULED),
    *(QUEUE_WAITING, QUEUE_RUNNING, QUEUE_OLDEST, QUEUE_WORKERS, QUEUE_PAUSED),
)
"""Read from the database, and the same for all: the service shows them, and of the workers the one that has the lock of
the chores."""
ALL = (*OF_PROCESS, *OF_WORKER, *SHARED)
