"""Dissolves lines that no gate stands for any more: its pause was ended, or its limit taken away, by somebody who died
before he could see to the line, or who could not know of it.

What is paused or broken is read from the database. Whether a limit is gone can only be judged by a worker that has the
handler of the jobs in the line: another one would not know the limit.
"""

from __future__ import annotations

import logging

from mainspring.engine.chores.chore import Chore
from mainspring.engine.controls import line_forms, read_view
from mainspring.model.controls import BROKEN, PAUSED
from mainspring.model.limits import CONCURRENCY, RATE

logger = logging.getLogger("mainspring")


class ClearLines(Chore):
    name = "clear_lines"

    @property
    def every(self) -> float:
        return 20.0

    async def run_once(self) -> bool:
        store = self._around.store
        if not await store.gates.any_lined():
            return False
        closures = [line for kind in (PAUSED, BROKEN) for line in await store.gates.lined(f"{kind}:")]
        limits = [line for kind in (CONCURRENCY, RATE) for line in await store.gates.lined(f"{kind}:")]
        in_force = (
            {one.gate.name for one in read_view(await store.controls.find_in_force()).closures} if closures else set()
        )
        stray = [line for line in closures if line not in in_force]
        stray += [line for line in self._unknown(limits) if await self._is_stray(line)]
        if stray:
            logger.info("Nothing stands behind the lines %s any more; the jobs in them go on", ", ".join(stray[:10]))
            await self._around.controls.dissolve(stray)
        return False

    def _unknown(self, lines: list[str]) -> list[str]:
        """The lines that are of no form that this worker's limits have."""
        if not lines:
            return []
        limits = self._around.limits
        forms = {form for place in limits.places for form in line_forms(*place, limits.allowance(*place))}
        keyed = tuple(form for form in forms if form.endswith("="))
        return [line for line in lines if line not in forms and not line.startswith(keyed)]

    async def _is_stray(self, line: str) -> bool:
        """Whether the jobs in a line do not have its gate in their way, as far as this worker is the one to know."""
        job = await self._around.store.gates.head_of(line)
        if job is None or not self._knows(job["name"], job["queue"]):
            return False
        return line not in {gate.name for gate in self._around.limits.gates(job)}

    def _knows(self, name: str, queue: str) -> bool:
        queues = self._around.settings.queues
        if queues is not None and queue not in queues:
            return False
        if self._around.handlers.own(name) is not None:
            return True
        return self._around.handlers.catch_all is not None and not self._around.peers.somebody_has(name)
