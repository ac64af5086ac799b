"""Stores what is known of running jobs only here: progress, log lines, and that they run; announces progress."""

from __future__ import annotations

from mainspring.clock import monotonic
from mainspring.engine.chores.chore import Chore
from mainspring.store.codec import MAX_LOG_LINES, decode_job
from mainspring.store.leases import Note


class WriteNotes(Chore):
    name = "write_notes"

    @property
    def every(self) -> float:
        return 0.5

    async def run_once(self) -> bool:
        await self._note_started()
        noted = [
            holding
            for holding in self._around.holdings.all()
            if (holding.progress_new or holding.unwritten) and not holding.frozen
        ]
        if not noted:
            return False
        notes = []
        moved = [holding for holding in noted if holding.progress_new]
        for holding in noted:
            lines, holding.unwritten = holding.unwritten, []
            progress = holding.progress if holding.progress_new else None
            notes.append(Note(holding.id, holding.token, progress, lines, holding.log_cut))
        await self._around.store.notes.write(notes, MAX_LOG_LINES)
        for holding, note in zip(noted, notes, strict=True):
            # Until here it was new: a job that ends meanwhile stores it with its end, which may come first.
            if holding.progress is note.progress:
                holding.progress_new = False
        if self._around.events.wanted("job:progress"):
            for holding in moved:
                self._around.events.emit(
                    "job:progress", decode_job({**holding.as_stored, "progress": holding.progress})
                )
        return False

    async def _note_started(self) -> None:
        """A job that was claimed ahead and runs for a while is one that may have killed its worker, should it die."""
        since = monotonic() - self.every
        running = [
            holding
            for holding in self._around.holdings.all()
            if holding.ahead and holding.started is not None and holding.started < since and not holding.frozen
        ]
        if running:
            await self._around.store.notes.started([h.id for h in running], list({h.claim for h in running}))
            for holding in running:
                holding.ahead = False
