"""Workers, health, statistics and events on the wire."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, JsonValue

from mainspring.api.wire.base import In, Instant, Out, span_text, to_ms
from mainspring.api.wire.jobs import Reason
from mainspring.model.views.changes import CONTROL, GAP, JOB, Change
from mainspring.model.views.health import Health
from mainspring.model.views.name_statistics import NameCounts, NameStatistics
from mainspring.model.views.statistics import BOUNDS, WAIT_BOUNDS, Counts, Point, Statistics
from mainspring.model.workers import Drain, WorkerStatus


class SchedulerFacts(Out):
    """The sum of all workers, by their latest heartbeats."""

    is_running: bool = Field(description="Whether any worker is alive.")
    running_jobs: int
    max_concurrent_jobs: int


class PollingScheduler(SchedulerFacts):
    poll_interval: int = Field(description="How long a worker sleeps at most without being woken, in milliseconds.")


class SlotOut(Out):
    """A job that a slot of a worker runs, as the last heartbeat reported it."""

    job_id: str
    name: str
    queue: str
    since: Instant | None


class DrainOut(Out):
    """A request that a worker claims no more, finishes its jobs and ends."""

    at: Instant | None
    reason: str
    actor: str | None

    @classmethod
    def of(cls, drain: Drain) -> Self:
        return cls(at=drain.at, reason=drain.reason, actor=drain.actor)


class DrainIn(In):
    """The reason for which a worker is drained."""

    reason: Reason = ""


class WorkerOut(Out):
    """A worker as its last heartbeat described it. Null queues or handlers means all of them."""

    id: str
    host: str
    pid: int
    live: bool
    queues: list[str] | None
    handlers: list[str] | None
    versions: dict[str, int]
    concurrency: int
    running: int
    version: str | None
    release: str | None = Field(
        description="The release of the program, as the setting `release` of the worker names it."
    )
    started_at: Instant | None
    beat_at: Instant | None
    lease_until: Instant | None
    memory_bytes: int | None = Field(None, description="The resident memory of its process, if the system reports it.")
    loop_lag_ms: int | None = Field(
        None, description="The longest time that a callback waited for the event loop between its last two heartbeats."
    )
    slots: list[SlotOut] = Field(description="The jobs that it runs; the 50 that have run for longest.")
    drain: DrainOut | None = Field(None, description="The request to drain, if there is one.")
    error: str | None = Field(None, description="The unreadable fields of its document.")

    @classmethod
    def of(cls, worker: WorkerStatus) -> Self:
        same = ("id", "host", "pid", "live", "concurrency", "running", "version", "release", "started_at", "beat_at")
        return cls(
            **{name: getattr(worker, name) for name in (*same, "lease_until", "error")},
            queues=None if worker.queues is None else list(worker.queues),
            handlers=None if worker.handlers is None else list(worker.handlers),
            versions=dict(worker.versions),
            memory_bytes=worker.memory,
            loop_lag_ms=to_ms(worker.loop_lag),
            slots=[
                SlotOut(job_id=slot.job_id, name=slot.name, queue=slot.queue, since=slot.since) for slot in worker.slots
            ],
            drain=None if worker.drain is None else DrainOut.of(worker.drain),
        )


class Movement(Out):
    """The oldest overdue work; null if there is none."""

    oldest_due_at: Instant | None = Field(
        None, description="The run time of the job that has been due for longest without being claimed."
    )
    oldest_due_queue: str | None = None
    oldest_lease_at: Instant | None = Field(None, description="The end of the lease that ran out first.")
    oldest_firing_at: Instant | None = Field(None, description="The firing that is overdue for longest.")

    @classmethod
    def of(cls, health: Health) -> Self:
        return cls(
            oldest_due_at=health.oldest_due,
            oldest_due_queue=health.oldest_due_queue,
            oldest_lease_at=health.oldest_lease,
            oldest_firing_at=health.oldest_firing,
        )


class HealthReport(Out):
    """Whether due jobs are run. `live` says that this process answers, `ready` whether jobs can be run."""

    success: bool
    status: Literal["healthy", "degraded", "unhealthy"]
    timestamp: Instant
    live: Literal[True] = True
    ready: bool
    reasons: list[str]
    scheduler: PollingScheduler
    database: bool = Field(description="Whether MongoDB is reachable, has a primary, and its clock is known.")
    workers: list[WorkerOut]
    progress: Movement | None = Field(description="Null for a key with a scope.")


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
    """Counts of attempts. The percentiles of their durations are as exact as the bins of `Histogram`."""

    started: int
    completed: int
    failed: int
    retried: int
    cancelled: int
    snoozed: int
    lost: int
    mean_duration_ms: int | None = None
    mean_lateness_ms: int | None = None
    p50_ms: int | None = None
    p95_ms: int | None = None
    p99_ms: int | None = None
    wait_p50_ms: int | None = Field(None, description="How long started attempts had been due, as a percentile.")
    wait_p95_ms: int | None = None
    wait_p99_ms: int | None = None

    @classmethod
    def of(cls, counts: Counts) -> Self:
        return cls.model_validate(_figures(counts))


class StatsPoint(CountsOut):
    at: Instant
    oldest_waiting_ms: int | None = Field(
        None,
        description="The longest time that a ready job had been due, sampled once a minute. Null where none was due, "
        "with a filter by name, and for a key that reaches only some names.",
    )

    @classmethod
    def at_point(cls, point: Point) -> Self:
        oldest = to_ms(point.oldest)
        return cls.model_validate({"at": point.at, "oldest_waiting_ms": oldest, **_figures(point.counts)})


class DeployOut(Out):
    """A release of the program, or a version of Mainspring or of a handler, and when a worker first had it."""

    at: Instant
    version: str


class Histogram(Out):
    """Lengths of time: `counts[n]` attempts took at most `boundsMs[n]`, the last ones longer."""

    bounds_ms: list[int]
    counts: list[int]


class Series(Out):
    start: Instant
    end: Instant
    step: str
    points: list[StatsPoint]
    total: CountsOut
    durations: Histogram
    waits: Histogram = Field(description="How long started attempts had been due.")
    deploys: list[DeployOut] = Field(
        description="The releases and versions of workers that appeared first in this time; none for a key with scope."
    )

    @classmethod
    def of(cls, found: Statistics) -> Self:
        return cls(
            start=found.start,
            end=found.end,
            step=span_text(found.step) or "0s",
            points=[StatsPoint.at_point(point) for point in found.points],
            total=CountsOut.of(found.total),
            durations=Histogram(bounds_ms=list(BOUNDS), counts=found.total.bins),
            waits=Histogram(bounds_ms=list(WAIT_BOUNDS), counts=found.total.waits),
            deploys=[DeployOut(at=one.at, version=one.version) for one in found.deploys],
        )


class NameCountsOut(CountsOut):
    name: str
    before: CountsOut = Field(description="The same name a week before.")

    @classmethod
    def of_name(cls, found: NameCounts) -> Self:
        return cls.model_validate({"name": found.name, "before": CountsOut.of(found.before), **_figures(found.counts)})


class NamesOut(Out):
    """Job names with their counts, and those of the same time a week before, which consists of whole hours."""

    start: Instant
    end: Instant
    before_start: Instant
    before_end: Instant
    names: list[NameCountsOut]

    @classmethod
    def of(cls, found: NameStatistics) -> Self:
        return cls(
            start=found.start,
            end=found.end,
            before_start=found.before_start,
            before_end=found.before_end,
            names=[NameCountsOut.of_name(one) for one in found.names],
        )


def _figures(counts: Counts) -> dict[str, int | None]:
    plain = ("started", "completed", "failed", "retried", "cancelled", "snoozed", "lost")
    return {name: getattr(counts, name) for name in plain} | {
        "mean_duration_ms": to_ms(counts.mean_duration),
        "mean_lateness_ms": to_ms(counts.mean_lateness),
        "p50_ms": to_ms(counts.percentile(0.5)),
        "p95_ms": to_ms(counts.percentile(0.95)),
        "p99_ms": to_ms(counts.percentile(0.99)),
        "wait_p50_ms": to_ms(counts.wait_percentile(0.5)),
        "wait_p95_ms": to_ms(counts.wait_percentile(0.95)),
        "wait_p99_ms": to_ms(counts.wait_percentile(0.99)),
    }


class Event(Out):
    """The data of an event. It does not contain the job's data: a caller that may see it reads the job."""

    at: Instant
    change: str | None = None
    id: str | None = None
    kind: str | None = None
    name: str | None = None
    queue: str | None = None
    state: str | None = None
    progress: float | None = None
    schedule_id: str | None = None
    flow_id: str | None = None
    reason: str | None = None
    detail: str | None = None

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
                "flow_id": change.flow_id,
            }
        )

    def as_json(self) -> str:
        return self.model_dump_json(exclude_none=True)
