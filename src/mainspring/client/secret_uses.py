"""The uses of secrets by this process, on their way to the audit log."""

from __future__ import annotations

import os
import socket

from mainspring.client.local_worker import LocalWorker
from mainspring.client.per_store import PerStore
from mainspring.engine.secret_uses import SecretUses
from mainspring.model.privacy.secrets import SecretUse
from mainspring.store import Store

_LAST_USES = 5.0
"""Seconds that the last uses may take to be written when the Scheduler stops."""


class NotedUses:
    """Notes which secrets this process uses, and for which jobs."""

    def __init__(self, worker: LocalWorker) -> None:
        self._worker = worker
        self._uses = PerStore[SecretUses](lambda store, before: SecretUses(store.audit, before))

    async def note(self, store: Store, name: str, use: SecretUse | None) -> None:
        """Note that this process uses a secret: its own code, or the job that `use` names."""
        worker = self._worker.id
        actor = f"process:{socket.gethostname()}:{os.getpid()}" if worker is None else f"worker:{worker}"
        await self._uses.of(store).note(actor, name, use, at_once=worker is None)

    async def flush(self) -> None:
        """Write the noted uses to the audit log now."""
        if (uses := self._uses.current) is not None:
            await uses.flush()

    async def close(self) -> None:
        """Write the noted uses, for a few seconds at most."""
        if (uses := self._uses.take()) is not None:
            await uses.close(_LAST_USES)
