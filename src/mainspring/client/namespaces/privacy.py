"""`scheduler.privacy`: changing encryption keys at run time, re-encryption, and redaction."""

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
        """Return a job or a schedule with its hidden values replaced: encrypted values become "[encrypted]", redacted
        ones "[redacted]", in its data, result and steps, and wherever their texts occur in errors, log lines and notes.
        Nothing is read from the database."""
        return cast("T", self._core.privacy.announced(thing))

    def hidden_texts(self, name: str, data: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the texts in a job's data that must not be shown. A handler that sends them to another system uses
        this to find them in the response."""
        return self._core.privacy.hidden_texts(name, data)

    def set_keys(self, keys: Mapping[str, bytes | str]) -> None:
        """Replace all encryption keys from now on. The first key encrypts."""
        self._core.privacy.cipher.ring.replace(check_keys(keys))

    async def keys_in_use(self) -> dict[str, int]:
        """Count the encrypted jobs, schedules and secrets, by the id of their key."""
        store = await self._core.store()
        used = Counter(await store.reencryption.in_use())
        used.update(await store.secrets.in_use())
        return dict(used)

    async def reencrypt(self) -> int:
        """Re-encrypt stored jobs, schedules and secrets that use another key than the current one.

        Return how many were changed. Running jobs are left alone, and so are values that this process has no key for;
        `keys_in_use` counts what remains. You can interrupt this call and repeat it at any time.
        """
        store = await self._core.store()
        done = await store.reencryption.reencrypt_jobs() + await store.reencryption.reencrypt_schedules()
        return done + await store.secrets.reencrypt()
