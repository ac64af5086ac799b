"""The controls of run time, as one worker knows them: it reads them often and puts them in force.

Pauses, overrides of limits, and breakers are a few small documents. Every worker reads all of them when a change stream
reports a change, every second while no stream is open, and every ten seconds at least. It then informs the limits and
the producer, gives back claimed jobs that must not start, and dissolves the wait lists of controls that have ended.

The process that ends a pause dissolves its wait list. But a worker that does not know of it yet may add more jobs, and
that process may have died: so each worker that learns of an end dissolves the wait list for a few seconds more, and
the chore `dissolve_wait_lists` finds the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mainspring.clock import monotonic
from mainspring.engine.callbacks import Callbacks
from mainspring.engine.limits.breakers import Breakers
from mainspring.engine.limits.job_gates import Limits, paused_queues
from mainspring.engine.limits.limiter import Limiter
from mainspring.engine.run.slots import Slots
from mainspring.engine.service import LockHolder, Service
from mainspring.model.limits.breaker import BreakerStatus
from mainspring.model.limits.controls import ClosedGate, breaker_closure, pause_closure
from mainspring.model.limits.limits import CONCURRENCY, RATE, JobLimits, gate_form
from mainspring.store import Store
from mainspring.store.connection import Document
from mainspring.store.jobs.stored_job import StoredJob
from mainspring.store.limits.controls import breakers_in, limits_in, pauses_in

_UNTOLD, _TOLD = 1.0, 10.0
_LOOKED_AFTER = 5.0
_AT_ONCE = 20_000


@dataclass(slots=True)
class View:
    """All controls at one moment."""

    closures: list[ClosedGate] = field(default_factory=list)
    overrides: dict[tuple[str, str], JobLimits] = field(default_factory=dict)
    breakers: list[BreakerStatus] = field(default_factory=list)

    @property
    def paused_queues(self) -> frozenset[str]:
        return paused_queues(self.closures)


def read_view(documents: Sequence[Document]) -> View:
    """The view that the documents of controls give."""
    breakers = breakers_in(documents)
    closures = [pause_closure(pause) for pause in pauses_in(documents)]
    closures += [closure for breaker in breakers if (closure := breaker_closure(breaker)) is not None]
    overrides = {(limit.scope, limit.target): limit.allowance for limit in limits_in(documents)}
    return View(closures, overrides, breakers)


class Controls(Service):
    """Keeps one worker up to date with the controls."""

    name = "controls"

    def __init__(
        self,
        *,
        store: Store,
        limits: Limits,
        limiter: Limiter,
        poll_all: Callable[[], None],
        slots: Slots,
        events: Callbacks,
        worker: str,
        told: Callable[[], bool],
        failed: Callable[[Exception], None],
    ) -> None:
        super().__init__(store, failed)
        self._limits = limits
        self._limiter = limiter
        self._poll_all = poll_all
        self._slots = slots
        self._told = told
        self._lock = LockHolder(store, "lines", worker, _LOOKED_AFTER / 2)
        self.breakers = Breakers(store, limits, events, limiter.freed, self.wake)
        self._view = View()
        self._read: list[Document] = []
        self._to_open: dict[str, None] = {}
        """The forms of wait lists whose limit was changed, until they are open for all workers."""
        self._over: dict[str, float] = {}
        """The wait lists to dissolve, and until when this worker goes on dissolving them; a form that ends with =
        stands for all lists that begin with it."""

    async def close(self) -> None:
        """Report the counts of the breakers. A scheduler whose worker has stopped knows of no controls."""
        try:
            await self.breakers.report_counts()
        finally:
            self._limits.override({})
            self._limits.close(())

    async def _sleep(self, seconds: float) -> None:
        """Sleep until woken, or for a second at most once the change stream no longer reports changes."""
        until = monotonic() + seconds
        while not self._woken.is_set() and (left := until - monotonic()) > 0:
            await super()._sleep(min(left, _UNTOLD))
            if not self._told():
                return

    async def run_once(self) -> float:
        """One pass; returns the seconds until the next."""
        try:
            await self.breakers.report_counts()
            await self.refresh()
            if await self.breakers.half_open_due(self._view.breakers):
                await self.refresh()
        finally:
            self.breakers.release_probe_slots()
        await self._dissolve_over()
        return self._pause()

    def _pause(self) -> float:
        pause = _TOLD if self._told() and not self._over else _UNTOLD
        now = self._store.clock.now()
        waits = ((one.open_until - now).total_seconds() for one in self._view.breakers if one.open_until is not None)
        return max(0.05, min(pause, min(waits, default=pause) + 0.005))

    # -- putting in force ------------------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Read all controls and put them in force in this worker."""
        documents = await self._store.controls.find_in_force()
        if documents != self._read:
            self._put_in_force(read_view(documents))
            self._read = documents
        while self._to_open:
            form = next(iter(self._to_open))
            await self._store.gates.open_all(form)
            del self._to_open[form]

    def _put_in_force(self, view: View) -> None:
        before, changed = dict(self._limits.closures), self._changed(view.overrides)
        old = {place: self._limits.allowance(*place) for place in changed}
        self._view = view
        self._limits.override(view.overrides)
        self._limits.close(view.closures)
        self._follow_closures(before)
        self._follow_limits(old)

    def _changed(self, overrides: Mapping[tuple[str, str], JobLimits]) -> set[tuple[str, str]]:
        known = self._limits.overrides
        return {place for place in known.keys() | overrides.keys() if known.get(place) != overrides.get(place)}

    def _follow_closures(self, before: Mapping[str, ClosedGate]) -> None:
        now = self._limits.closures
        fresh = [closure for name, closure in now.items() if before.get(name) != closure]
        if any(closure.shut for closure in fresh):
            self._slots.give_back(lambda claimed: self._is_shut_to(claimed.job))
        for closure in fresh:
            if not closure.shut:
                self._limiter.wait_lists.poll_line(closure.gate.name)
        gone = before.keys() - now.keys()
        if gone:
            self._dissolve_soon(gone)

    def _is_shut_to(self, job: StoredJob) -> bool:
        closure = self._limits.closed_to(job)
        return closure is not None and closure.shut

    def _follow_limits(self, old: Mapping[tuple[str, str], JobLimits]) -> None:
        """Dissolve the wait lists of limits that are gone, and have all workers read those of the changed limits."""
        if not old:
            return
        self._limiter.limits_changed()
        for place, before in old.items():
            forms, after = line_forms(*place, before), line_forms(*place, self._limits.allowance(*place))
            self._dissolve_soon(forms - after)
            self._to_open |= dict.fromkeys(forms & after)

    def _dissolve_soon(self, lines: Iterable[str]) -> None:
        until = monotonic() + _LOOKED_AFTER
        self._over |= dict.fromkeys(lines, until)
        self._poll_all()

    # -- wait lists of controls that have ended --------------------------------------------------------------------

    async def _dissolve_over(self) -> None:
        looked = monotonic()
        for form, until in list(self._over.items()):
            if await self.dissolve(await self._store.repair.of_form(form)) and until <= looked:
                self._over.pop(form, None)

    async def dissolve(self, lines: Sequence[str]) -> bool:
        """Release the jobs on these wait lists, a bounded number of each; return whether none is left. One worker at a
        time does this, which is enough, and faster than several."""
        if not lines or not await self._lock.is_mine():
            return True
        done = [await self._store.gates.dissolve(line, _AT_ONCE) for line in lines]
        self._poll_all()
        return all(done)


def line_forms(scope: str, target: str, allowance: JobLimits) -> set[str]:
    """The names of the wait lists that a limit's jobs can be on; with a key, their common prefix, up to the =."""
    rules = ((CONCURRENCY, allowance.concurrency), (RATE, allowance.rate))
    return {gate_form(kind, scope, target, rule) for kind, rule in rules if rule is not None}
