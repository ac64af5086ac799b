"""Signatures of webhook requests, after Standard Webhooks 1.0. Pure.

The signature covers `id.timestamp.body`, with the body's bytes as they are sent. The id is the same for all attempts of
a job, so that a receiver can drop repeated requests; the timestamp is that of the attempt, so that an old request
cannot be replayed later. While a secret is being replaced, a request carries a signature for each value.
"""

from __future__ import annotations

import binascii
import hmac
import re
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Iterable
from datetime import datetime
from hashlib import sha256
from secrets import token_bytes

from mainspring.errors import ConfigurationError

PREFIX = "whsec_"
SHORTEST, LONGEST = 24, 64
_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class InvalidSecret(ConfigurationError):
    """A signing secret cannot be used. The message never holds it."""


def new_secret() -> str:
    """A fresh secret of 32 random bytes."""
    return PREFIX + b64encode(token_bytes(32)).decode()


def secret_key(secret: str) -> bytes:
    """The key that a secret encodes."""
    try:
        key = b64decode(secret.removeprefix(PREFIX), validate=True) if secret.startswith(PREFIX) else b""
    except (binascii.Error, ValueError):
        key = b""
    if not SHORTEST <= len(key) <= LONGEST:
        raise InvalidSecret(
            f"A signing secret is {PREFIX} and {SHORTEST} to {LONGEST} bytes in base64; make one with "
            "mainspring.jobtypes.http.signing.new_secret()."
        )
    return key


def message_id(job_id: str) -> str:
    """The webhook-id of a job: the same for all its attempts, and without the dot that separates the signed parts."""
    if _PLAIN_ID.fullmatch(job_id):
        return f"msg_{job_id}"
    digest = sha256(job_id.encode("utf-8", "surrogatepass")).digest()
    return "msgh_" + urlsafe_b64encode(digest).decode().rstrip("=")


def sign(secret: str, message: str, timestamp: int, body: bytes) -> str:
    """One signature: `v1,` and the HMAC-SHA256 in base64."""
    signed = f"{message}.{timestamp}.".encode() + body
    return "v1," + b64encode(hmac.digest(secret_key(secret), signed, "sha256")).decode()


def signature_headers(secrets: Iterable[str], job_id: str, at: datetime, body: bytes) -> dict[str, str]:
    """The webhook headers of a request, with a signature for each secret, if there are any."""
    message, timestamp = message_id(job_id), int(at.timestamp())
    headers = {"webhook-id": message, "webhook-timestamp": str(timestamp)}
    signatures = [sign(secret, message, timestamp, body) for secret in secrets]
    if signatures:
        headers["webhook-signature"] = " ".join(signatures)
    return headers
