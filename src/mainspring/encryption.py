"""The verbs around encrypted and redacted data: changing keys while running, sealing anew, and what may be shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, TypeVar

from mainspring.errors import ConfigurationError, InvalidJob
from mainspring.keyring import check_keys
from mainspring.model.draft import Draft
from mainspring.model.job import Job
from mainspring.model.schedule import ScheduleFacts
from mainspring.model.sealing import Encrypt, refuse_keys
from mainspring.verbs import Verbs

S = TypeVar("S", bound=ScheduleFacts)


class EncryptionVerbs(Verbs):
    """The part of the Scheduler that deals with what must not be seen."""

    def shown(self, job: Job) -> Job:
        """A job as it may be shown to people: encrypted values are "[encrypted]", redacted ones "[redacted]", in its
        data, its result and its steps, and their texts in its errors, log lines and notes. Nothing is read for it."""
        return self._secrecy.shown(job)

    def shown_schedule(self, schedule: S) -> S:
        """The same for a schedule: its data as it may be shown."""
        return self._secrecy.shown_schedule(schedule)

    def hidden_texts(self, name: str, data: Mapping[str, Any]) -> tuple[str, ...]:
        """The texts in the data of a job of this name that are not shown, for a handler that hands them to others and
        has to find them in what it is answered."""
        return self._secrecy.hidden_texts(name, data)

    def set_keys(self, keys: Mapping[str, bytes | str]) -> None:
        """Have these keys for encrypted data from now on, in place of all others; the first one seals."""
        self._secrecy.sealer.ring.replace(check_keys(keys))

    async def keys_in_use(self) -> dict[str, int]:
        """The ids of the keys that stored jobs, schedules and secrets are encrypted with, and how many with each."""
        store = await self._store()
        used = Counter(await store.resealing.in_use())
        used.update(await store.secrets.in_use())
        return dict(used)

    async def reseal(self) -> int:
        """Encrypt stored jobs, schedules and secrets anew with the key that seals now, where they are so with another.

        Returns how many it has changed. Running jobs are left alone, and so is what this process has no key for:
        `keys_in_use` tells what is left. It can be interrupted, and called again, at any time.
        """
        store = await self._store()
        done = await store.resealing.reseal_jobs() + await store.resealing.reseal_schedules()
        return done + await store.secrets.reseal()

    # -- what is encrypted of a job ----------------------------------------------------------------------------------

    def _encrypted(self, draft: Draft) -> Draft:
        """The draft with what is to be encrypted of it."""
        own = draft.encrypt if isinstance(draft.encrypt, Encrypt) else None
        draft.encrypt = encrypt = self._secrecy.encrypt(draft.name, own)
        if encrypt is not None:
            try:
                refuse_keys(encrypt, self._compared(draft.name, draft.queue), f"A limit of {draft.name!r} or its queue")
            except ConfigurationError as error:
                raise InvalidJob(str(error)) from None
        return draft

    def _compared(self, name: str, queue: str) -> list[str]:
        """The places in the data by which jobs of a name in a queue are told apart."""
        handler, limited = self._handlers.own(name), self._queue_limits.get(queue)
        return [*(handler.allowance.paths if handler else ()), *(limited.paths if limited else ())]

    def _check_encrypted(self) -> None:
        everything = self._secrecy.encrypt("")
        for name, allowance in self._handlers.allowances.items():
            refuse_keys(everything, allowance.paths, f"A limit, a sequence or the fairness of {name!r}")
        for queue, allowance in self._queue_limits.items():
            refuse_keys(everything, allowance.paths, f"A limit of the queue {queue!r}")
