"""A job beside others, and the stack of its handler: what an operator looks at when a job is not as expected."""

from __future__ import annotations

from fastapi import APIRouter

from mainspring.api.dependencies import Caller, Operator, Viewer
from mainspring.api.endpoints.job_actions import JobId
from mainspring.api.jobs.resources import seen_job, seen_jobs
from mainspring.api.wire.base import Answer, Nothing
from mainspring.api.wire.job_views import BriefJob, ComparisonOut, RelatedOut, StackAskedOut
from mainspring.errors import JobNotFound

router = APIRouter(prefix="/api/jobs", tags=["jobs"])


@router.post("/{job_id:path}/stack", status_code=202, summary="Request the stack of a running job")
async def ask_job_stack(job_id: JobId, caller: Operator, body: Nothing | None = None) -> Answer[StackAskedOut]:
    """Ask the worker of a running job for the stack of its handler. Within about two seconds, the worker stores the
    calls, without values, in the `stack` of the job's details. If the job is not running, the answer is 409."""
    job = await caller.job(job_id)
    asked_at = await caller.scheduler.workers.ask_stack(job.id)
    await caller.note("job.stack", job.id)
    return Answer(data=StackAskedOut(asked_at=asked_at))


@router.get("/{job_id:path}/compare", summary="Compare a job with its last success")
async def compare_job(job_id: JobId, caller: Viewer) -> Answer[ComparisonOut]:
    """Compare a job with the last job of the same name that completed before it: data and result by path, and the last
    attempt's duration, worker and log. Hidden values are not compared. For a schedule's job, this searches earlier runs
    of the schedule; otherwise the latest 1,000 completed jobs."""
    job = await caller.job(job_id)
    found, complete = await caller.backend.last_completed(job.id, caller.scope)
    seen = await seen_jobs(caller, [job] if found is None else [job, found])
    versions = await _versions(caller) if found is not None else {}
    return Answer(data=ComparisonOut.of(seen[0], seen[1] if found is not None else None, complete, versions))


async def _versions(caller: Caller) -> dict[str, str | None]:
    """The versions of workers, for a caller that may see workers."""
    if not caller.scope.everything:
        return {}
    return {worker.id: worker.version for worker in await caller.scheduler.workers.all()}


@router.get("/{job_id:path}/related", summary="List the jobs around a job")
async def list_related_jobs(job_id: JobId, caller: Viewer) -> Answer[RelatedOut]:
    """List the parent of a job, the jobs that its handler scheduled, other runs of its schedule, and the job that holds
    its dedupe key now. Each list is bounded; children are searched among the first 1,000 jobs created since the job
    started."""
    job = await seen_job(caller, await caller.job(job_id))
    found = await caller.backend.related(job.id, caller.scope)
    return Answer(
        data=RelatedOut(
            parent=await _parent(caller, job.parent_id),
            children=[BriefJob.of(one) for one in found.children],
            children_complete=found.children_complete,
            runs=[BriefJob.of(one) for one in found.runs],
            holder=None if found.holder is None else BriefJob.of(found.holder),
        )
    )


async def _parent(caller: Caller, parent_id: str | None) -> BriefJob | None:
    try:
        return None if parent_id is None else BriefJob.of(await caller.job(parent_id))
    except JobNotFound:
        return None
