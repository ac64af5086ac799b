"""Batches uses of secrets for the audit log: they are written about once a second and when the process stops.

A webhook does not wait for its row: a thousand of them a second would each wait for the chain of the log. Uses of the
same secret in the same second, for the same origin and queue, share rows, each with the ids of the jobs. The first use
of a process waits for its row, which proves that the process can write the log; so do the uses of a process without a
worker, which may end at any moment. While MongoDB is away, uses are kept, up to `MOST_KEPT`; beyond that, a use waits
for the log and fails with it. So only a worker that is killed within that second uses a secret without a trace.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress

from mainspring.errors import ConfigurationError
from mainspring.model.access.audit import Entry
from mainspring.model.fields import Fields
from mainspring.model.privacy.origins import plain_origin
from mainspring.model.privacy.secrets import SecretUse
from mainspring.store.access.audit import Audit

logger = logging.getLogger("mainspring")

ACTION = "secret.use"
MOST_KEPT = 10_000
_EVERY = 1.0
# The most ids of jobs in a row, and their letters in all, so that the row is not cut.
_JOBS, _LETTERS = 100, 8_000
_AT_ONCE = 500

_Place = tuple[str, str, str | None, str | None]
"""A use of a secret: its actor, origin and queue; the last two are None for code of the process itself."""


class SecretUses:
    """The uses of one process that are not in the audit log yet."""

    def __init__(self, audit: Audit, before: SecretUses | None = None) -> None:
        self.audit = audit
        self._uses: dict[_Place, list[str]] = defaultdict(list)
        self._entries: list[Entry] = [] if before is None else before._taken()
        self._count: int = 0 if before is None else before._count
        self._proved = False
        """Whether this process's last write to the log succeeded."""
        self._writing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def note(self, actor: str, name: str, use: SecretUse | None, *, at_once: bool = False) -> None:
        """Record a use: soon, or before this returns. Without `use`, it is a use by the code of this process. If this
        raises, the caller must not use the secret."""
        if self._count >= MOST_KEPT:
            await self.flush()
        origin, queue = (None, None) if use is None else (plain_origin(use.origin), use.queue)
        place, job = (actor, name, origin, queue), "" if use is None else use.job_id
        if at_once or not self._proved:
            await self.audit.append(*_entries({place: [job]}))
            self._proved = True
            return
        self._uses[place].append(job)
        self._count += 1
        if self._task is None:
            self._task = asyncio.create_task(self._write())

    async def flush(self) -> None:
        """Write all uses. Those that could not be written are kept for the next time."""
        async with self._writing:
            self._entries = self._taken()
            while self._entries:
                try:
                    await self.audit.append(*self._entries[:_AT_ONCE])
                except ConfigurationError:
                    self._proved = False  # this error is permanent: the next use writes its own row and raises
                    raise
                del self._entries[:_AT_ONCE]
            self._count = sum(map(len, self._uses.values()))

    async def close(self, seconds: float) -> None:
        """Write all uses, if that takes no longer than `seconds`; log the number of lost ones."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        try:
            async with asyncio.timeout(seconds):
                await self.flush()
        except Exception as error:
            logger.error("%d uses of secrets are missing in the audit log: %r", self._count, error)

    async def _write(self) -> None:
        told = False
        try:
            while self._count:
                await asyncio.sleep(_EVERY)
                try:
                    await self.flush()
                except Exception as error:
                    if not told:
                        logger.warning("Uses of secrets wait to be written to the audit log: %s", error)
                    told = True
        finally:
            if self._task is asyncio.current_task():
                self._task = None

    def _taken(self) -> list[Entry]:
        """All unwritten uses, as rows that keep their ids when they are tried again."""
        uses, self._uses = self._uses, defaultdict(list)
        return self._entries + _entries(uses)


def _entries(uses: Mapping[_Place, list[str]]) -> list[Entry]:
    return [
        Entry(actor, ACTION, name, after=after, id=secrets.token_hex(12))
        for (actor, name, origin, queue), jobs in uses.items()
        for after in _told(origin, queue, jobs)
    ]


def _told(origin: str | None, queue: str | None, jobs: list[str]) -> list[Fields]:
    """The contents of the rows about the uses of a secret at one place: as many rows as it takes to name all jobs."""
    if origin is None:
        return [{"by": "code", "times": len(jobs)}]
    rows: list[list[str]] = [[]]
    for job in jobs:
        if len(rows[-1]) == _JOBS or (rows[-1] and sum(map(len, rows[-1])) + len(job) > _LETTERS):
            rows.append([])
        rows[-1].append(job)
    return [{"origin": origin, "queue": queue, "jobs": row} for row in rows]
