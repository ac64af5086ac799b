"""Reads the facts that a kind of alert rule needs, within the scope of the rule, as those of the overview.

All reads are bounded (`store/alerts/alert_facts.py`). Rules of one pass that need the same facts share them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from mainspring.model.access.api_keys import Scope
from mainspring.model.alerts.rule import BREAKER_OPEN, DEAD_LETTERS, NO_WORKER, QUEUE_LATE, SCHEDULE_MISSED, AlertRule
from mainspring.model.fields import Fields
from mainspring.model.views.problems import Due, ProblemFacts
from mainspring.model.workers import WorkerStatus
from mainspring.store import Store


async def live_workers(store: Store, scope: Scope) -> tuple[WorkerStatus, ...]:
    """The live workers that serve a queue within the scope."""
    live = await store.workers.live_in_full()
    wanted = scope.queues
    return tuple(one for one in live if wanted is None or any(one.serves(queue) for queue in wanted))


async def oldest_due(store: Store, scope: Scope) -> tuple[Due, ...]:
    """The oldest due jobs, also on wait lists, but not those behind a pause or a breaker.

    A scope by names sees one only where the oldest job of a queue has such a name.
    """
    found = await store.oldest_due.by_queue(scope.queues)
    return tuple(due for due in found if scope.prefixes is None or scope.allows_name(due.name))


class FactsOfPass:
    """The facts of one pass of evaluation, each read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._at = store.alert_rules.now()
        self._read: dict[tuple[Any, ...], Any] = {}

    async def of(self, rule: AlertRule) -> ProblemFacts:
        """The facts that a rule's condition is judged by."""
        scope, reads = rule.scope, self._store.alert_facts
        found: Fields = {}
        if rule.kind == DEAD_LETTERS:
            found["causes"] = await self._causes(rule)
        elif rule.kind == SCHEDULE_MISSED:
            found["firing"] = await self._once("firing", scope, reads.overdue)
        elif rule.kind == BREAKER_OPEN:
            found["breakers"] = await self._once("breakers", scope, reads.breakers)
        elif rule.kind == QUEUE_LATE:
            found["due"] = await self._due(scope, rule.after)
            if found["due"]:
                found["pauses"] = await self._once("pauses", scope, reads.pauses)
        elif rule.kind == NO_WORKER:
            found["workers"] = await self._once("workers", scope, self._workers)
            if scope.queues is None:
                found["due"] = await self._due(scope)
                found["held"] = await self._once("held", scope, reads.without_handler)
        facts: Fields = {"workers": (), **{name: tuple(ones) for name, ones in found.items()}}
        return ProblemFacts(at=self._at, everything=scope.everything, **facts)

    async def _due(self, scope: Scope, seconds: float = 0.0) -> Any:
        """The oldest due job of each queue, where it has been due for so long."""
        key = ("due", scope, seconds)
        if key not in self._read:
            since = self._at - timedelta(seconds=seconds)
            self._read[key] = await self._store.alert_facts.due_since(since, scope)
        return self._read[key]

    async def _causes(self, rule: AlertRule) -> Any:
        key, since = ("dead", rule.scope, rule.within), self._at - timedelta(seconds=rule.within)
        if key not in self._read:
            self._read[key] = await self._store.alert_facts.causes(since, rule.scope)
        return self._read[key]

    async def _once(self, name: str, scope: Scope, read: Callable[[Scope], Awaitable[Any]]) -> Any:
        if (name, scope) not in self._read:
            self._read[name, scope] = await read(scope)
        return self._read[name, scope]

    async def _workers(self, scope: Scope) -> tuple[WorkerStatus, ...]:
        return await live_workers(self._store, scope)
