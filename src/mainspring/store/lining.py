"""Putting new jobs in line at once, where others wait already or keys take turns.

A job that would only be read, refused and put in line by a worker is spared the way: it never enters the claim's
index. Whoever schedules without knowing of a limit does no harm; the workers see to it then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from mainspring.model.draft import Draft
from mainspring.model.limits import Fair, Gate
from mainspring.store.connection import Document
from mainspring.store.lines import BY_LIMIT, Lines, line_note


@dataclass(slots=True)
class Waiting:
    """The lines that new jobs are in; of those whose keys take turns, the group and the most urgent priority."""

    lines: set[str] = field(default_factory=set)
    groups: dict[str, str] = field(default_factory=dict)
    firsts: dict[str, int] = field(default_factory=dict)

    def add(self, gate: Gate, priority: int) -> None:
        self.lines.add(gate.name)
        if isinstance(gate.rule, Fair):
            self.groups[gate.name] = gate.rule.group
            self.firsts[gate.name] = min(priority, self.firsts.get(gate.name, priority))


class Lining:
    """Chooses the lines of new jobs."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    async def choose(self, pairs: Sequence[tuple[Draft, Document]], now: datetime) -> Waiting:
        """Put those of these new jobs in line that would have to wait; returns the lines that they are in."""
        gated = [(draft.gates, document) for draft, document in pairs if draft.gates and document["run_at"] <= now]
        waiting = Waiting()
        if not gated:
            return waiting
        asked = {gate.name for gates, _ in gated for gate in gates if not isinstance(gate.rule, Fair)}
        busy = await self._lines.with_lines(asked) if asked else set()
        for gates, document in gated:
            gate = next((gate for gate in gates if isinstance(gate.rule, Fair) or gate.name in busy), None)
            if gate is not None:
                _put(document, gate, now)
                waiting.add(gate, document["priority"])
        return waiting

    async def mark(self, waiting: Waiting) -> None:
        """These jobs are stored now: let it be known that they wait."""
        if waiting.lines:
            await self._lines.mark(waiting.lines, waiting.groups, waiting.firsts)


def _put(document: Document, gate: Gate, now: datetime) -> None:
    document.pop("ready", None)
    document["line"] = gate.name
    document["held"] = {"by": BY_LIMIT, "note": line_note(gate), "since": now}
