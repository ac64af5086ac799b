"""Shows the events of a scheduler as they happen: one line per event, coloured on a terminal, plain when piped."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from mainspring.client.scheduler import Scheduler
from mainspring.clock import ServerClock
from mainspring.model.jobs.event_names import EventName
from mainspring.model.jobs.job import Job
from mainspring.model.printable import printable, shortened

# The name of each event on the screen, and its colour.
_WORDS: dict[EventName, tuple[str, str]] = {
    "job:created": ("created", "blue"),
    "job:start": ("started", "cyan"),
    "job:progress": ("progress", "cyan"),
    "job:success": ("completed", "green"),
    "job:retry": ("retrying", "yellow"),
    "job:snooze": ("snoozed", "yellow"),
    "job:rescue": ("rescued", "magenta"),
    "job:lost": ("lost", "magenta"),
    "job:cancel": ("cancelled", "magenta"),
    "job:expire": ("expired", "magenta"),
    "job:fail": ("failed", "bold red"),
}
_ENDED = ("job:success", "job:retry", "job:fail", "job:cancel")
_WENT_WRONG = ("job:retry", "job:fail", "job:rescue", "job:cancel")
_NAME_WIDTH, _QUEUE_WIDTH, _ERROR_WIDTH = 24, 12, 160
_WIDE_ENOUGH = 110
"""The width of a terminal for a line with the queue, milliseconds and longer names. A narrower line needs the room for
the job's id, which is whole everywhere, so that it can be copied."""
_SHORT_NAME_WIDTH = 16


class Live:
    """Shows the events of one scheduler on stdout. `on_deaf` is called when no program reads stdout."""

    def __init__(self, scheduler: Scheduler, on_deaf: Callable[[], None]) -> None:
        self._console = _Console(on_deaf)
        self._clock = ServerClock()
        self._seen: Counter[str] = Counter()
        self._muted = False
        for event in _WORDS:
            scheduler.on(event, self._teller(event))
        scheduler.on("scheduler:error", self._tell_error)

    @contextmanager
    def muted(self) -> Iterator[None]:
        """Show no events of jobs inside."""
        self._muted = True
        try:
            yield
        finally:
            self._muted = False

    def say(self, line: str = "", style: str = "") -> None:
        """Print a line of the command among the events."""
        self._console.print(Text(printable(line), style), soft_wrap=True)

    def summary(self) -> str:
        """The number of jobs by outcome."""
        parts = [
            f"{self._seen[event]} {_WORDS[event][0]}"
            for event in ("job:success", "job:fail", "job:cancel", "job:expire")
            if self._seen[event]
        ]
        return ", ".join(parts) or "no job ended"

    def _teller(self, event: EventName) -> Callable[[Job], None]:
        def tell(job: Job) -> None:
            if self._muted:
                return
            self._seen[event] += 1
            self._console.print(self._line(event, job), soft_wrap=True)

        return tell

    def _tell_error(self, error: Exception) -> None:
        line = self._begin("error", "bold red").append(shortened(printable(str(error)), _ERROR_WIDTH))
        self._console.print(line, soft_wrap=True)

    def _line(self, event: EventName, job: Job) -> Text:
        word, style = _WORDS[event]
        line = self._begin(word, style)
        width = _NAME_WIDTH if self._is_wide() else _SHORT_NAME_WIDTH
        line.append(f"{shortened(printable(job.name), width):{width}}  ", "bold")
        if self._is_wide():
            line.append(f"{shortened(printable(job.queue), _QUEUE_WIDTH):{_QUEUE_WIDTH}}  ")
        line.append(f"{printable(job.id):24}", "dim")
        for detail in _details(event, job):
            line.append(f"  {shortened(printable(detail), _ERROR_WIDTH)}", style if event in _WENT_WRONG else "")
        line.rstrip()
        return line

    def _begin(self, word: str, style: str) -> Text:
        now = self._clock.now().astimezone()
        part = f".{now.microsecond // 1000:03}" if self._is_wide() else ""
        return Text().append(f"{now:%H:%M:%S}{part} ", "dim").append(f"{word:10}", style)

    def _is_wide(self) -> bool:
        return not self._console.is_terminal or self._console.width >= _WIDE_ENOUGH


def _details(event: str, job: Job) -> list[str]:
    """The details of a job at an event: attempt, duration, progress, error, next run."""
    details = []
    if event != "job:created":
        details.append(f"attempt {job.tries}" if job.tries else "no attempt")
    if event in _ENDED and job.attempts and job.attempts[-1].duration is not None:
        details.append(f"{job.attempts[-1].duration.total_seconds():.2f} s")
    if event == "job:progress" and job.progress is not None:
        details.append(f"{job.progress.percent:g} % {job.progress.note or ''}".rstrip())
    if event in _WENT_WRONG and job.error is not None:
        details.append(str(job.error))
    if event in ("job:retry", "job:snooze") or (event == "job:created" and job.run_at > job.created_at):
        details.append(f"due at {job.run_at.astimezone():%H:%M:%S}")
    return details


class _Console(Console):
    """A console that outlives its reader (`mainspring up | head`)."""

    def __init__(self, on_deaf: Callable[[], None]) -> None:
        super().__init__(highlight=False)
        self._on_deaf = on_deaf

    def on_broken_pipe(self) -> None:
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)
        self._on_deaf()
