"""The filter of jobs, checked, and the places in the order of a search at which a page ends. Pure.

One filter serves all that choose jobs: `scheduler.jobs`, `scheduler.search`, exports, counts and operations. Every
value is compared as a literal: a text is a text, whatever it looks like, so that no value of a client is ever taken as
an operator.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypedDict, TypeVar, get_type_hints

from mainspring.config.checks import check_whole
from mainspring.config.settings import check_name
from mainspring.errors import ConfigurationError
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.jobs.draft import check_instant
from mainspring.model.jobs.job import FAILED, FINISHED, STATES, Job, JobState
from mainspring.spelling import suggestion

MOST_FOUND = 200
_MOST_PATHS = 8
_LONGEST_PATH, _LONGEST_VALUE = 200, 1000
_LARGEST = 2**63

Plain = str | int | float | bool


class JobFilter(TypedDict, total=False):
    """Which jobs are meant; all that is given, and is not None, has to fit.

    `error` is in the type or the message of a job's error, in any case of letters; `fingerprint` is that of dead
    letters with the same cause; `worker` runs a job or has run it. `flow_id` is the root of a flow, which is not found
    itself, and `node` a node of that flow, with the jobs below it. `since` and `until` are about when a job was made,
    the other instants about when it is or was due, and when it ended. `data` has plain values by their paths, such as
    `{"user.id": 7}`; a tuple there stands for any of its values.
    """

    state: JobState | None
    name: str | None
    queue: str | None
    tag: str | None
    label: str | None
    dedupe_key: str | None
    error: str | None
    fingerprint: str | None
    worker: str | None
    schedule_id: str | None
    parent_id: str | None
    flow_id: str | None
    node: str | None
    since: datetime | None
    until: datetime | None
    run_since: datetime | None
    run_until: datetime | None
    finished_since: datetime | None
    finished_until: datetime | None
    data: Mapping[str, Any] | None


_KINDS = get_type_hints(JobFilter)
TEXTS = tuple(name for name, kind in _KINDS.items() if kind == str | None)
INSTANTS = tuple(name for name, kind in _KINDS.items() if kind == datetime | None)
_NAMES = ("name", "queue", "tag")
CONDITIONS = ("state", *TEXTS, *INSTANTS)
"""All that a filter may have but values in the data."""


@dataclass(frozen=True, slots=True)
class Search:
    """A checked filter. A field that is None does not filter."""

    state: str | None = None
    name: str | None = None
    queue: str | None = None
    tag: str | None = None
    label: str | None = None
    dedupe_key: str | None = None
    error: str | None = None
    fingerprint: str | None = None
    worker: str | None = None
    schedule_id: str | None = None
    parent_id: str | None = None
    flow_id: str | None = None
    node: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    run_since: datetime | None = None
    run_until: datetime | None = None
    finished_since: datetime | None = None
    finished_until: datetime | None = None
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

    @property
    def states(self) -> tuple[str, ...]:
        """The states that jobs which match can be in."""
        if self.state is not None:
            return (self.state,)
        if self.fingerprint is not None:
            return (FAILED,)
        return FINISHED if self.finished_since or self.finished_until else STATES

    @property
    def given(self) -> dict[str, Any]:
        """The filter as it was given; of several values for a path, the first."""
        return self._conditions() | ({"data": {path: values[0] for path, values in self.data}} if self.data else {})

    def to_document(self) -> dict[str, Any]:
        """The filter as it is stored, without the scope."""
        document = self._conditions()
        if self.data:
            document["data"] = [{"path": path, "values": list(values)} for path, values in self.data]
        return document | ({"without": list(self.without)} if self.without else {})

    @classmethod
    def from_document(cls, document: Mapping[str, Any], scope: Scope) -> Search:
        given = {name: document[name] for name in CONDITIONS if name in document}
        data = tuple((one["path"], tuple(one["values"])) for one in document.get("data", ()))
        return cls(**given, data=data, scope=scope, without=tuple(document.get("without", ())))

    def _conditions(self) -> dict[str, Any]:
        return {name: value for name in CONDITIONS if (value := getattr(self, name)) is not None}


J = TypeVar("J", bound=Job)


@dataclass(frozen=True, slots=True)
class SearchPage(Generic[J]):
    """A page of a search. `next` is the cursor of the next page, and None at the end. A page that is not `complete` has
    fewer jobs than the limit, since the search read its most jobs for one page: there may be more on the next;
    `searched` says how far it has come."""

    jobs: tuple[J, ...]
    next: str | None = None
    complete: bool = True
    searched: str | None = None


@dataclass(frozen=True, slots=True)
class StateCount:
    """How many jobs of a filter are in a state. Where `capped`, counting has stopped: there are at least so many."""

    state: str
    count: int
    capped: bool


@dataclass(frozen=True, slots=True)
class Suggestions:
    """Names, queues, tags and types of errors of jobs that ran or were made lately, sorted; some may be missing."""

    names: tuple[str, ...]
    queues: tuple[str, ...]
    tags: tuple[str, ...]
    errors: tuple[str, ...]


def make_search(filter: Mapping[str, Any], scope: Scope | None = None) -> Search:
    """Check a filter; the error names the first condition that is invalid or unknown."""
    known = (*CONDITIONS, "data")
    for key in filter:
        if key not in known:
            raise ConfigurationError(f"Jobs have no filter {key!r:.100}.{suggestion(str(key), known)}")
    asked = {key: value for key, value in filter.items() if value is not None}
    data = asked.pop("data", {})
    state = asked.pop("state", None)
    if state is not None and state not in STATES:
        raise ConfigurationError(f"There is no state {state!r:.100}; the states are {', '.join(STATES)}.")
    if "node" in asked and "flow_id" not in asked:
        raise ConfigurationError("node is a node of a flow: give flow_id with it.")
    times = {key: check_instant(asked.pop(key), key).astimezone(UTC) for key in INSTANTS if key in asked}
    checked: dict[str, Any] = times | {key: _text(value, key) for key, value in asked.items()}
    return Search(state=state, data=_places(data), scope=scope or EVERYTHING, **checked)


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
    if key in _NAMES:
        return check_name(value, key)
    fits = isinstance(value, str) and 1 <= len(value) <= _LONGEST_VALUE and _is_text(value) and "\0" not in value
    if not fits or not isinstance(value, str):
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
