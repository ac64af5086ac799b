"""A checked search for jobs, and the places in its order at which a page ends. Pure.

Every value is compared as a literal: a text is a text, whatever it looks like, so that no value of a client is ever
taken as an operator.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from mainspring.config.checks import check_whole
from mainspring.config.settings import check_name
from mainspring.errors import ConfigurationError
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.jobs.draft import check_instant
from mainspring.model.jobs.job import STATES, Job

MOST_FOUND = 200
_MOST_PATHS = 8
_LONGEST_PATH, _LONGEST_VALUE = 200, 1000
_LARGEST = 2**63

Plain = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Search:
    """A checked search. A field that is None does not filter."""

    state: str | None = None
    name: str | None = None
    queue: str | None = None
    tag: str | None = None
    schedule_id: str | None = None
    parent_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    data: tuple[tuple[str, tuple[Plain, ...]], ...] = ()
    """Paths in the data, each with the values that match."""
    scope: Scope = EVERYTHING
    without: tuple[str, ...] = ()
    """Names of jobs that are not found: of these, a value that is asked for is not shown."""
    cutoff: datetime | None = None
    """Jobs that were made later are not found, nor those that ended later where the state is one of ended jobs."""
    not_by: str | None = None
    """A request or an operation: the jobs that it has changed are not found."""

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(path for path, _ in self.data)


J = TypeVar("J", bound=Job)


@dataclass(frozen=True, slots=True)
class SearchPage(Generic[J]):
    """A page of a search. `next` is the cursor of the next page, and None at the end. A page that is not `complete` has
    fewer jobs than the limit, since the search read its most jobs for one page: there may be more on the next."""

    jobs: tuple[J, ...]
    next: str | None = None
    complete: bool = True


def make_search(given: Mapping[str, Any], data: Mapping[str, Any] | None = None, scope: Scope | None = None) -> Search:
    """Check a search; the error names the first invalid condition."""
    asked = {key: value for key, value in given.items() if value is not None}
    state = asked.pop("state", None)
    if state is not None and state not in STATES:
        raise ConfigurationError(f"There is no state {state!r:.100}; the states are {', '.join(STATES)}.")
    times = {key: check_instant(asked.pop(key), key).astimezone(UTC) for key in ("since", "until") if key in asked}
    checked: dict[str, Any] = times | {key: _text(value, key) for key, value in asked.items()}
    return Search(state=state, data=_places(data or {}), scope=scope or EVERYTHING, **checked)


def check_limit(value: object) -> int:
    return check_whole(value, "limit", 1, MOST_FOUND)


def read_value(text: str) -> tuple[Plain, ...]:
    """The values that a text may mean: itself, and the number, the bool or the quoted text that it is as JSON."""
    try:
        value = json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return (text,)
    if isinstance(value, bool) or (isinstance(value, str) and _is_text(value)):
        return (text, value)
    if isinstance(value, float) or (isinstance(value, int) and abs(value) < _LARGEST):
        return (text, value)
    return (text,)


def _text(value: object, key: str) -> str:
    if key in ("name", "queue", "tag"):
        return check_name(value, key)
    if not isinstance(value, str) or not 1 <= len(value) <= _LONGEST_VALUE or not _is_text(value):
        raise ConfigurationError(f"{key} must be a text of 1 to {_LONGEST_VALUE:,} characters, not {value!r:.100}.")
    return value


def _places(data: Mapping[str, Any]) -> tuple[tuple[str, tuple[Plain, ...]], ...]:
    if not isinstance(data, Mapping) or len(data) > _MOST_PATHS:
        raise ConfigurationError(f"data is a mapping of at most {_MOST_PATHS} paths to plain values.")
    return tuple((_path(path), _values(path, value)) for path, value in data.items())


def _path(path: object) -> str:
    steps = path.split(".") if isinstance(path, str) and len(path) <= _LONGEST_PATH else []
    if not steps or any(not step or "$" in step or not step.isprintable() for step in steps):
        raise ConfigurationError(f'A path in the data is names with dots, such as "user.id", not {path!r:.100}.')
    return ".".join(steps)


def _is_text(value: str) -> bool:
    """Whether a text can be stored at all: JSON can contain lone surrogates."""
    return not any("\ud800" <= letter <= "\udfff" for letter in value)


def _values(path: str, value: object) -> tuple[Plain, ...]:
    """The values that match: one, or several."""
    values = value if isinstance(value, tuple) else (value,)
    for one in values:
        unfit = isinstance(one, str) and (len(one) > _LONGEST_VALUE or not _is_text(one))
        if unfit or not isinstance(one, str | int | float | bool):
            raise ConfigurationError(f"data.{path} is compared with a text, a number or a truth value only.")
        if isinstance(one, int) and not isinstance(one, bool) and abs(one) >= _LARGEST:
            raise ConfigurationError(f"data.{path}: a number has at most 63 bits.")
    return values
