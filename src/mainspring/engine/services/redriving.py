"""Carrying redrives on: by a worker's chore, or by a caller that waits for one while no worker does it."""

from __future__ import annotations

from functools import partial

from mainspring.engine.services.archive import Archive, remove_finished
from mainspring.store import Store
from mainspring.store.connection import Document


async def take_step(store: Store, archive: Archive, redrive: Document) -> Document:
    """Deal with one batch; returns the redrive as it is then. What is discarded goes through the archive hook."""
    return await store.redrives.step(redrive, partial(remove_finished, store, archive))
