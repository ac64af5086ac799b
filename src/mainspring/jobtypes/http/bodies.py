"""The body of a webhook request: from the author's value to the bytes that are signed and sent. Pure.

The Content-Type of a text decides how values are escaped in it: for JSON, for forms, for XML and HTML; in any other
text they are not escaped. A JSON text must be valid before values are inserted: so templates can be only in its
strings, where no value can break out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from mainspring.jobtypes.http.templates import (
    Facts,
    Hole,
    Room,
    TemplateError,
    check_json,
    check_template,
    dump_json,
    for_markup,
    parse_template,
    render,
    render_json,
)

JSON_TYPE = "application/json"
TEXT_TYPE = "text/plain; charset=utf-8"
BYTES_TYPE = "application/octet-stream"
LONGEST_BODY = 1 << 20


def check_body(body: Any, content_type: str | None, templates: bool, data: Mapping[str, Any] | None) -> int:
    """Refuse a body that cannot be sent, or has templates that cannot be filled. Return its size before filling."""
    parsed = body
    if isinstance(body, str):
        size = len(_encode(body))
        if not templates:
            return size
        if not _is_json(content_type):
            check_template(body, data)
            return size
        parsed = _parse(body)
    if templates:
        check_json(parsed, data)
    return len(dump_json(parsed))


def build_body(body: Any, content_type: str | None, facts: Facts | None) -> tuple[bytes, str]:
    """The bytes of a body, with values filled in if there are facts, and its type if the request gives none."""
    room = Room("The body", LONGEST_BODY)
    if not isinstance(body, str):
        return _bounded(dump_json(render_json(body, facts, room) if facts else body)), JSON_TYPE
    if facts is None or not any(isinstance(part, Hole) for part in parse_template(body)):
        return _bounded(_encode(body)), TEXT_TYPE
    if _is_json(content_type):
        return _bounded(dump_json(render_json(_parse(body), facts, room))), TEXT_TYPE
    return _bounded(_encode(render(body, facts, room, _escape_for(content_type)))), TEXT_TYPE


def _bounded(data: bytes) -> bytes:
    if len(data) > LONGEST_BODY:
        raise TemplateError(f"The body is larger than {LONGEST_BODY:,} bytes when it is filled in.")
    return data


def _media_type(content_type: str | None) -> str:
    return (content_type or "").partition(";")[0].strip().lower()


def _is_json(content_type: str | None) -> bool:
    media = _media_type(content_type)
    return media == JSON_TYPE or media.endswith("+json")


def _escape_for(content_type: str | None) -> Any:
    media = _media_type(content_type)
    if media == "application/x-www-form-urlencoded":
        return lambda text: quote(_encode(text), safe="")
    if media.endswith(("/xml", "+xml", "/html")):
        return for_markup
    return str


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise TemplateError(
            "A body with a JSON content type must be JSON before templates are filled: put them in strings. "
            '"{{data.count}}" alone becomes the value with its type.'
        ) from None


def _encode(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise TemplateError("The body is not valid text: it contains a lone surrogate.") from None
