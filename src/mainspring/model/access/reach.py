"""Jobs, schedules and explanations as a key with a scope may see them: nothing out of its scope is shown. Pure.

A job has fields about more than itself: the worker that ran it, the operator that paused its queue and the reason.
These belong to the installation, which a key with a scope does not reach.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TypeVar

from mainspring.model.access.api_keys import Scope
from mainspring.model.explain.facts import (
    Before,
    Control,
    ExplainFacts,
    GateState,
    KnownLimit,
    RunningJob,
    WaitingFacts,
)
from mainspring.model.fields import Fields
from mainspring.model.flows.within import CAUSED, ENDED_BADLY, callbacks_within, data_within
from mainspring.model.jobs.job import Job, JobError, WaitingFor
from mainspring.model.jobs.reserved_names import BATCH, FLOW, FLOW_NAMES, MAP
from mainspring.model.schedules.schedule import ScheduleFacts
from mainspring.model.workers import WorkerStatus

S = TypeVar("S", bound=ScheduleFacts)

_NOTES = {
    "limit": "It waits for a limit, a pause or its turn.",
    "overlap": "It waits until an earlier run of its schedule has ended.",
}
"""By the gate that a job waits for: the text in place of a note that may name an operator, a reason or another job."""


def job_within(scope: Scope, job: Job) -> Job:
    """A job as a key with this scope sees it: without workers, and without notes about anything but the job itself."""
    if scope.everything:
        return job
    attempts = tuple(replace(attempt, worker=None) for attempt in job.attempts)
    waiting_for = None if job.waiting_for is None else _held(job.waiting_for)
    seen = replace(job, worker=None, attempts=attempts, waiting_for=waiting_for)
    if job.name in FLOW_NAMES:
        return _flow_within(scope, seen)
    if job.because is not None and job.error is not None:
        return replace(seen, error=replace(job.error, message=CAUSED))
    return seen


def _flow_within(scope: Scope, job: Job) -> Job:
    """The root of a flow, or a map, without the nodes and errors of jobs out of the scope."""
    data, cut = data_within(scope, job.data) if job.name == FLOW else (job.data, False)
    if job.name == BATCH:
        data, cut = callbacks_within(scope, job.data), True
    if job.name == MAP:
        cut = not scope.allows(job.queue, str(job.data.get("job")))
    if not cut and job.because is None:
        return job
    attempts = tuple(replace(attempt, error=_unnamed(attempt.error)) for attempt in job.attempts)
    error = _unnamed(job.error) if job.because is None else replace(job.error, message=CAUSED) if job.error else None
    return replace(job, data=data, error=error, attempts=attempts)


def schedule_within(scope: Scope, schedule: S) -> S:
    """A schedule as a key with this scope sees it: of a flow, without the nodes out of the scope."""
    if scope.everything or schedule.name != FLOW:
        return schedule
    return replace(schedule, data=data_within(scope, schedule.data)[0])


def makes_beyond(scope: Scope, schedule: ScheduleFacts) -> bool:
    """Whether a firing of the schedule may make jobs out of the scope: a flow has nodes of any queue and name."""
    return not scope.everything and schedule.name == FLOW and data_within(scope, schedule.data)[1]


def _unnamed(error: JobError | None) -> JobError | None:
    return None if error is None else JobError(error.type, ENDED_BADLY)


def relatives_of(job: Job) -> set[str]:
    """The ids of other jobs that a job names."""
    return {one for one in (job.parent_id, job.flow_id, job.because) if one is not None}


def with_relatives_among(reached: Collection[str], job: Job) -> Job:
    """A job without its parent, its flow and the cause of its end, unless the caller reaches them."""
    gone: Fields = {
        name: None for name in ("parent_id", "flow_id", "because") if getattr(job, name) not in (None, *reached)
    }
    return replace(job, **gone) if gone else job


def _held(held: WaitingFor) -> WaitingFor:
    return replace(held, note=note_within(held.by, held.note))


def note_within(by: str, note: str) -> str:
    """The note of a waiting job as a key with a scope sees it."""
    return _NOTES.get(by, note)


# -- explanations ------------------------------------------------------------------------------------------------------

_SIGNATURE = ("actor", "reason")


def facts_within(scope: Scope, facts: ExplainFacts) -> ExplainFacts:
    """The facts about a job that a key with this scope may know. Workers are numbered and jobs out of the scope
    counted; neither the actors nor the reasons of controls are shown."""
    if scope.everything:
        return facts
    named = _numbers(facts)
    sequence = facts.sequence
    if sequence is not None and sequence.first is not None:
        sequence = replace(sequence, first=_first(scope, sequence.first, named))
    return replace(
        facts,
        job=job_within(scope, facts.job),
        controls=tuple(_unsigned(control) for control in facts.controls),
        workers=tuple(_worker(scope, facts.job, worker, named) for worker in facts.workers),
        sequence=sequence,
        limits=tuple(_limit(limit) for limit in facts.limits),
        gates={name: _gate(state, named) for name, state in facts.gates.items()},
        running=tuple(_running(scope, one, named) for one in facts.running),
        waits=None if facts.waits is None else _waits(facts.waits),
    )


def _waits(waits: WaitingFacts) -> WaitingFacts:
    """The waits of a job. Those of a handler have names of its own; a node of a flow waits for nodes that may be out of
    the scope."""
    if waits.when is None:
        return waits
    return replace(waits, on=tuple(replace(one, name="a node before it") for one in waits.on))


def _numbers(facts: ExplainFacts) -> Mapping[str, str]:
    """A number for each worker, in place of its id."""
    ids = [worker.id for worker in facts.workers]
    ids += [worker for state in facts.gates.values() for worker in state.grants]
    ids += [one.worker for one in facts.running]
    return {worker: f"#{number}" for number, worker in enumerate(dict.fromkeys(ids), 1)}


def _worker(scope: Scope, job: Job, worker: WorkerStatus, named: Mapping[str, str]) -> WorkerStatus:
    """A worker with only the facts that concern this job, and the queues that the key reaches."""
    reached = {job.queue, *(scope.queues or ())}
    return WorkerStatus(
        named[worker.id],
        queues=None if worker.queues is None else tuple(queue for queue in worker.queues if queue in reached),
        handlers=None if worker.handlers is None else tuple(name for name in worker.handlers if name == job.name),
        concurrency=worker.concurrency,
        running=worker.running,
        versions={name: version for name, version in worker.versions.items() if name == job.name},
        keys=worker.keys & {*job.key_ids} or (frozenset({"another"}) if worker.keys else frozenset()),
    )


def _running(scope: Scope, running: RunningJob, named: Mapping[str, str]) -> RunningJob:
    hidden = not scope.allows(running.queue, running.name)
    return replace(running, worker=named[running.worker], hidden=hidden)


def _first(scope: Scope, first: Before, named: Mapping[str, str]) -> Before:
    if not scope.allows(first.queue, first.name):
        return Before("", first.state, hidden=True)
    return replace(first, worker=None if first.worker is None else named.get(first.worker, "#"))


def _gate(state: GateState, named: Mapping[str, str]) -> GateState:
    return replace(state, grants={named[worker]: number for worker, number in state.grants.items()})


def _limit(limit: KnownLimit) -> KnownLimit:
    return limit if limit.override is None else replace(limit, override=_unsigned(limit.override))


def _unsigned(control: Control) -> Control:
    document = {key: value for key, value in control.document.items() if key not in _SIGNATURE}
    return replace(control, document=document)
