"""Observability: health, statistics from counters, and the latest failures."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Response

from mainspring.api.dependencies import Caller, Viewer
from mainspring.api.jobs.resources import executions_of
from mainspring.api.wire.base import Answer, InstantIn, Span, to_ms
from mainspring.api.wire.compat import Execution
from mainspring.api.wire.views.observability import (
    Executions,
    HealthReport,
    Movement,
    NamesOut,
    PollingScheduler,
    SchedulerFacts,
    Series,
    Summary,
    WorkerOut,
)
from mainspring.clock import EPOCH
from mainspring.model.access.api_keys import Scope
from mainspring.model.fields import Fields
from mainspring.model.views.health import UNHEALTHY, Health
from mainspring.model.views.name_statistics import NameOrder
from mainspring.model.workers import WorkerStatus

router = APIRouter(tags=["observability"])

_DAY = timedelta(days=1)
_LONGEST = timedelta(days=5 * 365)
_FAILED = ("retried", "failed", "lost")
Word = Annotated[str | None, Query(min_length=1, max_length=200)]
_UNHEALTHY: dict[int | str, Fields] = {
    503: {"model": HealthReport, "description": "No work can be done now; `reasons` has the causes."}
}


@router.get("/api/observability/health", summary="Check the health", responses=_UNHEALTHY)
async def check_health(caller: Viewer, response: Response) -> HealthReport:
    """Check readiness: whether MongoDB is reachable, workers are alive, and due jobs are being run. `status` is
    healthy, degraded or unhealthy (then the answer is 503), and `reasons` says why. Two further checks need no key:
    `/livez` checks that this process answers (liveness), and `/readyz` that it reaches MongoDB."""
    found = await caller.scheduler.monitor.health()
    if found.status == UNHEALTHY:
        response.status_code = 503
    return _report(caller, found)


@router.get("/api/observability/stats", summary="Count the executions")
async def count_executions(caller: Viewer) -> Answer[Summary]:
    """Return the number of executions for as long as statistics are kept (30 days by default), and the number of
    running jobs. The numbers come from counters that workers store every second; no jobs are counted."""
    scheduler, scope = caller.scheduler, caller.principal.scope
    now, keep = caller.service.now(), scheduler.settings.keep_stats
    reach = _LONGEST if keep is None else max(min(timedelta(seconds=keep), _LONGEST), _DAY)
    total = (await scheduler.monitor.statistics(now - reach, now, step=_DAY, scope=scope)).total
    lately = (await scheduler.monitor.statistics(now - _DAY, now, scope=scope)).total
    executions = Executions(
        total=total.executions,
        successful=total.completed,
        failed=total.unsuccessful,
        last24_hours=lately.executions,
    )
    return Answer(
        data=Summary(executions=executions, scheduler=_facts(_reached(await scheduler.monitor.health(), scope)))
    )


@router.get("/api/observability/failures", summary="List the latest failures")
async def list_failures(caller: Viewer, limit: Annotated[int, Query(ge=1, le=200)] = 20) -> Answer[list[Execution]]:
    """List failed attempts, latest first: of dead letters, of jobs that will be retried, and of jobs that succeeded
    later. For a key with a scope, the latest 5,000 jobs of each kind are searched."""
    found: list[Execution] = []
    for job in await caller.scheduler.monitor.failures(limit, scope=caller.principal.scope):
        attempts = executions_of(caller, job, job.schedule_id or job.id)
        found += [one for one in attempts if one.outcome in _FAILED]
    latest = sorted(found, key=lambda one: one.completed_at or EPOCH, reverse=True)
    return Answer(data=latest[:limit])


@router.get("/api/stats", summary="Get statistics as a time series")
async def get_statistics(
    caller: Viewer,
    start: InstantIn | None = None,
    end: InstantIn | None = None,
    step: Annotated[
        Span | None,
        Query(description="Whole minutes, such as 15m or 1h; by default, chosen by the length of the window."),
    ] = None,
    name: Word = None,
    queue: Word = None,
) -> Answer[Series]:
    """Return how many attempts started, their outcomes, run times and delays, and how long the oldest due job had
    waited, for each `step` from `start` to `end`; by default for the last 24 hours. Numbers per minute are kept for two
    days, numbers per hour for as long as statistics are kept. Steps begin at whole multiples of their length since
    1970, in UTC; an answer has 2,000 steps at most. Beyond 33 hours, steps are multiples of five minutes."""
    until = caller.service.now() if end is None else end
    found = await caller.scheduler.monitor.statistics(
        until - _DAY if start is None else start,
        until,
        step=step,
        name=name,
        queue=queue,
        scope=caller.principal.scope,
    )
    return Answer(data=Series.of(found))


@router.get("/api/stats/names", summary="Compare job names with a week earlier")
async def compare_names(
    caller: Viewer,
    start: InstantIn | None = None,
    end: InstantIn | None = None,
    order: NameOrder = "failing",
    limit: Annotated[int, Query(ge=1, le=200)] = 10,
    queue: Word = None,
) -> Answer[NamesOut]:
    """Return the counts of job names from `start` to `end`, by default for the last 24 hours, and of the same window a
    week earlier. `order` puts the most failing, the slowest (by the 95th percentile of run times) or the busiest names
    first. Names that never failed are not among the failing ones."""
    until = caller.service.now() if end is None else end
    found = await caller.scheduler.monitor.name_statistics(
        until - _DAY if start is None else start,
        until,
        order=order,
        limit=limit,
        queue=queue,
        scope=caller.principal.scope,
    )
    return Answer(data=NamesOut.of(found))


def _report(caller: Caller, found: Health) -> HealthReport:
    scope = caller.principal.scope
    workers = _reached(found, scope)
    interval = to_ms(caller.scheduler.settings.poll_interval) or 0
    return HealthReport(
        success=found.status != UNHEALTHY,
        status=found.status,  # type: ignore[arg-type]
        timestamp=found.at,
        ready=found.status != UNHEALTHY,
        reasons=list(found.reasons),
        scheduler=PollingScheduler(**_facts(workers).model_dump(by_alias=False), poll_interval=interval),
        database=found.clock_known,
        workers=[WorkerOut.of(worker) for worker in workers] if scope.everything else [],
        progress=Movement.of(found) if scope.everything else None,
    )


def _reached(found: Health, scope: Scope) -> list[WorkerStatus]:
    """The workers that serve a queue within the scope."""
    wanted = scope.queues
    return [one for one in found.workers if wanted is None or one.queues is None or set(one.queues) & set(wanted)]


def _facts(workers: list[WorkerStatus]) -> SchedulerFacts:
    return SchedulerFacts(
        is_running=bool(workers),
        running_jobs=sum(worker.running for worker in workers),
        max_concurrent_jobs=sum(worker.concurrency for worker in workers),
    )
