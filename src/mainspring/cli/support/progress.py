"""The progress of long work on stderr: a line that is written over at a terminal, now and then a line in a pipe."""

from __future__ import annotations

import sys

from mainspring.clock import monotonic
from mainspring.durations import duration_words

_AT_TERMINAL, _IN_PIPE = 0.2, 10.0


class Progress:
    """The progress of one piece of work, with an estimate of the time that is left."""

    def __init__(self, what: str, *, quiet: bool = False) -> None:
        self._what = what
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._began = self._told_at = monotonic()
        self._first: int | None = None
        self._open = False

    def show(self, done: int, total: int | None) -> None:
        """Show how far the work is, unless that was shown a moment ago."""
        if self._first is None:
            self._first = done
        now = monotonic()
        if self._quiet or now - self._told_at < (_AT_TERMINAL if self._terminal else _IN_PIPE):
            return
        self._told_at = now
        text = (
            f"mainspring: {done:,}{'' if not total else f' of about {total:,}'} {self._what}{self._left(done, total)}"
        )
        sys.stderr.write(f"\r\x1b[K{text}" if self._terminal else f"{text}\n")
        sys.stderr.flush()
        self._open = self._terminal

    def end(self) -> None:
        """Leave the line, so that the output below begins on its own."""
        if self._open:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._open = False

    def _left(self, done: int, total: int | None) -> str:
        lately = done - (self._first or 0)
        if not total or lately <= 0 or done >= total:
            return ""
        seconds = (total - done) * (monotonic() - self._began) / lately
        return f", about {duration_words(max(1, round(seconds)) * 1000)} left"
