"""Counts the attempts of one worker for the statistics: those that begin, and those whose stored end is confirmed.

The worker counts each beginning and each end in memory; the chore `flush_statistics` stores the counts each second, and
the worker once more when it stops. Counts whose write failed are dropped, since they may have been stored: see
`store/views/statistics.py`.
"""

from __future__ import annotations

import logging
from collections import Counter
from datetime import datetime

from mainspring.clock import EPOCH
from mainspring.engine.run.claimed_jobs import ClaimedJob
from mainspring.model.jobs.job import FAILED
from mainspring.model.jobs.outcome import Continued, Failed, Lost, Outcome, Released, Suspended
from mainspring.model.views.statistics import Tally
from mainspring.model.views.windows import HOUR
from mainspring.store import Store
from mainspring.store.bounded_values import encode_error
from mainspring.store.codec import fingerprint_of
from mainspring.store.jobs.leases import Rescued

logger = logging.getLogger("mainspring")

_MOST_PRINTS = 200
_NO_END = (Lost, Released, Suspended, Continued)


class Counting:
    """The counts of one worker, or of another process that rescues jobs."""

    def __init__(self, store: Store, worker: str) -> None:
        self._store = store
        self._worker = worker
        self._tally = Tally()
        self._failures: Counter[tuple[datetime, str, str]] = Counter()

    def began(self, claimed: ClaimedJob) -> None:
        """Count an attempt whose handler is about to be called."""
        job, at = claimed.job, claimed.started_at
        if at is not None:
            self._tally.began(at, job.queue, job.name, at - job.run_at)

    def ended(self, claimed: ClaimedJob, ending: Outcome) -> None:
        """Count the stored end of an attempt, except a lost claim: the worker that rescues the job counts that."""
        if not isinstance(ending, _NO_END):
            now = self._store.clock.now()
            self._tally.ended(now, claimed.job.queue, claimed.job.name, ending.outcome, claimed.took)
        if isinstance(ending, Failed):
            self._failed(claimed.job.queue, fingerprint_of(claimed.job.name, encode_error(ending.error)))

    def rescued(self, rescued: Rescued) -> None:
        """Count the lost claim of a worker that is gone; a job that had not been started has used no attempt."""
        if rescued.used_attempt:
            self._tally.ended(self._store.clock.now(), rescued.queue, rescued.name, "lost")
        if rescued.state == FAILED and rescued.fingerprint is not None:
            self._failed(rescued.queue, rescued.fingerprint)

    def _failed(self, queue: str, fingerprint: str) -> None:
        """Count a new dead letter by its fingerprint and hour; those of too many kinds at once are left out."""
        now = self._store.clock.now()
        key = (now - (now - EPOCH) % HOUR, queue, fingerprint)
        if key in self._failures or len(self._failures) < _MOST_PRINTS:
            self._failures[key] += 1

    async def store(self) -> None:
        """Store the counts, once. Never raises."""
        if not self._tally and not self._failures:
            return
        failures, self._failures = self._failures, Counter()
        try:
            await self._store.statistics.add(self._worker, self._tally.take())
            await self._store.failure_counts.add(self._worker, failures)
        except Exception as error:
            logger.warning("Some counts of the statistics may be lost: %s", error)
