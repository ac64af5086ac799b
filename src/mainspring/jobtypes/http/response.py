"""The stored part of a response: status, headers and a bounded part of the body, without secrets.

No more of a body is read, or unpacked if it is compressed, than can be stored. Secrets are masked before the body is
cut.
"""

from __future__ import annotations

import codecs
import zlib
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from mainspring.jobtypes.http.secret_references import MASK, Scrubber
from mainspring.model.privacy.credentials import mask_urls

if TYPE_CHECKING:
    from aiohttp import ClientResponse

_HEADERS_KEPT = 64
_VALUE_KEPT = 1024
_CHARSETS = ("utf-8", "ascii", "iso8859-1", "cp1252")
_HIDDEN = ("set-cookie", "set-cookie2")


@dataclass(frozen=True, slots=True)
class WebhookResponse:
    """A response as it is stored. `body` is text; `body_note` says how it was changed, if it was."""

    status: int
    headers: dict[str, str]
    body: str | None
    body_note: str | None
    duration_ms: int
    url: str

    def to_document(self) -> dict[str, Any]:
        return asdict(self)


async def read_body(response: ClientResponse, limit: int) -> bytes:
    """The first bytes of a body. The rest of a longer body is left unread, and its connection is closed."""
    data = bytearray()
    async for chunk in response.content.iter_any():
        data += chunk
        if len(data) >= limit:
            response.close()
            break
    return bytes(data[:limit])


def keep_headers(items: Iterable[tuple[str, str]], scrubber: Scrubber) -> dict[str, str]:
    """Headers by their lower-case names; the values of a repeated header are joined."""
    kept: dict[str, str] = {}
    for given, value in items:
        name = scrubber.clean_text(given.lower())
        if name not in kept and len(kept) >= _HEADERS_KEPT:
            break
        clean = MASK if name in _HIDDEN else mask_urls(scrubber.clean_text(value))
        kept[name] = (f"{kept[name]}, {clean}" if name in kept else clean)[:_VALUE_KEPT]
    return kept


def keep_body(data: bytes, headers: Mapping[str, str], limit: int, scrubber: Scrubber) -> tuple[str | None, str | None]:
    """A body as text, and a note if it is cut or is not text. `data` may reach beyond the limit."""
    encoding = headers.get("Content-Encoding", "identity").strip().lower()
    whole = _unpack(data, encoding, limit + scrubber.reach + 1)
    if whole is None:
        return None, f"not kept: encoded as {encoding[:40]!r}, which is not unpacked"
    if not whole:
        return None, None
    text = _decode(scrubber.clean(whole, limit), headers.get("Content-Type", ""), len(whole) > limit)
    if text is not None:
        return text, f"cut after {limit:,} bytes" if len(whole) > limit else None
    room = limit * 3 // 4
    note = f"binary, as base64, cut after {room:,} bytes" if len(whole) > room else "binary, as base64"
    return b64encode(scrubber.clean(whole, room)).decode(), note


def _unpack(data: bytes, encoding: str, limit: int) -> bytes | None:
    if encoding in ("identity", ""):
        return data
    if encoding not in ("gzip", "x-gzip", "deflate"):
        return None
    try:
        return zlib.decompressobj(wbits=47).decompress(data, limit)  # 47: with the header of gzip or of zlib
    except zlib.error:
        return None


def _decode(data: bytes, content_type: str, cut: bool) -> str | None:
    """Bytes as text; None if they are not text. A character that the cut has split is left out."""
    try:
        charset = codecs.lookup(_charset(content_type)).name
    except LookupError:
        charset = ""
    if b"\0" in data or charset not in _CHARSETS:
        return None
    try:
        return codecs.getincrementaldecoder(charset)().decode(data, not cut)
    except UnicodeDecodeError:
        return None


def _charset(content_type: str) -> str:
    for parameter in content_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip('"') or "utf-8"
    return "utf-8"
