"""`scheduler.api_keys`: creating, listing, rotating and revoking the keys of the HTTP service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from mainspring.client.core import Core
from mainspring.config.settings import check_actor, check_name
from mainspring.model.access.api_keys import ADMIN, OPERATOR, Key, Role, made_with, make_scope
from mainspring.model.jobs.retry import Seconds, seconds
from mainspring.model.unreadable import Listed
from mainspring.spelling import spelled_verbs


@dataclass(frozen=True, slots=True)
class NewKey:
    """An API key that was just created or rotated. `text` is not stored and cannot be read again."""

    text: str = field(repr=False)
    key: Key


FIRST_KEY = (
    "The first API key must have the role admin and reach everything: from then on every request needs a key, and "
    "only such a key can create others over HTTP."
)


@spelled_verbs
class ApiKeys:
    """The verbs for API keys."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def create(
        self,
        name: str,
        role: Role | None = None,
        *,
        queues: Sequence[str] | None = None,
        prefixes: Sequence[str] | None = None,
        expires_at: datetime | None = None,
        actor: str | None = None,
        key_id: str | None = None,
    ) -> NewKey:
        """Create an API key for the HTTP service. Its role is viewer, operator or admin; by default, the first key is
        an admin and all others are operators. With `queues` or `prefixes`, the key reaches only jobs of these queues,
        and only names with these prefixes. `key_id` is the id of the key, 12 letters and digits. If a key has this id
        already, raise InvalidKey and create none."""
        store = await self._core.store()
        scope = make_scope(queues, prefixes)
        usual = OPERATOR if role is not None or await store.api_keys.any_exists() else ADMIN
        text, key = await store.api_keys.create(
            name, role or usual, scope=scope, expires_at=expires_at, actor=check_actor(actor), identity=key_id
        )
        return NewKey(text, key)

    async def create_first(self, name: str, keep: Callable[[str], None], *, actor: str | None = None) -> NewKey | None:
        """Create the first API key, an admin, or return None if there is a key already. If several processes call this
        at once, only one creates it. `keep` stores the key's text before the key is valid: if `keep` raises, no key is
        created."""
        made = await (await self._core.store()).api_keys.create_first(name, actor=check_actor(actor), keep=keep)
        return None if made is None else NewKey(*made)

    async def all(self) -> Listed[Key]:
        """List all API keys, the oldest first, including revoked and expired ones. `unreadable` of the list names
        documents that cannot be read; they are not valid keys."""
        return await (await self._core.store()).api_keys.find()

    async def revoke(self, key: str) -> Key:
        """Revoke an API key at once, by its id. Raise KeyNotFound."""
        return await (await self._core.store()).api_keys.revoke(key)

    async def made_with(self, key: str) -> list[Key]:
        """List the API keys that were created with this key, directly or through another of these keys, oldest
        first."""
        keys = await self.all()
        made = made_with(keys, key)
        return [one for one in keys if one.id in made]

    async def revoke_made_with(self, key: str) -> list[Key]:
        """Revoke the API keys that were created with this key, directly or through another of these keys. Return those
        that were not revoked before. Revoke the key itself first, so that it cannot create further keys meanwhile."""
        revoked: list[Key] = []
        while live := [one for one in await self.made_with(key) if one.revoked_at is None]:
            revoked += [await self.revoke(one.id) for one in live]
        return revoked

    async def rotate(self, key: str, grace: Seconds = 0, *, request_id: str | None = None) -> NewKey:
        """Give an API key a new secret. The old secret stays valid for `grace`. Raise KeyNotFound. A second call with
        the same `request_id`, a text of your choice, has no effect and raises InvalidKey."""
        lasts = timedelta(seconds=seconds(grace, "grace"))
        request = None if request_id is None else check_name(request_id, "request_id")
        text, rotated = await (await self._core.store()).api_keys.rotate(key, lasts, request)
        return NewKey(text, rotated)

    async def get(self, key: str) -> Key | None:
        """Return an API key by its id, or None."""
        return await (await self._core.store()).api_keys.get(key)
