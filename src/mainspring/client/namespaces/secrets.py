"""`scheduler.secrets`: values that webhooks and handlers refer to by name, and that the HTTP API never shows.

They are stored encrypted with the keys of `Scheduler(keys=…)` or MAINSPRING_KEYS. A process without the key can
neither store nor read them. Each use is written to the audit log (`engine/secret_uses.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from mainspring.client.core import Core
from mainspring.config.settings import check_actor
from mainspring.model.access.api_keys import make_scope
from mainspring.model.jobs.retry import Seconds, seconds
from mainspring.model.privacy.origins import check_origins
from mainspring.model.privacy.secrets import Secret, check_secret_name, check_secret_value
from mainspring.model.unreadable import Listed
from mainspring.spelling import spelled_verbs


@spelled_verbs
class Secrets:
    """The verbs for secrets."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def put(
        self,
        name: str,
        value: str,
        *,
        origins: Sequence[str],
        queues: Sequence[str] | None = None,
        prefixes: Sequence[str] | None = None,
        keep_old: Seconds = 0,
        actor: str | None = None,
    ) -> Secret:
        """Store a secret, or a new value for it. Webhooks may send it to `origins`, such as
        `["https://api.example.com", "https://*.example.org"]`; `["*"]` allows every origin. With `queues` and
        `prefixes`, only jobs of these queues and names may use it. Without them, every job may use it, but API keys
        with a scope cannot create such jobs. For `keep_old` seconds, requests that are signed with the secret are also
        signed with its previous value."""
        checked, kept = check_secret_name(name), timedelta(seconds=seconds(keep_old, "keep_old"))
        where, scope = check_origins(origins), make_scope(queues, prefixes)
        store = await self._core.store()
        return await store.secrets.put(checked, check_secret_value(value), where, scope, kept, check_actor(actor))

    async def delete(self, name: str) -> Secret:
        """Delete a secret; webhooks and handlers that refer to it fail from then on. Raise SecretNotFound."""
        return await (await self._core.store()).secrets.delete(check_secret_name(name))

    async def get(self, name: str) -> Secret:
        """Return a secret without its value. Raise SecretNotFound."""
        return await (await self._core.store()).secrets.get(check_secret_name(name))

    async def all(self) -> Listed[Secret]:
        """List all secrets by name, without values. `unreadable` of the list names documents that cannot be read."""
        return await (await self._core.store()).secrets.find()

    async def value(self, name: str) -> str:
        """Return the value of a secret, for use in a handler of this process. Raise SecretNotFound, which is a
        LookupError."""
        return (await self.values(name))[0]

    async def values(self, name: str) -> list[str]:
        """Return the values to sign with: the current one and, during `keep_old`, the previous one."""
        store = await self._core.store()
        values = await store.secrets.values(check_secret_name(name))
        await self._core.secret_uses.note(store, name, None)
        return values
