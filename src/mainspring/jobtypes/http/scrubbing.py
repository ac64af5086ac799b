"""References to secrets in header values, and keeping the secrets out of all that is kept. Pure.

A reference is `secret://name`, alone or within a value: `Bearer secret://stripe`. Its name ends where something else
than letters, digits, `-` and `_` begins. References are found in what the author of the request wrote, never in what
templates put in: otherwise the job's data could ask for any secret.
"""

from __future__ import annotations

import html
import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from mainspring.errors import ConfigurationError

MASK = "•••"
_SHORTEST_BASE64 = 6
_SCHEME = "secret://"
_CREDENTIALS = ("authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "apikey")
_CREDENTIAL_WORDS = ("token", "secret", "password", "api-key", "apikey", "access-key", "auth-key")
_SHORTEST_CREDENTIAL = 4
_REFERENCE = re.compile(r"secret://([A-Za-z0-9_-]{0,64})")


def secret_names(text: str) -> list[str]:
    """The names of the secrets that a text refers to."""
    names = _REFERENCE.findall(text)
    if "" in names:
        raise ConfigurationError(f"{_SCHEME} must be followed by a secret's name: letters, digits, - and _.")
    return names


def fill_secrets(text: str, values: dict[str, str]) -> str:
    """The text with each reference replaced by the secret's value."""
    return _REFERENCE.sub(lambda match: values[match[1]], text)


def is_credential(name: str) -> bool:
    """Whether the values of a header of this name are likely to be credentials, and are never shown."""
    lower = name.lower()
    return lower in _CREDENTIALS or any(word in lower for word in _CREDENTIAL_WORDS)


def credentials(headers: Mapping[str, str]) -> list[str]:
    """The credentials that stand in headers as they are sent: a server may hand those back, too."""
    values = [value for name, value in headers.items() if is_credential(name)]
    parts = [part for value in values for part in (value, value.rpartition(" ")[2])]
    return [part for part in parts if len(part) >= _SHORTEST_CREDENTIAL]


class Scrubber:
    """Removes secrets from bytes and texts, in the forms in which a server may hand them back."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._forms = sorted({form for secret in secrets if secret for form in _forms(secret)})
        self.reach = max(map(len, self._forms), default=1) - 1
        """How far beyond a cut one must look, to see a secret that begins before it."""

    def clean(self, data: bytes, limit: int) -> bytes:
        """The first `limit` bytes without secrets. Cut after the search: half a secret would not be found."""
        kept: list[bytes] = []
        position = 0
        for start, end in self._places(data):
            if start >= limit:
                break
            kept += [data[position:start], MASK.encode()]
            position = end
        kept.append(data[position : max(position, limit)])
        return b"".join(kept)

    def clean_text(self, text: str) -> str:
        if not self._forms:
            return text
        data = text.encode("utf-8", "replace")
        return self.clean(data, len(data)).decode("utf-8", "replace")

    def _places(self, data: bytes) -> list[tuple[int, int]]:
        """Where secrets stand, in order; those that overlap as one."""
        found = sorted(place for form in self._forms for place in _occurrences(data, form))
        merged: list[tuple[int, int]] = []
        for start, end in found:
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return merged


def _occurrences(data: bytes, form: bytes) -> Iterable[tuple[int, int]]:
    start = data.find(form)
    while start >= 0:
        yield start, start + len(form)
        start = data.find(form, start + 1)


def _forms(secret: str) -> Iterable[bytes]:
    plain = secret.encode("utf-8", "replace")
    texts = {
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret)[1:-1].replace("/", "\\/"),
        html.escape(secret),
        quote(plain, safe=""),
        quote(plain),
    }
    yield from (text.encode("utf-8", "replace") for text in texts)
    yield from _base64_forms(plain)
    yield from (secret.encode(encoding, "replace") for encoding in ("utf-16-le", "utf-16-be"))


def _base64_forms(plain: bytes) -> Iterable[bytes]:
    """What base64 makes of a secret within something longer (`user:secret`), wherever it begins there."""
    for offset in range(3):
        first, last = (offset * 8 + 5) // 6, (offset + len(plain)) * 8 // 6
        for encode in (b64encode, urlsafe_b64encode):
            form = encode(bytes(offset) + plain)[first:last]
            if len(form) >= _SHORTEST_BASE64:
                yield form
