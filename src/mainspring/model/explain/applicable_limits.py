"""The limits that apply to a job, as far as a process that may not have the job's code can tell. Pure.

An override that was set at run time wins. Otherwise the live workers that can run the job decide: each reports the
declarations of its code in the registry. Where there is no such worker, the calling process's own code decides, and
last any other worker. `JobLimits` builds the gates themselves, as for the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mainspring.model.explain.facts import Control, InSequence, KnownLimit, TakingTurns, find_control
from mainspring.model.jobs.job import Job
from mainspring.model.limits.limits import NAME, QUEUE, Gate, JobLimits, Limit, Rate, SequenceGate, fair_gate
from mainspring.model.limits.reported_limits import generosity, limits_from_document
from mainspring.model.workers import Place, WorkerStatus, able_workers

OVERRIDE, WORKERS, CODE, JOB = "override", "workers", "code", "job"


@dataclass(frozen=True, slots=True)
class Declared:
    """The limits that the calling process's code has for a job's name and queue; None where it has none."""

    name: JobLimits | None = None
    queue: JobLimits | None = None


@dataclass(frozen=True, slots=True)
class DeclaredLimits:
    """The limits that are declared for a name or queue: one entry for each worker, and the source."""

    source: str
    entries: Sequence[JobLimits]


def limits_of(
    job: Job, controls: Sequence[Control], workers: Sequence[WorkerStatus], declared: Declared
) -> tuple[KnownLimit, ...]:
    """Every limit that applies to a job: of its name and its queue, slots before rates."""
    found: list[KnownLimit] = []
    for scope, target, own in ((NAME, job.name, declared.name), (QUEUE, job.queue, declared.queue)):
        override = find_control(controls, "limit", scope, target)
        set_at_run_time = JobLimits() if override is None else limits_from_document(override.document)
        wins = [
            KnownLimit(scope, target, gate, OVERRIDE, override)
            for gate in set_at_run_time.gates(scope, target, job.queue, job.data)
        ]
        entries = declared_limits(workers, job, (scope, target), own)
        overridden = {type(limit.rule) for limit in wins}
        found += wins
        found += [one for one in _declared(job, scope, target, entries) if type(one.rule) not in overridden]
    return tuple(sorted(found, key=lambda limit: isinstance(limit.rule, Rate)))


def declared_limits(workers: Sequence[WorkerStatus], job: Job, place: Place, own: JobLimits | None) -> DeclaredLimits:
    """The limits declared by the workers that can run the job, else by this process, else by any worker."""
    able = [worker.limits for worker in able_workers(workers, job) if worker.limits is not None]
    if able:
        return DeclaredLimits(WORKERS, [limits.get(place, JobLimits()) for limits in able])
    if own is not None:
        return DeclaredLimits(CODE, [own])
    others = [worker.limits[place] for worker in workers if worker.limits and place in worker.limits]
    return DeclaredLimits(WORKERS, others)


def sequence_of(job: Job, stored: str | None, declared: DeclaredLimits) -> InSequence | None:
    """The sequence that a job belongs to: the one stored with it, or the one that its handler declares."""
    rule = next((entry.sequence for entry in declared.entries if entry.sequence is not None), None)
    for gate in _order_gates(job, JobLimits(sequence=rule), stored):
        if isinstance(gate.rule, SequenceGate):
            return InSequence(gate.rule.sequence, declared.source if stored is None else JOB, gate.rule.blocks)
    return None


def turns_of(job: Job, line: str | None, declared: DeclaredLimits) -> TakingTurns | None:
    """The wait list of the job's key, where its handler declares fairness, or where the job is on such a list."""
    prefix = fair_gate(job.queue, "").name
    key = next((entry.fair for entry in declared.entries if entry.fair is not None), None)
    for gate in _order_gates(job, JobLimits(fair=key), None):
        return TakingTurns(gate.name, gate.name.removeprefix(prefix), declared.source)
    return TakingTurns(line, line.removeprefix(prefix), JOB) if line is not None and line.startswith(prefix) else None


def _order_gates(job: Job, limits: JobLimits, sequence: str | None) -> list[Gate]:
    return limits.order_gates(job.name, job.queue, job.data, sequence)


def _declared(job: Job, scope: str, target: str, declared: DeclaredLimits) -> list[KnownLimit]:
    """The declared limits: one for each gate, since the keys may differ between workers."""
    by_gate: dict[str, list[Gate]] = {}
    for entry in declared.entries:
        for gate in entry.gates(scope, target, job.queue, job.data):
            by_gate.setdefault(gate.name, []).append(gate)
    return [_known(scope, target, gates, declared) for gates in by_gate.values()]


def _known(scope: str, target: str, gates: Sequence[Gate], declared: DeclaredLimits) -> KnownLimit:
    """The most generous of the rules that workers declare for one gate."""
    best = max(gates, key=lambda gate: generosity(_rule(gate)))
    others = tuple(dict.fromkeys(_rule(gate) for gate in gates if gate.rule != best.rule))
    return KnownLimit(scope, target, best, declared.source, None, others, len(declared.entries) - len(gates))


def _rule(gate: Gate) -> Limit | Rate:
    assert isinstance(gate.rule, Limit | Rate)
    return gate.rule
