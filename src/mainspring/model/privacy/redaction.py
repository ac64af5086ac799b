"""Redaction: the values of fields with certain names, and these values wherever else they occur, are not shown. Pure.

`Redaction` has the names and replaces the values under them, and credentials in the queries of URLs. `Redactor` has
values, and replaces them in texts that a handler has written: errors, stacks, log lines, notes. Both are applied before
a text is cut to length: otherwise the half of a secret before the cut would not be recognised.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from mainspring.errors import ConfigurationError
from mainspring.model.jobs.job import JobError
from mainspring.model.privacy.credentials import CREDENTIALS, REDACTED, mask_urls, matcher, url_credentials
from mainspring.model.privacy.encrypted_values import ALL, EncryptedValue, check_path, opened
from mainspring.model.privacy.masking import mask_secrets

ENCRYPTED = "[encrypted]"
DEFAULT_REDACT = CREDENTIALS
"""The names that are redacted unless the program chooses others."""
OF_WEBHOOKS = tuple(f"request.{part}.{name}" for part in ("headers", "query") for name in CREDENTIALS)
"""The fields of webhooks that are always redacted."""

# Shorter values are too common: replacing them would make every text unreadable and hide nothing.
_SHORTEST_TEXT, _FEWEST_DIGITS, _SHORTEST_LINE = 4, 6, 8
_FEW = 64
_REMEMBERED = 10_000
_SCALAR = (str, int, float, type(None))


def check_redact(value: object, otherwise: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Check the option `redact`: the names and paths of fields that are not shown."""
    if value is None:
        return otherwise
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigurationError('redact must be a list of names or paths, such as ["password", "card.*"].')
    return tuple(dict.fromkeys(check_path(pattern, "redact") for pattern in value))


class Redaction:
    """The fields that are not shown: a bare name at any depth, a path from the top. `*` matches anything.

    Names are compared without regard to case, and `-` equals `_`.
    """

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self.patterns = tuple(dict.fromkeys(patterns))
        self._anywhere = [matcher(pattern) for pattern in self.patterns if "." not in pattern]
        self._routes = _branches([pattern.split(".") for pattern in self.patterns if "." in pattern])
        self._known: dict[str, bool] = {}

    def __bool__(self) -> bool:
        return bool(self.patterns)

    def __or__(self, patterns: Iterable[str]) -> Redaction:
        more = (*self.patterns, *patterns)
        return self if set(more) == set(self.patterns) else Redaction(more)

    def shown(self, value: Any) -> Any:
        """A value without its sensitive parts; a value that has none is not copied."""
        return self._walk(value, self._routes, lambda _: REDACTED, mask_urls)

    def hidden(self, value: Any) -> list[Any]:
        """The sensitive parts of a value."""
        found: list[Any] = []
        if self._routes:
            self._walk(value, self._routes, found.append, lambda text: found.extend(url_credentials(text)))
        else:
            self._collect(value, found)
        return found

    def _collect(self, value: Any, found: list[Any]) -> None:
        """Collect the sensitive parts by bare names only, at a fraction of the cost: this is done for each job run."""
        if isinstance(value, Mapping):
            for key, one in value.items():
                if self._is_hidden(key):
                    found.append(one)
                else:
                    self._collect_part(one, found)
        elif isinstance(value, list | tuple):
            for one in value:
                self._collect_part(one, found)

    def _collect_part(self, value: Any, found: list[Any]) -> None:
        if isinstance(value, str):
            found += url_credentials(value)
        elif not isinstance(value, _SCALAR):
            self._collect(value, found)

    def _walk(
        self, value: Any, routes: Sequence[_Branch], hide: Callable[[Any], Any], read: Callable[[str], Any]
    ) -> Any:
        """The value with `hide` applied to each sensitive part, and `read` to each other text."""
        if isinstance(value, Mapping):
            items = {key: self._field(str(key), one, routes, hide, read) for key, one in value.items()}
            return items if any(items[key] is not one for key, one in value.items()) else value
        if isinstance(value, list | tuple):
            entries = [self._item(at, one, routes, hide, read) for at, one in enumerate(value)]
            return entries if any(new is not old for new, old in zip(entries, value, strict=True)) else value
        return read(value) if isinstance(value, str) else value

    def _field(
        self, name: str, value: Any, routes: Sequence[_Branch], hide: Callable[[Any], Any], read: Callable[[str], Any]
    ) -> Any:
        taken = [branch for branch in routes if branch.matches(name)]
        if self._is_hidden(name) or any(branch.ends for branch in taken):
            return hide(value)
        return self._walk(value, [onward for branch in taken for onward in branch.onward], hide, read)

    def _item(
        self, at: int, value: Any, routes: Sequence[_Branch], hide: Callable[[Any], Any], read: Callable[[str], Any]
    ) -> Any:
        """Walk an item of a list: a step of a path may be the item's place; a field's name skips lists."""
        onward: list[_Branch] = []
        for branch in routes:
            if not branch.matches(str(at)):
                onward.append(branch)
            elif branch.ends:
                return hide(value)
            else:
                onward += branch.onward
        return self._walk(value, onward, hide, read)

    def _is_hidden(self, name: str) -> bool:
        known = self._known.get(name)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[name] = any(matches(name) for matches in self._anywhere)
        return known


class _Branch:
    """One step of paths that begin alike. It remembers which names match: the same ones occur over and over in a list
    of nodes or items."""

    __slots__ = ("_known", "_matches", "ends", "onward")

    def __init__(self, step: str, rests: Sequence[Sequence[str]]) -> None:
        self._matches = matcher(step)
        self._known: dict[str, bool] = {}
        self.ends = any(not rest for rest in rests)
        self.onward = _branches([rest for rest in rests if rest])

    def matches(self, name: str) -> bool:
        known = self._known.get(name)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[name] = self._matches(name)
        return known


def _branches(paths: Sequence[Sequence[str]]) -> list[_Branch]:
    """The paths by their first steps."""
    rests: dict[str, list[Sequence[str]]] = defaultdict(list)
    for first, *rest in paths:
        rests[first].append(rest)
    return [_Branch(step, some) for step, some in rests.items()]


def without_sealed(value: Any) -> Any:
    """A value with a word in place of each encrypted one."""
    return opened(value, lambda *_: ENCRYPTED)


def sealed_values(kept: Any, plain: Any) -> Iterator[Any]:
    """The decrypted values in `plain` at the places where `kept` has an `EncryptedValue`."""
    if isinstance(kept, EncryptedValue):
        if not isinstance(plain, EncryptedValue):
            yield plain
    elif isinstance(kept, Mapping) and isinstance(plain, Mapping):
        if isinstance(kept.get(ALL), EncryptedValue) and len(kept) == 1 and ALL not in plain:
            yield plain
        for key in kept:
            if key in plain:
                yield from sealed_values(kept[key], plain[key])
    elif isinstance(kept, list | tuple) and isinstance(plain, list | tuple):
        for one, other in zip(kept, plain, strict=False):
            yield from sealed_values(one, other)


class Redactor:
    """Replaces the texts of certain values wherever they occur in another text."""

    __slots__ = ("_by_start", "_secrets")

    def __init__(self, values: Iterable[Any] = ()) -> None:
        self._secrets = tuple({secret for value in values for secret in _texts(value)})
        self._by_start: dict[str, list[str]] | None = None
        if len(self._secrets) > _FEW:
            self._by_start = defaultdict(list)
            for secret in self._secrets:
                self._by_start[secret[:_SHORTEST_TEXT]].append(secret)

    def __bool__(self) -> bool:
        return bool(self._secrets)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The texts to search for: the values as they are, and in their quoted forms."""
        return self._secrets

    def text(self, text: str) -> str:
        """The text without the values. Where two overlap, both are replaced entirely."""
        return mask_secrets(text, self._candidates(text), REDACTED) if self._secrets else text

    def error(self, error: JobError) -> JobError:
        if not self._secrets:
            return error
        stack = None if error.stack is None else self.text(error.stack)
        return JobError(self.text(error.type), self.text(error.message), stack, self.value(error.details))

    def value(self, value: Any) -> Any:
        """A value with `text` applied to all texts in it."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self.value(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self.value(one) for one in value)
        return value

    def _candidates(self, text: str) -> Iterable[str]:
        """The values that may occur in a text; where there are many, only those whose beginning occurs."""
        if self._by_start is None:
            return self._secrets
        starts = {text[at : at + _SHORTEST_TEXT] for at in range(len(text) - _SHORTEST_TEXT + 1)}
        return [secret for start in starts for secret in self._by_start.get(start, ())]


NO_REDACTION = Redactor()


def _texts(value: Any) -> Iterator[str]:
    """The texts in which the parts of a value may occur."""
    if isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, str):
        yield from _spellings(value)
    elif isinstance(value, bytes):
        yield from _spellings(value.decode("utf-8", "replace"))
        yield from _spellings(repr(value)[2:-1])
    elif isinstance(value, date):
        yield from {str(value), value.isoformat(), value.date().isoformat() if isinstance(value, datetime) else ""} - {
            ""
        }
    elif value is not None and not isinstance(value, bool | EncryptedValue):
        text = str(value).removeprefix("-")
        if sum(map(str.isdigit, text)) >= _FEWEST_DIGITS:
            yield text


def _spellings(text: str) -> Iterator[str]:
    """A text as it is, quoted by Python and by JSON, without the space around it, and line by line."""
    lines = [line.strip() for line in text.splitlines()] if "\n" in text else []
    for one in {text, text.strip(), *(line for line in lines if len(line) >= _SHORTEST_LINE)}:
        if len(one) >= _SHORTEST_TEXT:
            yield from {one, repr(one)[1:-1], json.dumps(one)[1:-1], json.dumps(one, ensure_ascii=False)[1:-1]}
