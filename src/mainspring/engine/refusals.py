"""The jobs of one look that find no room, by the lines that they are to wait in."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from mainspring.model.job import LAST_PRIORITY
from mainspring.model.limits import Fair, Gate
from mainspring.store.codec import DocumentId
from mainspring.store.connection import Document
from mainspring.store.lines import line_note


@dataclass(slots=True)
class Refusals:
    """Who is refused, where, and why; of keys that take turns also among which, and how urgent their first job is."""

    jobs: dict[str, list[DocumentId]] = field(default_factory=lambda: defaultdict(list))
    notes: dict[str, str] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    firsts: dict[str, int] = field(default_factory=dict)

    def add(self, gate: Gate, document: Document) -> None:
        self.jobs[gate.name].append(document["_id"])
        self.notes.setdefault(gate.name, line_note(gate))
        if isinstance(gate.rule, Fair):
            self.groups[gate.name] = gate.rule.group
            self.firsts[gate.name] = min(document["priority"], self.firsts.get(gate.name, LAST_PRIORITY))

    @property
    def in_turns(self) -> int:
        """How many of them have keys that take turns."""
        return sum(len(self.jobs[name]) for name in self.groups)

    @property
    def count(self) -> int:
        """How many they are."""
        return sum(map(len, self.jobs.values()))
