"""Carries redrives on: for a worker's chore, or for a caller that waits for a redrive while no worker carries it on."""

from __future__ import annotations

from functools import partial

from mainspring.engine.services.archive import Archive, remove_finished
from mainspring.store import Store
from mainspring.store.connection import Document


async def take_step(store: Store, archive: Archive, redrive: Document) -> Document:
    """Retry or discard one batch; return the redrive after it. Discarded jobs go through the archive hook."""
    return await store.redrives.step(redrive, partial(remove_finished, store, archive))
