"""Gathers the facts of an overview: one bounded read after another, within a scope. `scheduler.monitor` calls it."""

from __future__ import annotations

from mainspring.engine.alerts.facts import live_workers, oldest_due
from mainspring.model.access.api_keys import Scope
from mainspring.model.views.problems import RECENT, ProblemFacts
from mainspring.model.views.statistics import Counts
from mainspring.model.views.windows import make_window
from mainspring.store import Store
from mainspring.store.views.problem_facts import COUNTED


async def read_facts(store: Store, scope: Scope) -> ProblemFacts:
    """The facts of an overview within a scope."""
    now = store.clock.now()
    reads = store.problems
    pauses, breakers = await reads.pauses(scope), await reads.breakers(scope)
    return ProblemFacts(
        at=now,
        workers=await live_workers(store, scope),
        due=await oldest_due(store, scope),
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


async def _recent(store: Store, scope: Scope) -> dict[str, Counts]:
    now = store.clock.now()
    names: dict[str, Counts] = {}
    for (_, name), counts in (await store.statistics.kinds(make_window(now - RECENT, now), scope=scope)).items():
        names.setdefault(name, Counts()).add(counts)
    return names
