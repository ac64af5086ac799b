"""The verbs that steer the flow of jobs at run time: pauses, limits in place of the declared ones, and breakers.

What is set here is stored, visible to all, and in force in every process within a second or two. It keeps jobs from
being started; what runs goes on, and nothing here ever holds back a cancel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mainspring.config import check_actor, check_reason
from mainspring.engine.breakers import announce_breaker
from mainspring.engine.controls import line_forms
from mainspring.engine.limits import combined
from mainspring.errors import ConfigurationError
from mainspring.model.breaker import CLOSED, BreakerStatus, check_open_for
from mainspring.model.controls import (
    LimitOverride,
    LimitStatus,
    Paused,
    Target,
    breaker_gate,
    breaker_target,
    make_target,
    pause_gate,
)
from mainspring.model.known_limits import told_by_all
from mainspring.model.limits import (
    CONCURRENCY,
    NAME,
    QUEUE,
    RATE,
    Allowance,
    Limit,
    Rate,
    check_concurrency,
    check_rate,
)
from mainspring.model.paths import plain_value
from mainspring.model.retry import Seconds
from mainspring.model.sealing import refuse_keys
from mainspring.store import Store
from mainspring.store.breakers import Moved
from mainspring.store.controls import breakers_in, limits_in, pauses_in
from mainspring.verbs import Verbs


class FlowVerbs(Verbs):
    """The part of the Scheduler that steers the flow of jobs."""

    def _controls_changed(self) -> None:
        """This process has changed what is paused, limited or broken."""

    # -- pauses ----------------------------------------------------------------------------------------------------

    async def pause(
        self,
        *,
        queue: str | None = None,
        name: str | None = None,
        key: Mapping[str, Any] | None = None,
        reason: str = "",
        actor: str | None = None,
    ) -> Paused:
        """Start no more jobs of a queue, or of a name, until it is resumed; with `key`, such as `{"tenant": "acme"}`,
        only none of those that have this value in their data. What runs goes on."""
        target = make_target(name, queue, key)
        refuse_keys(self._secrecy.encrypt(name or ""), list(key or ()), "A pause by key")
        reason, actor = check_reason(reason), check_actor(actor)
        paused = await (await self._store()).controls.put_pause(target, reason, actor)
        self._controls_changed()
        return paused

    async def resume(
        self, *, queue: str | None = None, name: str | None = None, key: Mapping[str, Any] | None = None
    ) -> Paused | None:
        """End a pause that was made with the same arguments; returns what it was, and None where there was none."""
        target = make_target(name, queue, key)
        store = await self._store()
        paused = await store.controls.delete_pause(target)
        await store.gates.dissolve(pause_gate(target))
        self._controls_changed()
        return paused

    async def pauses(self) -> list[Paused]:
        """All that is paused now, by whom and why."""
        return pauses_in(await (await self._store()).controls.find())

    # -- limits ----------------------------------------------------------------------------------------------------

    async def override_limit(
        self,
        *,
        name: str | None = None,
        queue: str | None = None,
        concurrency: int | Limit | None = None,
        rate: str | Rate | None = None,
        reason: str = "",
        actor: str | None = None,
    ) -> LimitOverride:
        """Let other limits count for a job name or a queue than those declared in code, until that is removed.

        What is not given stays as declared. An override that is there already is replaced.
        """
        target = make_target(name, queue)
        allowance = Allowance(check_concurrency(concurrency), check_rate(rate))
        if not allowance:
            raise ConfigurationError("Give the limit that is to count: concurrency=…, rate=… or both.")
        refuse_keys(self._secrecy.encrypt(name or ""), allowance.paths, "A limit by key")
        reason, actor = check_reason(reason), check_actor(actor)
        store = await self._store()
        override = await store.controls.put_limit(target, allowance, reason, actor)
        await self._let_look(store, target)
        return override

    async def remove_override(self, *, name: str | None = None, queue: str | None = None) -> LimitOverride | None:
        """Let the declared limits count again; returns what had overridden them, and None where nothing had."""
        target = make_target(name, queue)
        store = await self._store()
        override = await store.controls.delete_limit(target)
        if override is not None and self._knows_limits_of(target):
            # Others are left to the workers, which know whether there is a declared limit for the same line.
            gone = _forms(target, override.allowance) - _forms(target, self._declared_limits(target))
            for line in await store.gates.lined_as(gone):
                await store.gates.dissolve(line)
        await self._let_look(store, target)
        return override

    async def limits(self) -> list[LimitStatus]:
        """The limits that are declared in the code of this process or of live workers, or set at run time, and how they
        are used now."""
        store = await self._store()
        overrides = {Target(one.scope, one.target): one for one in limits_in(await store.controls.find())}
        declared = await self._declared_anywhere(store)
        statuses = [
            await _limit_status(store, target, declared.get(target, Allowance()), overrides.get(target))
            for target in sorted(declared.keys() | overrides.keys(), key=lambda target: target.path)
        ]
        return [status for status in statuses if status.concurrency is not None or status.rate is not None]

    async def _declared_anywhere(self, store: Store) -> dict[Target, Allowance]:
        """What this process's code declares, and where it says nothing, what the live workers tell."""
        told = told_by_all(await store.workers.live_documents())
        places = [Target(NAME, name) for name in self._handlers.own_names]
        places += [Target(QUEUE, queue) for queue in self._queue_limits]
        found = {Target(scope, target): allowance for (scope, target), allowance in told.items()}
        return found | {place: self._declared_limits(place) for place in places}

    def _declared_limits(self, target: Target) -> Allowance:
        if target.scope == QUEUE:
            return self._queue_limits.get(target.target, Allowance())
        handler = self._handlers.own(target.target)
        return Allowance() if handler is None else handler.allowance

    def _knows_limits_of(self, target: Target) -> bool:
        return target.scope == NAME and self._handlers.own(target.target) is not None

    async def _let_look(self, store: Store, target: Target) -> None:
        """Other limits count for this: let everybody look whether there is room."""
        for kind in (CONCURRENCY, RATE):
            await store.gates.open(f"{kind}:{target.path}")
        self._controls_changed()

    # -- breakers --------------------------------------------------------------------------------------------------

    async def breakers(self) -> list[BreakerStatus]:
        """All breakers: those declared in the code of this process or of live workers, and those that are stored."""
        store = await self._store()
        found = breakers_in(await store.controls.find())
        anywhere = await self._declared_anywhere(store)
        declared = {(one.scope, one.target): rule for one, known in anywhere.items() if (rule := known.breaker)}
        statuses = []
        for status in found:
            rule = declared.get((status.scope, status.target))
            own = rule is not None and rule.key == status.key
            statuses.append(replace(status, rule=rule) if own else status)
        there = {(status.scope, status.target, status.key) for status in found}
        statuses += [
            BreakerStatus(scope, target, CLOSED, rule=rule, key=rule.key)
            for (scope, target), rule in declared.items()
            if (scope, target, rule.key) not in there
        ]
        return sorted(statuses, key=lambda status: (status.scope, status.target, breaker_target(status).path))

    async def open_breaker(
        self,
        *,
        name: str | None = None,
        queue: str | None = None,
        key: Mapping[str, Any] | None = None,
        open_for: Seconds | None = None,
        reason: str = "",
        actor: str | None = None,
    ) -> BreakerStatus:
        """Open the breaker of a job name or a queue by hand, whether or not one is declared: start no more of its jobs
        until it is closed, or for `open_for` seconds, after which single probes are let through. With `key`, such as
        `{"target": "api.example.com"}`, only that of jobs that have this value in their data."""
        target = self._broken_target(name, queue, key)
        length = None if open_for is None else check_open_for(open_for, "open_for")
        reason, actor = check_reason(reason), check_actor(actor)
        store = await self._store()
        return self._moved(await store.controls.open_breaker(target, length, reason, actor))

    async def close_breaker(
        self,
        *,
        name: str | None = None,
        queue: str | None = None,
        key: Mapping[str, Any] | None = None,
        reason: str = "",
        actor: str | None = None,
    ) -> BreakerStatus:
        """Close a breaker by hand: its jobs are started again, and it begins to count anew."""
        target = self._broken_target(name, queue, key)
        reason, actor = check_reason(reason), check_actor(actor)
        store = await self._store()
        moved = await store.controls.close_breaker(target, reason, actor)
        if moved.status.state == CLOSED:
            await store.gates.dissolve(breaker_gate(target))
        return self._moved(moved)

    def _broken_target(self, name: str | None, queue: str | None, key: Mapping[str, Any] | None) -> Target:
        target = make_target(name, queue, key)
        refuse_keys(self._secrecy.encrypt(name or ""), list(key or ()), "A breaker by key")
        return replace(target, value=plain_value(target.value))

    def _moved(self, moved: Moved) -> BreakerStatus:
        if moved.moved:
            announce_breaker(self._events, moved.status)
        self._controls_changed()
        return moved.status


async def _limit_status(
    store: Store, target: Target, declared: Allowance, override: LimitOverride | None
) -> LimitStatus:
    counts = declared if override is None else combined(declared, override.allowance)
    forms = _forms(target, counts)
    keyed = [form for form in forms if form.endswith("=")]
    uses = await store.controls.uses([form for form in forms if form not in keyed], keyed) if forms else []
    return LimitStatus(target.scope, target.target, counts.concurrency, counts.rate, declared, override, tuple(uses))


def _forms(target: Target, allowance: Allowance) -> set[str]:
    return line_forms(target.scope, target.target, allowance)
