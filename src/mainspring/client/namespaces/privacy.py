"""`scheduler.privacy`: changing encryption keys while running, encrypting anew, and what may be shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from mainspring.client.core import Core
from mainspring.model.jobs.job import Job
from mainspring.model.schedules.schedule import ScheduleFacts
from mainspring.spelling import spelled_verbs
from mainspring.store.privacy.keyring import check_keys

T = TypeVar("T", bound=Job | ScheduleFacts)


@spelled_verbs
class PrivacyControls:
    """The verbs for encrypted and redacted data."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def shown(self, thing: T) -> T:
        """A job or a schedule as it may be shown to people: encrypted values are "[encrypted]", redacted ones
        "[redacted]", in its data, its result and its steps, and their texts in its errors, log lines and notes. Nothing
        is read for it."""
        return cast("T", self._core.privacy.announced(thing))

    def hidden_texts(self, name: str, data: Mapping[str, Any]) -> tuple[str, ...]:
        """The texts in the data of a job of this name that are not shown, for a handler that sends them elsewhere and
        has to find them in the answer."""
        return self._core.privacy.hidden_texts(name, data)

    def set_keys(self, keys: Mapping[str, bytes | str]) -> None:
        """Have these keys for encrypted data from now on, in place of all others; the first one seals."""
        self._core.privacy.cipher.ring.replace(check_keys(keys))

    async def keys_in_use(self) -> dict[str, int]:
        """The ids of the keys that stored jobs, schedules and secrets are encrypted with, and how many with each."""
        store = await self._core.store()
        used = Counter(await store.reencryption.in_use())
        used.update(await store.secrets.in_use())
        return dict(used)

    async def reencrypt(self) -> int:
        """Encrypt stored jobs, schedules and secrets anew with the key that seals now, where they are so with another.

        Returns how many it has changed. Running jobs are left alone, and so is what this process has no key for:
        `keys_in_use` tells what is left. It can be interrupted, and called again, at any time.
        """
        store = await self._core.store()
        done = await store.reencryption.reencrypt_jobs() + await store.reencryption.reencrypt_schedules()
        return done + await store.secrets.reencrypt()
