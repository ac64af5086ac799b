"""What is done to one job, and all there is to be seen of it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from mainspring.api.idempotency import Made, Once
from mainspring.api.service import Caller, Operator, Viewer
from mainspring.api.wire.base import Answer, Nothing
from mainspring.api.wire.jobs import CancelIn, ExplanationOut, JobDetail, JobOut
from mainspring.errors import WaitTimeout
from mainspring.model.job import Job

LONGEST_WAIT = 60_000

router = APIRouter(prefix="/api/jobs", tags=["jobs"])
JobId = Annotated[str, Path(min_length=1, max_length=1000, examples=["6890b1f2c7a4e1d2f3a4b5c6"])]
Timeout = Annotated[
    int, Query(ge=0, le=LONGEST_WAIT, description="How long to wait, in milliseconds.", examples=[30_000])
]


async def reached(caller: Caller, job_id: str) -> Job:
    """A job that the caller may see; any other is not there."""
    job = await caller.scheduler.get_job(job_id)
    caller.check_reach(job.queue, job.name)
    return job


@router.post("/{job_id:path}/cancel", summary="Cancel a job")
async def cancel_job(job_id: JobId, caller: Operator, body: CancelIn | None = None) -> Answer[JobOut]:
    """Cancel a pending job at once, or ask a running one to stop, which it does within about two seconds. A job that
    has ended stays as it is."""
    before = await reached(caller, job_id)
    reason = "" if body is None else body.reason
    after = await caller.scheduler.cancel(job_id, reason)
    await caller.note("job.cancel", before.id, before=_told(before), after=_told(after) | {"reason": reason})
    return _answer(caller, after)


@router.post("/{job_id:path}/retry", summary="Run an ended job again", response_model=Answer[JobOut])
async def retry_job(job_id: JobId, caller: Operator, once: Once, body: Nothing | None = None) -> Response:
    """Run a failed, cancelled or completed job again, as a new round of attempts. Any other is a 409. With an
    `Idempotency-Key`, the request that comes again begins no second round."""

    async def make(request_id: str) -> Made:
        before = await reached(caller, job_id)
        after = await caller.scheduler.retry(job_id, request_id=request_id)
        await caller.note("job.retry", before.id, before=_told(before), after=_told(after))
        return Made(_answer(caller, after), 200)

    return await once.answer(caller, make)


@router.post("/{job_id:path}/run", summary="Run a pending job now")
async def run_job(job_id: JobId, caller: Operator, body: Nothing | None = None) -> Answer[JobOut]:
    """Make a pending job due at once. One that is not pending is a 409."""
    before = await reached(caller, job_id)
    after = await caller.scheduler.run_now(job_id)
    await caller.note("job.run", before.id, before=_told(before), after=_told(after))
    return _answer(caller, after)


@router.get("/{job_id:path}/explain", summary="Why a job does not run")
async def explain_job(job_id: JobId, caller: Viewer) -> Answer[ExplanationOut]:
    """Every gate between a job and its run, the one that holds it now, and both in words."""
    await reached(caller, job_id)
    explanation = await caller.scheduler.explain(job_id)
    return Answer(data=ExplanationOut(**explanation.to_document()))


@router.get(
    "/{job_id:path}/wait",
    summary="Wait for the end of a job",
    responses={202: {"model": Answer[JobOut], "description": "It has not ended yet; this is how it is."}},
)
async def wait_for_job(job_id: JobId, caller: Viewer, response: Response, timeout: Timeout = 30_000) -> Answer[JobOut]:
    """Answers as soon as the job has ended, in whatever way; with 202 and the job as it is when the time is up."""
    job = await reached(caller, job_id)
    if not job.finished:
        try:
            job = await caller.scheduler.wait(job_id, timeout / 1000)
        except WaitTimeout:
            job, response.status_code = await reached(caller, job_id), 202
    return _answer(caller, job)


@router.get("/{job_id:path}/detail", summary="All there is to know of a job")
async def job_detail(job_id: JobId, caller: Viewer) -> Answer[JobDetail]:
    """A job with its attempts and their errors, its finished steps, and the log of the attempt that runs."""
    return Answer(data=JobDetail.of(caller.scheduler.shown(await reached(caller, job_id))))


def _answer(caller: Caller, job: Job) -> Answer[JobOut]:
    return Answer(data=JobOut.of(caller.scheduler.shown(job)))


def _told(job: Job) -> dict[str, Any]:
    """What the audit log is told of a job."""
    return {"name": job.name, "queue": job.queue, "state": job.state, "run_at": job.run_at.isoformat()}
