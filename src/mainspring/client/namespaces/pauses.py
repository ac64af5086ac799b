"""Pauses of job names and queues, and the known names and queues.

`scheduler.limits` and `scheduler.queues` share these. A pause is stored, and in force in every process within a second
or two (`engine/limits/controls.py`): workers no longer poll a paused queue (`engine/claim/queues.py`), and put jobs of
a paused name on the wait list of the pause (`engine/limits/wait_lists.py`).
"""

from __future__ import annotations

import logging
from dataclasses import replace

from mainspring.client.core import Core
from mainspring.config.settings import check_actor, check_reason
from mainspring.model.jobs.job import DEFAULT_QUEUE
from mainspring.model.limits.controls import Paused, Target, pause_gate
from mainspring.model.limits.limits import NAME, QUEUE, JobLimits
from mainspring.model.limits.reported_limits import merged_reports
from mainspring.model.privacy.encrypted_values import refuse_keys
from mainspring.model.views.search import make_search
from mainspring.spelling import meant_by
from mainspring.store import Store

UNKNOWN_TARGETS = "mainspring.unknown_targets"
"""The logger of controls that were set for names which nothing has."""
logger = logging.getLogger(UNKNOWN_TARGETS)


class Targets:
    """The job names and queues that limits and pauses may be set for, as this process and live workers report them."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def declared_anywhere(self, store: Store) -> dict[Target, JobLimits]:
        """The limits that the code of this process declares, and for other targets those that live workers report."""
        told = merged_reports(await store.workers.live_in_full())
        places = [Target(NAME, name) for name in self._core.handlers.own_names]
        places += [Target(QUEUE, queue) for queue in self._core.registry.queue_limits]
        found = {Target(scope, target): allowance for (scope, target), allowance in told.items()}
        return found | {place: self.declared(place) for place in places}

    def declared(self, target: Target) -> JobLimits:
        """The limits that the code of this process declares."""
        if target.scope == QUEUE:
            return self._core.registry.queue_limits.get(target.target, JobLimits())
        handler = self._core.handlers.own(target.target)
        return JobLimits() if handler is None else handler.allowance

    def knows(self, target: Target) -> bool:
        """Whether the code of this process has the handler of a name, and so knows its limits."""
        return target.scope == NAME and self._core.handlers.own(target.target) is not None

    async def unknown(self, store: Store, target: Target, what: str) -> str | None:
        """A note if no job, handler or worker has the name that a control was set for. Only the log suggests the name
        that was probably meant: a caller that may set the control may have no right to know other names."""
        known = await self._known(store, target.scope)
        if known is None or target.target in known:
            return None
        search = make_search({target.scope: target.target})
        if (await store.searching.page(search, 1, None)).documents:
            return None
        kind = "queue" if target.scope == QUEUE else "job name"
        note = f"No job, handler or worker has the {kind} {target.target!r} now. {what} counts once one has."
        meant = meant_by(target.target, known)
        logger.warning("%s%s", note, "" if meant is None else f" Did you mean {meant!r}?")
        return note

    async def _known(self, store: Store, scope: str) -> set[str] | None:
        """The queues or job names that this process and the live workers have; None if a worker takes any name."""
        workers = await store.workers.live_in_full()
        if scope == QUEUE:
            served = [queue for worker in workers for queue in worker.queues or ()]
            served += [told.queue for worker in workers for told in worker.defaults.values()]
            return {
                DEFAULT_QUEUE,
                *self._core.registry.queue_limits,
                *self._core.handlers.queues,
                *served,
                *await store.claims.queues(),
            }
        if self._core.handlers.names is None or any(worker.handlers is None for worker in workers):
            return None
        return {*self._core.handlers.own_names, *(name for worker in workers for name in worker.handlers or ())}


class Pauses:
    """Stores pauses and removes them."""

    def __init__(self, core: Core, targets: Targets) -> None:
        self._core = core
        self._targets = targets

    async def put(self, target: Target, reason: str, actor: str | None) -> Paused:
        """Store a pause of a target."""
        name = target.target if target.scope == NAME else ""
        refuse_keys(self._core.privacy.encrypt(name), [] if target.key is None else [target.key], "A pause by key")
        reason, actor = check_reason(reason), check_actor(actor)
        store = await self._core.store()
        paused = await store.controls.put_pause(target, reason, actor)
        self._core.worker.controls_changed()
        return replace(paused, note=await self._targets.unknown(store, target, "The pause"))

    async def remove(self, target: Target) -> Paused | None:
        """End a pause and return it; None if there was none."""
        store = await self._core.store()
        paused = await store.controls.delete_pause(target)
        await store.gates.dissolve(pause_gate(target))
        self._core.worker.controls_changed()
        return paused
