"""The progress and the log lines of a running handler, until they are stored.

The handler's thread writes them, and the chore `flush_progress` takes new ones on the event loop: a lock keeps a line
from being lost between the two. Notes that the chore has not stored yet are stored with the end of the attempt.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from mainspring.store.codec import MAX_LOG_LINES


@dataclass(slots=True, eq=False)
class AttemptNotes:
    """The notes of one attempt."""

    log: list[str] = field(default_factory=list)
    """The last lines."""
    log_cut: int = 0
    """The number of earlier lines, which were dropped."""
    progress: dict[str, Any] | None = None
    _unstored: list[str] = field(default_factory=list)
    _stored_progress: dict[str, Any] | None = None
    _announced_progress: dict[str, Any] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add_line(self, line: str) -> None:
        with self._lock:
            self.log.append(line)
            self._unstored.append(line)
            if len(self.log) > MAX_LOG_LINES:
                del self.log[0]
                self.log_cut += 1
            if len(self._unstored) > MAX_LOG_LINES:
                del self._unstored[0]

    def set_progress(self, progress: dict[str, Any]) -> None:
        self.progress = progress

    @property
    def new_progress(self) -> dict[str, Any] | None:
        """The progress, if it is not known to be stored."""
        progress = self.progress
        return None if progress is self._stored_progress else progress

    @property
    def any_new(self) -> bool:
        return bool(self._unstored) or self.progress is not self._stored_progress

    def take_lines(self) -> list[str]:
        """Remove and return the lines that were not stored yet; the caller stores them."""
        with self._lock:
            lines, self._unstored = self._unstored, []
        return lines

    def progress_stored(self, progress: dict[str, Any] | None) -> None:
        """Note that this progress is stored. Until now it was new: a job that ends meanwhile stores it with its end."""
        if progress is not None:
            self._stored_progress = progress

    def first_told(self, progress: dict[str, Any] | None) -> bool:
        """Whether this progress has not been announced yet: the chore and the end of a quick job may both store it."""
        if progress is None or progress is self._announced_progress:
            return False
        self._announced_progress = progress
        return True
