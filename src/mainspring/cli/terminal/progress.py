"""The progress of long work on stderr, with an estimate of the time that is left: a bar at a terminal, elsewhere a line
now and then."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from mainspring.cli.terminal.times import span
from mainspring.clock import monotonic

_LINE_EVERY = 5.0


class Shown:
    """The progress of one piece of work, in a context. A command that prints meanwhile calls `hide` before."""

    def __init__(self, what: str, total: int | None, *, quiet: bool = False) -> None:
        self._what, self._total = what, total
        self._quiet = quiet
        self._began = self._told_at = monotonic()
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and not self._quiet:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            # Rich would write the command's own output to the console of the bar, which is stderr.
            console = Console(stderr=True)
            self._bar = Progress(
                *columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._bar.start()
            self._task = self._bar.add_task(self._what, total=self._total)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hide()

    def hide(self) -> None:
        """Take the bar away, until the next update."""
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int, total: int | None = None) -> None:
        """Show how much is done."""
        self._total = total if total is not None else self._total
        if self._bar is not None:
            self._bar.start()
            self._bar.update(self._task, completed=done, total=self._total)
        elif not self._quiet and monotonic() - self._told_at >= _LINE_EVERY:
            self._told_at = monotonic()
            sys.stderr.write(f"{self._what}: {progress_text(done, self._total, self._told_at - self._began)}\n")


def progress_text(done: int, total: int | None, seconds: float) -> str:
    """How much is done, and the time that is left if it goes on so."""
    if not total:
        return f"{done:,} so far"
    left = span(1000 * seconds * (total - done) / done) if done else None
    return f"{done:,} of {total:,} ({100 * done // total} %)" + (f", about {left} left" if left else "")
