"""Counting what one worker does, for the statistics: attempts that begin, and those whose ends are known to be stored.

Who is told of a beginning or an end counts it in memory; the chore `store_counts` stores it each second, and the worker
once more when it stops. What cannot be stored is dropped, since nobody knows whether it was: see `store/statistics.py`.
"""

from __future__ import annotations

import logging
from typing import Any

from mainspring.engine.holdings import Holding
from mainspring.model.ending import Ending, Lost, Released
from mainspring.model.statistics import Tally
from mainspring.store import Store
from mainspring.store.leases import Rescued

logger = logging.getLogger("mainspring")


class Counting:
    """The counts of one worker, or of whoever does a worker's work."""

    def __init__(self, store: Store, worker: str) -> None:
        self._store = store
        self._worker = worker
        self._tally = Tally()

    def began(self, holding: Holding) -> None:
        """A handler is about to be called."""
        document, at = holding.document, holding.started_at
        if at is not None:
            self._tally.began(at, document["queue"], document["name"], at - document["run_at"])

    def ended(self, holding: Holding, ending: Ending) -> None:
        """The end of an attempt is stored. Of a claim that was lost, whoever took it away tells."""
        if not isinstance(ending, Lost | Released):
            document = holding.document
            now = self._store.clock.now()
            self._tally.ended(now, document["queue"], document["name"], ending.outcome, holding.took)

    def rescued(self, rescued: Rescued) -> None:
        """A job was taken from a worker that is gone; one that had not been started has used no attempt."""
        document = rescued.document
        last = (document.get("attempts") or [{}])[-1]
        if last.get("outcome") == "lost" and last.get("token") == document.get("token"):
            self._tally.ended(self._store.clock.now(), _text(document, "queue"), _text(document, "name"), "lost")

    async def store(self) -> None:
        """Store what was counted, once. Never raises."""
        if not self._tally:
            return
        try:
            await self._store.statistics.add(self._worker, self._tally.take())
        except Exception as error:
            logger.warning("Some counts of the statistics may be lost: %s", error)


def _text(document: dict[str, Any], field: str) -> str:
    """A field of a job that anybody may have stored."""
    value = document.get(field)
    return value if isinstance(value, str) else ""
