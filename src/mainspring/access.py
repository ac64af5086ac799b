"""The verbs for API keys and the audit log: what the service stands on, and what a program may use as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from mainspring.config import check_actor, check_name
from mainspring.errors import InvalidKey
from mainspring.model.access import OPERATOR, Key, key_id, make_scope, verify
from mainspring.model.audit import Entry, Link, Row, Verdict
from mainspring.model.retry import Seconds, seconds
from mainspring.verbs import Verbs


@dataclass(frozen=True, slots=True)
class NewKey:
    """An API key that was just made or rotated. `text` is shown this once; nobody can read it again."""

    text: str = field(repr=False)
    key: Key


class AccessVerbs(Verbs):
    """The part of the Scheduler that looks after API keys and the audit log."""

    async def create_api_key(
        self,
        name: str,
        role: str = OPERATOR,
        *,
        queues: Sequence[str] | None = None,
        prefixes: Sequence[str] | None = None,
        expires_at: datetime | None = None,
        actor: str | None = None,
        key_id: str | None = None,
    ) -> NewKey:
        """Make an API key for the HTTP service. Its role is viewer, operator or admin; with `queues` or `prefixes`, it
        reaches only jobs of these queues, or whose names begin so. `key_id` is the id it is to have, 12 letters and
        digits: where a key has it already, nothing is made and InvalidKey is raised."""
        store = await self._store()
        scope = make_scope(queues, prefixes)
        text, key = await store.access.create(
            name, role, scope=scope, expires_at=expires_at, actor=check_actor(actor), identity=key_id
        )
        return NewKey(text, key)

    async def api_keys(self) -> list[Key]:
        """All API keys, the oldest first, revoked and expired ones as well."""
        return await (await self._store()).access.find()

    async def any_api_key(self) -> bool:
        """Whether an API key was ever made: until then, the service lets in whoever is on the same machine."""
        return await (await self._store()).access.any_exists()

    async def revoke_api_key(self, key: str) -> Key:
        """End an API key at once, by its id. Raises KeyNotFound."""
        return await (await self._store()).access.revoke(key)

    async def rotate_api_key(self, key: str, grace: Seconds = 0, *, request_id: str | None = None) -> NewKey:
        """Give an API key a new secret; the old one counts for the grace time. Raises KeyNotFound. Asked again with the
        same `request_id`, a text of your choice, nothing is done and InvalidKey is raised."""
        lasts = timedelta(seconds=seconds(grace, "grace"))
        request = None if request_id is None else check_name(request_id, "request_id")
        text, rotated = await (await self._store()).access.rotate(key, lasts, request)
        return NewKey(text, rotated)

    async def check_api_key(self, text: str) -> Key | None:
        """The key that a text is, if it counts now; that it was used is noted."""
        store = await self._store()
        try:
            key = await store.access.get(key_id(text))
        except InvalidKey:
            return None
        if not verify(text, key, store.clock.now()) or key is None:
            return None
        await store.access.touch(key)
        return key

    async def get_api_key(self, key: str) -> Key | None:
        """An API key by its id."""
        return await (await self._store()).access.get(key)

    async def note_change(self, *entries: Entry) -> list[Row]:
        """Add to the audit log who changed what."""
        return await (await self._store()).audit.append(*entries)

    async def changes(
        self, *, before: int | None = None, limit: int = 50, actor: str | None = None, target: str | None = None
    ) -> list[Row]:
        """The audit log, newest first; `before` is the number of the last row of the page before."""
        return await (await self._store()).audit.find(before=before, limit=limit, actor=actor, target=target)

    async def verify_changes(self, *, first: int = 1, last: int | None = None, known: Link | None = None) -> Verdict:
        """Check that nobody has edited, removed or added a row of the audit log."""
        return await (await self._store()).audit.verify(first, last, known=known)
