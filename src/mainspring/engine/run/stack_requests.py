"""Answers requests for the stacks of running jobs: the heartbeat's thread reads them and stores the answers.

A stack is taken in a thread of its own, since a process that does not answer takes two seconds, and the heartbeat must
not wait for it. Stacks that are ready are stored by the next pass, under the fence of their jobs.
"""

from __future__ import annotations

import logging
import threading
from collections import deque

from mainspring.clock import monotonic
from mainspring.engine.run.claimed_jobs import ClaimedJob, ClaimedJobs
from mainspring.store.codec import DocumentId
from mainspring.store.jobs.leases import Renewals

logger = logging.getLogger("mainspring")

_LOOK_EVERY = 1.0
_READY_AT_MOST = 20


class StackRequests:
    """The requests to one worker."""

    def __init__(self, claimed_jobs: ClaimedJobs, worker: str) -> None:
        self._claimed_jobs = claimed_jobs
        self._worker = worker
        self._looked_at = float("-inf")
        self._ready: deque[tuple[ClaimedJob, str]] = deque(maxlen=_READY_AT_MOST)
        self._taking: threading.Thread | None = None
        self._loop_thread = threading.get_ident()  # the worker makes its parts on its event loop

    def run_once(self, renewals: Renewals) -> None:
        """Store the stacks that are ready, and look for requests once a second while there are jobs."""
        self._store(renewals)
        now = monotonic()
        busy = self._taking is not None and self._taking.is_alive()
        if busy or now - self._looked_at < _LOOK_EVERY or not len(self._claimed_jobs):
            return
        self._looked_at = now
        asked = [one for ask in renewals.asked_stacks(self._worker) if (one := self._find(*ask)) is not None]
        if asked:
            self._taking = threading.Thread(target=self._take, args=(asked,), name="mainspring-stack", daemon=True)
            self._taking.start()

    def _find(self, job_id: DocumentId, token: int) -> ClaimedJob | None:
        claimed = self._claimed_jobs.get(job_id)
        return claimed if claimed is not None and claimed.token == token else None

    def _take(self, asked: list[ClaimedJob]) -> None:
        for claimed in asked:
            try:
                text = claimed.stack(self._loop_thread)
            except Exception as error:
                logger.warning(
                    "The stack of job %s could not be taken: %r",
                    claimed.id,
                    error,
                    extra=claimed.job.log_fields(self._worker),
                )
                continue
            if text is not None:
                self._ready.append((claimed, text))

    def _store(self, renewals: Renewals) -> None:
        for _ in range(len(self._ready)):
            claimed, text = self._ready.popleft()
            if claimed.in_transaction:  # the transaction is about to write the document: a write now would conflict
                self._ready.append((claimed, text))
            else:
                renewals.store_stack(claimed.id, claimed.token, text)
