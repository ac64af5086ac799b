"""Paths into the data of jobs, such as "user.id", by which limits and breakers tell jobs apart. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from mainspring.errors import ConfigurationError

_LONGEST_VALUE = 120


def check_key(value: object) -> None:
    """Refuse an invalid path."""
    if value is not None and (not isinstance(value, str) or not 1 <= len(value) <= 200 or ".." in f".{value}."):
        raise ConfigurationError(
            f'A key is the path of a value in the data, such as "tenant" or "user.id", not {value!r}.'
        )


def name_part(text: str) -> str:
    """A text as one part of a name whose parts are separated by colons, and by = before a value. Separators are
    escaped, so that different parts never make the same name."""
    return text.replace("%", "%25").replace(":", "%3A").replace("=", "%3D")


def plain_part(text: str) -> str:
    """The text of a part of a name."""
    return text.replace("%3A", ":").replace("%3D", "=").replace("%25", "%")


def value_at(data: Mapping[str, Any], path: str) -> Any:
    """The value at a path of names with dots; None when there is none."""
    value: Any = data
    for step in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(step)
    return value


def value_text(value: Any) -> str:
    """A value as a short text that tells values apart; a long one is cut and has a hash appended."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    if len(text) > _LONGEST_VALUE:
        text = text[:40] + "…" + blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()
    return text


def plain_value(value: Any) -> Any:
    """A value that may be stored by itself: plain as it is, any other as the text that tells it apart."""
    is_plain = value is None or isinstance(value, bool | int | float)
    return value if is_plain else value_text(value)
