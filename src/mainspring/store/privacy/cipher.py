"""Encrypting and decrypting values: AES-256-GCM, with the keys of a `Keyring`.

Each value is encrypted with a key of its own, derived from the ring's key and twelve random bytes, and with a random
nonce of twelve more: so many values can be encrypted with one key that they need not be counted. The associated data
(AAD) of the value is its place: its job, or its schedule, the job's name and the path in its document. An encrypted
value that is copied to another job, another field or another handler's job cannot be decrypted there.

Keeps true: a document that is to be encrypted has an `Encrypt` in its field `sealed` until `encrypted()` has been
applied, which MongoDB's driver cannot encode. A code path that forgets to encrypt fails; it does not store plain data.
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
from mainspring.model.jobs.job import Job
from mainspring.model.privacy.encrypted_values import (
    SCHEDULE,
    AsStored,
    Encrypt,
    EncryptedValue,
    Place,
    encrypted_at,
    encrypted_places,
    key_ids_in,
    opened,
    parsed_data,
    places_to_encrypt,
)
from mainspring.store.codec import decode_job
from mainspring.store.connection import CODEC, Document
from mainspring.store.fitting import fit
from mainspring.store.privacy.keyring import Keyring
from mainspring.store.shapes import JOB

DATA, RESULT, STEPS = "data", "result", "steps"
_PURPOSE = b"mainspring sealed value 1"
_PRINT = b"mainspring print of data 1"
_HALF = 12


class KeyMissing(Exception):
    """A value is encrypted with a key that this process does not have."""

    def __init__(self, key_id: str) -> None:
        super().__init__(f"It is encrypted with the key {key_id!r}, which this process does not have.")
        self.key_id = key_id


class Undecryptable(Exception):
    """A value cannot be decrypted with the key of that id: the key is another one, or the value was changed."""


class Cipher:
    """Encrypts and decrypts values of jobs and schedules."""

    def __init__(self, ring: Keyring) -> None:
        self.ring = ring

    def check(self, document: Document) -> None:
        """Refuse a document that cannot be encrypted, before it joins others in one write. Raises InvalidJob."""
        encrypt = document["sealed"]
        if isinstance(encrypt, Encrypt):
            try:
                _ = self.ring.current, _library()
            except ConfigurationError as error:
                raise InvalidJob(str(error)) from None
            places_to_encrypt(_plain(document["data"]), encrypt)

    # -- documents -------------------------------------------------------------------------------------------------

    def encrypted(self, document: Document) -> Document:
        """A new job's document as it is stored; the same document where there is nothing to encrypt."""
        encrypt = document.get("sealed")
        if isinstance(encrypt, Encrypt):
            data = encrypted_at(
                _plain(document["data"]), encrypt, lambda at, value: self._encrypted(document, at, value)
            )
            key_ids = sorted(key_ids_in(data))
        elif isinstance(encrypt, AsStored):
            data, key_ids = document["data"], list(encrypt.key_ids)
        else:
            return document
        stored = {**document, "data": data, "sealed": key_ids}
        if not key_ids:
            del stored["sealed"]
        return stored

    def _encrypted(self, document: Document, place: Place, value: Any) -> Document:
        return self.encrypt(document, (DATA, *place), value).to_document()

    def encrypt_template(self, schedule_id: str, job: Document, existing: Document | None) -> Document:
        """The template of a schedule's jobs as it is stored with the schedule. Encrypted values in it are bound to the
        schedule, since the process that makes its jobs may have no key. Data that is the same as before stays as it was
        encrypted then."""
        encrypt = job.get("sealed")
        if isinstance(encrypt, Encrypt):
            if existing is not None and self._is_same(schedule_id, existing, job, encrypt):
                return {**job, "data": existing["data"], "sealed": existing["sealed"]}
        elif not isinstance(encrypt, AsStored):
            return job
        stored = self.encrypted({**job, "schedule_id": schedule_id})
        del stored["schedule_id"]
        return stored

    def decrypt_template(self, schedule: Document) -> Any:
        """The data of a schedule's jobs, decrypted as far as this process has the keys."""
        job = {**schedule["job"], "schedule_id": schedule["_id"]}
        try:
            return self.decrypt_data(job)
        except (KeyMissing, Undecryptable):
            return parsed_data(opened(job.get("data"), lambda at, one: self._tried(job, (DATA, *at), one)))

    def _is_same(self, schedule_id: str, existing: Document, job: Document, encrypt: Encrypt) -> bool:
        if not existing.get("sealed") or existing.get("name") != job["name"]:
            return False
        try:
            before = self.decrypt_data({**existing, "schedule_id": schedule_id})
        except (KeyMissing, Undecryptable):
            return False
        data = read_back(job["data"])
        return before == data and encrypted_places(existing["data"]) == places_to_encrypt(data, encrypt)

    def fingerprints(self, data: Any) -> list[str]:
        """Keyed fingerprints of data, one for each key: a process without a key cannot compare data by them."""
        plain = bson.encode(_plain(data), codec_options=CODEC)
        return [hmac.digest(key, _PRINT + plain, "sha256").hex() for key in self.ring.keys.values()]

    def decrypt_data(self, document: Document) -> Mapping[str, Any]:
        """The data of a job, or of a schedule's jobs, with nothing encrypted in it. Raises KeyMissing and
        Undecryptable."""
        data = document.get("data") or {}
        if not document.get("sealed"):
            return data
        plain = opened(data, lambda at, one: self.decrypt(document, (DATA, *at), one))
        if not isinstance(plain, Mapping):
            raise Undecryptable("Its data does not decrypt to a document.")
        return plain

    def decode(self, document: Document, *, deduplicated: bool = False) -> Job:
        """A stored document as a Job, decrypted as far as this process has the keys; the rest are `EncryptedValue`s."""
        job = decode_job(document, deduplicated=deduplicated)
        if job.kept is None:
            return job
        document = fit(document, JOB).document
        try:
            data = self.decrypt_data(document)
        except (KeyMissing, Undecryptable):
            data = parsed_data(opened(document.get("data"), lambda at, one: self._tried(document, (DATA, *at), one)))
        result = opened(job.result, lambda _, one: self._tried(document, (RESULT,), one))
        steps = tuple(replace(step, result=self.decrypt_step(document, step.name, step.result)) for step in job.steps)
        return replace(job, data=data, result=result, steps=steps)

    def encrypt_step(self, document: Document, name: str, result: Any) -> EncryptedValue:
        """Encrypt the result of a step, bound to its job and its name."""
        return self.encrypt(document, (STEPS, name), result)

    def decrypt_step(self, document: Document, name: str, result: Any) -> Any:
        """The result of a step, decrypted if this process has the key."""
        return opened(result, lambda _, one: self._tried(document, (STEPS, name), one))

    def decrypt_steps(self, document: Document) -> list[Document]:
        """The steps of a job with their results decrypted, as far as this process has the keys."""
        return [
            {**entry, "result": self.decrypt_step(document, str(entry.get("name", "")), entry.get("result"))}
            if isinstance(entry, Mapping)
            else entry
            for entry in document.get("steps") or ()
        ]

    def _tried(self, document: Document, place: Place, sealed: EncryptedValue) -> Any:
        try:
            return self.decrypt(document, place, sealed)
        except (KeyMissing, Undecryptable):
            return sealed

    # -- values ----------------------------------------------------------------------------------------------------

    def encrypt(self, document: Document, place: Place, value: Any) -> EncryptedValue:
        """Encrypt a value of a job or of a schedule's jobs. Raises ConfigurationError where there is no key."""
        key_id, key = self.ring.current
        nonce = secrets.token_bytes(2 * _HALF)
        of = SCHEDULE if "_id" not in document else ""
        plain = bson.encode({"v": value}, codec_options=CODEC)
        bound = _bound(document, place, key_id, of)
        return EncryptedValue(key_id, nonce, _aes(key, nonce).encrypt(nonce[_HALF:], plain, bound), of)

    def decrypt(self, document: Document, place: Place, sealed: EncryptedValue) -> Any:
        """Decrypt a value at its place in a document."""
        key = self.ring.get(sealed.key_id)
        if key is None:
            raise KeyMissing(sealed.key_id)
        where = ".".join(map(str, place))
        if len(sealed.nonce) != 2 * _HALF:
            raise Undecryptable(f"The encrypted value {where} is damaged: its nonce has the wrong length.")
        bound = _bound(document, place, sealed.key_id, sealed.of)
        try:
            plain = _aes(key, sealed.nonce).decrypt(sealed.nonce[_HALF:], sealed.text, bound)
            return bson.decode(plain, CODEC)["v"]
        except (_invalid_tag(), BSONError, KeyError) as error:
            raise Undecryptable(
                f"The encrypted value {where} cannot be decrypted: its key is not the {sealed.key_id!r} of this "
                "process, or the value was changed or copied from elsewhere."
            ) from error


def read_back(data: Any) -> Document:
    """Data as it is after it has been stored and read."""
    return bson.decode(bson.encode(_plain(data), codec_options=CODEC), CODEC)


def _plain(data: Any) -> Mapping[str, Any]:
    if isinstance(data, RawBSONDocument):
        return bson.decode(data.raw, CODEC)
    return data or {}


def _bound(document: Document, place: Place, key_id: str, of: str) -> bytes:
    """The associated data (AAD) of a value: its place. Each part is preceded by its length."""
    owner = document.get("schedule_id") if of == SCHEDULE else document.get("_id")
    parts = [_PURPOSE.decode(), key_id, of, str(owner), str(document.get("name")), *map(str, place)]
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    return b"".join(len(part).to_bytes(4, "big") + part for part in encoded)


def _aes(key: bytes, nonce: bytes) -> Any:
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
