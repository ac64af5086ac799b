"""The verbs for secrets: values that webhooks and handlers refer to by name, and that nobody can read back by the API.

They are stored encrypted with the keys of `Scheduler(keys=…)` or MAINSPRING_KEYS. A process without the key can
neither store nor read them.
"""

from __future__ import annotations

from datetime import timedelta

from mainspring.config import check_actor
from mainspring.model.retry import Seconds, seconds
from mainspring.model.secrets import Secret, check_secret_name, check_secret_value
from mainspring.verbs import Verbs


class SecretVerbs(Verbs):
    """The part of the Scheduler that looks after secrets."""

    async def put_secret(self, name: str, value: str, *, keep_old: Seconds = 0, actor: str | None = None) -> Secret:
        """Store a secret, or another value for it. For `keep_old` seconds more, requests that are signed with it are
        signed with the value before, too."""
        checked, kept = check_secret_name(name), timedelta(seconds=seconds(keep_old, "keep_old"))
        store = await self._store()
        return await store.secrets.put(checked, check_secret_value(value), kept, check_actor(actor))

    async def delete_secret(self, name: str) -> Secret:
        """Delete a secret; what refers to it fails from then on. Raises SecretNotFound."""
        return await (await self._store()).secrets.delete(check_secret_name(name))

    async def get_secret(self, name: str) -> Secret:
        """What is known of a secret without its value. Raises SecretNotFound."""
        return await (await self._store()).secrets.get(check_secret_name(name))

    async def secrets(self) -> list[Secret]:
        """All secrets by their names, without values."""
        return await (await self._store()).secrets.find()

    async def secret_value(self, name: str) -> str:
        """The value of a secret, for a handler of this process. Raises SecretNotFound, which is a LookupError."""
        return (await self.signing_values(name))[0]

    async def signing_values(self, name: str) -> list[str]:
        """The values to sign with: the current one, and the one before as long as that counts, too."""
        return await (await self._store()).secrets.values(check_secret_name(name))
