"""Actions on one job, and its details."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from mainspring.api.dependencies import Caller, Operator, Viewer
from mainspring.api.jobs.copy import plan_copy
from mainspring.api.jobs.create import store_plan
from mainspring.api.jobs.data_checks import refusing
from mainspring.api.jobs.flow_reach import check_cancel
from mainspring.api.jobs.idempotency import Made, Once
from mainspring.api.jobs.resources import request_of, seen_job
from mainspring.api.problems import Problem
from mainspring.api.wire.base import Answer, Nothing, Span, span_seconds
from mainspring.api.wire.job_requests import Copy
from mainspring.api.wire.jobs import CancelIn, ExplanationOut, JobDetail, JobOut, SignalIn
from mainspring.errors import InvalidJob, WaitTimeout
from mainspring.model.access.api_keys import OPERATOR
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import Job

LONGEST_WAIT = 60.0

router = APIRouter(prefix="/api/jobs", tags=["jobs"])
JobId = Annotated[str, Path(min_length=1, max_length=1000, examples=["6890b1f2c7a4e1d2f3a4b5c6"])]
SignalName = Annotated[str, Path(min_length=1, max_length=200, examples=["approved"])]
Timeout = Annotated[Span, Query(description="How long to wait, such as 30s; 60s at most.", examples=["30s"])]


@router.post("/{job_id:path}/cancel", summary="Cancel a job")
async def cancel_job(job_id: JobId, caller: Operator, body: CancelIn | None = None) -> Answer[JobOut]:
    """Cancel a pending job at once, or ask a running job to stop within about two seconds. A job that has ended stays
    as it is. The jobs that it waits for are also cancelled; if the key does not reach all of them, the answer is
    403."""
    before = await caller.job(job_id)
    await check_cancel(caller, job_id)
    reason = "" if body is None else body.reason
    after = await caller.scheduler.cancel(job_id, reason)
    await caller.note("job.cancel", before.id, before=_told(before), after=_told(after) | {"reason": reason})
    return await _answer(caller, after)


@router.post("/{job_id:path}/retry", summary="Run an ended job again", response_model=Answer[JobOut])
async def retry_job(job_id: JobId, caller: Operator, once: Once, body: Nothing | None = None) -> Response:
    """Run a failed, cancelled or completed job again, as a new round of attempts. For any other job the answer is 409.
    With an `Idempotency-Key`, a repeated request starts no second round."""

    async def make(request_id: str) -> Made:
        before = await caller.job(job_id)
        after = await _retried(caller, job_id, request_id)
        await caller.note("job.retry", before.id, before=_told(before), after=_told(after))
        return Made(await _answer(caller, after), 200)

    return await once.answer(caller, make)


@router.post("/{job_id:path}/run", summary="Run a pending job now")
async def run_job(job_id: JobId, caller: Operator, body: Nothing | None = None) -> Answer[JobOut]:
    """Make a pending job due at once. For a job in another state the answer is 409."""
    before = await caller.job(job_id)
    after = await caller.scheduler.run_now(job_id)
    await caller.note("job.run", before.id, before=_told(before), after=_told(after))
    return await _answer(caller, after)


@router.post("/{job_id:path}/signals/{name}", summary="Send a signal to a job", response_model=Answer[JobOut])
async def signal_job(
    job_id: JobId, name: SignalName, caller: Operator, once: Once, body: SignalIn | None = None
) -> Response:
    """Send a signal to a job. Its handler gets the payload from `ctx.wait_for(name)`. A signal that arrives before the
    handler waits is kept. For a job that has ended the answer is 409. With an `Idempotency-Key`, a repeated request
    sends no second signal."""

    async def make(signal_id: str) -> Made:
        before = await caller.job(job_id)
        with refusing("payload"):
            after = await caller.scheduler.signal(before.id, name, None if body is None else body.payload, id=signal_id)
        await caller.note("job.signal", before.id, before=_told(before), after=_told(after) | {"signal": name})
        return Made(await _answer(caller, after), 200)

    return await once.answer(caller, make)


@router.post(
    "/{job_id:path}/copy",
    status_code=201,
    summary="Create a job from another one",
    response_model=Answer[JobOut],
    responses={200: {"model": Answer[JobOut], "description": "A job with this dedupeKey existed already"}},
)
async def copy_job(job_id: JobId, caller: Operator, once: Once, body: Copy | None = None) -> Response:
    """Create a job with the name, the data and the options of this one, whatever its state, and with the given changes.
    It is due at once, unless `runAt` or `delay` is given. `data` replaces the whole data and is checked against the
    handler's schema. Placeholders of redacted or encrypted values are refused: send the value itself. Without `data`,
    the stored data is copied, including hidden values."""

    async def make(new_id: str) -> Made:
        before = await caller.job(job_id)
        made = await store_plan(caller, plan_copy(caller, before, body or Copy()), new_id)
        assert isinstance(made, Job)
        if not made.deduplicated or made.id == new_id:
            await caller.note("job.copy", before.id, after=_told(made) | {"copy": made.id})
        return Made(await _answer(caller, made), 201 if not made.deduplicated or made.id == new_id else 200)

    return await once.answer(caller, make)


@router.get("/{job_id:path}/explain", summary="Explain why a job does not run")
async def explain_job(job_id: JobId, caller: Viewer) -> Answer[ExplanationOut]:
    """List every gate between a job and its run, and name the one where it waits now, as data and in words."""
    explanation = await caller.scheduler.explain(job_id, scope=caller.scope)
    return Answer(data=ExplanationOut(**explanation.to_document()))


@router.get(
    "/{job_id:path}/wait",
    summary="Wait for the end of a job",
    responses={202: {"model": Answer[JobOut], "description": "The job has not ended yet; this is its current state."}},
)
async def wait_for_job(job_id: JobId, caller: Viewer, response: Response, timeout: Timeout = "30s") -> Answer[JobOut]:
    """Wait until the job has ended, in any state, and return it. After `timeout`, answer 202 with its current state."""
    if span_seconds(timeout) > LONGEST_WAIT:
        raise Problem(422, f"timeout must be {LONGEST_WAIT:g}s or less; ask again after that.", field="query.timeout")
    job = await caller.job(job_id)
    if not job.finished:
        try:
            with caller.service.standing.stay(caller.principal) as stay:
                await stay.during(caller.scheduler.wait(job_id, timeout))
        except WaitTimeout:
            response.status_code = 202
        job = await caller.job(job_id)  # a change of its queue may have moved it out of reach meanwhile
    return await _answer(caller, job)


@router.get("/{job_id:path}/detail", summary="Get a job in detail")
async def get_job_detail(job_id: JobId, caller: Viewer) -> Answer[JobDetail]:
    """Return a job with its attempts and their errors, its life as a timeline, its finished steps, and the log of the
    running attempt. Operators also see the last requested stack."""
    job = await caller.job(job_id)
    seen = await seen_job(caller, job)
    operator = caller.principal.may(OPERATOR)
    return Answer(data=JobDetail.at(seen, caller.service.now(), request_of(seen, job), with_stack=operator))


async def _answer(caller: Caller, job: Job) -> Answer[JobOut]:
    return Answer(data=JobOut.of(await seen_job(caller, job)))


async def _retried(caller: Caller, job_id: str, request_id: str) -> Job:
    try:
        return await caller.scheduler.retry(job_id, request_id=request_id)
    except InvalidJob:
        if caller.scope.everything:
            raise
        # The answer does not name the job that has the key: it may be out of the caller's reach.
        raise Problem(422, "This job cannot run again: another one holds its dedupe key now.") from None


def _told(job: Job) -> Fields:
    """The audit entry of a job."""
    return {"name": job.name, "queue": job.queue, "state": job.state, "run_at": job.run_at.isoformat()}
