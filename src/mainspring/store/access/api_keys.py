"""Storing API keys: one document each, under the key's id, with the hash of its secret and never the secret.

A revoked key stays, marked, so that the audit log can name whose it was. The collection is `jobs.access`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

from pymongo.errors import DuplicateKeyError

from mainspring.clock import EPOCH, truncate
from mainspring.errors import InvalidKey, KeyNotFound
from mainspring.model.access.api_keys import ADMIN, EVERYTHING, Key, Scope, new_key, new_key_id, rotated_key
from mainspring.model.unreadable import Listed
from mainspring.store.compare_and_set import compare_and_set
from mainspring.store.connection import Connection, Document
from mainspring.store.fitting import read, readable
from mainspring.store.group_commit import GroupCommit
from mainspring.store.schema import BY_ID, LAYOUT
from mainspring.store.shapes import API_KEY

_MOST_KEYS = 10_000
_CHUNK = 1000
# The last use of a key is stored this often at most.
_TOUCH_EVERY = timedelta(minutes=1)
_FIRST = "first-key"
"""The lock by which processes agree on the id of the first key."""
_TIMES = ("expires_at", "last_used_at", "revoked_at", "rotated_at", "old_until")


class ApiKeys:
    """The store's verbs for API keys."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._keys = connection.access
        self._touched: dict[str, datetime] = {}
        # Every request looks its key up; one read answers all requests that arrived before it began.
        self._reading = GroupCommit(self._read, _CHUNK)
        self._counting = GroupCommit(self._count, _CHUNK)

    async def create(
        self,
        name: str,
        role: str,
        *,
        scope: Scope = EVERYTHING,
        expires_at: datetime | None = None,
        actor: str | None = None,
        identity: str | None = None,
    ) -> tuple[str, Key]:
        """Make a key; returns the text to show, this once, and the stored key. An id that is taken is refused."""
        end = None if expires_at is None else truncate(expires_at)

        async def attempt(_: int) -> tuple[str, Key] | None:
            text, key = new_key(name, role, self._now(), scope=scope, expires_at=end, actor=actor, identity=identity)
            try:
                await self._keys.insert_one(_encode(key))
            except DuplicateKeyError:
                if identity is not None:
                    raise InvalidKey("There is an API key with this id already; its text was shown once.") from None
                return None
            return text, key

        return await compare_and_set(attempt, "the ids of API keys")

    async def create_first(
        self, name: str, *, actor: str | None, keep: Callable[[str], None]
    ) -> tuple[str, Key] | None:
        """Make the first key of all, an admin's; None where there is a key. Of several processes that do so at once,
        one makes it: they agree on its id first. `keep` receives the text before the key is stored, and may refuse."""
        if await self.any_exists():
            return None
        text, key = new_key(name, ADMIN, self._now(), actor=actor, identity=await self._agreed_id())
        made: tuple[str, Key] | None = None
        # Another process may have made its key and deleted the lock, so that this id is a new one: then a key exists.
        if not await self.any_exists():
            keep(text)
            with suppress(DuplicateKeyError):
                await self._keys.insert_one(_encode(key))
                made = text, key
        await self._connection.locks.delete_one({"_id": _FIRST})
        return made

    async def _agreed_id(self) -> str:
        """The id of the first key, which the process that was first to ask has chosen."""
        with suppress(DuplicateKeyError):
            await self._connection.locks.insert_one({"_id": _FIRST, "owner": new_key_id(), "until": EPOCH})
        found = await self._connection.locks.find_one({"_id": _FIRST}, {"owner": 1})
        return new_key_id() if found is None else str(found["owner"])

    async def get(self, key_id: str) -> Key | None:
        """A key by its id, even if it is revoked or expired."""
        return await self._reading.submit(key_id)

    async def _read(self, ids: list[str]) -> list[Key | None]:
        found = await self._keys.find_all({"_id": {"$in": list(set(ids))}}, hint=BY_ID)
        # A malformed key grants nothing, and does not fail the other requests of the same read.
        keys = {key.id: key for key in readable(found, API_KEY, _decode)}
        return [keys.get(key_id) for key_id in ids]

    async def find(self) -> Listed[Key]:
        """All keys, the oldest first."""
        documents = await self._keys.find_all({}, hint=BY_ID, limit=_MOST_KEYS)
        found = readable(documents, API_KEY, _decode)
        return Listed(sorted(found, key=lambda key: (key.created_at, key.id)), found.unreadable)

    async def any_exists(self) -> bool:
        """Whether a key was ever made. A revoked key counts: revoking the last one must not open the service."""
        return await self._counting.submit(None)

    async def _count(self, askers: list[None]) -> list[bool]:
        exists = await self._keys.find_one({}, {"_id": 1}, hint=BY_ID) is not None
        return [exists] * len(askers)

    async def revoke(self, key_id: str) -> Key:
        """Revoke a key at once. A revoked key stays as it is."""
        document = await self._keys.find_one_and_update(
            {"_id": key_id},
            [{"$set": {"revoked_at": {"$ifNull": ["$revoked_at", self._connection.clock.expression()]}}}],
            after=True,
        )
        if document is None:
            raise KeyNotFound(key_id)
        return read(document, API_KEY, _decode, "The key")

    async def rotate(self, key_id: str, grace: timedelta = timedelta(0), request: str | None = None) -> tuple[str, Key]:
        """Give a key a new secret; the old one is valid for the grace time. Returns the text to show, and the key. A
        request that was carried out before is refused."""

        async def attempt(_: int) -> tuple[str, Key] | None:
            before = await self.get(key_id)
            now = self._now()
            if before is None or not before.is_live(now):
                raise KeyNotFound(key_id)
            if request in before.requests:
                raise InvalidKey("This rotation was done already; the new text was shown once. Rotate the key again.")
            text, after = rotated_key(before, now, grace, request)
            return (text, after) if await self._replace_secret(before, after) else None

        return await compare_and_set(attempt, f"API key {key_id!r}")

    async def touch(self, key: Key) -> None:
        """Note that a key was just used, at most once a minute."""
        now = self._now()
        last = max(filter(None, (key.last_used_at, self._touched.get(key.id))), default=None)
        if last is not None and now - last < _TOUCH_EVERY:
            return
        self._touched = {one: at for one, at in self._touched.items() if now - at < _TOUCH_EVERY} | {key.id: now}
        await self._keys.update_one({"_id": key.id}, {"$max": {"last_used_at": now}})

    async def _replace_secret(self, before: Key, after: Key) -> bool:
        """Replace the secret by compare-and-set on the hash that was read: of two rotations at once one is repeated."""
        fields = _encode(after)
        change: Document = {"$set": {name: fields[name] for name in ("hash", "rotated_at")}}
        old = {name: fields[name] for name in ("old_hash", "old_until") if name in fields}
        change |= {"$unset": {"old_hash": "", "old_until": ""}} if not old else {}
        change["$set"] |= old | ({"requests": fields["requests"]} if after.requests else {})
        outcome = await self._keys.update_one({"_id": before.id, "hash": before.hash, "revoked_at": None}, change)
        return outcome.matched_count == 1

    def _now(self) -> datetime:
        return truncate(self._connection.clock.now())


def _encode(key: Key) -> Document:
    document: Document = {
        "_id": key.id,
        "v": LAYOUT,
        "name": key.name,
        "role": key.role,
        "hash": key.hash,
        "created_at": key.created_at,
        **key.scope.to_document(),
        "actor": key.actor,
        "old_hash": key.old_hash,
        **{name: getattr(key, name) for name in _TIMES},
        "requests": list(key.requests) or None,
    }
    return {name: value for name, value in document.items() if value is not None}


def _decode(document: Document) -> Key:
    key = Key(document["_id"], document["name"], document["role"], document["hash"], document["created_at"])
    found = {name: document.get(name) for name in ("actor", "old_hash", *_TIMES)}
    requests = tuple(document.get("requests", ()))
    return replace(key, scope=Scope.from_document(document), requests=requests, **found)  # type: ignore[arg-type]
