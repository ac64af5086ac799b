"""Opaque texts that callers send back: places in the stream of events, and cursors of lists.

Both contain ids that may be out of the caller's reach: a place is a resume token of the database and names the document
that was changed last, a cursor names the last document that was read. So they are sealed (AES-GCM) with a secret that
all service processes on a database share: each process opens the texts of every other. The content is padded, so that
its length does not reveal the length of an id.
"""

from __future__ import annotations

import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

SECRET = "sealing"
"""The name of the secret among the service's secrets."""
_HALF, _BLOCK = 12, 128
_END = b"\x80"


class Sealing:
    """Seals bytes as a text that is valid in a URL and in a header, and opens it again."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def seal(self, purpose: str, plain: bytes) -> str:
        """Seal bytes for one purpose; they cannot be opened for another."""
        nonce = secrets.token_bytes(2 * _HALF)
        padded = (plain + _END).ljust(-(-(len(plain) + 1) // _BLOCK) * _BLOCK, b"\0")
        sealed = nonce + self._cipher(nonce).encrypt(nonce[_HALF:], padded, purpose.encode())
        return urlsafe_b64encode(sealed).decode().rstrip("=")

    def open(self, purpose: str, text: str) -> bytes | None:
        """The sealed bytes; None if the text is not of this service, or was made for another purpose."""
        try:
            sealed = urlsafe_b64decode(text + "=" * (-len(text) % 4))
            nonce = sealed[: 2 * _HALF]
            padded = self._cipher(nonce).decrypt(nonce[_HALF:], sealed[2 * _HALF :], purpose.encode())
        except (ValueError, InvalidTag):
            return None
        return padded.rpartition(_END)[0]

    def _cipher(self, nonce: bytes) -> AESGCM:
        """A cipher for one text: each text has its own key, so that no number of texts repeats a nonce under a key."""
        return AESGCM(hmac.digest(self._secret, b"mainspring place\n" + nonce[:_HALF], "sha256"))
