"""Gathers the facts of an overview: one bounded read after another, within a scope. `scheduler.monitor` calls it."""

from __future__ import annotations

from mainspring.model.access.api_keys import Scope
from mainspring.model.views.problems import RECENT, Due, ProblemFacts
from mainspring.model.views.statistics import Counts
from mainspring.model.views.windows import make_window
from mainspring.model.workers import WorkerStatus
from mainspring.store import Store
from mainspring.store.views.problem_facts import COUNTED


async def read_facts(store: Store, scope: Scope) -> ProblemFacts:
    """The facts of an overview within a scope."""
    now = store.clock.now()
    reads = store.problems
    pauses, breakers = await reads.pauses(scope), await reads.breakers(scope)
    return ProblemFacts(
        at=now,
        workers=await _workers(store, scope),
        due=tuple(await _due(store, scope)),
        leases=tuple(await reads.lost_leases(scope)),
        held=tuple(await reads.held(scope)),
        pauses=tuple(pauses),
        breakers=tuple(breakers),
        behind=await reads.behind(pauses, breakers),
        counted=COUNTED,
        recent=await _recent(store, scope),
        failures=tuple(await reads.failures(now - RECENT, scope)),
        paused_schedules=tuple(await reads.paused_schedules(scope)),
        firing=tuple(await reads.firing_next(scope)),
        everything=scope.everything,
    )


async def _workers(store: Store, scope: Scope) -> tuple[WorkerStatus, ...]:
    """The live workers that serve a queue within the scope."""
    live = await store.workers.live_in_full()
    wanted = scope.queues
    return tuple(one for one in live if wanted is None or any(one.serves(queue) for queue in wanted))


async def _due(store: Store, scope: Scope) -> list[Due]:
    """The oldest due jobs. A scope by names sees one only where the oldest job of a queue has such a name."""
    found = await store.health.oldest_due(scope.queues)
    return [due for due in found if scope.prefixes is None or scope.allows_name(due.name)]


async def _recent(store: Store, scope: Scope) -> dict[str, Counts]:
    now = store.clock.now()
    names: dict[str, Counts] = {}
    for (_, name), counts in (await store.statistics.kinds(make_window(now - RECENT, now), scope=scope)).items():
        names.setdefault(name, Counts()).add(counts)
    return names
