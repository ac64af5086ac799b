"""`scheduler.limits`: overrides of limits, breakers, and pauses of job names, all at run time.

A control that is set here is stored, visible to every process, and in force in each within a second or two. It keeps
jobs from being started; running jobs go on, and no control delays a cancel.
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
        """Override the limits that code declares for a job name or a queue, until the override is removed.

        A limit that you do not pass stays as declared. An existing override is replaced. If no job, handler or worker
        has this name now, the override's `note` and a warning in the log say so.
        """
        target = make_target(name, queue)
        allowance = JobLimits(check_concurrency(concurrency), check_rate(rate))
        if not allowance:
            raise ConfigurationError("Give the new limit: concurrency=…, rate=… or both.")
        refuse_keys(self._core.privacy.encrypt(name or ""), allowance.paths, "A limit by key")
        reason, actor = check_reason(reason), check_actor(actor)
        store = await self._core.store()
        override = await store.controls.put_limit(target, allowance, reason, actor)
        await self._let_look(store, target)
        return replace(override, note=await self._targets.unknown(store, target, "The limit"))

    async def remove(self, *, name: str | None = None, queue: str | None = None) -> LimitOverride | None:
        """Remove the override of the declared limits, and return it; None if there was none."""
        target = make_target(name, queue)
        store = await self._core.store()
        override = await store.controls.delete_limit(target)
        if override is not None and self._targets.knows(target):
            # For other names the workers do this: they know whether a declared limit has the same wait list.
            gone = _forms(target, override.allowance) - _forms(target, self._targets.declared(target))
            for form in gone:
                for line in await store.repair.of_form(form):
                    await store.gates.dissolve(line)
        await self._let_look(store, target)
        return override

    async def all(self) -> Listed[LimitStatus]:
        """List the limits that this process or live workers declare in code, and those set at run time, with their
        current use."""
        store = await self._core.store()
        stored = limits_in(await store.controls.find_limits())
        overrides = {Target(one.scope, one.target): one for one in stored}
        declared = await self._targets.declared_anywhere(store)
        targets = sorted(declared.keys() | overrides.keys(), key=lambda target: target.path)
        found = [_limit_status(one, declared.get(one, JobLimits()), overrides.get(one)) for one in targets]
        counting = [
            (forms, status) for forms, status in found if status.concurrency is not None or status.rate is not None
        ]
        uses = await store.gate_uses.find(
            (form for forms, _ in counting for form in forms), await store.workers.with_slots()
        )
        statuses = (
            replace(status, uses=tuple(use for form in sorted(forms) for use in uses[form]))
            for forms, status in counting
        )
        return Listed(statuses, stored.unreadable)

    async def _let_look(self, store: Store, target: Target) -> None:
        """Let every worker check for free slots: other limits are in force for this target."""
        for kind in (CONCURRENCY, RATE):
            await store.gates.open_all(f"{kind}:{target.path}")
        self._core.worker.controls_changed()

    # -- pauses ----------------------------------------------------------------------------------------------------

    async def pause(
        self, name: str, *, key: Mapping[str, Any] | None = None, reason: str = "", actor: str | None = None
    ) -> Paused:
        """Pause a job name: workers start none of its jobs until you resume it. With `key`, such as `{"tenant":
        "acme"}`, the pause applies only to jobs that have this value in their data. Running jobs continue. If no job,
        handler or worker has this name now, the pause is still stored, and its `note` and a warning in the log say so.
        `scheduler.queues.pause` pauses a queue."""
        return await self._pauses.put(make_target(name, None, key), reason, actor)

    async def resume(self, name: str, *, key: Mapping[str, Any] | None = None) -> Paused | None:
        """End the pause of this name and key, and return it. Return None if there was none."""
        return await self._pauses.remove(make_target(name, None, key))

    async def pauses(self) -> Listed[Paused]:
        """List all pauses of names and queues, each with its actor and reason. `unreadable` of the list names documents
        that cannot be read and have no effect."""
        return pauses_in(await (await self._core.store()).controls.find_pauses())

    # -- breakers --------------------------------------------------------------------------------------------------

    async def breakers(self) -> Listed[BreakerStatus]:
        """List all breakers: those that this process or live workers declare in code, and those that are stored."""
        store = await self._core.store()
        found = breakers_in(await store.controls.find_breakers())
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
        """Open the breaker of a job name or a queue, declared or not: workers start none of its jobs until it is
        closed. With `open_for`, it becomes half-open after that many seconds and lets single probes start. With `key`,
        such as `{"target": "api.example.com"}`, open only the breaker of the jobs that have this value in their data.
        With both a name and a queue, open the breaker of the name's jobs in that queue (for a breaker with
        `each_queue`)."""
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
        """Close a breaker: workers start its jobs again, and it counts attempts from zero."""
        target = self._broken_target(name, queue, key)
        reason, actor = check_reason(reason), check_actor(actor)
        store = await self._core.store()
        moved = await store.controls.close_breaker(target, reason, actor)
        if moved.status.state == CLOSED:
            await store.gates.dissolve(breaker_gate(target))
        return self._moved(moved)

    def _broken_target(self, name: str | None, queue: str | None, key: Mapping[str, Any] | None) -> Target:
        """The target of a breaker: a name, a queue, or a name in a queue."""
        inside = None if name is None or queue is None else check_name(queue, "a queue's name")
        target = make_target(name, queue if inside is None else None, key)
        refuse_keys(self._core.privacy.encrypt(name or ""), list(key or ()), "A breaker by key")
        return replace(target, value=plain_value(target.value), queue=inside)

    def _moved(self, moved: Moved) -> BreakerStatus:
        if moved.moved:
            announce_breaker(self._core.events, moved.status)
        self._core.worker.controls_changed()
        return moved.status


def _limit_status(target: Target, declared: JobLimits, override: LimitOverride | None) -> tuple[set[str], LimitStatus]:
    """The forms of a target's gates, and its limits, without their use."""
    counts = declared if override is None else combined(declared, override.allowance)
    status = LimitStatus(target.scope, target.target, counts.concurrency, counts.rate, declared, override)
    return _forms(target, counts), status


def _forms(target: Target, allowance: JobLimits) -> set[str]:
    return line_forms(target.scope, target.target, allowance)
