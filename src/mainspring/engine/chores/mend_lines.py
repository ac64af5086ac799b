"""Finds jobs in lines that nobody knows of, which a crash can leave, and lets workers look into the lines of sequences.

Whose turn it is in a sequence changes also when somebody retries or deletes the job that was first in it.
"""

from __future__ import annotations

from mainspring.engine.chores.chore import Chore


class MendLines(Chore):
    name = "mend_lines"
    exclusive = True

    @property
    def every(self) -> float:
        return 5.0

    async def run_once(self) -> bool:
        if not self._around.gatekeeper.idle:
            await self._around.store.gates.mend()
        return False
