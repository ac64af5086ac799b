"""The heartbeat: a thread of its own, on a client of its own, that keeps this worker's claims.

It renews every claim when a third of its lease has passed, all of them with one write; looks once a second for
cancellations; says that the worker lives; and fences: a handler whose claim could not be renewed in time is cancelled
before the lease ends on the server. A blocked event loop stops none of this but the cancelling of async handlers,
whose late results the fence refuses.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

from mainspring.clock import monotonic
from mainspring.config import Settings
from mainspring.engine.gatekeeper import Gatekeeper
from mainspring.engine.holdings import Holding, Holdings
from mainspring.store import Store
from mainspring.store.codec import DocumentId
from mainspring.store.connection import deadline
from mainspring.store.leases import Renewals
from mainspring.store.workers import BEAT_EVERY

logger = logging.getLogger("mainspring")

_CANCEL_EVERY = 1.0


class Heartbeat:
    """The thread. `start()` and `stop()` are called on the event loop."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        holdings: Holdings,
        gatekeeper: Gatekeeper,
        worker: str,
        facts: Callable[[], dict[str, Any]],
    ) -> None:
        self._store = store
        self._settings = settings
        self._holdings = holdings
        self._gatekeeper = gatekeeper
        self._worker = worker
        self._facts = facts
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._step = min(0.25, settings.lease / 12)
        self._beat_at = float("-inf")
        self._cancel_at = float("-inf")
        self._retry_at = float("-inf")
        self.failures = 0

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="mainspring-heartbeat", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        self._stop.set()
        thread = self._thread
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(None, thread.join, self._settings.renew_timeout + 1)

    def _run(self) -> None:
        renewals: Renewals | None = None
        while not self._stop.is_set():
            try:
                renewals = renewals or self._store.renewals()
                with deadline(self._patience()):
                    self.run_once(renewals)
                self.failures = 0
            except Exception as error:
                self.failures += 1
                self._retry_at = monotonic() + self._settings.lease / 12
                logger.warning("The heartbeat could not reach MongoDB (%s); it goes on trying", error)
            self._fence()
            self._stop.wait(self._step)

    def _patience(self) -> float:
        """Seconds for which this thread may wait for the database: until the next fence, which must not come late."""
        fences = (holding.valid_until for holding in self._holdings.all() if not holding.lost)
        left = min(fences, default=float("inf")) - monotonic()
        return max(self._step / 2, min(left, self._settings.lease))

    def run_once(self, renewals: Renewals) -> None:
        """Do what is due."""
        now = monotonic()
        if now < self._retry_at:
            return
        if now - self._beat_at >= self._beat_every():
            # Before any claim is renewed: no job outlives the slots of limits that this keeps.
            asked = monotonic()
            renewals.beat(self._worker, self._facts())
            self._beat_at = asked
            self._gatekeeper.extend(asked)
        self._renew(renewals, now)
        if now - self._cancel_at >= _CANCEL_EVERY and len(self._holdings):
            self._cancel_at = now
            self._notice_cancellations(renewals)

    def _beat_every(self) -> float:
        return BEAT_EVERY if self._gatekeeper.idle else min(BEAT_EVERY, self._settings.renew_every)

    def _renew(self, renewals: Renewals, now: float) -> None:
        due = [
            holding
            for holding in self._holdings.all()
            if now - holding.renewed_at >= self._settings.renew_every
            and not holding.frozen
            and now < holding.renew_until
            and not holding.lost
        ]
        if not due:
            return
        asked = monotonic()
        gone = renewals.renew(list({h.claim for h in due}), [h.id for h in due])
        for holding in due:
            holding.renewed_at = asked
            holding.valid_until = self._gatekeeper.valid_for(holding, asked)
        for holding in due:
            if holding.id in gone and self._holdings.get(holding.id) is holding:
                self._raise_flag(holding, "lost")

    def _notice_cancellations(self, renewals: Renewals) -> None:
        for job_id, (token, reason) in renewals.cancellations(self._worker).items():
            holding = self._holdings.get(job_id)
            if holding is not None and holding.token == token:
                holding.cancel_reason = reason
                self._raise_flag(holding, "cancelled")

    def _fence(self) -> None:
        """Cancel what could not be renewed, while the lease still holds on the server."""
        now = monotonic()
        for holding in self._holdings.all():
            if now >= holding.valid_until and not holding.lost:
                logger.error("The lease of job %s could not be renewed in time; its handler is cancelled", holding.id)
                self._raise_flag(holding, "lost")

    def _raise_flag(self, holding: Holding, flag: str) -> None:
        """Tell the handler to stop: its flag at once, the cancellation on the event loop, a process right here."""
        setattr(holding, flag, True)
        if holding.process is not None:
            holding.process.kill()
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._interrupt, holding.id, holding)
        except RuntimeError:
            pass  # the loop is closed

    def _interrupt(self, job_id: DocumentId, holding: Holding) -> None:
        if self._holdings.get(job_id) is holding:
            holding.interrupt()
