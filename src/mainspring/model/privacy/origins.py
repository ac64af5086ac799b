"""Origins that a secret may be sent to: scheme, host and port, such as `https://api.example.com`. Pure.

`https://*.example.com` means every host below example.com, not example.com itself. `*` means every origin, and must be
the only entry. An unreadable origin matches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from ipaddress import AddressValueError, IPv6Address

from mainspring.errors import ConfigurationError

ANYWHERE = "*"
MOST_ORIGINS = 100
_LONGEST = 300
_PORTS = {"http": 80, "https": 443}
_LABELS = r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*"
_ORIGIN = re.compile(rf"(https?)://(\*\.)?({_LABELS}|\[[0-9a-f:.]+\])\.?(?::([0-9]{{1,5}}))?", re.ASCII | re.I)


def check_origins(value: object) -> tuple[str, ...]:
    """A list of origins as it is stored: each in its canonical form."""
    if isinstance(value, str) or not isinstance(value, Sequence) or not 1 <= len(value) <= MOST_ORIGINS:
        raise ConfigurationError(
            f'origins must be a list of 1 to {MOST_ORIGINS} origins such as "https://api.example.com": where the '
            f'secret may be sent. ["{ANYWHERE}"] lets it be sent anywhere.'
        )
    if ANYWHERE in value and len(value) > 1:
        raise ConfigurationError(f'origins: "{ANYWHERE}" means every origin; leave the others out, or leave it out.')
    return tuple(dict.fromkeys(ANYWHERE if one == ANYWHERE else _check_origin(one) for one in value))


def is_among(origin: str, allowed: Iterable[str]) -> bool:
    """Whether the origin of a URL that is about to be called is among the allowed ones."""
    plain = _read(origin)
    return plain is not None and any(one == ANYWHERE or _fits(plain, one) for one in allowed)


def plain_origin(origin: str) -> str:
    """An origin in its canonical form, without the default port of its scheme; an invalid one as it is."""
    return _read(origin) or origin


def _fits(origin: str, allowed: str) -> bool:
    scheme, wildcard, rest = allowed.partition("://*")
    return origin == allowed or (bool(wildcard) and origin.startswith(f"{scheme}://") and origin.endswith(rest))


def _check_origin(value: object) -> str:
    origin = _read(value) if isinstance(value, str) else None
    if origin is None or not _is_sound(origin):
        raise ConfigurationError(
            f"origins: {value!r:.100} is not an origin; write scheme, host and port, such as "
            '"https://api.example.com", "http://10.1.2.3:8080" or "https://*.example.com", without a path. '
            "A host is written in ASCII."
        )
    return origin


def _is_sound(origin: str) -> bool:
    """Whether a wildcard is not too wide: at least two labels follow it, and no address."""
    _, wildcard, rest = origin.partition("://*.")
    labels = rest.partition(":")[0].split(".")
    return not wildcard or (len(labels) > 1 and not labels[-1].isdigit())


def _read(text: str) -> str | None:
    """An origin in its canonical form; None where a text is none."""
    match = _ORIGIN.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    scheme, wildcard, host, port = match[1].lower(), match[2] or "", match[3].lower(), match[4]
    number = _PORTS[scheme] if port is None else int(port)
    if host.startswith("["):
        try:
            host = f"[{IPv6Address(host[1:-1]).compressed}]"
        except AddressValueError:
            return None
    if not 1 <= number <= 65535 or (wildcard and host.startswith("[")):
        return None
    return f"{scheme}://{wildcard}{host}" + ("" if number == _PORTS[scheme] else f":{number}")
