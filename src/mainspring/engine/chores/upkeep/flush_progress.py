"""Stores the progress and the log lines of running jobs, which only their worker knows, and announces progress."""

from __future__ import annotations

from mainspring.engine.callbacks import announce_progress
from mainspring.engine.chores.chore import Chore
from mainspring.store.bounded_values import MAX_LOG_LINES
from mainspring.store.jobs.leases import ProgressUpdate


class FlushProgress(Chore):
    name = "flush_progress"
    prompt = True

    @property
    def every(self) -> float:
        return 0.5

    async def run_once(self) -> bool:
        noted = [one for one in self._context.claimed_jobs.all() if one.notes.any_new and not one.frozen]
        if not noted:
            return False
        notes = [
            ProgressUpdate(one.id, one.token, one.notes.new_progress, one.notes.take_lines(), one.notes.log_cut)
            for one in noted
        ]
        await self._context.store.progress_updates.write(notes, MAX_LOG_LINES)
        for claimed, note in zip(noted, notes, strict=True):
            claimed.notes.progress_stored(note.progress)
            announce_progress(self._context.events, claimed, note.progress)
        return False
