"""Stores the ends of attempts by group commit.

Attempts that end while a write is in flight go out together in the next one. A worker that runs thousands of short jobs
writes their ends by the hundred, and one that runs a few long ones adds no delay. Until its end is known to be stored,
a job stays among the claimed jobs and its lease is renewed; the events are announced after that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol

from mainspring.clock import EPOCH, monotonic
from mainspring.engine.callbacks import Callbacks, announce_progress
from mainspring.engine.run.claimed_jobs import ClaimedJob, ClaimedJobs
from mainspring.errors import Unavailable
from mainspring.model.flows.waits import Waits
from mainspring.model.jobs.guarantee import AT_MOST_ONCE, may_have_run
from mainspring.model.jobs.outcome import (
    Abandoned,
    Cancelled,
    Committed,
    Completed,
    Continued,
    Lost,
    Outcome,
    Released,
    Retried,
    Snoozed,
    Suspended,
    Unstorable,
)
from mainspring.model.limits.limits import Gate
from mainspring.store import Store
from mainspring.store.codec import decode_job
from mainspring.store.jobs.end_fields import Finish, as_finished
from mainspring.store.refusals import brief

logger = logging.getLogger("mainspring")

_LARGEST = 1000
_WRITERS = 2
# Most errors are transient; an end with a permanent one must not delay the others for ever.
_TRIES = 6
# From this many ends in one write on, their times are rounded to a common grid, so that jobs that ended alike at
# about the same time end in one statement (one statement per job halves the rate).
_CROWD = 24
_GRID = timedelta(milliseconds=50)
_GATHER, _GATHER_STEP, _ENOUGH = 0.025, 0.004, 400
# The longest wait, instead of _GATHER, if many workers contend.
_PATIENCE = 0.1


# Kinds of ends. Each is asked for at the end of every job: a union of types would be made anew each time.
_STORED = (Lost, Committed)
"""Nothing is left to be written."""
_DUE_AGAIN = (Retried, Snoozed)
_NOT_RUN = (Lost, Released)
_SILENT = (Lost, Snoozed, Released)
"""No progress is announced."""
_GOES_ON = (Lost, Released, Retried, Snoozed, Suspended, Continued)
"""The job is not over."""


class EndListener(Protocol):
    """The methods of a worker that are called when attempts end."""

    def slots_freed(self, gates: list[Gate], took: float | None) -> None:
        """Free the slots of limits of a job that has ended, after `took` seconds."""

    def attempt_ended(self, claimed: ClaimedJob, ending: Outcome) -> None:
        """Called when the end of an attempt is stored."""

    def run_ended(self, schedule_id: str) -> None:
        """Called when the end of a run is stored and its schedule waits for that."""

    def predecessor_ended(self, waits: Sequence[str], *, well: bool) -> None:
        """Called when the end of a job is stored that held back these waits; `well`: it has completed."""

    def predecessor_left(self, waits: Sequence[str]) -> None:
        """Called when this worker has no claim any more on a job that still holds back these waits."""

    def suspended(self, claimed: ClaimedJob, waits: Waits) -> None:
        """Called when it is stored that a handler waits."""

    def parent_cancelled(self, claimed: ClaimedJob) -> None:
        """Called when the cancellation of a job is stored whose handler may have made children."""

    def due_again(self, delay: float) -> None:
        """Called when a job of this worker is due again after so many seconds."""

    @property
    def contended(self) -> bool:
        """Whether many workers contend: fewer and larger writes serve all of them best."""


class Completer:
    """Takes outcomes from the executor and stores them, each exactly once."""

    def __init__(
        self,
        store: Store,
        claimed_jobs: ClaimedJobs,
        events: Callbacks,
        worker: str,
        failed: Callable[[Exception], None],
        listener: EndListener,
    ) -> None:
        self._store = store
        self._claimed_jobs = claimed_jobs
        self._events = events
        self._worker = worker
        self._failed = failed
        self._listener = listener
        self._waiting: list[tuple[ClaimedJob, Outcome, datetime]] = []
        self._writers: set[asyncio.Task[None]] = set()
        self._loops = 0
        self._last = 0
        self._in_flight = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, claimed: ClaimedJob, ending: Outcome) -> None:
        """Store this outcome as soon as possible."""
        if isinstance(ending, Released) and ending.started and claimed.guarantee == AT_MOST_ONCE:
            stopped = "Its worker was stopped, or lost its claim, before the handler had finished."
            ending = Abandoned(may_have_run(stopped, claimed.id))
        claimed.end()
        slots = claimed.give_up_slots()
        if slots:
            self._listener.slots_freed(slots, claimed.took)
        if isinstance(ending, _STORED):
            self._done(claimed, ending, self._finish(claimed, ending, self._store.clock.now(), crowd=False))
            return
        self._waiting.append((claimed, ending, self._store.clock.now()))
        if self._loops == 0 or (self._loops < _WRITERS and len(self._waiting) >= _CROWD):
            self._loops += 1
            writer = asyncio.create_task(self._write_loop())
            self._writers.add(writer)
            writer.add_done_callback(self._writers.discard)

    @property
    def idle(self) -> bool:
        """Whether all ends are stored."""
        return not self._waiting and not self._writers

    async def drain(self) -> None:
        """Wait until all ends are stored."""
        while self._writers:
            await asyncio.wait(list(self._writers))

    async def _write_loop(self) -> None:
        try:
            while self._waiting:
                if self._last >= _CROWD:
                    await self._gather()
                taken, self._waiting = self._waiting[:_LARGEST], self._waiting[_LARGEST:]
                self._last = len(taken)
                if taken:
                    await self._write(taken)
        finally:
            # In the same step of the event loop in which no end was waiting: a later end starts a new write loop.
            self._loops -= 1

    async def _write(self, taken: list[tuple[ClaimedJob, Outcome, datetime]]) -> None:
        self._in_flight += len(taken)
        try:
            await self._store_all(taken)
        finally:
            self._in_flight -= len(taken)

    async def _gather(self) -> None:
        """Wait a moment for more attempts to end, since many do, unless all claimed jobs have ended."""
        patience, enough = (_PATIENCE, _LARGEST) if self._listener.contended else (_GATHER, _ENOUGH)
        until = monotonic() + patience
        while len(self._waiting) < enough and len(self._waiting) + self._in_flight < len(self._claimed_jobs):
            if monotonic() >= until:
                return
            await asyncio.sleep(_GATHER_STEP)

    async def _store_all(self, taken: list[tuple[ClaimedJob, Outcome, datetime]], tries: int = _TRIES) -> None:
        crowd = len(taken) >= _CROWD
        finishes = [self._finish(claimed, ending, ended, crowd) for claimed, ending, ended in taken]
        pause = 0.05
        while True:
            try:
                endings = await self._store.finishing.finish(finishes, final=tries <= 1)
                break
            except Unavailable as error:
                self._failed(error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, 2.0)
            except Exception as error:
                self._failed(error)
                tries -= 1
                if tries > 0:
                    await asyncio.sleep(pause)
                    pause *= 2
                    continue
                if len(taken) == 1:
                    endings = [Unstorable(brief(error))]
                    break
                for one in taken:
                    await self._store_all([one], tries=1)
                return
        for (claimed, _, _), finish, ending in zip(taken, finishes, endings, strict=True):
            try:
                self._done(claimed, ending, finish)
            except Exception:  # the ends of the other jobs are stored too, and have to be announced
                logger.exception(
                    "The end of job %s is stored, but a part of the worker failed on it",
                    claimed.id,
                    extra=claimed.job.log_fields(self._worker),
                )

    def _finish(self, claimed: ClaimedJob, ending: Outcome, ended: datetime, crowd: bool) -> Finish:
        started = claimed.started_at or ended
        if crowd:
            started, ended = _on_grid(started), _on_grid(ended)
        return claimed.finish(self._worker, started, ended, ending)

    def _done(self, claimed: ClaimedJob, ending: Outcome, finish: Finish) -> None:
        claimed.ended()
        self._claimed_jobs.remove(claimed)
        self._listener.attempt_ended(claimed, ending)
        if claimed.gates:
            self._listener.slots_freed(claimed.give_up_gates(), None)
        if isinstance(ending, _DUE_AGAIN):
            self._listener.due_again(ending.delay)
        elif isinstance(ending, Continued):
            self._listener.due_again(0.0)
        elif isinstance(ending, Suspended):
            self._listener.suspended(claimed, ending.waits)
        elif (schedule := claimed.job.tracked_by) is not None and not isinstance(ending, _NOT_RUN):
            self._listener.run_ended(schedule)
        if waits := claimed.job.before:
            if isinstance(ending, _GOES_ON):
                self._listener.predecessor_left(waits)
            else:
                self._listener.predecessor_ended(waits, well=isinstance(ending, Completed | Committed))
        if isinstance(ending, Cancelled):
            self._listener.parent_cancelled(claimed)
        if not isinstance(ending, _SILENT):
            announce_progress(self._events, claimed, finish.progress)
        if ending.event is None or not self._events.wanted(ending.event):
            return
        document = claimed.job.document
        if not isinstance(ending, Lost):
            document = as_finished(document, replace(finish, ending=ending))
        self._events.emit(ending.event, decode_job(document))


def _on_grid(instant: datetime) -> datetime:
    return instant - (instant - EPOCH) % _GRID
