"""What was set at run time, as one worker knows it: read often, and put in force here.

Pauses, limits in place of the declared ones, and breakers are a few small documents. Every worker reads all of them
when a change stream tells of a change, every second while none does, and every ten at least. It then lets the limits
and the producer know, gives back what it has claimed and must not start, and looks after the lines of what is over.

Whoever ends a pause dissolves its line. But a worker that has not heard of it yet may put more jobs in, and whoever
ended it may have died: so each worker that learns of an end looks into the line for a few seconds more, and the chore
`clear_lines` finds what is left after all.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from mainspring.clock import monotonic
from mainspring.engine.breakers import Breakers
from mainspring.engine.events import Events
from mainspring.engine.gatekeeper import Gatekeeper
from mainspring.engine.limits import Limits
from mainspring.engine.producer import Producer
from mainspring.engine.slots import Slots
from mainspring.errors import Unavailable
from mainspring.model.breaker import BreakerStatus
from mainspring.model.controls import PAUSED, Closure, breaker_closure, pause_closure
from mainspring.model.limits import CONCURRENCY, QUEUE, RATE, Allowance
from mainspring.store import Store
from mainspring.store.connection import Document
from mainspring.store.controls import breakers_in, limits_in, pauses_in

_UNTOLD, _TOLD = 1.0, 10.0
_LOOKED_AFTER = 5.0


@dataclass(slots=True)
class View:
    """All controls at one moment."""

    closures: list[Closure] = field(default_factory=list)
    overrides: dict[tuple[str, str], Allowance] = field(default_factory=dict)
    breakers: list[BreakerStatus] = field(default_factory=list)

    @property
    def paused_queues(self) -> frozenset[str]:
        whole = (closure.target for closure in self.closures if closure.gate.name.startswith(f"{PAUSED}:"))
        return frozenset(target.target for target in whole if target.scope == QUEUE and target.key is None)


def read_view(documents: Sequence[Document]) -> View:
    """The controls as they are meant."""
    breakers = breakers_in(documents)
    closures = [pause_closure(pause) for pause in pauses_in(documents)]
    closures += [closure for breaker in breakers if (closure := breaker_closure(breaker)) is not None]
    overrides = {(limit.scope, limit.target): limit.allowance for limit in limits_in(documents)}
    return View(closures, overrides, breakers)


class Controls:
    """Keeps one worker up to date with what was set at run time."""

    def __init__(
        self,
        *,
        store: Store,
        limits: Limits,
        gatekeeper: Gatekeeper,
        producer: Producer,
        slots: Slots,
        events: Events,
        worker: str,
        told: Callable[[], bool],
        failed: Callable[[Exception], None],
    ) -> None:
        self._store = store
        self._limits = limits
        self._gatekeeper = gatekeeper
        self._producer = producer
        self._slots = slots
        self._worker = worker
        self._told = told
        self._failed = failed
        self.breakers = Breakers(store, limits, events, gatekeeper.freed, self.wake)
        self._view = View()
        self._read: list[Document] = []
        self._over: dict[str, float] = {}
        """Lines that are to be dissolved, and until when they are looked into; one that ends with = stands for all
        that begin so."""
        self._woken = asyncio.Event()
        self._stopping = False

    def wake(self) -> None:
        """Something may have been changed."""
        self._woken.set()

    def stop(self) -> None:
        self._stopping = True
        self._woken.set()

    async def close(self) -> None:
        """Hand in what was counted. A scheduler whose worker has stopped knows of no controls."""
        try:
            await self.breakers.hand_in()
        finally:
            self._limits.override({})
            self._limits.close(())

    async def run(self) -> None:
        """Keep up to date until told to stop; an outage is waited for."""
        while not self._stopping:
            self._woken.clear()
            try:
                pause = await self.run_once()
            except Unavailable as error:
                self._failed(error)
                pause = random.uniform(0.2, 0.6)
            await self._sleep(pause)

    async def _sleep(self, pause: float) -> None:
        """Sleep until woken; not for long once nobody would tell of changes any more."""
        until = monotonic() + pause
        while not self._woken.is_set() and (left := until - monotonic()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, _UNTOLD)):
                    await self._woken.wait()
            if not self._told():
                return

    async def run_once(self) -> float:
        """One pass; returns the seconds until the next."""
        try:
            await self.breakers.hand_in()
            await self.refresh()
            if await self.breakers.let_probe(self._view.breakers):
                await self.refresh()
        finally:
            self.breakers.free_heard()
        await self._dissolve_over()
        return self._pause()

    def _pause(self) -> float:
        pause = _TOLD if self._told() and not self._over else _UNTOLD
        now = self._store.clock.now()
        waits = ((one.open_until - now).total_seconds() for one in self._view.breakers if one.open_until is not None)
        return max(0.05, min(pause, min(waits, default=pause) + 0.005))

    # -- putting in force ------------------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Read all controls, and let them count here from now on."""
        documents = await self._store.controls.find_in_force()
        if documents == self._read:
            return
        self._read, view = documents, read_view(documents)
        before, changed = dict(self._limits.closures), self._changed(view.overrides)
        old = {place: self._limits.allowance(*place) for place in changed}
        self._view = view
        self._limits.override(view.overrides)
        self._limits.close(view.closures)
        self._producer.paused = view.paused_queues
        self._follow_closures(before)
        await self._follow_limits(old)

    def _changed(self, overrides: Mapping[tuple[str, str], Allowance]) -> set[tuple[str, str]]:
        known = self._limits.overrides
        return {place for place in known.keys() | overrides.keys() if known.get(place) != overrides.get(place)}

    def _follow_closures(self, before: Mapping[str, Closure]) -> None:
        now = self._limits.closures
        fresh = [closure for name, closure in now.items() if before.get(name) != closure]
        if any(closure.shut for closure in fresh):
            self._slots.give_back(lambda holding: self._is_shut_to(holding.document))
        for closure in fresh:
            if not closure.shut:
                self._gatekeeper.look_into(closure.gate.name)
        gone = before.keys() - now.keys()
        if gone:
            self._end(gone)

    def _is_shut_to(self, document: Document) -> bool:
        closure = self._limits.closed_to(document)
        return closure is not None and closure.shut

    async def _follow_limits(self, old: Mapping[tuple[str, str], Allowance]) -> None:
        """Limits were changed: the lines of those that are gone end, and everybody looks at the others again."""
        if not old:
            return
        self._gatekeeper.limits_changed()
        for place, before in old.items():
            forms, after = line_forms(*place, before), line_forms(*place, self._limits.allowance(*place))
            self._end(forms - after)
            for form in forms & after:
                await self._store.gates.open(form)

    def _end(self, lines: Iterable[str]) -> None:
        until = monotonic() + _LOOKED_AFTER
        self._over |= dict.fromkeys(lines, until)
        self._producer.look_everywhere()

    # -- lines of what is over -------------------------------------------------------------------------------------

    async def _dissolve_over(self) -> None:
        if not self._over:
            return
        looked = monotonic()
        await self.dissolve(await self._store.gates.lined_as(list(self._over)))
        self._over = {name: until for name, until in self._over.items() if until > looked}

    async def dissolve(self, lines: Iterable[str]) -> None:
        """Let those in these lines go; one worker at a time is enough for it, and faster than several."""
        wanted = list(lines)
        if wanted and await self._store.workers.lock("lines", self._worker, _LOOKED_AFTER / 2):
            for line in wanted:
                await self._store.gates.dissolve(line)
            self._producer.look_everywhere()


def line_forms(scope: str, target: str, allowance: Allowance) -> set[str]:
    """The names of the lines that a limit's jobs can wait in; with a key, what they begin with, up to the =."""
    rules = ((CONCURRENCY, allowance.concurrency), (RATE, allowance.rate))
    return {
        f"{kind}:{scope}:{target}" + ("" if rule.key is None else f":{rule.key}=")
        for kind, rule in rules
        if rule is not None
    }
