"""URLs of webhook jobs: which are accepted, and how one is built for the wire.

The host must be literal: no credentials, no unusual spellings of addresses, no templates in it. The path and the query
may have templates; their values are escaped, and can neither leave their place nor climb the path. The checked URL
object is sent itself, so that no second parser can read it differently.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from urllib.parse import quote, unquote

from yarl import URL

from mainspring.errors import ConfigurationError
from mainspring.jobtypes.http.addresses import is_numeric
from mainspring.jobtypes.http.templates import Facts, Room, TemplateError, parse_template, stringify
from mainspring.model.networks import parse_address

LONGEST_URL = 8192
Query = Mapping[str, "str | int | float | bool | list[str]"]
_SHAPE = re.compile(r"(https?)://([^/?]*)([/?].*)?", re.I | re.S)
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f-\xa0\\\u2028\u2029]")
_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?")
_STRAY_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_KEPT = "/:@!$&'()*+,;=%~?"


class InvalidUrl(ConfigurationError):
    """A URL cannot be called as written."""


def split_url(text: str) -> tuple[URL, str]:
    """The origin of a URL, with its host as it will be looked up, and the rest as written."""
    if len(text) > LONGEST_URL:
        raise InvalidUrl(f"The URL is longer than {LONGEST_URL:,} characters.")
    without_templates = re.sub(r"\{\{[^{}]*\}\}", "", text)  # these may have spaces around the name
    if _FORBIDDEN.search(without_templates):
        raise InvalidUrl("The URL has a space, a backslash or a control character; write those percent-encoded.")
    if "#" in text:
        raise InvalidUrl("The URL has a fragment (#…), which is never sent; leave it out, or write %23 for a #.")
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise InvalidUrl("The URL must begin with http:// or https:// and a host.")
    scheme, authority, rest = match.groups()
    return _origin(scheme.lower(), authority), rest or "/"


@lru_cache(1024)
def _origin(scheme: str, authority: str) -> URL:
    if "@" in authority:
        raise InvalidUrl("The URL has a user or a password before its host; use an Authorization header.")
    if "{" in authority or "}" in authority:
        raise InvalidUrl("The host of a URL cannot hold a template; the path and the query can.")
    if "%" in authority or not authority:
        raise InvalidUrl("The URL has no plain host; write a name or an address, without % and zones.")
    try:
        origin = URL(f"{scheme}://{authority}").origin()
        host, port = origin.raw_host or "", origin.port
    except ValueError:
        raise InvalidUrl("The URL has no valid host and port.") from None
    if not port:
        raise InvalidUrl("The URL has no valid port; it is a number from 1 to 65535.")
    _check_host(host, authority)
    return origin


def _check_host(host: str, authority: str) -> None:
    if parse_address(host) is not None:
        if not authority.isascii():
            raise InvalidUrl("The URL's host is an address in unusual digits; write it with 0 to 9.")
        return
    if is_numeric(host):
        raise InvalidUrl("The URL's host is an address in an unusual spelling; write it as four numbers: 192.0.2.1")
    if len(host) > 253 or not _HOST.fullmatch(host):
        raise InvalidUrl("The URL's host is not a valid name.")


def target_of(url: str) -> str:
    """The server that a URL is for, as "https://host:port": the key of limits per target."""
    return name_target(split_url(url)[0])


def name_target(url: URL) -> str:
    """The server of a URL that was checked, in the same form."""
    host = (url.raw_host or "").removesuffix(".")
    return f"{url.scheme}://{f'[{host}]' if ':' in host else host}:{url.port}"


def check_url(text: str, data: Mapping[str, object] | None = None, templates: bool = True) -> None:
    """Refuse a URL that cannot be called, or has templates that are unknown."""
    _, rest = split_url(text)
    parts = parse_template(rest, data) if templates else (rest,)
    _check_path("".join(_literal(part) if isinstance(part, str) else "x" for part in parts).partition("?")[0])


def build_url(text: str, query: Query, facts: Facts | None) -> URL:
    """The URL as it is sent: templates filled in if there are facts, and the query added."""
    origin, rest = split_url(text)
    base = f"{origin.scheme}://{origin.raw_authority}"
    room = Room("The URL", LONGEST_URL)
    room.take(len(base))
    path, mark, search = _fill(rest, facts, room, _literal).partition("?")
    _check_path(path)
    search = "&".join(filter(None, (search, _pairs(query, facts, room))))
    if not path.startswith("/"):
        path = "/" + path
    return URL(f"{base}{path}{'?' if search or mark else ''}{search}", encoded=True)


def _fill(text: str, facts: Facts | None, room: Room, escape: Callable[[str], str]) -> str:
    """A part of a URL with its values inserted; `escape` is for the author's own text."""
    if facts is None:
        return room.put(escape(text))
    return "".join(
        room.put(escape(part) if isinstance(part, str) else _component(stringify(part, facts)))
        for part in parse_template(text)
    )


def _pairs(query: Query, facts: Facts | None, room: Room) -> str:
    pairs: list[str] = []
    for name, values in query.items():
        for value in values if isinstance(values, list) else [values]:
            key = room.put(f"&{_component(name)}=")
            pairs.append(key[1:] + _fill(_plain(value), facts, room, _component))
    return "&".join(pairs)


def _plain(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _literal(text: str) -> str:
    """The author's part of a URL: characters that a URL cannot have are encoded, encoded ones stay so."""
    return quote(_STRAY_PERCENT.sub("%25", text), safe=_KEPT)


def _component(text: str) -> str:
    """A value inserted into a URL: every character with a meaning in URLs is encoded."""
    try:
        return quote(text, safe="")
    except UnicodeEncodeError:
        raise TemplateError("A value for the URL is not valid text.") from None


def _check_path(path: str) -> None:
    steps = re.split(r"[/\\]", unquote(path))
    if "." in steps or ".." in steps:
        raise TemplateError("The URL's path would climb with . or .. as a step of its own; write the path plainly.")
