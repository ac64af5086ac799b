"""The archive hook: a function of the user's that receives finished jobs before they are deleted.

Except for deletions by hand, finished jobs reach the hook first and are deleted then (`remove_finished`, `Pruner`).
Invariants: jobs that the hook has refused stay, and a process without the hook deletes nothing while other processes
have one. The hook may see a job again, after a crash between the two; it never misses one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from mainspring.engine.run.threads import Threads
from mainspring.errors import ArchiveError, ConfigurationError
from mainspring.model.jobs.job import Job
from mainspring.store import Store
from mainspring.store.connection import Document

Hook = Callable[[list[Job]], Any]

_MARK = "archive"
# Long enough for a deploy, a weekend or a repair: until then, no process without the hook deletes finished jobs.
_MARK_KEPT = 7 * 86400.0


class Archive:
    """The hook of one Scheduler, if it has one."""

    def __init__(self) -> None:
        self._hook: Hook | None = None
        self._threads = Threads("mainspring-archive")

    def __bool__(self) -> bool:
        return self._hook is not None

    def register(self, hook: Hook) -> None:
        if not callable(hook):
            raise ConfigurationError(f"The archive must be a function of a list of jobs, not {hook!r}.")
        if self._hook is not None and self._hook is not hook:
            raise ConfigurationError("There is an archive already; let one function do both.")
        self._hook = hook

    async def announce(self, store: Store) -> None:
        """Store a mark for all processes that finished jobs are archived before they are deleted."""
        if self._hook is not None:
            await store.workers.lock(_MARK, _MARK, _MARK_KEPT)

    async def is_elsewhere(self, store: Store) -> bool:
        """Whether this process must not delete finished jobs, since only other processes have the hook."""
        return self._hook is None and await store.workers.locked(_MARK)

    async def give(self, jobs: list[Job]) -> None:
        """Hand jobs to the hook, if there is one. Raises ArchiveError if the hook raises."""
        if self._hook is None or not jobs:
            return
        try:
            await self._call(self._hook, jobs)
        except Exception as error:
            raise ArchiveError(f"The archive hook raised {error!r}; nothing of this batch was deleted.") from error

    async def _call(self, hook: Hook, jobs: list[Job]) -> None:
        if inspect.iscoroutinefunction(hook):
            await hook(jobs)
            return
        outcome = await self._threads.run(lambda: hook(jobs))
        if inspect.isawaitable(outcome):
            await outcome


async def remove_finished(store: Store, archive: Archive, documents: Sequence[Document]) -> int:
    """Archive and delete these finished jobs, each only if it is as it was read (whole). Returns how many are gone."""
    if await archive.is_elsewhere(store):
        raise ArchiveError(
            "Finished jobs are archived before they are deleted, and this process has no archive hook: register it "
            "here too (@scheduler.archive), or do this where it is."
        )
    await archive.give([store.cipher.decode(document) for document in documents])
    return await store.removal.remove(documents)
