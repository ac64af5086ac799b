"""The progress and the log lines of a running handler, until they are stored.

The handler's thread writes them, and the chore `flush_progress` takes new ones on the event loop: a lock keeps a line
from being lost between the two. Notes that the chore has not stored yet are stored with the end of the attempt.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from mainspring.model.fields import Fields
from mainspring.store.bounded_values import MAX_LOG_LINES

_LOCK = threading.Lock()
"""One for all attempts: it is held for a moment only, and most attempts write nothing."""


@dataclass(slots=True, eq=False)
class AttemptNotes:
    """The notes of one attempt."""

    # Most attempts have no lines: the lists are made with the first one.
    log: list[str] | tuple[()] = ()
    """The last lines."""
    log_cut: int = 0
    """The number of earlier lines, which were dropped."""
    progress: Fields | None = None
    _unstored: list[str] | tuple[()] = ()
    _stored_progress: Fields | None = None
    _announced_progress: Fields | None = None

    def add_line(self, line: str) -> None:
        with _LOCK:
            self.log_cut += len(self.log) >= MAX_LOG_LINES
            self.log = _with(self.log, line)
            self._unstored = _with(self._unstored, line)

    def set_progress(self, progress: Fields) -> None:
        self.progress = progress

    @property
    def new_progress(self) -> Fields | None:
        """The progress, if it is not known to be stored."""
        progress = self.progress
        return None if progress is self._stored_progress else progress

    @property
    def any_new(self) -> bool:
        return bool(self._unstored) or self.progress is not self._stored_progress

    def take_lines(self) -> list[str]:
        """Remove and return the lines that were not stored yet; the caller stores them."""
        with _LOCK:
            lines, self._unstored = self._unstored, ()
        return list(lines)

    def progress_stored(self, progress: Fields | None) -> None:
        """Note that this progress is stored. Until now it was new: a job that ends meanwhile stores it with its end."""
        if progress is not None:
            self._stored_progress = progress

    def first_told(self, progress: Fields | None) -> bool:
        """Whether this progress has not been announced yet: the chore and the end of a quick job may both store it."""
        if progress is None or progress is self._announced_progress:
            return False
        self._announced_progress = progress
        return True


def _with(lines: list[str] | tuple[()], line: str) -> list[str]:
    """These lines and one more, the last ones where they would be too many."""
    if not lines:
        return [line]
    lines.append(line)
    if len(lines) > MAX_LOG_LINES:
        del lines[0]
    return lines
