"""Which limits count for a job, as far as somebody who may not have its code can tell. Pure.

What was overridden at run time wins. Else the live workers that could run the job tell: each stores in the registry
what its code declares. Where there is no such worker, the asking process's own code tells, and last any other worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mainspring.errors import ConfigurationError
from mainspring.model.breaker import Breaker
from mainspring.model.job import Job
from mainspring.model.limits import NAME, QUEUE, Allowance, Gate, Limit, Rate, fair_gate
from mainspring.model.limits import Sequence as InOrder
from mainspring.model.paths import value_at, value_text
from mainspring.model.standing import (
    Control,
    InSequence,
    KnownLimit,
    LiveWorker,
    Scope,
    TakingTurns,
    able,
    find_control,
)

OVERRIDE, WORKERS, CODE, JOB = "override", "workers", "code", "job"
_SLOTS, _STARTS = "concurrency", "rate"


@dataclass(frozen=True, slots=True)
class Declared:
    """What the asking process has in its code for a job's name and queue; None where it says nothing."""

    name: Allowance | None = None
    queue: Allowance | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """What those say of a name or queue who know, and who they are."""

    source: str
    allowances: Sequence[Allowance]


def limits_of(
    job: Job, controls: Sequence[Control], workers: Sequence[LiveWorker], declared: Declared
) -> tuple[KnownLimit, ...]:
    """Every limit that counts for a job: of its name and its queue, slots before rates."""
    found: list[KnownLimit] = []
    for kind in (_SLOTS, _STARTS):
        for scope, target, own in ((NAME, job.name, declared.name), (QUEUE, job.queue, declared.queue)):
            override = find_control(controls, "limit", scope, target)
            rule = None if override is None else getattr(allowance_from(override.document), kind)
            if rule is not None:
                found.append(KnownLimit(scope, target, _gate(rule, scope, target, job), OVERRIDE, override))
            else:
                found += _declared(job, scope, target, kind, said(workers, job, (scope, target), own))
    return tuple(found)


def said(workers: Sequence[LiveWorker], job: Job, scope: Scope, own: Allowance | None) -> Said:
    """What is declared: by the workers that could run the job, else by this process, else by any worker."""
    telling = [worker.limits for worker in able(workers, job) if worker.limits is not None]
    if telling:
        return Said(WORKERS, [limits.get(scope, Allowance()) for limits in telling])
    if own is not None:
        return Said(CODE, [own])
    return Said(WORKERS, [worker.limits[scope] for worker in workers if worker.limits and scope in worker.limits])


def sequence_of(job: Job, stored: str | None, said: Said) -> InSequence | None:
    """The sequence that a job belongs to: the one stored with it, or the one that its handler declares."""
    declared = next((allowance.sequence for allowance in said.allowances if allowance.sequence is not None), None)
    if stored is None and declared is None:
        return None
    blocks = declared is None or declared.on_failure == "block"
    if stored is not None:
        return InSequence(stored, JOB, blocks)
    assert declared is not None
    return InSequence(declared.of(job.name, job.data), said.source, blocks)


def turns_of(job: Job, line: str | None, said: Said) -> TakingTurns | None:
    """The line of the job's key, where its handler declares that keys take turns, or where it waits in such a line."""
    key = next((allowance.fair for allowance in said.allowances if allowance.fair is not None), None)
    if key is not None:
        value = value_text(value_at(job.data, key))
        return TakingTurns(fair_gate(job.queue, value).name, value, said.source)
    own = fair_gate(job.queue, "").name
    return TakingTurns(line, line[len(own) :], JOB) if line is not None and line.startswith(own) else None


def allowance_from(document: Mapping[str, Any]) -> Allowance:
    """The limits in a stored override, or in what a worker tells of itself."""
    concurrency, rate, sequence = document.get("concurrency"), document.get("rate"), document.get("sequence")
    return Allowance(
        concurrency=None if concurrency is None else Limit.from_document(concurrency),
        rate=None if rate is None else Rate.from_document(rate),
        sequence=None if sequence is None else InOrder(sequence["key"], sequence["on_failure"]),
        fair=document.get("fair"),
    )


def told_limits(document: Mapping[str, Any]) -> dict[Scope, Allowance] | None:
    """What a worker tells of its limits; None when it tells nothing, or in a way that only a newer version reads."""
    limits = document.get("limits")
    if not isinstance(limits, list):
        return None
    try:
        return {(entry["scope"], entry["target"]): allowance_from(entry) for entry in limits}
    except (ConfigurationError, KeyError, TypeError):
        return None


def told_breakers(document: Mapping[str, Any]) -> dict[Scope, Breaker]:
    """What a worker tells of its breakers, as far as this version reads it."""
    try:
        found = {(entry["scope"], entry["target"]): entry for entry in document.get("breakers") or ()}
        return {place: Breaker.from_document(entry) for place, entry in found.items()}
    except (ConfigurationError, KeyError, TypeError):
        return {}


def told_by_all(documents: Iterable[Mapping[str, Any]]) -> dict[Scope, Allowance]:
    """What workers tell of their limits and breakers, all together: where they differ, the widest limits."""
    found: dict[Scope, Allowance] = {}
    for document in documents:
        for place, allowance in (told_limits(document) or {}).items():
            found[place] = _wider(found.get(place, Allowance()), allowance)
        for place, breaker in told_breakers(document).items():
            found[place] = replace(found.get(place, Allowance()), breaker=breaker)
    return found


def _wider(one: Allowance, other: Allowance) -> Allowance:
    slots = [rule for rule in (one.concurrency, other.concurrency) if rule is not None]
    starts = [rule for rule in (one.rate, other.rate) if rule is not None]
    return replace(
        one,
        concurrency=max(slots, key=_generosity, default=None),
        rate=max(starts, key=_generosity, default=None),
    )


def limits_document(scope: str, target: str, allowance: Allowance) -> dict[str, Any]:
    """What a worker tells of the limits of a name or queue."""
    sequence = allowance.sequence
    told = {
        "concurrency": None if allowance.concurrency is None else allowance.concurrency.to_document(),
        "rate": None if allowance.rate is None else allowance.rate.to_document(),
        "sequence": None if sequence is None else {"key": sequence.key, "on_failure": sequence.on_failure},
        "fair": allowance.fair,
    }
    return {"scope": scope, "target": target, **{key: value for key, value in told.items() if value is not None}}


def _declared(job: Job, scope: str, target: str, kind: str, said: Said) -> list[KnownLimit]:
    """The limits of one kind that somebody declares: one for each gate, since the keys may differ."""
    rules: list[Limit | Rate | None] = [getattr(allowance, kind) for allowance in said.allowances]
    by_gate: dict[str, list[Limit | Rate]] = {}
    for rule in rules:
        if rule is not None:
            by_gate.setdefault(_gate(rule, scope, target, job).name, []).append(rule)
    known = []
    for same in by_gate.values():
        best = max(same, key=_generosity)
        others = tuple(dict.fromkeys(rule for rule in same if rule != best))
        gate = _gate(best, scope, target, job)
        known.append(KnownLimit(scope, target, gate, said.source, None, others, len(rules) - len(same)))
    return known


def _gate(rule: Limit | Rate, scope: str, target: str, job: Job) -> Gate:
    allowance = Allowance(concurrency=rule) if isinstance(rule, Limit) else Allowance(rate=rule)
    return allowance.gates(scope, target, job.data)[0]


def _generosity(rule: Limit | Rate) -> float:
    return float(rule.limit if isinstance(rule, Limit) else rule.a_second)
