"""A checked search for schedules, the test whether a schedule matches, and the places at which a page ends. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from mainspring.config.checks import check_whole
from mainspring.config.settings import check_name
from mainspring.errors import ConfigurationError
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.jobs.job import FAILED, PENDING
from mainspring.model.schedules.schedule import ACTIVE, ENDED, PAUSED, ScheduleFacts
from mainspring.rules.instants import floor_ms, from_ms

FAILING = "failing"
ScheduleFilterState = Literal["active", "paused", "ended", "failing"]
FILTER_STATES = (ACTIVE, PAUSED, ENDED, FAILING)
ScheduleOrder = Literal["id", "next"]
BY_ID, BY_NEXT = "id", "next"
ORDERS = (BY_ID, BY_NEXT)
RETRYING = "retrying"
"""A pending job with a failed attempt, in the states of a schedule's runs."""
MOST_LISTED = 200
_LONGEST_TEXT, _LONGEST_TIME = 200, 14
S = TypeVar("S", bound=ScheduleFacts)


@dataclass(frozen=True, slots=True)
class ScheduleSearch:
    """A checked search. A field that is None does not filter."""

    state: str | None = None
    name: str | None = None
    queue: str | None = None
    tag: str | None = None
    text: str | None = None
    """A part of the id or the name, in lower case."""
    order: str = BY_ID
    scope: Scope = EVERYTHING

    @property
    def filters(self) -> bool:
        """Whether schedules may be looked at that do not match."""
        given = (self.state, self.name, self.queue, self.tag, self.text)
        return not self.scope.everything or any(one is not None for one in given)

    def matches(self, facts: Listed) -> bool:
        """Whether a schedule matches, apart from "failing", which depends on its last job."""
        if not self.scope.allows(facts.queue, facts.name):
            return False
        same = ((self.name, facts.name), (self.queue, facts.queue))
        if any(wanted not in (None, found) for wanted, found in same):
            return False
        if self.tag is not None and self.tag not in facts.tags:
            return False
        if self.text is not None and self.text not in facts.id.lower() and self.text not in facts.name.lower():
            return False
        return self.state in (None, FAILING, facts.state)


@dataclass(frozen=True, slots=True)
class Listed:
    """What a search compares of one schedule."""

    id: str
    name: str
    queue: str
    tags: tuple[str, ...]
    state: str


@dataclass(frozen=True, slots=True)
class SchedulePage(Generic[S]):
    """A page of schedules. If it is not `complete`, more schedules may match: continue with `next`."""

    schedules: tuple[S, ...]
    next: str | None
    complete: bool
    last_states: Mapping[str, str] = field(default_factory=dict)
    """The state of the job of the last firing, by the schedule's id; missing where that job is not stored any more."""


def make_search(given: Mapping[str, Any], scope: Scope | None) -> ScheduleSearch:
    """The checked search of some arguments."""
    state, order = given.get("state"), given.get("order") or BY_ID
    if state is not None and state not in FILTER_STATES:
        raise ConfigurationError(f"There is no state {state!r}; a schedule is {', '.join(FILTER_STATES)}.")
    if order not in ORDERS:
        raise ConfigurationError(f"order must be one of {', '.join(ORDERS)}, not {order!r}.")
    if order == BY_NEXT and state in (PAUSED, ENDED):
        raise ConfigurationError(f'A schedule that is {state} has no next firing; list these with order="id".')
    named = {key: given.get(key) for key in ("name", "queue", "tag")}
    checked = {key: None if value is None else check_name(value, key) for key, value in named.items()}
    return ScheduleSearch(state, **checked, text=_text(given.get("text")), order=order, scope=scope or EVERYTHING)


def _text(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not 1 <= len(value) <= _LONGEST_TEXT:
        raise ConfigurationError(f"text must be 1 to {_LONGEST_TEXT} characters of an id or a name.")
    return value.lower()


def check_limit(limit: object) -> int:
    return check_whole(limit, "limit", 1, MOST_LISTED)


def run_state(state: object, failed_before: bool) -> str:
    """The state of a schedule's run: that of its job, and "retrying" after a failed attempt."""
    return RETRYING if state == PENDING and failed_before else str(state)


def is_failing(failures: int, last_state: str | None) -> bool:
    """Whether a schedule is failing: its last job has failed or is tried again, or failures in a row are counted."""
    return failures > 0 or last_state in (FAILED, RETRYING)


# -- places --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page ended: the id of the last schedule looked at and, in the order of next firings, its time."""

    id: str
    at: datetime | None = None

    def text(self) -> str:
        return f"i:{self.id}" if self.at is None else f"n:{floor_ms(self.at)}:{self.id}"


def read_place(text: str | None, order: str) -> Place | None:
    """The place that `Place.text` wrote, for the same order."""
    if text is None:
        return None
    kind, _, rest = text.partition(":")
    if kind == "i" and rest and order == BY_ID:
        return Place(rest)
    milliseconds, _, id = rest.partition(":")
    if kind == "n" and id and order == BY_NEXT and milliseconds.isdecimal() and len(milliseconds) <= _LONGEST_TIME:
        return Place(id, from_ms(int(milliseconds)))
    raise ConfigurationError("This place belongs to another list or order; start again without `after`.")
