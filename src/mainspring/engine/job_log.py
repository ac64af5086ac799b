"""Log lines about jobs that did not go well: failed attempts, dead letters, lost claims, rescues.

A failed attempt is a WARNING of one line, a dead letter an ERROR with the traceback of its handler. Every line names
the job, its attempt and the worker, in words and as fields of the record (`extra`). Texts of jobs are escaped, and the
lines of a traceback are indented, so that no job can forge a line of another one. The errors were redacted before
(`engine/privacy.py`).

In a storm of failures, each kind of line is written at most `LINES` times in `WINDOW` seconds for each job name; one
line then says how many more there were.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any

from mainspring.engine.run.claimed_jobs import ClaimedJob
from mainspring.engine.run.judge import Policies
from mainspring.model.jobs.job import FAILED, Job, JobError
from mainspring.model.jobs.outcome import Failed, Lost, Outcome, Retried, Unstorable
from mainspring.model.printable import printable, shortened
from mainspring.store.jobs.leases import Rescued

LOGGER = "mainspring.jobs"
"""The logger of these lines: below that of all others, so that a program can treat them apart."""
logger = logging.getLogger(LOGGER)

LINES, WINDOW = 10, 10.0
_LONGEST = 500


@dataclass(slots=True)
class _Window:
    """The lines of one kind about one job name: how many were left out, and the last of these."""

    timer: asyncio.TimerHandle
    written: int = 0
    left_out: int = 0
    last: str = ""


class JobLog:
    """The log lines of one worker about its jobs."""

    def __init__(self, worker: str, policies: Policies) -> None:
        self._worker = worker
        self._policies = policies
        self._windows: dict[tuple[int, str], _Window] = {}

    def attempt_ended(self, claimed: ClaimedJob, ending: Outcome) -> None:
        """Log the stored outcome of an attempt that did not go well."""
        if isinstance(ending, Retried):
            told = f"failed: {_told(ending.error)}; the next one is due in {ending.delay:.3g} s"
            self._write(logging.WARNING, claimed, told, ending.error)
        elif isinstance(ending, Failed):
            told = f"failed for good: {_told(ending.error)}; the job is a dead letter now"
            self._write(logging.ERROR, claimed, told, ending.error, ending.error.stack)
        elif isinstance(ending, Unstorable):
            told = f"has ended, and that cannot be stored: {printable(ending.reason)}; the job's lease runs out"
            self._write(logging.ERROR, claimed, told, None)
        elif isinstance(ending, Lost):
            self._write(logging.WARNING, claimed, "has lost its claim; its result was not recorded", None)

    def close(self) -> None:
        """Log how many lines were left out, since the worker stops."""
        for kind in list(self._windows):
            self._windows[kind].timer.cancel()
            self._end(kind)

    def _write(
        self, level: int, claimed: ClaimedJob, told: str, error: JobError | None, stack: str | None = None
    ) -> None:
        job = claimed.job
        attempts = self._policies.attempts(job)
        which = f"Attempt {job.tries} of {attempts} of job {_named(str(job.id), job.name)}"
        line = f"{which} on worker {self._worker} {told}"
        if not self._may_write(level, job.name, line):
            return
        fields = {**job.log_fields(self._worker), "attempts": attempts}
        if error is not None:
            fields["error_type"] = printable(error.type)
        write(level, line, fields, stack)

    def _may_write(self, level: int, name: str, line: str) -> bool:
        kind = (level, name)
        window = self._windows.get(kind)
        if window is None:
            timer = asyncio.get_running_loop().call_later(WINDOW, self._end, kind)
            window = self._windows[kind] = _Window(timer)
        if window.written < LINES:
            window.written += 1
            return True
        window.left_out, window.last = window.left_out + 1, line
        return False

    def _end(self, kind: tuple[int, str]) -> None:
        window = self._windows.pop(kind)
        if window.left_out:
            level, name = kind
            more = f"{window.left_out:,} more such lines about jobs {printable(name)!r} were left out; the last one"
            write(level, f"{more}: {window.last}", {"job_name": name, "worker": self._worker})


def log_rescues(rescued: Sequence[Rescued], jobs: Sequence[Job]) -> None:
    """Log the jobs that were taken from workers that are gone; of many at once, the first ones and how many more."""
    for one, job in list(zip(rescued, jobs, strict=True))[:LINES]:
        attempts = one.max_attempts
        worker = job.attempts[-1].worker if job.attempts else None
        of = "" if attempts is None else f" of {attempts}"
        fields = {**one.job.log_fields(worker), "attempts": attempts}
        write(
            logging.ERROR if one.state == FAILED else logging.WARNING,
            f"Job {_named(job.id, job.name)} was taken from worker {printable(worker or 'unknown')}, which is gone, at "
            f"attempt {job.tries}{of}; it is {'a dead letter' if one.state == FAILED else one.state} now",
            fields,
        )
    if len(rescued) > LINES:
        logger.warning("%d more jobs were taken from workers that are gone", len(rescued) - LINES)


def write(level: int, line: str, fields: Mapping[str, Any], stack: str | None = None) -> None:
    """Write one record: a line, its fields, and below it the traceback, if there is one."""
    if not logger.isEnabledFor(level):
        return
    file, number, function, _ = logger.findCaller(stacklevel=2)
    record = logger.makeRecord(logger.name, level, file, number, "%s", (line,), None, function, fields)
    if stack:
        record.exc_text = indent(printable(stack.rstrip(), keep="\n\t"), "    ")
    logger.handle(record)


def _told(error: JobError) -> str:
    """The error in one line, which goes on: a message that is a sentence has no full stop here."""
    return shortened(printable(f"{error.type}: {error.message}"), _LONGEST).removesuffix(".")


def _named(job_id: str, name: str) -> str:
    return f"{printable(job_id)} ({printable(name)})"
