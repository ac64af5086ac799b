"""Which limits count for a job here: those declared in code, unless somebody has overridden them at run time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring.handlers import Handlers
from mainspring.model.limits import NAME, QUEUE, Allowance, Fair, Gate, Limit, Rate, Shut, Turn

_KINDS = (Shut, Fair, Turn, Limit, Rate)


class Limits:
    """The limits of names and queues, as this process knows them."""

    def __init__(self, handlers: Handlers, queues: Mapping[str, Allowance]) -> None:
        self._handlers = handlers
        self._queues = queues
        self._overrides: dict[tuple[str, str], Allowance] = {}

    def __bool__(self) -> bool:
        return bool(self._overrides or self._queues) or self._handlers.limited

    def override(self, overrides: Mapping[tuple[str, str], Allowance]) -> None:
        """What was overridden at run time, by scope and target; each field that is given wins."""
        self._overrides = dict(overrides)

    def allowance(self, scope: str, target: str) -> Allowance:
        """What counts for a name or a queue now."""
        declared = self.declared(scope, target)
        override = self._overrides.get((scope, target))
        if override is None:
            return declared
        return Allowance(override.concurrency or declared.concurrency, override.rate or declared.rate)

    def declared(self, scope: str, target: str) -> Allowance:
        """What the code says."""
        if scope == QUEUE:
            return self._queues.get(target, Allowance())
        handler = self._handlers.get(target)
        return Allowance() if handler is None else handler.allowance

    def gates(self, document: Mapping[str, Any]) -> list[Gate]:
        """Every gate between a job and its run, rates last."""
        name, queue, data = document["name"], document["queue"], document.get("data") or {}
        found = self.allowance(NAME, name).gates(NAME, name, data)
        found += self.allowance(QUEUE, queue).gates(QUEUE, queue, data)
        found += self.declared(NAME, name).order_gates(document, data)
        return sorted(found, key=_order) if len(found) > 1 else found

    @property
    def fair(self) -> bool:
        """Whether there are keys that take turns."""
        return self._handlers.fair


def _order(gate: Gate) -> int:
    """What is shut first, so that nothing is taken in vain; rates last, since a start that was spent is spent."""
    return next(place for place, kind in enumerate(_KINDS) if isinstance(gate.rule, kind))
