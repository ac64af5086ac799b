"""References to secrets in header values, and the scrubber that keeps secrets out of stored texts. Pure.

A reference is `secret://name`, alone or within a value: `Bearer secret://stripe`. Its name ends before the first
character that is no letter, digit, `-` or `_`. References are found in the text of the request's author, never in
values that templates insert: otherwise the job's data could ask for any secret.
"""

from __future__ import annotations

import html
import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from mainspring.errors import ConfigurationError
from mainspring.jobtypes.http.templates import Room
from mainspring.model.privacy.credentials import is_credential, url_credentials
from mainspring.model.privacy.masking import mask_secrets

MASK = "•••"
_SHORTEST_BASE64 = 6
_SCHEME = "secret://"
_SHORTEST_CREDENTIAL = 4
_REFERENCE = re.compile(r"secret://([A-Za-z0-9_-]{0,64})")
_SECRET_PATH = re.compile(r"(https?://[^/?#]+/)secret://([A-Za-z0-9_-]{1,64})", re.I)


def secret_names(text: str) -> list[str]:
    """The names of the secrets that a text refers to."""
    names = _REFERENCE.findall(text)
    if "" in names:
        raise ConfigurationError(f"{_SCHEME} must be followed by a secret's name: letters, digits, - and _.")
    return names


def split_secret_path(url: str) -> tuple[str, str | None]:
    """The part of a URL before its secret path, and the name of that secret; the whole URL and None if it has none.

    The URL of a chat's webhook is a credential: `https://hooks.example.com/secret://chat` names its server, which is
    checked as that of any URL, and keeps the rest a secret."""
    found = _SECRET_PATH.fullmatch(url)
    return (url, None) if found is None else (found[1], found[2])


def fill_secrets(text: str, values: Mapping[str, str], room: Room) -> str:
    """The text with each reference replaced by the secret's value."""
    room.take(len(_REFERENCE.sub("", text)))
    return _REFERENCE.sub(lambda match: room.put(values[match[1]]), text)


def credentials(headers: Mapping[str, str], url: str) -> list[str]:
    """The credentials in the sent headers and URL: a server may repeat these, too, in its response."""
    values = [value for name, value in headers.items() if is_credential(name)]
    parts = [part for value in values for part in (value, value.rpartition(" ")[2])]
    return [part for part in (*parts, *url_credentials(url)) if len(part) >= _SHORTEST_CREDENTIAL]


class Scrubber:
    """Masks secrets in bytes and texts, in the forms in which a server may repeat them."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._forms = sorted({form for secret in secrets if secret for form in _forms(secret)})
        self.reach = max(map(len, self._forms), default=1) - 1
        """The number of bytes to read beyond a cut, to find a secret that begins before it."""

    def clean(self, data: bytes, limit: int) -> bytes:
        """The first `limit` bytes without secrets."""
        return mask_secrets(data, self._forms, MASK.encode(), limit)

    def clean_text(self, text: str) -> str:
        if not self._forms:
            return text
        data = text.encode("utf-8", "replace")
        return self.clean(data, len(data)).decode("utf-8", "replace")


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
    """The base64 forms of a secret within a longer text (`user:secret`), for each offset."""
    for offset in range(3):
        first, last = (offset * 8 + 5) // 6, (offset + len(plain)) * 8 // 6
        for encode in (b64encode, urlsafe_b64encode):
            form = encode(bytes(offset) + plain)[first:last]
            if len(form) >= _SHORTEST_BASE64:
                yield form
