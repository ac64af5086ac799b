"""The heartbeat: a thread of its own, on a client of its own, that keeps this worker's claims.

It renews every claim when a third of its lease has passed, all of them with one write, before it does anything else;
then it updates the worker in the registry, notes which jobs have been started, and reads cancellations once a second
and a request to drain every few seconds.
An error of one part keeps no other part from being tried.

A second thread, which never waits for the database, fences: a handler whose claim could not be renewed in time is
cancelled before the lease ends on the server. A blocked event loop stops none of this but the cancelling of async
handlers, whose late results the fence refuses.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from mainspring.clock import monotonic
from mainspring.config.settings import Settings
from mainspring.engine.limits.limiter import Limiter
from mainspring.engine.repeating import Repeating
from mainspring.engine.run.claimed_jobs import ClaimedJob, ClaimedJobs, StopReason
from mainspring.engine.run.stack_requests import StackRequests
from mainspring.errors import Unavailable
from mainspring.model.fields import Fields
from mainspring.store import Store
from mainspring.store.codec import DocumentId
from mainspring.store.collection import deadline
from mainspring.store.jobs.leases import Renewals
from mainspring.store.workers import BEAT_EVERY

logger = logging.getLogger("mainspring")

_CANCEL_EVERY = 1.0
_DRAIN_EVERY = 2.0
# An idle worker costs the database as little as possible.
_IDLE_DRAIN_EVERY = 5.0
# The registry has what the slots run no longer ago than this, if that has changed.
_REPORT_EVERY = 2.0
_NOTED_AFTER = 0.25


class Heartbeat:
    """The threads. `start()` and `stop()` are called on the event loop, which replaces dead threads in between."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        claimed_jobs: ClaimedJobs,
        limiter: Limiter,
        worker: str,
        facts: Callable[[], Fields],
        drain: Callable[[bool], None],
    ) -> None:
        self._store = store
        self._settings = settings
        self._claimed_jobs = claimed_jobs
        self._limiter = limiter
        self._worker = worker
        self._facts = facts
        self._drain = drain
        self._renewals: Renewals | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._step = min(0.25, settings.lease / 12)
        self._loop_watch = LoopWatch(self._step)
        self._threads = (
            Repeating("mainspring-heartbeat", self._step, self.run_once),
            Repeating("mainspring-fence", self._step, self._fence),
        )
        self._stacks = StackRequests(claimed_jobs, worker)
        self._beat_at = float("-inf")
        self._moved_at = float("-inf")
        """When the manual clock was last moved (monotonic): a request from before it has gone by the earlier time."""
        self._confirmed_at = monotonic()
        self._cancel_at = float("-inf")
        self._drain_at = monotonic()
        self._reported: frozenset[DocumentId] = frozenset()
        self._retry_at: dict[str, float] = {}

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        for thread in self._threads:
            thread.start()
        self._look_after_threads()

    def _look_after_threads(self) -> None:
        """Replace a thread that has died: without it no claim would be renewed, or fenced."""
        assert self._loop is not None
        self._timer = self._loop.call_later(self._step, self._look_after_threads)
        for thread in self._threads:
            thread.ensure()

    def clock_moved(self) -> None:
        """Beat and renew at once by the new time, since the manual clock was moved."""
        self._moved_at = monotonic()

    @property
    def beat_age(self) -> float:
        """The seconds since the request of the last heartbeat that the database has confirmed."""
        return monotonic() - self._confirmed_at

    @property
    def loop_held(self) -> float:
        """For how many seconds the event loop has not run a callback that waits for it."""
        return self._loop_watch.held_for()

    async def catch_up(self) -> None:
        """Return when the claims that the manual clock has made old are renewed."""
        until = monotonic() + self._settings.operation_timeout
        self.clock_moved()
        while monotonic() < until and any(  # noqa: ASYNC110 - the thread that renews has no event loop
            claimed.renewed_at < self._moved_at and not claimed.frozen for claimed in self._claimed_jobs.all()
        ):
            await asyncio.sleep(self._step / 10)

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for thread in self._threads:
            thread.tell_to_stop()
        for thread in self._threads:
            await asyncio.get_running_loop().run_in_executor(None, thread.join, self._settings.renew_timeout + 1)

    # -- renewing ----------------------------------------------------------------------------------------------------

    def run_once(self) -> None:
        """Do the parts that are due, the most urgent first."""
        self._try("renew claims", self._renew)
        self._try("renew claims of jobs in transactions", self._renew_frozen)
        # While claims cannot be renewed, the other parts get little time, so that the thread soon tries again.
        patience = self._settings.lease / 24 if "renew claims" in self._retry_at else self._settings.renew_timeout
        self._try("say that this worker lives", self._beat, patience)
        self._try("note which jobs were started", self._note_started, patience)
        self._try("look for cancellations", self._notice_cancellations, patience)
        self._try("look for a request to drain", self._notice_drain, patience)
        self._try("look for requests of stacks", self._stacks.run_once, patience)

    def _try(self, what: str, part: Callable[[Renewals], None], patience: float | None = None) -> None:
        """Do one part of the heartbeat; after an error it is tried again a twelfth of a lease later."""
        if monotonic() < self._retry_at.get(what, float("-inf")):
            return
        try:
            self._renewals = self._renewals or self._store.renewals()
            with deadline(patience or self._settings.renew_timeout):
                part(self._renewals)
            self._retry_at.pop(what, None)
        except Exception as error:
            self._retry_at[what] = monotonic() + self._settings.lease / 12
            logger.warning("The heartbeat could not %s (%s); it goes on trying", what, error)

    def _renew(self, renewals: Renewals) -> None:
        now = monotonic()
        old = max(now - self._settings.renew_every, self._moved_at)
        due = [
            claimed
            for claimed in self._claimed_jobs.all()
            if claimed.renewed_at <= old and not claimed.frozen and now < claimed.renew_until and not claimed.lost
        ]
        if due:
            self._renew_all(renewals, due)

    def _renew_all(self, renewals: Renewals, due: list[ClaimedJob]) -> None:
        asked = monotonic()
        gone = renewals.renew(list({one.claim for one in due}), [one.id for one in due])
        for claimed in due:
            if claimed.id not in gone:
                claimed.renewed(asked, self._limiter.claim_end(asked))
            elif self._claimed_jobs.get(claimed.id) is claimed and not self._ends_itself(renewals, claimed):
                self._stop(claimed, StopReason.LOST)

    @staticmethod
    def _ends_itself(renewals: Renewals, claimed: ClaimedJob) -> bool:
        """Whether a job is gone because its own transaction has ended it, and not because the claim is lost."""
        if not claimed.ends_itself and claimed.in_transaction and renewals.completed(claimed.id, claimed.token):
            claimed.commit()  # the handler's process has committed, and its message has not arrived yet
        return claimed.ends_itself

    def _renew_frozen(self, renewals: Renewals) -> None:
        """Renew the claims of jobs in transactions at the last moment, if the event loop was blocked meanwhile.

        The transaction conflicts with the renewal and is run again, at no cost. The claim of a transaction that takes
        too long by itself is not renewed: the transaction would be run again and again.
        """
        now = monotonic()
        for claimed in self._claimed_jobs.all():
            frozen_at = claimed.frozen_at
            if frozen_at is None or claimed.lost or now >= claimed.renew_until:
                continue
            late = now >= claimed.valid_until - self._settings.lease / 6
            if late and self._loop_watch.held_since(max(frozen_at, now - self._settings.lease)):
                # The write times out if the transaction has written the document: no other worker can take the job.
                with suppress(Unavailable), deadline(self._settings.lease / 24):
                    self._renew_all(renewals, [claimed])

    def _beat(self, renewals: Renewals) -> None:
        now = monotonic()
        claimed_now = frozenset(claimed.id for claimed in self._claimed_jobs.all())
        changed = claimed_now != self._reported and now - self._beat_at >= _REPORT_EVERY
        if now - self._beat_at < self._beat_every() and self._beat_at > self._moved_at and not changed:
            return
        lag = {"lag_ms": round(self._loop_watch.take_lag() * 1000)}
        renewals.beat(self._worker, self._facts() | lag)
        self._beat_at, self._reported, self._confirmed_at = now, claimed_now, now
        self._limiter.extend(now)
        for claimed in self._claimed_jobs.all():  # a claim with slots of limits holds no longer than the slots do
            claimed.slots_renewed(self._limiter.claim_end)

    def _beat_every(self) -> float:
        return BEAT_EVERY if self._limiter.idle else min(BEAT_EVERY, self._settings.renew_every)

    def _note_started(self, renewals: Renewals) -> None:
        """Note in the database which jobs that were claimed ahead have been started: if the worker dies, such a job may
        have killed it."""
        since = monotonic() - _NOTED_AFTER
        running = [
            claimed
            for claimed in self._claimed_jobs.all()
            if claimed.ahead and claimed.started is not None and claimed.started < since and not claimed.frozen
        ]
        if running:
            renewals.started([one.id for one in running], list({one.claim for one in running}))
            for claimed in running:
                claimed.start_noted()

    def _notice_cancellations(self, renewals: Renewals) -> None:
        now = monotonic()
        if now - self._cancel_at < _CANCEL_EVERY or not len(self._claimed_jobs):
            return
        self._cancel_at = now
        for job_id, (token, reason) in renewals.cancellations(self._worker).items():
            claimed = self._claimed_jobs.get(job_id)
            # Only once: a handler that is cancelled again could not finish what it does in `finally`.
            if claimed is not None and claimed.token == token and not claimed.cancelled:
                self._stop(claimed, StopReason.CANCELLED, reason)

    def _notice_drain(self, renewals: Renewals) -> None:
        """Read whether this worker is to drain, and tell the event loop: a drain can be cancelled, too."""
        now = monotonic()
        every = _DRAIN_EVERY if len(self._claimed_jobs) else _IDLE_DRAIN_EVERY
        if now - self._drain_at < every or self._loop is None:
            return
        asked = renewals.drain_asked(self._worker)
        self._drain_at = now
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._drain, asked)

    # -- fencing -----------------------------------------------------------------------------------------------------

    def _fence(self) -> None:
        """Cancel the handlers of claims that could not be renewed, while the lease still holds on the server."""
        assert self._loop is not None
        self._loop_watch.look(self._loop)
        for claimed in self._claimed_jobs.all():
            if monotonic() >= claimed.valid_until and not claimed.lost and not claimed.committing:
                logger.error(
                    "The lease of job %s could not be renewed in time; its handler is cancelled",
                    claimed.id,
                    extra=claimed.job.log_fields(self._worker),
                )
                self._stop(claimed, StopReason.LOST)

    def _stop(self, claimed: ClaimedJob, reason: StopReason, note: str = "") -> None:
        """Stop a handler: set the reason and kill its process at once, and cancel its task on the event loop."""
        claimed.ask_to_stop(reason, note)
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._interrupt, claimed.id, claimed)
        except RuntimeError:
            pass  # the loop is closed

    def _interrupt(self, job_id: DocumentId, claimed: ClaimedJob) -> None:
        if self._claimed_jobs.get(job_id) is claimed:
            claimed.interrupt()


class LoopWatch:
    """Detects, from a thread, that the event loop is blocked: a loop that is not runs a posted callback at once."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._asked_at: float | None = None
        self._held_at = float("-inf")
        self._lag = 0.0

    def look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Post a callback to the loop, and note when one is overdue."""
        now = monotonic()
        if self._asked_at is None:
            self._asked_at = now
            try:
                loop.call_soon_threadsafe(self._answer)
            except RuntimeError:
                pass  # the loop is closed
        elif now - self._asked_at > self._patience:
            self._held_at = now

    def held_for(self) -> float:
        """For how many seconds a posted callback has waited for the loop; 0 if none waits."""
        asked = self._asked_at
        return 0.0 if asked is None else monotonic() - asked

    def held_since(self, instant: float) -> bool:
        """Whether the loop was seen blocked at that instant or later."""
        return self._held_at >= instant

    def take_lag(self) -> float:
        """The longest time that a callback had to wait for the loop since the last call, in seconds."""
        asked, longest = self._asked_at, self._lag
        self._lag = 0.0
        return longest if asked is None else max(longest, monotonic() - asked)

    def _answer(self) -> None:
        asked, self._asked_at = self._asked_at, None
        if asked is not None:
            self._lag = max(self._lag, monotonic() - asked)
