"""The gates that a job has to pass in this worker: the limits declared in code, unless an operator has overridden them
at run time, and the controls of run time: pauses and open circuit breakers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from mainspring.engine.handlers import Handlers
from mainspring.model.fields import Fields
from mainspring.model.limits.breaker import Breaker
from mainspring.model.limits.controls import PAUSED, ClosedGate
from mainspring.model.limits.limits import NAME, QUEUE, Closed, FairGate, Gate, JobLimits, Limit, Rate, SequenceGate
from mainspring.model.limits.reported_limits import limits_document
from mainspring.store.jobs.stored_job import StoredJob

# The scope and the target alone.
_NO_LIMITS = 2
_KINDS = (Closed, FairGate, SequenceGate, Limit, Rate)


class Limits:
    """The limits of names and queues, as this process knows them."""

    def __init__(self, handlers: Handlers, queues: Mapping[str, JobLimits]) -> None:
        self._handlers = handlers
        self._queues = queues
        self._overrides: dict[tuple[str, str], JobLimits] = {}
        self._closures: dict[tuple[str, str], list[ClosedGate]] = {}
        self._by_gate: dict[str, ClosedGate] = {}
        self.paused_queues: frozenset[str] = frozenset()
        """The queues that are paused as a whole."""

    def __bool__(self) -> bool:
        return bool(self._overrides or self._closures or self._queues) or self._handlers.limited

    def override(self, overrides: Mapping[tuple[str, str], JobLimits]) -> None:
        """Set the overrides, by scope and target; each field of an override that is given wins."""
        self._overrides = dict(overrides)

    def close(self, closures: Iterable[ClosedGate]) -> None:
        """Replace all closed gates by these: the pauses and breakers in force."""
        found: dict[tuple[str, str], list[ClosedGate]] = defaultdict(list)
        self._by_gate = {closure.gate.name: closure for closure in closures}
        for closure in self._by_gate.values():
            found[closure.target.scope, closure.target.target].append(closure)
        self._closures = dict(found)
        self.paused_queues = paused_queues(self._by_gate.values())

    @property
    def closures(self) -> Mapping[str, ClosedGate]:
        """The pauses and breakers in force, by the names of the gates."""
        return self._by_gate

    @property
    def places(self) -> set[tuple[str, str]]:
        """The names and queues that this process may know limits of."""
        names = {(NAME, name) for name in self._handlers.own_names}
        return names | {(QUEUE, queue) for queue in self._queues} | self._overrides.keys()

    @property
    def overrides(self) -> Mapping[tuple[str, str], JobLimits]:
        return self._overrides

    def allowance(self, scope: str, target: str) -> JobLimits:
        """The limits in force for a name or a queue."""
        declared = self.declared(scope, target)
        override = self._overrides.get((scope, target))
        return declared if override is None else combined(declared, override)

    def declared(self, scope: str, target: str) -> JobLimits:
        """The limits that the code declares for a name or a queue."""
        if scope == QUEUE:
            return self._queues.get(target, JobLimits())
        handler = self._handlers.get(target)
        return JobLimits() if handler is None else handler.allowance

    def breaker(self, scope: str, target: str) -> Breaker | None:
        """The breaker that the code declares."""
        return self.declared(scope, target).breaker

    def gates_of(self, job: StoredJob) -> list[Gate]:
        """Every gate between a stored job and its run, rates last."""
        return self.gates(job.name, job.queue, job.data, job.sequence)

    def gates(self, name: str, queue: str, data: Mapping[str, Any], sequence: str | None = None) -> list[Gate]:
        """Every gate between a job with these fields and its run, rates last; `sequence` is the stored one."""
        found = self.allowance(NAME, name).gates(NAME, name, queue, data)
        found += self.allowance(QUEUE, queue).gates(QUEUE, queue, queue, data)
        found += self.declared(NAME, name).order_gates(name, queue, data, sequence)
        if self._closures:
            found += [closure.gate for closure in self._closed_to(name, queue, data)]
        return sorted(found, key=_order) if len(found) > 1 else found

    @property
    def told(self) -> Fields:
        """The limits and breakers that this process declares, for the registry, so that processes without its code can
        explain what a job waits for."""
        places = [(NAME, name, allowance) for name, allowance in self._handlers.allowances.items()]
        places += [(QUEUE, queue, allowance) for queue, allowance in list(self._queues.items())]
        limits = [limits_document(scope, target, allowance) for scope, target, allowance in places]
        breakers = [
            {"scope": scope, "target": target, **allowance.breaker.to_document()}
            for scope, target, allowance in places
            if allowance.breaker is not None
        ]
        return {"limits": [limit for limit in limits if len(limit) > _NO_LIMITS], "breakers": breakers}

    @property
    def names(self) -> list[str] | None:
        """The job names that this process has handlers for; None if it runs any."""
        return self._handlers.runnable

    @property
    def fair(self) -> bool:
        """Whether there are keys in round robin."""
        return self._handlers.fair

    def closed_to(self, job: StoredJob) -> ClosedGate | None:
        """The pause or breaker that blocks a job. A shut gate is preferred to one that lets probes through, then the
        gate that the job waits at already."""
        found = self._closed_to(job.name, job.queue, job.data) if self._closures else []
        line = job.line
        return min(found, key=lambda closure: (not closure.shut, closure.gate.name != line), default=None)

    def _closed_to(self, name: str, queue: str, data: Mapping[str, Any]) -> list[ClosedGate]:
        return [
            closure
            for place in ((QUEUE, queue), (NAME, name))
            for closure in self._closures.get(place, ())
            if closure.target.applies(queue, data)
        ]


def paused_queues(closures: Iterable[ClosedGate]) -> frozenset[str]:
    """The queues that are paused as a whole."""
    paused = (closure.target for closure in closures if closure.gate.name.startswith(f"{PAUSED}:"))
    return frozenset(target.target for target in paused if target.scope == QUEUE and target.key is None)


def combined(declared: JobLimits, override: JobLimits) -> JobLimits:
    """The declared limits with an override applied."""
    return replace(
        declared, concurrency=override.concurrency or declared.concurrency, rate=override.rate or declared.rate
    )


def _order(gate: Gate) -> int:
    """The rank of a gate: shut gates first, so that no slot is taken in vain; rates last, since a spent start is not
    refunded."""
    return next(place for place, kind in enumerate(_KINDS) if isinstance(gate.rule, kind))
