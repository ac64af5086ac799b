"""Putting new jobs in line at once, where others wait already or keys take turns.

A job that would only be read, refused and put in line by a worker is spared the way: it never enters the claim's
index. Whoever schedules without knowing of a limit does no harm; the workers see to it then.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.model.draft import Draft
from mainspring.model.limits import Fair, Gate
from mainspring.store.connection import Document
from mainspring.store.lines import BY_LIMIT, Lines, line_note

Waiting = dict[str, str | None]
"""The lines that new jobs are in, with the groups of those whose keys take turns."""


class Lining:
    """Chooses the lines of new jobs."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    async def choose(self, pairs: Sequence[tuple[Draft, Document]], now: datetime) -> Waiting:
        """Put those of these new jobs in line that would have to wait; returns the lines that they are in."""
        gated = [(draft.gates, document) for draft, document in pairs if draft.gates and document["run_at"] <= now]
        if not gated:
            return {}
        asked = {gate.name for gates, _ in gated for gate in gates if not isinstance(gate.rule, Fair)}
        busy = await self._lines.with_lines(asked) if asked else set()
        waiting: Waiting = {}
        for gates, document in gated:
            gate = next((gate for gate in gates if isinstance(gate.rule, Fair) or gate.name in busy), None)
            if gate is not None:
                _put(document, gate, now)
                waiting[gate.name] = gate.rule.group if isinstance(gate.rule, Fair) else None
        return waiting

    async def mark(self, waiting: Waiting) -> None:
        """These jobs are stored now: let it be known that they wait."""
        if waiting:
            await self._lines.mark(waiting, {name: group for name, group in waiting.items() if group is not None})


def _put(document: Document, gate: Gate, now: datetime) -> None:
    document.pop("ready", None)
    document["line"] = gate.name
    document["held"] = {"by": BY_LIMIT, "note": line_note(gate), "since": now}
