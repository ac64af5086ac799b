"""Sealing values and opening them again: AES-256-GCM, with the keys of a `Keyring`.

Each value is sealed with a key of its own, derived from the ring's key and twelve random bytes, and with a random nonce
of twelve more: so many values can be sealed with one key that nobody has to count them. What is authenticated beside
the value is where it belongs: its job, or its schedule, the job's name and the place in its document. A sealed value
that is copied to another job, another field or another handler's job does not open there.

Keeps true: a document that is to be sealed has an `Encrypt` in its field `sealed` until `sealed()` has been applied,
which MongoDB's driver cannot encode. A way to the database that forgets to seal fails; it does not store plain data.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import bson
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument

from mainspring.errors import ConfigurationError, InvalidJob
from mainspring.keyring import Keyring
from mainspring.model.job import Job
from mainspring.model.sealing import (
    SCHEDULE,
    AsStored,
    Encrypt,
    Place,
    Sealed,
    kids_in,
    opened,
    parsed_data,
    places_to_seal,
    sealed_at,
    sealed_places,
)
from mainspring.store.codec import decode_job
from mainspring.store.connection import CODEC, Document

DATA, RESULT, STEPS = "data", "result", "steps"
_PURPOSE = b"mainspring sealed value 1"
_PRINT = b"mainspring print of data 1"
_HALF = 12


class KeyMissing(Exception):
    """A value is sealed with a key that is not here."""

    def __init__(self, kid: str) -> None:
        super().__init__(f"It is encrypted with the key {kid!r}, which this process does not have.")
        self.kid = kid


class Unopenable(Exception):
    """A value does not open although there is a key of that id: the key is another one, or the value was changed."""


class Sealer:
    """Seals and opens what belongs to jobs and schedules."""

    def __init__(self, ring: Keyring) -> None:
        self.ring = ring

    def check(self, document: Document) -> None:
        """Refuse a document that cannot be sealed, before others go the same way with it. Raises InvalidJob."""
        encrypt = document["sealed"]
        if isinstance(encrypt, Encrypt):
            try:
                _ = self.ring.current, _library()
            except ConfigurationError as error:
                raise InvalidJob(str(error)) from None
            places_to_seal(_plain(document["data"]), encrypt)

    # -- documents -------------------------------------------------------------------------------------------------

    def sealed(self, document: Document) -> Document:
        """A new job's document as it is to be stored; itself where there is nothing to seal."""
        encrypt = document.get("sealed")
        if isinstance(encrypt, Encrypt):
            data = sealed_at(_plain(document["data"]), encrypt, lambda at, value: self._sealed(document, at, value))
            kids = sorted(kids_in(data))
        elif isinstance(encrypt, AsStored):
            data, kids = document["data"], list(encrypt.kids)
        else:
            return document
        stored = {**document, "data": data, "sealed": kids}
        if not kids:
            del stored["sealed"]
        return stored

    def _sealed(self, document: Document, place: Place, value: Any) -> Document:
        return self.seal(document, (DATA, *place), value).to_document()

    def template(self, schedule_id: str, job: Document, existing: Document | None) -> Document:
        """What a schedule's jobs get, as it is stored with the schedule. What is sealed there is bound to the schedule,
        since who makes its jobs may have no key; where it is the same as before, it stays as it was sealed then."""
        encrypt = job.get("sealed")
        if isinstance(encrypt, Encrypt):
            if existing is not None and self._is_same(schedule_id, existing, job, encrypt):
                return {**job, "data": existing["data"], "sealed": existing["sealed"]}
        elif not isinstance(encrypt, AsStored):
            return job
        stored = self.sealed({**job, "schedule_id": schedule_id})
        del stored["schedule_id"]
        return stored

    def open_template(self, schedule: Document) -> Any:
        """The data of a schedule's jobs, opened as far as the keys are here."""
        job = {**schedule["job"], "schedule_id": schedule["_id"]}
        try:
            return self.open_data(job)
        except (KeyMissing, Unopenable):
            return parsed_data(opened(job.get("data"), lambda at, one: self._tried(job, (DATA, *at), one)))

    def _is_same(self, schedule_id: str, existing: Document, job: Document, encrypt: Encrypt) -> bool:
        if not existing.get("sealed") or existing.get("name") != job["name"]:
            return False
        try:
            before = self.open_data({**existing, "schedule_id": schedule_id})
        except (KeyMissing, Unopenable):
            return False
        data = _read_back(job["data"])
        return before == data and sealed_places(existing["data"]) == places_to_seal(data, encrypt)

    def prints(self, data: Any) -> list[str]:
        """Prints of data, one by each key, by which it can be compared without being told by anybody without a key."""
        plain = bson.encode(_plain(data), codec_options=CODEC)
        return [hmac.digest(key, _PRINT + plain, "sha256").hex() for key in self.ring.keys.values()]

    def open_data(self, document: Document) -> Mapping[str, Any]:
        """The data of a job, or of a schedule's jobs, with nothing sealed in it. Raises KeyMissing and Unopenable."""
        data = document.get("data") or {}
        if not document.get("sealed"):
            return data
        plain = opened(data, lambda at, one: self.open(document, (DATA, *at), one))
        if not isinstance(plain, Mapping):
            raise Unopenable("Its data does not open to a document.")
        return plain

    def decode(self, document: Document, *, deduplicated: bool = False) -> Job:
        """A stored document as a Job, opened as far as the keys are here; `Sealed` stands for what does not open."""
        job = decode_job(document, deduplicated=deduplicated)
        if job.kept is None:
            return job
        try:
            data = self.open_data(document)
        except (KeyMissing, Unopenable):
            data = parsed_data(opened(document.get("data"), lambda at, one: self._tried(document, (DATA, *at), one)))
        result = opened(job.result, lambda _, one: self._tried(document, (RESULT,), one))
        steps = tuple(replace(step, result=self.open_step(document, step.name, step.result)) for step in job.steps)
        return replace(job, data=data, result=result, steps=steps)

    def seal_step(self, document: Document, name: str, result: Any) -> Sealed:
        """Seal the result of a step, bound to its job and its name."""
        return self.seal(document, (STEPS, name), result)

    def open_step(self, document: Document, name: str, result: Any) -> Any:
        """The result of a step, opened as far as the key is here."""
        return opened(result, lambda _, one: self._tried(document, (STEPS, name), one))

    def _tried(self, document: Document, place: Place, sealed: Sealed) -> Any:
        try:
            return self.open(document, place, sealed)
        except (KeyMissing, Unopenable):
            return sealed

    # -- values ----------------------------------------------------------------------------------------------------

    def seal(self, document: Document, place: Place, value: Any) -> Sealed:
        """Seal a value of a job or of a schedule's jobs. Raises ConfigurationError where there is no key."""
        kid, key = self.ring.current
        nonce = secrets.token_bytes(2 * _HALF)
        of = SCHEDULE if "_id" not in document else ""
        plain = bson.encode({"v": value}, codec_options=CODEC)
        bound = _bound(document, place, kid, of)
        return Sealed(kid, nonce, _cipher(key, nonce).encrypt(nonce[_HALF:], plain, bound), of)

    def open(self, document: Document, place: Place, sealed: Sealed) -> Any:
        """Open a value at its place in a document."""
        key = self.ring.get(sealed.kid)
        if key is None:
            raise KeyMissing(sealed.kid)
        where = ".".join(map(str, place))
        if len(sealed.nonce) != 2 * _HALF:
            raise Unopenable(f"The encrypted value {where} is damaged: its nonce has the wrong length.")
        bound = _bound(document, place, sealed.kid, sealed.of)
        try:
            plain = _cipher(key, sealed.nonce).decrypt(sealed.nonce[_HALF:], sealed.text, bound)
            return bson.decode(plain, CODEC)["v"]
        except (_invalid_tag(), BSONError, KeyError) as error:
            raise Unopenable(
                f"The encrypted value {where} cannot be opened: the key {sealed.kid!r} is not the one that it was "
                "sealed with, or the value was changed or copied from elsewhere."
            ) from error


def _read_back(data: Any) -> Document:
    """Data as it will be when it has been stored and read again."""
    return bson.decode(bson.encode(_plain(data), codec_options=CODEC), CODEC)


def _plain(data: Any) -> Mapping[str, Any]:
    if isinstance(data, RawBSONDocument):
        return bson.decode(data.raw, CODEC)
    return data or {}


def _bound(document: Document, place: Place, kid: str, of: str) -> bytes:
    """What is authenticated beside a value: where it belongs. Each part is preceded by its length."""
    owner = document.get("schedule_id") if of == SCHEDULE else document.get("_id")
    parts = [_PURPOSE.decode(), kid, of, str(owner), str(document.get("name")), *map(str, place)]
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    return b"".join(len(part).to_bytes(4, "big") + part for part in encoded)


def _cipher(key: bytes, nonce: bytes) -> Any:
    return _library().AESGCM(hmac.digest(key, _PURPOSE + nonce[:_HALF], "sha256"))


def _library() -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers import aead
    except ImportError:
        raise ConfigurationError(
            'Encrypted data needs the library cryptography; install it with: pip install "mainspring[encryption]"'
        ) from None
    return aead


def _invalid_tag() -> type[Exception]:
    from cryptography.exceptions import InvalidTag

    return InvalidTag
