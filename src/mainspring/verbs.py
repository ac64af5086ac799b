"""What the parts of the Scheduler have in common: each is a class of verbs, and all of them need the store."""

from __future__ import annotations

from abc import abstractmethod

from mainspring.registration import Registration
from mainspring.store import Store


class Verbs(Registration):
    """A part of the Scheduler."""

    @abstractmethod
    async def _store(self) -> Store:
        """The store, connected."""
