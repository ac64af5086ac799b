"""Jobs on the wire: in lists and in detail, and the bodies of requests about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import Field, JsonValue

from mainspring.api.wire.base import Answer, In, Instant, Out, jsonable, span_text, to_ms
from mainspring.model.fields import Fields
from mainspring.model.flows.waits import Waits
from mainspring.model.jobs.job import BLOCKED, FINISHED, Attempt, Job, JobError, Step
from mainspring.model.jobs.reserved_names import HTTP
from mainspring.model.jobs.timeline import Kind, Span, timeline

Reason = Annotated[str, Field(max_length=1000, examples=["The customer has called it off."])]


class CancelIn(In):
    """The reason for which a job is cancelled."""

    reason: Reason = ""


class SignalIn(In):
    """The payload of a signal."""

    payload: JsonValue = None


class ErrorOut(Out):
    """The error of an attempt that did not succeed."""

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
    """The progress that a running job reports."""

    percent: float
    note: str | None = None


class WaitingForOut(Out):
    """The gate that a pending job waits at."""

    by: str
    note: str
    since: Instant | None = None


class JobWaitOut(Out):
    """Jobs that a job waits for together."""

    name: str
    total: int = Field(description="How many there are in all.")
    tolerate: int = Field(description="How many of them may end badly.")
    fail_fast: bool


class WaitsOut(Out):
    """What a blocked job waits for: jobs, signals or a time. What is left of it: see explain."""

    on: list[JobWaitOut]
    signals: list[str]
    until: Instant | None
    since: Instant | None
    when: str | None = Field(description="For a node of a declared flow: success, done or failure.")

    @classmethod
    def of(cls, waits: Waits) -> Self:
        on = [
            JobWaitOut(name=one.id.rpartition("#")[2], total=one.total, tolerate=one.tolerate, fail_fast=one.fail_fast)
            for one in waits.on
        ]
        return cls(on=on, signals=list(waits.signals), until=waits.until, since=waits.since, when=waits.when)


class JobOut(Out):
    """A job as it is now. Encrypted and redacted values in its data and its result are replaced by placeholders."""

    id: str
    name: str
    queue: str
    state: str
    priority: int
    data: Fields
    tags: list[str]
    run_at: Instant | None
    created_at: Instant | None
    started_at: Instant | None = None
    finished_at: Instant | None = None
    duration: int | None = Field(None, description="How long its last attempt ran, in milliseconds.")
    expires_at: Instant | None = None
    tries: int = Field(description="Attempts that were used in this round.")
    token: int = Field(description="The fencing token: rises with every claim.")
    result: JsonValue = None
    error: ErrorOut | None = None
    progress: ProgressOut | None = None
    waiting_for: WaitingForOut | None = None
    worker: str | None = None
    timeout: str | None = None
    guarantee: str | None = None
    schedule_id: str | None = None
    scheduled_for: Instant | None = None
    parent_id: str | None = None
    flow_id: str | None = Field(None, description="For a member of a flow: the id of the flow, which is its root job.")
    node: str | None = Field(None, description="For a member of a flow: its node, or the names of waits, with slashes.")
    label: str | None = Field(None, description="Its label: a name in addition to that of its handler.")
    because: str | None = Field(None, description="The job whose end decided that it was cancelled or skipped.")
    waits: WaitsOut | None = Field(None, description="For a blocked job: what it waits for.")
    dedupe_key: str | None = None
    fingerprint: str | None = None
    cancel_requested: bool = False
    encrypted: bool = False

    @classmethod
    def of(cls, job: Job) -> Self:
        """A job that has been through `scheduler.privacy.shown`."""
        return cls(**job_fields(job))


class ResponseOut(Out):
    """The response to a webhook's request, as far as it is kept."""

    status: int | None = None
    headers: dict[str, str] = Field(default_factory=dict)
    body: str | None = None
    body_note: str | None = None
    duration_ms: int | None = None
    url: str | None = None


class AttemptOut(Out):
    """One attempt of a job."""

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
    response: ResponseOut | None = Field(None, description="For a webhook: the response of its receiver.")

    @classmethod
    def of(cls, job: Job, attempt: Attempt) -> Self:
        return cls(
            number=attempt.number,
            token=attempt.token,
            outcome=attempt.outcome,
            worker=attempt.worker,
            scheduled_at=_due_at(job, attempt),
            started_at=attempt.started_at,
            ended_at=attempt.ended_at,
            duration=to_ms(attempt.duration),
            error=ErrorOut.of(attempt.error, whole=True),
            log=[str(line) for line in attempt.log],
            response=_response(job, attempt),
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


class SpanOut(Out):
    """A part of a job's life. Spans follow each other without gaps; the last one has no end if the job has not."""

    kind: Kind
    start: Instant
    end: Instant | None = None
    attempt: int | None = Field(None, description="For a run: the number of its attempt; a snooze has none.")
    token: int | None = None
    outcome: str | None = Field(None, description="How a run ended; null while it runs.")
    note: str | None = None

    @classmethod
    def of(cls, span: Span) -> Self:
        return cls.model_validate(asdict(span))


class StackOut(Out):
    """The stack of a handler at an instant: the calls, without values. It is stale if that run has ended."""

    at: Instant | None
    text: str
    stale: bool


class RequestOut(Out):
    """The request of a webhook as it may be shown; its templates are not filled in."""

    endpoint: str | None = None
    method: str
    headers: dict[str, str] | None = None
    query: dict[str, JsonValue] | None = None
    body: JsonValue = None


class JobDetail(JobOut):
    """A job in every detail."""

    now: Instant = Field(description="The database's time of this answer.")
    timeline: list[SpanOut] = Field(description="Its life so far: what it waited for, and when it ran.")
    stack: StackOut | None = Field(None, description="The last requested stack; for operators only.")
    request: RequestOut | None = Field(None, description="The request of a webhook.")
    edited_at: Instant | None = Field(None, description="When it was last changed by hand.")
    max_attempts: int | None = Field(None, description="The attempts that it was scheduled with; null: its handler's.")
    attempts: list[AttemptOut]
    attempts_cut: int = Field(description="The number of older attempts that were not kept.")
    steps: list[StepOut]
    log: list[str] = Field(description="The lines of the running attempt.")
    result_note: str | None = None
    lease_until: Instant | None = None
    start_within: str | None = None
    suspect: bool = False
    data_version: int = 1
    asked_priority: int | None = None

    @classmethod
    def at(cls, job: Job, now: datetime, request: RequestOut | None = None, *, with_stack: bool = False) -> Self:
        """The detail of a job that has been through `seen_job`, at the database's time."""
        fields = job_fields(job) | {"error": ErrorOut.of(job.error, whole=True)}
        stack = job.stack if with_stack else None
        return cls(
            **fields,
            now=now,
            timeline=[SpanOut.of(span) for span in timeline(job, now)],
            stack=None if stack is None else StackOut(at=stack.at, text=stack.text, stale=job.stack_is_stale),
            request=request,
            edited_at=job.edited_at,
            max_attempts=None if job.retry_policy is None else job.retry_policy.attempts,
            attempts=[AttemptOut.of(job, attempt) for attempt in job.attempts],
            attempts_cut=job.attempts_cut,
            steps=[StepOut.of(step) for step in job.steps],
            log=[str(line) for line in job.log],
            result_note=job.result_note,
            lease_until=job.lease_until,
            start_within=span_text(job.start_within),
            suspect=job.suspect,
            data_version=job.data_version,
            asked_priority=job.asked_priority,
        )


class SearchAnswer(Answer[list[JobOut]]):
    """A page of a search. If it is not `complete`, there may be more: continue with `next`. `searched` then says how
    far the search got."""

    complete: bool
    searched: str | None = None


class GateOut(Out):
    """One gate before a job."""

    kind: str
    open: bool
    text: str
    data: Fields


class ExplainedJob(Out):
    """The job that is explained."""

    id: str
    name: str
    queue: str
    priority: int
    state: str


class ExplanationOut(Out):
    """The reason why a job is not running: every gate between it and its run, and the kind of the one where it waits
    now."""

    job: ExplainedJob
    at: str
    text: str
    holding: str | None
    gates: list[GateOut]


_SAME = (
    *("id", "name", "queue", "state", "priority", "run_at", "created_at", "started_at", "finished_at", "expires_at"),
    *("tries", "token", "worker", "guarantee", "schedule_id", "scheduled_for", "parent_id", "flow_id", "node"),
    *("label", "because", "dedupe_key", "fingerprint", "cancel_requested", "encrypted"),
)


def shown_data(data: Any) -> Fields:
    """Data that has been through `shown`, as JSON."""
    plain = jsonable(data)
    return plain if isinstance(plain, dict) else {"": plain}


def job_fields(job: Job) -> Fields:
    """The fields of `JobOut`, which every other shape of a job has too. The job has been through `seen_jobs`."""
    progress, held = job.progress, job.waiting_for
    return {key: getattr(job, key) for key in _SAME} | {
        "data": shown_data(job.data),
        "tags": [str(tag) for tag in job.tags],
        "duration": to_ms(job.attempts[-1].duration) if job.attempts else None,
        "result": jsonable(job.result),
        "error": ErrorOut.of(job.error),
        "progress": None if progress is None else ProgressOut(percent=progress.percent, note=progress.note),
        "waiting_for": None if held is None else WaitingForOut(by=held.by, note=held.note, since=held.since),
        "timeout": span_text(job.timeout),
        "waits": WaitsOut.of(job.waits) if job.state == BLOCKED and job.waits is not None else None,
    }


def _response(job: Job, attempt: Attempt) -> ResponseOut | None:
    """The response to a webhook's attempt: with its error or, of a success, as the job's result."""
    if job.name != HTTP:
        return None
    succeeded = attempt.outcome == "completed" and attempt.token == job.token
    found = job.result if succeeded else None if attempt.error is None else attempt.error.details
    if not isinstance(found, Mapping) or not isinstance(found.get("status"), int):
        return None
    known = {name: found.get(name) for name in ("status", "body", "body_note", "duration_ms", "url")}
    plain = {name: value for name, value in known.items() if isinstance(value, str | int)}
    headers = found.get("headers")
    shown = {str(name): str(value) for name, value in headers.items()} if isinstance(headers, Mapping) else {}
    try:
        return ResponseOut.model_validate({**plain, "headers": shown})
    except ValueError:
        return None  # another program has stored it in another form


def _due_at(job: Job, attempt: Attempt) -> datetime | None:
    """When an attempt was due: the time of the firing, of the attempt itself or, for the last attempt, of the job."""
    ended_it = attempt.token == job.token and job.state in FINISHED and attempt.outcome != "retried"
    return job.scheduled_for or attempt.run_at or (job.run_at if ended_it else None)
