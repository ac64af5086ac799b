"""Which gates stand in a job's way here: the limits declared in code, unless somebody has overridden them at run time,
and what was put there at run time altogether, a pause or a breaker that has opened."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from mainspring.handlers import Handlers
from mainspring.model.breaker import Breaker
from mainspring.model.controls import Closure, Target, pause_gate
from mainspring.model.known_limits import limits_document
from mainspring.model.limits import NAME, QUEUE, Allowance, Fair, Gate, Limit, Rate, Shut, Turn

# The scope and the target alone.
_NO_LIMITS = 2
_KINDS = (Shut, Fair, Turn, Limit, Rate)


class Limits:
    """The limits of names and queues, as this process knows them."""

    def __init__(self, handlers: Handlers, queues: Mapping[str, Allowance]) -> None:
        self._handlers = handlers
        self._queues = queues
        self._overrides: dict[tuple[str, str], Allowance] = {}
        self._closures: dict[tuple[str, str], list[Closure]] = {}
        self._by_gate: dict[str, Closure] = {}

    def __bool__(self) -> bool:
        return bool(self._overrides or self._closures or self._queues) or self._handlers.limited

    def override(self, overrides: Mapping[tuple[str, str], Allowance]) -> None:
        """What was overridden at run time, by scope and target; each field that is given wins."""
        self._overrides = dict(overrides)

    def close(self, closures: Iterable[Closure]) -> None:
        """What is paused or broken at present; nothing else is any more."""
        found: dict[tuple[str, str], list[Closure]] = defaultdict(list)
        self._by_gate = {closure.gate.name: closure for closure in closures}
        for closure in self._by_gate.values():
            found[closure.target.scope, closure.target.target].append(closure)
        self._closures = dict(found)

    @property
    def closures(self) -> Mapping[str, Closure]:
        """What is paused or broken, by the names of the gates."""
        return self._by_gate

    def is_paused(self, queue: str) -> bool:
        """Whether a queue is paused as a whole."""
        return pause_gate(Target(QUEUE, queue)) in self._by_gate

    @property
    def places(self) -> set[tuple[str, str]]:
        """The names and queues that this process may know limits of."""
        names = {(NAME, name) for name in self._handlers.own_names}
        return names | {(QUEUE, queue) for queue in self._queues} | self._overrides.keys()

    @property
    def overrides(self) -> Mapping[tuple[str, str], Allowance]:
        return self._overrides

    def allowance(self, scope: str, target: str) -> Allowance:
        """What counts for a name or a queue now."""
        declared = self.declared(scope, target)
        override = self._overrides.get((scope, target))
        return declared if override is None else combined(declared, override)

    def declared(self, scope: str, target: str) -> Allowance:
        """What the code says."""
        if scope == QUEUE:
            return self._queues.get(target, Allowance())
        handler = self._handlers.get(target)
        return Allowance() if handler is None else handler.allowance

    def breaker(self, scope: str, target: str) -> Breaker | None:
        """The breaker that the code declares."""
        return self.declared(scope, target).breaker

    def gates(self, document: Mapping[str, Any]) -> list[Gate]:
        """Every gate between a job and its run, rates last."""
        name, queue, data = document["name"], document["queue"], document.get("data") or {}
        found = self.allowance(NAME, name).gates(NAME, name, data)
        found += self.allowance(QUEUE, queue).gates(QUEUE, queue, data)
        found += self.declared(NAME, name).order_gates(document, data)
        if self._closures:
            found += [closure.gate for closure in self._closed_to(document)]
        return sorted(found, key=_order) if len(found) > 1 else found

    @property
    def told(self) -> dict[str, Any]:
        """What this process declares, for the registry: others can tell then what a job waits for without its code."""
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
    def fair(self) -> bool:
        """Whether there are keys that take turns."""
        return self._handlers.fair

    def closed_to(self, document: Mapping[str, Any]) -> Closure | None:
        """What was put in a job's way at run time: what is shut, rather than what lets probes through; and rather that
        which it waits at already."""
        found = self._closed_to(document) if self._closures else []
        line = document.get("line")
        return min(found, key=lambda closure: (not closure.shut, closure.gate.name != line), default=None)

    def _closed_to(self, document: Mapping[str, Any]) -> list[Closure]:
        data = document.get("data") or {}
        return [
            closure
            for place in ((QUEUE, document["queue"]), (NAME, document["name"]))
            for closure in self._closures.get(place, ())
            if closure.target.applies(data)
        ]


def combined(declared: Allowance, override: Allowance) -> Allowance:
    """A declared limit with what overrides it."""
    return replace(
        declared, concurrency=override.concurrency or declared.concurrency, rate=override.rate or declared.rate
    )


def _order(gate: Gate) -> int:
    """What is shut first, so that nothing is taken in vain; rates last, since a start that was spent is spent."""
    return next(place for place, kind in enumerate(_KINDS) if isinstance(gate.rule, kind))
