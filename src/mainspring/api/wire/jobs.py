"""Jobs on the wire: as they are listed, in all detail, and what is asked of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, JsonValue

from mainspring.api.showing import due_at, jsonable
from mainspring.api.wire.base import Answer, In, Instant, Out, to_ms
from mainspring.jobtypes.http.scrubbing import is_credential
from mainspring.model.job import Attempt, Job, JobError, Step
from mainspring.model.redaction import REDACTED
from mainspring.model.reserved import HTTP

Reason = Annotated[str, Field(max_length=1000, examples=["The customer has called it off."])]
State = Literal["pending", "running", "completed", "failed", "cancelled", "expired", "blocked"]


class CancelIn(In):
    """Why a job is cancelled."""

    reason: Reason = ""


class ErrorOut(Out):
    """Why an attempt did not succeed."""

    type: str
    message: str
    stack: str | None = None
    details: JsonValue = None

    @classmethod
    def of(cls, error: JobError | None, *, whole: bool = False) -> Self | None:
        if error is None:
            return None
        details = jsonable(error.details) if whole else None
        return cls(type=error.type, message=error.message, stack=error.stack if whole else None, details=details)


class ProgressOut(Out):
    """How far a running job says it is."""

    percent: float
    note: str | None = None


class HeldOut(Out):
    """Why a pending job is kept back."""

    by: str
    note: str
    since: Instant | None = None


class JobOut(Out):
    """A job as it is now. What is encrypted or redacted in its data and its result is replaced by a word."""

    id: str
    name: str
    queue: str
    state: str
    priority: int
    data: dict[str, Any]
    tags: list[str]
    run_at: Instant | None
    created_at: Instant | None
    started_at: Instant | None = None
    finished_at: Instant | None = None
    expires_at: Instant | None = None
    tries: int = Field(description="Attempts that were used in this round.")
    token: int = Field(description="The fence: rises with every claim.")
    result: JsonValue = None
    error: ErrorOut | None = None
    progress: ProgressOut | None = None
    held: HeldOut | None = None
    worker: str | None = None
    timeout: int | None = None
    executes: str | None = None
    schedule_id: str | None = None
    scheduled_for: Instant | None = None
    parent_id: str | None = None
    dedupe_key: str | None = None
    fingerprint: str | None = None
    cancel_requested: bool = False
    encrypted: bool = False

    @classmethod
    def of(cls, job: Job) -> Self:
        """A job that has been through `Scheduler.shown`."""
        return cls(**_fields(job))


class AttemptOut(Out):
    """One try at running a job."""

    number: int
    token: int
    outcome: str
    worker: str | None = None
    scheduled_at: Instant | None = Field(None, description="When it was due.")
    started_at: Instant | None = None
    ended_at: Instant | None = None
    duration: int | None = None
    error: ErrorOut | None = None
    log: list[str] = Field(default_factory=list)

    @classmethod
    def of(cls, job: Job, attempt: Attempt) -> Self:
        return cls(
            number=attempt.number,
            token=attempt.token,
            outcome=attempt.outcome,
            worker=attempt.worker,
            scheduled_at=due_at(job, attempt),
            started_at=attempt.started_at,
            ended_at=attempt.ended_at,
            duration=to_ms(attempt.duration),
            error=ErrorOut.of(attempt.error, whole=True),
            log=[str(line) for line in attempt.log],
        )


class StepOut(Out):
    """A finished step of a job's handler."""

    name: str
    at: Instant | None = None
    attempt: int
    result: JsonValue = None

    @classmethod
    def of(cls, step: Step) -> Self:
        return cls(name=step.name, at=step.at, attempt=step.attempt, result=jsonable(step.result))


class JobDetail(JobOut):
    """All that is known of a job."""

    attempts: list[AttemptOut]
    attempts_cut: int = Field(description="How many older attempts were not kept.")
    steps: list[StepOut]
    log: list[str] = Field(description="The lines of the attempt that runs.")
    result_note: str | None = None
    lease_until: Instant | None = None
    start_within: int | None = None
    suspect: bool = False
    data_version: int = 1
    asked_priority: int | None = None

    @classmethod
    def of(cls, job: Job) -> Self:
        fields = _fields(job) | {"error": ErrorOut.of(job.error, whole=True)}
        return cls(
            **fields,
            attempts=[AttemptOut.of(job, attempt) for attempt in job.attempts],
            attempts_cut=job.attempts_cut,
            steps=[StepOut.of(step) for step in job.steps],
            log=[str(line) for line in job.log],
            result_note=job.result_note,
            lease_until=job.lease_until,
            start_within=to_ms(job.start_within),
            suspect=job.suspect,
            data_version=job.data_version,
            asked_priority=job.asked_priority,
        )


class SearchAnswer(Answer[list[JobOut]]):
    """A page of a search. Where it is not `complete`, it is short although there may be more: go on with `next`."""

    complete: bool


class GateOut(Out):
    """One gate between a job and its run."""

    kind: str
    open: bool
    text: str
    data: dict[str, Any]


class ExplainedJob(Out):
    """The job that is explained."""

    id: str
    name: str
    queue: str
    priority: int
    state: str


class ExplanationOut(Out):
    """Why a job does not run: every gate between it and its run, and the kind of the one that holds it now."""

    job: ExplainedJob
    at: str
    text: str
    holding: str | None
    gates: list[GateOut]


_SAME = (
    *("id", "name", "queue", "state", "priority", "run_at", "created_at", "started_at", "finished_at", "expires_at"),
    *("tries", "token", "worker", "executes", "schedule_id", "scheduled_for", "parent_id", "dedupe_key"),
    *("fingerprint", "cancel_requested", "encrypted"),
)


def shown_data(name: str, data: Any) -> dict[str, Any]:
    """Data that has been through `shown`, as JSON; of a webhook, without the values of headers that are credentials."""
    plain = jsonable(data)
    if not isinstance(plain, dict):
        return {"": plain}
    request = plain.get("request") if name == HTTP else None
    if isinstance(request, dict) and isinstance(request.get("headers"), dict):
        headers = {key: REDACTED if is_credential(key) else value for key, value in request["headers"].items()}
        plain["request"] = request | {"headers": headers}
    return plain


def _fields(job: Job) -> dict[str, Any]:
    progress, held = job.progress, job.held
    return {key: getattr(job, key) for key in _SAME} | {
        "data": shown_data(job.name, job.data),
        "tags": [str(tag) for tag in job.tags],
        "result": jsonable(job.result),
        "error": ErrorOut.of(job.error),
        "progress": None if progress is None else ProgressOut(percent=progress.percent, note=progress.note),
        "held": None if held is None else HeldOut(by=held.by, note=held.note, since=held.since),
        "timeout": to_ms(job.timeout),
    }
