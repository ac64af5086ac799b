"""Putting new jobs on a wait list at once, where other jobs wait already or keys take jobs in round robin.

Such a job never enters the claim's index, and no worker has to read it and move it to the list. A process that
schedules without knowing of a limit does no harm: a worker moves its jobs.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from mainspring.model.jobs.draft import Draft
from mainspring.model.limits.limits import FairGate, Gate
from mainspring.store.connection import Document
from mainspring.store.limits.wait_lists import BY_LIMIT, WaitLists, waiting_note

logger = logging.getLogger("mainspring")


@dataclass(slots=True)
class Waiting:
    """The wait lists of new jobs; for keys in round robin, also the group and the most urgent priority."""

    lines: set[str] = field(default_factory=set)
    groups: dict[str, str] = field(default_factory=dict)
    firsts: dict[str, int] = field(default_factory=dict)

    def add(self, gate: Gate, priority: int) -> None:
        self.lines.add(gate.name)
        if isinstance(gate.rule, FairGate):
            self.groups[gate.name] = gate.rule.group
            self.firsts[gate.name] = min(priority, self.firsts.get(gate.name, priority))


class WaitOnInsert:
    """Chooses the wait lists of new jobs."""

    def __init__(self, wait_lists: WaitLists) -> None:
        self._wait_lists = wait_lists

    async def choose(self, pairs: Sequence[tuple[Draft, Document]], now: datetime) -> Waiting:
        """Put the new jobs that would have to wait on wait lists; returns the lists."""
        gated = [(draft.gates, document) for draft, document in pairs if draft.gates and document["run_at"] <= now]
        waiting = Waiting()
        if not gated:
            return waiting
        asked = {gate.name for gates, _ in gated for gate in gates if not isinstance(gate.rule, FairGate)}
        busy = await self._wait_lists.with_wait_lists(asked) if asked else set()
        for gates, document in gated:
            gate = next((gate for gate in gates if isinstance(gate.rule, FairGate) or gate.name in busy), None)
            if gate is not None:
                _put(document, gate, now)
                waiting.add(gate, document["priority"])
        return waiting

    async def mark(self, waiting: Waiting) -> None:
        """Mark the gates of jobs that are stored now.

        An error must not tell the caller that the jobs are not stored: the chore `repair_wait_lists` marks the gates.
        """
        try:
            if waiting.lines:
                await self._wait_lists.mark(waiting.lines, waiting.groups, waiting.firsts)
        except Exception as error:
            logger.warning(
                "New jobs are on wait lists whose gates could not be marked (%s); a worker will do it", error
            )


def _put(document: Document, gate: Gate, now: datetime) -> None:
    document.pop("ready", None)
    document["line"] = gate.name
    document["waiting_for"] = {"by": BY_LIMIT, "note": waiting_note(gate), "since": now}
