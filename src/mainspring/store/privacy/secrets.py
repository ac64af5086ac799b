"""Storing secrets: one document each, under its name, with the value encrypted and bound to that name.

A reader of the database finds names and times, and where each may be used. A replaced value may stay valid for a while
beside the new one, so that receivers of signed requests can change over. Every write is a compare-and-set on `rev`. The
collection is `jobs.secrets`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from pymongo.errors import DuplicateKeyError

from mainspring.clock import EPOCH, truncate
from mainspring.errors import ConfigurationError, SecretNotFound
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.privacy.encrypted_values import EncryptedValue, opened
from mainspring.model.privacy.secrets import Lent, Secret, SecretUse
from mainspring.model.unreadable import Listed
from mainspring.store.compare_and_set import compare_and_set
from mainspring.store.connection import Connection, Document
from mainspring.store.fitting import fit, read, readable
from mainspring.store.privacy.cipher import Cipher, KeyMissing, Undecryptable
from mainspring.store.schema import BY_ID, LAYOUT
from mainspring.store.shapes import SECRET

_MOST = 10_000
_PLACE = ("secret",)


class Secrets:
    """The store's verbs for secrets."""

    def __init__(self, connection: Connection, cipher: Cipher) -> None:
        self._connection = connection
        self._secrets = connection.secrets
        self._cipher = cipher

    async def put(
        self,
        name: str,
        value: str,
        origins: tuple[str, ...],
        scope: Scope,
        keep_old: timedelta,
        actor: str | None,
    ) -> Secret:
        """Store a secret, or another value for it; the value before stays valid for `keep_old`."""
        fields: Document = {"value": self._seal(name, value)}  # first, since it raises where there is no key
        fields |= {"origins": list(origins), **scope.to_document()}

        async def attempt(_: int) -> Document | None:
            before = await self._find(name)
            after = self._changed(before, name, fields, keep_old, actor)
            return after if await self._replace(before, after) else None

        return _decode(await compare_and_set(attempt, f"secret {name!r}"))

    def _changed(
        self, before: Document | None, name: str, fields: Document, keep_old: timedelta, actor: str | None
    ) -> Document:
        now = self._now()
        known = fit(before or {}, SECRET)  # a malformed secret is replaced as a whole
        old: Document = {"rev": 0, "version": 0, "created_at": now} | known.document
        document: Document = {
            "_id": name,
            "v": LAYOUT,
            "rev": old["rev"] + 1,
            "version": old["version"] + 1,
            "created_at": old["created_at"],
            "updated_at": now,
            **fields,
        }
        if "value" in old and known.error is None and keep_old > timedelta(0):
            document |= {"old": old["value"], "old_until": now + keep_old}
        return document if actor is None else document | {"actor": actor}

    async def delete(self, name: str) -> Secret:
        """Delete a secret with all its values."""
        document = await self._secrets.find_one_and_delete({"_id": name})
        if document is None:
            raise SecretNotFound(name)
        found = readable([document], SECRET, _decode)
        return found[0] if found else Secret(name, "", 0, EPOCH, EPOCH)

    async def get(self, name: str) -> Secret:
        """A secret without its values."""
        return _read(await self._found(name))

    async def find(self) -> Listed[Secret]:
        """All secrets by their names, without values."""
        hidden = {"value.c": 0, "value.n": 0, "old": 0}
        return readable(
            await self._secrets.find_all({}, hidden, sort=[("_id", 1)], hint=BY_ID, limit=_MOST), SECRET, _decode
        )

    async def values(self, name: str) -> list[str]:
        """The value of a secret, and after it the one before, while that is valid."""
        return self._values(await self._found(name))

    async def lend(self, name: str, use: SecretUse) -> Lent:
        """The values of a secret for a job, if the secret is for it and for the origin. A secret for others counts as
        missing, and is not decrypted."""
        document = await self._find(name)
        secret = None if document is None else _read(document)
        use.check(name, secret)
        assert document is not None and secret is not None
        return Lent(tuple(self._values(document)), secret.origins)

    def _values(self, document: Document) -> list[str]:
        _read(document)
        current = [self._open(document, document["value"])]
        return [*current, self._open(document, document["old"])] if self._counts(document) else current

    # -- encrypting
    # -----------------------------------------------------------------------------------------------------

    async def in_use(self) -> dict[str, int]:
        """The number of secrets that are encrypted with each key."""
        found: dict[str, int] = {}
        for document in await self._all():
            for key_id in _key_ids(document):
                found[key_id] = found.get(key_id, 0) + 1
        return found

    async def reencrypt(self) -> int:
        """Re-encrypt secrets that are not encrypted with the current key, and drop old values that have run out.
        Secrets that this process has no key for are left alone."""
        current, _ = self._cipher.ring.current
        done = 0
        for document in await self._all():
            if _key_ids(document) != {current}:
                done += await self._reencrypt(document)
        return done

    async def _reencrypt(self, before: Document) -> bool:
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
        return self._cipher.encrypt(_bound(name), _PLACE, value).to_document()

    def _open(self, document: Document, sealed: Document) -> str:
        name: str = document["_id"]

        def opening(_: Any, one: EncryptedValue) -> Any:
            return self._cipher.decrypt(_bound(name), _PLACE, one)

        try:
            value = opened(sealed, opening)
        except KeyMissing as error:
            raise ConfigurationError(
                f"The secret {name!r} is encrypted with the key {error.key_id!r}, which this process does not have; "
                "add it to MAINSPRING_KEYS."
            ) from None
        except Undecryptable:
            value = None
        if not isinstance(value, str):
            raise ConfigurationError(f"The secret {name!r} cannot be decrypted; store it again.")
        return value

    # -- documents ---------------------------------------------------------------------------------------------------

    def _counts(self, document: Document) -> bool:
        """Whether the value before the current one is still valid."""
        until: datetime | None = document.get("old_until")
        return until is not None and until > self._connection.clock.now()

    async def _find(self, name: str) -> Document | None:
        return await self._secrets.find_one({"_id": name})

    async def _found(self, name: str) -> Document:
        document = await self._find(name)
        if document is None:
            raise SecretNotFound(name)
        return document

    async def _all(self) -> list[Document]:
        found = await self._secrets.find_all({}, hint=BY_ID)
        return [document for document in found if readable([document], SECRET, _decode)]

    async def _replace(self, before: Document | None, after: Document) -> bool:
        """Store a document if it is as it was read."""
        try:
            if before is None:
                await self._secrets.insert_one(dict(after))
                return True
        except DuplicateKeyError:
            return False
        unchanged = {"_id": before["_id"], "rev": {"$eq": before.get("rev")}}
        return (await self._secrets.replace_one(unchanged, after)).matched_count == 1

    def _now(self) -> datetime:
        return truncate(self._connection.clock.now())


def _bound(name: str) -> Document:
    """The document that a secret's value is bound to: no job has this name and a value at that place."""
    return {"_id": name, "name": "mainspring:secret"}


def _key_ids(document: Document) -> set[str]:
    return {document[part]["kid"] for part in ("value", "old") if part in document}


def _read(document: Document) -> Secret:
    """A secret without its values. Raises MalformedDocument."""
    return read(document, SECRET, _decode, "The secret")


def _decode(document: Document) -> Secret:
    origins, scope = _confinement(document)
    return Secret(
        document["_id"],
        document["value"]["kid"],
        int(document["version"]),
        document["created_at"],
        document["updated_at"],
        document.get("actor"),
        document.get("old_until"),
        origins,
        scope,
    )


def _confinement(document: Document) -> tuple[tuple[str, ...], Scope]:
    """The origins that a secret may be sent to, and the jobs that may use it. A malformed field allows no origin."""
    parts = [document.get(part) for part in ("origins", "queues", "prefixes") if part in document]
    if not all(isinstance(part, list) and part and all(isinstance(one, str) for one in part) for part in parts):
        return (), EVERYTHING
    return tuple(document.get("origins", ())), Scope.from_document(document)
