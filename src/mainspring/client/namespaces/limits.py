"""`scheduler.limits`: limits in place of the declared ones, breakers, and pauses of job names, all at run time.

What is set here is stored, visible to all, and in force in every process within a second or two. It keeps jobs from
being started; what runs goes on, and nothing here ever holds back a cancel.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mainspring.client.core import Core
from mainspring.client.namespaces.pauses import Pauses, Targets
from mainspring.config.settings import check_actor, check_name, check_reason
from mainspring.engine.limits.breakers import announce_breaker
from mainspring.engine.limits.controls import line_forms
from mainspring.engine.limits.job_gates import combined
from mainspring.errors import ConfigurationError
from mainspring.model.jobs.retry import Seconds
from mainspring.model.limits.breaker import CLOSED, BreakerStatus, check_open_for
from mainspring.model.limits.controls import (
    LimitOverride,
    LimitStatus,
    Paused,
    Target,
    breaker_gate,
    breaker_target,
    make_target,
)
from mainspring.model.limits.data_paths import plain_value
from mainspring.model.limits.limits import (
    CONCURRENCY,
    RATE,
    JobLimits,
    Limit,
    Rate,
    check_concurrency,
    check_rate,
)
from mainspring.model.privacy.encrypted_values import refuse_keys
from mainspring.model.unreadable import Listed
from mainspring.spelling import spelled_verbs
from mainspring.store import Store
from mainspring.store.limits.breakers import Moved
from mainspring.store.limits.controls import breakers_in, limits_in, pauses_in

logger = logging.getLogger("mainspring")


@spelled_verbs
class LimitControls:
    """The verbs that limit, pause and break at run time."""

    def __init__(self, core: Core, targets: Targets, pauses: Pauses) -> None:
        self._core = core
        self._targets = targets
        self._pauses = pauses

    async def set(
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

        What is not given stays as declared. An override that is there already is replaced. Where nothing has this name
        now, the `note` of what is returned and a warning in the log say so.
        """
        target = make_target(name, queue)
        allowance = JobLimits(check_concurrency(concurrency), check_rate(rate))
        if not allowance:
            raise ConfigurationError("Give the limit that is to count: concurrency=…, rate=… or both.")
        refuse_keys(self._core.privacy.encrypt(name or ""), allowance.paths, "A limit by key")
        reason, actor = check_reason(reason), check_actor(actor)
        store = await self._core.store()
        override = await store.controls.put_limit(target, allowance, reason, actor)
        await self._let_look(store, target)
        return replace(override, note=await self._targets.unknown(store, target, "The limit"))

    async def remove(self, *, name: str | None = None, queue: str | None = None) -> LimitOverride | None:
        """Let the declared limits count again; returns what had overridden them, and None where nothing had."""
        target = make_target(name, queue)
        store = await self._core.store()
        override = await store.controls.delete_limit(target)
        if override is not None and self._targets.knows(target):
            # Others are left to the workers, which know whether there is a declared limit for the same line.
            gone = _forms(target, override.allowance) - _forms(target, self._targets.declared(target))
            for form in gone:
                for line in await store.repair.of_form(form):
                    await store.gates.dissolve(line)
        await self._let_look(store, target)
        return override

    async def all(self) -> Listed[LimitStatus]:
        """The limits that are declared in the code of this process or of live workers, or set at run time, and how they
        are used now."""
        store = await self._core.store()
        stored = limits_in(await store.controls.find())
        overrides = {Target(one.scope, one.target): one for one in stored}
        declared = await self._targets.declared_anywhere(store)
        statuses = [
            await _limit_status(store, target, declared.get(target, JobLimits()), overrides.get(target))
            for target in sorted(declared.keys() | overrides.keys(), key=lambda target: target.path)
        ]
        counting = (status for status in statuses if status.concurrency is not None or status.rate is not None)
        return Listed(counting, stored.unreadable)

    async def _let_look(self, store: Store, target: Target) -> None:
        """Other limits count for this: let everybody look whether there is room."""
        for kind in (CONCURRENCY, RATE):
            await store.gates.open_all(f"{kind}:{target.path}")
        self._core.worker.controls_changed()

    # -- pauses ----------------------------------------------------------------------------------------------------

    async def pause(
        self, name: str, *, key: Mapping[str, Any] | None = None, reason: str = "", actor: str | None = None
    ) -> Paused:
        """Start no more jobs of a name until it is resumed; with `key`, such as `{"tenant": "acme"}`, only none of
        those that have this value in their data. Running jobs go on. Where nothing has this name now, the pause is made
        all the same, and its `note` and a warning in the log say so. `scheduler.queues.pause` pauses a queue."""
        return await self._pauses.put(make_target(name, None, key), reason, actor)

    async def resume(self, name: str, *, key: Mapping[str, Any] | None = None) -> Paused | None:
        """End a pause that was made with the same name and key; returns it, and None where there was none."""
        return await self._pauses.remove(make_target(name, None, key))

    async def pauses(self) -> Listed[Paused]:
        """All pauses of names and queues, each with its actor and reason. Documents that cannot be read, and do not
        count, are named in `unreadable` of the list."""
        return pauses_in(await (await self._core.store()).controls.find())

    # -- breakers --------------------------------------------------------------------------------------------------

    async def breakers(self) -> Listed[BreakerStatus]:
        """All breakers: those declared in the code of this process or of live workers, and those that are stored."""
        store = await self._core.store()
        found = breakers_in(await store.controls.find())
        anywhere = await self._targets.declared_anywhere(store)
        declared = {(one.scope, one.target): rule for one, known in anywhere.items() if (rule := known.breaker)}
        statuses = []
        for status in found:
            rule = declared.get((status.scope, status.target))
            own = rule is not None and (rule.key, rule.each_queue) == (status.key, status.queue is not None)
            statuses.append(replace(status, rule=rule) if own else status)
        there = {(status.scope, status.target, status.key) for status in found}
        statuses += [
            BreakerStatus(scope, target, CLOSED, rule=rule, key=rule.key)
            for (scope, target), rule in declared.items()
            if (scope, target, rule.key) not in there
        ]
        ordered = sorted(statuses, key=lambda status: (status.scope, status.target, breaker_target(status).path))
        return Listed(ordered, found.unreadable)

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
        `{"target": "api.example.com"}`, only that of jobs that have this value in their data. With a name and a queue,
        that of the name's jobs in the queue, which a breaker with `each_queue` has."""
        target = self._broken_target(name, queue, key)
        length = None if open_for is None else check_open_for(open_for, "open_for")
        reason, actor = check_reason(reason), check_actor(actor)
        store = await self._core.store()
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
        store = await self._core.store()
        moved = await store.controls.close_breaker(target, reason, actor)
        if moved.status.state == CLOSED:
            await store.gates.dissolve(breaker_gate(target))
        return self._moved(moved)

    def _broken_target(self, name: str | None, queue: str | None, key: Mapping[str, Any] | None) -> Target:
        """What a breaker is for: a name, a queue, or a name in a queue."""
        inside = None if name is None or queue is None else check_name(queue, "a queue's name")
        target = make_target(name, queue if inside is None else None, key)
        refuse_keys(self._core.privacy.encrypt(name or ""), list(key or ()), "A breaker by key")
        return replace(target, value=plain_value(target.value), queue=inside)

    def _moved(self, moved: Moved) -> BreakerStatus:
        if moved.moved:
            announce_breaker(self._core.events, moved.status)
        self._core.worker.controls_changed()
        return moved.status


async def _limit_status(
    store: Store, target: Target, declared: JobLimits, override: LimitOverride | None
) -> LimitStatus:
    counts = declared if override is None else combined(declared, override.allowance)
    forms = _forms(target, counts)
    keyed = [form for form in forms if form.endswith("=")]
    uses = await store.controls.uses([form for form in forms if form not in keyed], keyed) if forms else []
    return LimitStatus(target.scope, target.target, counts.concurrency, counts.rate, declared, override, tuple(uses))


def _forms(target: Target, allowance: JobLimits) -> set[str]:
    return line_forms(target.scope, target.target, allowance)
