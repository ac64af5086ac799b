"""Health, statistics and events on the wire."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, JsonValue

from mainspring.api.wire.base import Instant, Out, to_ms
from mainspring.model.changes import CONTROL, GAP, JOB, Change
from mainspring.model.health import Health, WorkerFacts
from mainspring.model.statistics import BOUNDS, Counts, Point, Statistics


class SchedulerFacts(Out):
    """The workers taken together, as they told of themselves lately."""

    is_running: bool = Field(description="Whether any worker is alive.")
    running_jobs: int
    max_concurrent_jobs: int


class PollingScheduler(SchedulerFacts):
    poll_interval: int = Field(description="How long a worker sleeps at most without being woken, in milliseconds.")


class LiveWorker(Out):
    """A worker whose last beat is recent."""

    id: str
    last_beat_at: Instant
    started_at: Instant | None = None
    running_jobs: int
    max_concurrent_jobs: int
    queues: list[str] | None = Field(description="The queues it serves; null is all.")

    @classmethod
    def of(cls, worker: WorkerFacts) -> Self:
        return cls(
            id=worker.id,
            last_beat_at=worker.beat_at,
            started_at=worker.started_at,
            running_jobs=worker.running,
            max_concurrent_jobs=worker.concurrency,
            queues=None if worker.queues is None else list(worker.queues),
        )


class Movement(Out):
    """What is over its time now; null where nothing is."""

    oldest_due_at: Instant | None = Field(None, description="The job that is due for longest and that nobody took.")
    oldest_due_queue: str | None = None
    oldest_lease_at: Instant | None = Field(None, description="When the lease ended that is over for longest.")
    oldest_firing_at: Instant | None = Field(None, description="When the schedule should have fired that is latest.")

    @classmethod
    def of(cls, health: Health) -> Self:
        return cls(
            oldest_due_at=health.oldest_due,
            oldest_due_queue=health.oldest_due_queue,
            oldest_lease_at=health.oldest_lease,
            oldest_firing_at=health.oldest_firing,
        )


class HealthReport(Out):
    """Whether what is due gets done. `live` is this process; `ready` is whether work can be done."""

    success: bool
    status: Literal["healthy", "degraded", "unhealthy"]
    timestamp: Instant
    live: Literal[True] = True
    ready: bool
    reasons: list[str]
    scheduler: PollingScheduler
    database: bool = Field(description="Whether MongoDB is reached, with a primary, and its clock is known.")
    workers: list[LiveWorker]
    progress: Movement | None = Field(description="Not told to a key that reaches some jobs only.")


class Executions(Out):
    """Attempts that have ended, for as long as statistics are kept."""

    total: int
    successful: int
    failed: int
    last24_hours: int = Field(serialization_alias="last24Hours", description="Since the full hour 24 hours ago.")


class Summary(Out):
    executions: Executions
    scheduler: SchedulerFacts


class CountsOut(Out):
    """What happened. Durations and lateness are in milliseconds; percentiles are as exact as their bins are narrow."""

    started: int
    completed: int
    failed: int
    retried: int
    cancelled: int
    snoozed: int
    lost: int
    mean_duration: int | None = None
    mean_lateness: int | None = None
    p50: int | None = None
    p95: int | None = None
    p99: int | None = None

    @classmethod
    def of(cls, counts: Counts) -> Self:
        return cls.model_validate(_figures(counts))


class StatsPoint(CountsOut):
    at: Instant

    @classmethod
    def at_point(cls, point: Point) -> Self:
        return cls.model_validate({"at": point.at, **_figures(point.counts)})


class Histogram(Out):
    """How many attempts took how long: `counts[n]` took at most `bounds[n]` milliseconds, the last ones longer."""

    bounds: list[int]
    counts: list[int]


class Series(Out):
    start: Instant
    end: Instant
    step: int
    points: list[StatsPoint]
    total: CountsOut
    durations: Histogram

    @classmethod
    def of(cls, found: Statistics) -> Self:
        return cls(
            start=found.start,
            end=found.end,
            step=to_ms(found.step) or 0,
            points=[StatsPoint.at_point(point) for point in found.points],
            total=CountsOut.of(found.total),
            durations=Histogram(bounds=list(BOUNDS), counts=found.total.bins),
        )


def _figures(counts: Counts) -> dict[str, int | None]:
    plain = ("started", "completed", "failed", "retried", "cancelled", "snoozed", "lost")
    return {name: getattr(counts, name) for name in plain} | {
        "mean_duration": to_ms(counts.mean_duration),
        "mean_lateness": to_ms(counts.mean_lateness),
        "p50": to_ms(counts.percentile(0.5)),
        "p95": to_ms(counts.percentile(0.95)),
        "p99": to_ms(counts.percentile(0.99)),
    }


class Event(Out):
    """The data of an event. What a job carries is not told: ask for the job, where that is allowed."""

    at: Instant
    change: str | None = None
    id: str | None = None
    kind: str | None = None
    name: str | None = None
    queue: str | None = None
    state: str | None = None
    progress: float | None = None
    schedule_id: str | None = None
    reason: str | None = None

    @classmethod
    def of(cls, change: Change) -> Self:
        if change.type == GAP:
            return cls(at=change.at, reason=change.change)
        whose: dict[str, JsonValue] = {"kind" if change.type == CONTROL else "id": change.key}
        return cls.model_validate(
            {
                "at": change.at,
                "change": change.change,
                **whose,
                "name": change.name,
                "queue": change.queue,
                "state": change.state,
                "progress": change.percent if change.type == JOB else None,
                "schedule_id": change.schedule_id,
            }
        )

    def as_json(self) -> str:
        return self.model_dump_json(exclude_none=True)
