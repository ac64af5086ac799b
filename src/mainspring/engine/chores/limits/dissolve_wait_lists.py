"""Dissolves wait lists whose gate no longer exists: a process ended a pause and died before it could dissolve the wait
list, or a limit or `fair=` was taken out of the code.

The chore reads from the database which pauses and breakers are in force, and which limits the live workers declare.
It leaves the wait list of a limit that none of them declares alone as long as none of them could run the jobs on it:
the workers that declare the limit may only be away. Wait lists of sequences are never dissolved, since their jobs keep
to their order.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from mainspring.engine.chores.chore import Chore, ChoreContext
from mainspring.engine.limits.controls import line_forms, read_view
from mainspring.engine.limits.job_gates import combined
from mainspring.model.limits.controls import BROKEN, PAUSED
from mainspring.model.limits.limits import FAIR, NAME, SEQUENCE, JobLimits
from mainspring.model.workers import WorkerStatus
from mainspring.store.limits.wait_lists import behind

logger = logging.getLogger("mainspring")

_LINES, _JOBS = 200, 20_000


@dataclass(frozen=True, slots=True)
class StandingGates:
    """The gates that exist, by the database."""

    closures: frozenset[str]
    forms: frozenset[str]
    fair: frozenset[str]
    """The names whose keys are in round robin."""
    workers: tuple[WorkerStatus, ...]
    certain: bool
    """Whether all live workers declare their limits in a form that this version reads."""

    def form_of(self, line: str) -> str | None:
        """The form of the limit that a wait list belongs to."""
        keyed, equals, _ = line.partition("=")
        return next((form for form in (line, keyed + equals) if form in self.forms), None)

    def is_run(self, name: str, queue: str | None = None) -> bool:
        """Whether a live worker could run jobs of a name, of this queue or of any: its code then knows their limits."""
        could = (one for one in self.workers if one.handles(name) and (queue is None or one.serves(queue)))
        return self.certain and any(could)


class DissolveWaitLists(Chore):
    name = "dissolve_wait_lists"
    exclusive = True
    at_start = True

    def __init__(self, context: ChoreContext) -> None:
        super().__init__(context)
        self._after = ""

    @property
    def every(self) -> float:
        return 10 * min(1.0, self._context.settings.poll_interval)

    async def run_once(self) -> bool:
        if not self._context.store.repair.found:
            self._after = ""
            return False
        standing = await self._standing()
        more = await self._end_turns(standing)
        stray = await self._find_stray(standing)
        if stray:
            logger.info("The gates of the wait lists %s are gone; their jobs are released", ", ".join(stray[:10]))
            if not await self._context.controls.dissolve(stray):
                self._after = ""
                more = True
        return more or bool(self._after)

    async def _standing(self) -> StandingGates:
        store, limits = self._context.store, self._context.limits
        view = read_view(await store.controls.find_in_force())
        workers = await store.workers.live_in_full()
        read = [worker.limits for worker in workers]
        told = [declared for declared in read if declared is not None]
        told.append({place: limits.declared(*place) for place in limits.places})  # may be newer than the last beat
        forms: set[str] = set()
        for declared in told:
            forms |= _forms(declared, view.overrides)
        return StandingGates(
            frozenset(closure.gate.name for closure in view.closures),
            frozenset(forms),
            frozenset(
                target
                for declared in told
                for (scope, target), rules in declared.items()
                if scope == NAME and rules.fair is not None
            ),
            tuple(workers),
            None not in read,
        )

    async def _end_turns(self, standing: StandingGates) -> bool:
        """Release jobs from the wait lists of keys in round robin that no code declares any longer; return whether more
        are left."""
        store, number = self._context.store, 0
        for name in await store.repair.waiting_names():
            if name not in standing.fair and standing.is_run(name):
                number = max(number, await store.gates.leave_fair_lists(name, _JOBS))
        if number:
            self._context.poll_all()
        return number >= _JOBS

    async def _find_stray(self, standing: StandingGates) -> list[str]:
        """The next wait lists without a gate. All lists of a limit in force are passed over in one step."""
        stray: list[str] = []
        for _ in range(_LINES):
            line = await self._context.store.repair.next(self._after)
            if line is None:
                self._after = ""
                break
            kind, form = line.partition(":")[0], standing.form_of(line)
            if kind in (FAIR, SEQUENCE):
                self._after = behind(f"{kind}:")
            elif form is not None:
                self._after = behind(form) if form != line else line
            else:
                self._after = line
                if await self._is_stray(line, kind, standing):
                    stray.append(line)
        return stray

    async def _is_stray(self, line: str, kind: str, standing: StandingGates) -> bool:
        if kind in (PAUSED, BROKEN):
            return line not in standing.closures
        job = await self._context.store.gates.head_of(line)
        return job is not None and standing.is_run(job.name, job.queue)


def _forms(declared: Mapping[tuple[str, str], JobLimits], overrides: Mapping[tuple[str, str], JobLimits]) -> set[str]:
    """The forms of the wait lists of the limits that a process declares, with the overrides applied."""
    found: set[str] = set()
    for place in declared.keys() | overrides.keys():
        rules, override = declared.get(place, JobLimits()), overrides.get(place)
        found |= line_forms(*place, rules if override is None else combined(rules, override))
    return found
