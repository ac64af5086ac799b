"""The differences between two jobs of one name: in data and result by their paths, in options and times. Pure.

It compares values as they are shown: two values that are not shown count as hidden, not as equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mainspring.model.privacy.credentials import REDACTED
from mainspring.model.privacy.redaction import ENCRYPTED

MOST = 200
"""The differences that are listed at most."""
_DEEPEST = 40
_HIDDEN = (REDACTED, ENCRYPTED)
_ABSENT: Any = object()


@dataclass(frozen=True, slots=True)
class Difference:
    """One place at which two values differ. A value that is absent is None; `kind` tells it from null."""

    path: str
    kind: Literal["added", "removed", "changed", "hidden"]
    before: Any = None
    after: Any = None


def differences(before: Any, after: Any) -> tuple[list[Difference], bool]:
    """The places at which two values differ, and whether these are all."""
    found: list[Difference] = []
    for one in _compare(before, after, "", 0):
        if len(found) == MOST:
            return found, False
        found.append(one)
    return found, True


def _compare(before: Any, after: Any, path: str, depth: int) -> Iterator[Difference]:
    if before is _ABSENT or after is _ABSENT:
        kind: Literal["added", "removed"] = "added" if before is _ABSENT else "removed"
        yield Difference(path, kind, None if before is _ABSENT else before, None if after is _ABSENT else after)
    elif isinstance(before, Mapping) and isinstance(after, Mapping) and depth < _DEEPEST:
        for key in dict.fromkeys((*before, *after)):
            yield from _compare(before.get(key, _ABSENT), after.get(key, _ABSENT), _step(path, str(key)), depth + 1)
    elif _is_list(before) and _is_list(after) and depth < _DEEPEST:
        for place in range(max(len(before), len(after))):
            one, other = _item(before, place), _item(after, place)
            yield from _compare(one, other, f"{path}[{place}]", depth + 1)
    elif before in _HIDDEN and after in _HIDDEN:
        yield Difference(path, "hidden", before, after)
    elif type(before) is not type(after) or before != after:
        yield Difference(path, "changed", before, after)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _item(values: Sequence[Any], place: int) -> Any:
    return values[place] if place < len(values) else _ABSENT


def _step(path: str, key: str) -> str:
    plain = key.replace("_", "").isalnum()
    return (f"{path}.{key}" if path else key) if plain else f"{path}[{key!r}]"
