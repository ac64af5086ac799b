"""Storing secrets: one document each, under its name, with the value sealed and bound to that name.

Whoever can read the database finds names and times. A value that is replaced may count for a while beside the new one,
so that receivers of signed requests can change over. Every write compares `rev`. The collection is `jobs.secrets`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from mainspring.clock import truncate
from mainspring.errors import ConfigurationError, SecretNotFound, Unavailable
from mainspring.model.sealing import Sealed, opened
from mainspring.model.secrets import Secret
from mainspring.store.collections import BY_ID, LAYOUT
from mainspring.store.connection import Connection, Document
from mainspring.store.sealing import KeyMissing, Sealer, Unopenable

_ROUNDS = 20
_MOST = 10_000
_PLACE = ("secret",)


class Secrets:
    """The store's verbs for secrets."""

    def __init__(self, connection: Connection, sealer: Sealer) -> None:
        self._connection = connection
        self._secrets = connection.db[f"{connection.jobs.name}.secrets"]
        self._sealer = sealer

    async def put(self, name: str, value: str, keep_old: timedelta, actor: str | None) -> Secret:
        """Store a secret, or another value for it; the value before counts for `keep_old` more."""
        sealed = self._seal(name, value)  # where there is no key, nothing is asked of the database
        for _ in range(_ROUNDS):
            before = await self._find(name)
            after = self._changed(before, name, sealed, keep_old, actor)
            if await self._replace(before, after):
                return _decode(after)
        raise Unavailable(f"The secret {name!r} was changed by others all the time; try once more.")

    def _changed(
        self, before: Document | None, name: str, sealed: Document, keep_old: timedelta, actor: str | None
    ) -> Document:
        now = self._now()
        old: Document = {"_id": name, "rev": 0, "version": 0, "created_at": now} if before is None else before
        document: Document = {
            "_id": name,
            "v": LAYOUT,
            "rev": old["rev"] + 1,
            "version": old["version"] + 1,
            "value": sealed,
            "created_at": old["created_at"],
            "updated_at": now,
        }
        if before is not None and keep_old > timedelta(0):
            document |= {"old": before["value"], "old_until": now + keep_old}
        return document if actor is None else document | {"actor": actor}

    async def delete(self, name: str) -> Secret:
        """Delete a secret with all its values."""
        with self._connection.deadline():
            document = await self._secrets.find_one_and_delete({"_id": name})
        if document is None:
            raise SecretNotFound(name)
        return _decode(document)

    async def get(self, name: str) -> Secret:
        """What is known of a secret."""
        return _decode(await self._found(name))

    async def find(self) -> list[Secret]:
        """All secrets by their names, without values."""
        hidden = {"value.c": 0, "value.n": 0, "old": 0}
        with self._connection.deadline():
            cursor = self._secrets.find({}, hidden, sort=[("_id", 1)], hint=BY_ID, limit=_MOST)
            return [_decode(document) for document in await cursor.to_list(_MOST)]

    async def values(self, name: str) -> list[str]:
        """The value of a secret, and after it the one before, while that counts."""
        document = await self._found(name)
        current = [self._open(document, document["value"])]
        return [*current, self._open(document, document["old"])] if self._counts(document) else current

    # -- sealing -----------------------------------------------------------------------------------------------------

    async def in_use(self) -> dict[str, int]:
        """How many secrets are sealed with each key."""
        found: dict[str, int] = {}
        for document in await self._all():
            for kid in _kids(document):
                found[kid] = found.get(kid, 0) + 1
        return found

    async def reseal(self) -> int:
        """Seal secrets anew that are sealed with another key than the one that seals now; what does not count any more
        is dropped. What this process has no key for is left alone."""
        current, _ = self._sealer.ring.current
        done = 0
        for document in await self._all():
            if _kids(document) != {current}:
                done += await self._reseal(document)
        return done

    async def _reseal(self, before: Document) -> bool:
        after = {**before, "rev": before["rev"] + 1}
        if "old" in before and not self._counts(before):
            del after["old"], after["old_until"]
        try:
            for part in after.keys() & {"value", "old"}:
                after[part] = self._seal(before["_id"], self._open(before, before[part]))
        except ConfigurationError:
            return False
        return await self._replace(before, after)

    def _seal(self, name: str, value: str) -> Document:
        return self._sealer.seal(_bound(name), _PLACE, value).to_document()

    def _open(self, document: Document, sealed: Document) -> str:
        name: str = document["_id"]

        def opening(_: Any, one: Sealed) -> Any:
            return self._sealer.open(_bound(name), _PLACE, one)

        try:
            value = opened(sealed, opening)
        except KeyMissing as error:
            raise ConfigurationError(
                f"The secret {name!r} is encrypted with the key {error.kid!r}, which this process does not have; "
                "add it to MAINSPRING_KEYS."
            ) from None
        except Unopenable:
            value = None
        if not isinstance(value, str):
            raise ConfigurationError(f"The secret {name!r} cannot be opened; store it anew.")
        return value

    # -- documents ---------------------------------------------------------------------------------------------------

    def _counts(self, document: Document) -> bool:
        """Whether the value before the current one still counts."""
        until: datetime | None = document.get("old_until")
        return until is not None and until > self._connection.clock.now()

    async def _find(self, name: str) -> Document | None:
        with self._connection.deadline():
            return await self._secrets.find_one({"_id": name})

    async def _found(self, name: str) -> Document:
        document = await self._find(name)
        if document is None:
            raise SecretNotFound(name)
        return document

    async def _all(self) -> list[Document]:
        with self._connection.deadline():
            return await self._secrets.find({}, hint=BY_ID, limit=_MOST).to_list(_MOST)

    async def _replace(self, before: Document | None, after: Document) -> bool:
        """Store a document if it still is as it was read."""
        with self._connection.deadline():
            try:
                if before is None:
                    await self._secrets.insert_one(dict(after))
                    return True
            except DuplicateKeyError:
                return False
            found = await self._secrets.find_one_and_replace(
                {"_id": before["_id"], "rev": before["rev"]}, after, {"_id": 1}, return_document=ReturnDocument.AFTER
            )
            return found is not None

    def _now(self) -> datetime:
        return truncate(self._connection.clock.now())


def _bound(name: str) -> Document:
    """What a secret's value is bound to: no job has this name and a value at that place."""
    return {"_id": name, "name": "mainspring:secret"}


def _kids(document: Document) -> set[str]:
    return {document[part]["kid"] for part in ("value", "old") if part in document}


def _decode(document: Document) -> Secret:
    return Secret(
        document["_id"],
        document["value"]["kid"],
        int(document["version"]),
        document["created_at"],
        document["updated_at"],
        document.get("actor"),
        document.get("old_until"),
    )
