"""`scheduler.api_keys`: making, listing, rotating and revoking the keys of the HTTP service."""

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
    """An API key that was just made or rotated. `text` is shown this once, and is not stored."""

    text: str = field(repr=False)
    key: Key


FIRST_KEY = (
    "The first API key must have the role admin and reach everything: from then on every request needs a key, and "
    "without such a one no caller could make another over HTTP."
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
        """Make an API key for the HTTP service. Its role is viewer, operator or admin; without one, the first key is an
        admin's and every other an operator's. With `queues` or `prefixes`, it reaches only jobs of these queues, or
        whose names begin so. `key_id` is the id it is to have, 12 letters and digits: where a key has
        it already, nothing is made and InvalidKey is raised."""
        store = await self._core.store()
        scope = make_scope(queues, prefixes)
        usual = OPERATOR if role is not None or await store.api_keys.any_exists() else ADMIN
        text, key = await store.api_keys.create(
            name, role or usual, scope=scope, expires_at=expires_at, actor=check_actor(actor), identity=key_id
        )
        return NewKey(text, key)

    async def create_first(self, name: str, keep: Callable[[str], None], *, actor: str | None = None) -> NewKey | None:
        """Make the first API key, an admin's, where there is none; else None. Of several processes that do so at once,
        one makes it. `keep` is called with its text before it counts: store it there, or raise, and no key is made."""
        made = await (await self._core.store()).api_keys.create_first(name, actor=check_actor(actor), keep=keep)
        return None if made is None else NewKey(*made)

    async def all(self) -> Listed[Key]:
        """All API keys, the oldest first, revoked and expired ones as well. Documents that cannot be read, and open
        nothing, are named in `unreadable` of the list."""
        return await (await self._core.store()).api_keys.find()

    async def revoke(self, key: str) -> Key:
        """End an API key at once, by its id. Raises KeyNotFound."""
        return await (await self._core.store()).api_keys.revoke(key)

    async def made_with(self, key: str) -> list[Key]:
        """The API keys that were made with one, by its id, or with one of those; the oldest first."""
        keys = await self.all()
        made = made_with(keys, key)
        return [one for one in keys if one.id in made]

    async def revoke_made_with(self, key: str) -> list[Key]:
        """End the API keys that were made with one, by its id, or with one of those. Where that one is revoked before,
        none of them is left. Returns those that were in force."""
        revoked: list[Key] = []
        while live := [one for one in await self.made_with(key) if one.revoked_at is None]:
            revoked += [await self.revoke(one.id) for one in live]
        return revoked

    async def rotate(self, key: str, grace: Seconds = 0, *, request_id: str | None = None) -> NewKey:
        """Give an API key a new secret; the old one counts for the grace time. Raises KeyNotFound. Asked again with the
        same `request_id`, a text of your choice, nothing is done and InvalidKey is raised."""
        lasts = timedelta(seconds=seconds(grace, "grace"))
        request = None if request_id is None else check_name(request_id, "request_id")
        text, rotated = await (await self._core.store()).api_keys.rotate(key, lasts, request)
        return NewKey(text, rotated)

    async def get(self, key: str) -> Key | None:
        """An API key by its id."""
        return await (await self._core.store()).api_keys.get(key)
