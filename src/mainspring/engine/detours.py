"""Getting jobs that meet a pause or an open breaker out of the way of others, many at a time.

Such a job waits at what keeps it back and nowhere else: one that stands in the line of a limit would otherwise keep
those behind it from slots that it cannot use. A long stretch of them at the head of a queue is put in line by the
thousand, so that those behind it need not wait until each of them has been looked at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from mainspring.engine.limits import Limits
from mainspring.store import Store
from mainspring.store.codec import DocumentId
from mainspring.store.connection import Document
from mainspring.store.lines import line_note

_MANY = 1000


class Detours:
    """Sends jobs to the lines of what is paused or broken, for one worker."""

    def __init__(self, store: Store, limits: Limits, look_into: Callable[[str], None]) -> None:
        self._store = store
        self._limits = limits
        self._look_into = look_into

    async def pass_on(self, jobs: list[Document]) -> list[Document]:
        """Those of these jobs, read from lines, that are in the right one; the others are moved."""
        if not self._limits.closures:
            return jobs
        passing: list[Document] = []
        astray: dict[tuple[str, str], list[DocumentId]] = defaultdict(list)
        for job in jobs:
            closure = self._limits.closed_to(job)
            if closure is not None and closure.gate.name != job["line"]:
                astray[job["line"], closure.gate.name].append(job["_id"])
            elif closure is None or not closure.shut:
                passing.append(job)
        for (line, gate), ids in astray.items():
            await self._move(line, gate, ids)
        return passing

    async def _move(self, line: str, gate: str, ids: list[DocumentId]) -> None:
        """Move all in a line that the same keeps back; others may have moved up in it."""
        closure = self._limits.closures.get(gate)
        if closure is not None:
            alike = {"$or": [closure.target.where, {"_id": {"$in": ids}}]}
            await self._store.gates.change_line(line, gate, line_note(closure.gate), alike)
        self._look_into(line)

    async def fetch_alike(self, refused: dict[str, list[DocumentId]], read: Sequence[Document]) -> None:
        """Where most of what was read met the same shut gate, refuse the many behind them that will, too."""
        for name, ids in refused.items():
            closure = self._limits.closures.get(name)
            if closure is not None and closure.shut and 2 * len(ids) > len(read):
                alike = await self._store.gates.ready_like(read[0]["queue"], closure.target.where, _MANY)
                refused[name] = list(dict.fromkeys([*ids, *alike]))
