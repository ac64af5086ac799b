"""Operations: one verb on many jobs. What is asked for is checked here, and what became of it is told. Pure.

An operation is a stored order. Its filter and its cutoff are frozen when it is created: a job that was made later is
never meant, and one that does not match any more when its turn comes is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, ParamSpec, TypeVar, get_args

from mainspring.config.settings import check_name, check_reason
from mainspring.durations import duration_ms
from mainspring.errors import ConfigurationError, InvalidOperation
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.jobs.draft import check_priority
from mainspring.model.jobs.job import BLOCKED, FINISHED, NOT_STARTED, PENDING, RETRIABLE, Job
from mainspring.model.jobs.job import RUNNING as RUNNING_JOB
from mainspring.model.views.search import Search, make_search
from mainspring.spelling import suggestion

P = ParamSpec("P")
T = TypeVar("T")

Verb = Literal["retry", "cancel", "run", "delete", "set_priority", "move"]
RETRY, CANCEL, RUN, DELETE, SET_PRIORITY, MOVE = VERBS = get_args(Verb)
OperationState = Literal["waiting", "running", "completed", "cancelled", "failed"]
WAITING, RUNNING, DONE, CANCELLED, FAILED = STATES = get_args(OperationState)
ENDED = (DONE, CANCELLED, FAILED)
MOST_IDS = 1_000
SAMPLED = 5
"""How many of the jobs that are meant are shown."""
START_AFTER = "10s"
"""How long after its creation an operation starts, unless another time is given: so long it can be undone."""
_LATEST_START = 3_600_000
WORKS_ON: Mapping[str, tuple[str, ...]] = {
    RETRY: RETRIABLE,
    CANCEL: (*NOT_STARTED, RUNNING_JOB),
    RUN: (PENDING,),
    DELETE: (*NOT_STARTED, *FINISHED),
    SET_PRIORITY: NOT_STARTED,
    MOVE: NOT_STARTED,
}
"""The states of the jobs that each verb changes."""


@dataclass(frozen=True, slots=True)
class Order:
    """What an operation is to do, checked: the verb, the jobs by a search or by their ids, and the new value."""

    verb: Verb
    search: Search | None = None
    ids: tuple[str, ...] | None = None
    priority: int | None = None
    queue: str | None = None
    scope: Scope = EVERYTHING
    """The scope of its creator: no job out of it is touched."""

    @property
    def states(self) -> tuple[str, ...]:
        """The states that jobs are looked for in. Without one in the filter, these are the states that the verb works
        on; blocked jobs, which no index lists, only where the filter says so."""
        if self.search is None or self.search.state is None:
            possible = WORKS_ON[self.verb] if self.search is None else self.search.states
            return tuple(state for state in WORKS_ON[self.verb] if state != BLOCKED and state in possible)
        return (self.search.state,)

    def search_in(self, state: str, cutoff: datetime | None = None, not_by: str | None = None) -> Search:
        """The search for the jobs in one state."""
        assert self.search is not None
        return replace(self.search, state=state, cutoff=cutoff, not_by=not_by)

    @property
    def edits(self) -> dict[str, Any]:
        """The new values of the jobs' fields, of a verb that has one."""
        given = {"priority": self.priority, "queue": self.queue}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def filter(self) -> dict[str, Any] | None:
        """The filter as it was given; of several values for a path, the first."""
        return None if self.search is None else self.search.given

    def to_document(self) -> dict[str, Any]:
        given = {"verb": self.verb, "scope": self.scope.to_document(), **self.edits}
        if self.ids is not None:
            given["ids"] = list(self.ids)
        if self.search is not None:
            given["filter"] = self.search.to_document()
        return given

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Order:
        scope, ids = Scope.from_document(document["scope"]), document.get("ids")
        search = None if "filter" not in document else Search.from_document(document["filter"], scope)
        named = None if ids is None else tuple(ids)
        return cls(document["verb"], search, named, document.get("priority"), document.get("queue"), scope)


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """A job that an operation has left as it was: `outcome` is "skipped" where it does not match any more, "refused"
    where the verb does not work on it; and why."""

    job_id: str
    outcome: Literal["skipped", "refused"]
    reason: str


@dataclass(frozen=True, slots=True)
class OperationProgress:
    """How many jobs an operation has examined, with their outcomes."""

    changed: int = 0
    skipped: int = 0
    refused: int = 0
    reasons: tuple[LeftAlone, ...] = ()
    """The first of those that were left alone, up to 100."""

    @property
    def examined(self) -> int:
        return self.changed + self.skipped + self.refused


@dataclass(frozen=True)
class OperationPreview:
    """The jobs that an operation would act on: how many, counted up to 10,000, and some of them. If `capped`, there are
    at least that many."""

    count: int
    capped: bool
    sample: tuple[Job, ...] = ()


@dataclass(frozen=True)
class OperationFacts:
    """One verb applied to many jobs, as it was when it was read. `count` is how many jobs were meant when it was
    created, at least so many where `capped`."""

    id: str
    verb: Verb
    state: OperationState
    reason: str
    count: int
    capped: bool
    cutoff: datetime
    created_at: datetime
    starts_at: datetime
    filter: Mapping[str, Any] | None = None
    ids: tuple[str, ...] | None = None
    """The ids of the jobs, where they were named so; not in a list of operations."""
    named: int | None = None
    """How many jobs were named by their ids."""
    priority: int | None = None
    queue: str | None = None
    created_by: str | None = None
    scope: Scope = EVERYTHING
    started_at: datetime | None = None
    finished_at: datetime | None = None
    updated_at: datetime | None = None
    progress: OperationProgress = OperationProgress()
    error: str | None = None
    """Why it failed."""
    sample: tuple[Job, ...] = ()
    """Some of the jobs that are meant; only of an operation that was created just now."""

    @property
    def finished(self) -> bool:
        """Whether it has ended."""
        return self.state in ENDED


# -- checking what is asked for ------------------------------------------------------------------------------------


def make_order(
    verb: object,
    filter: Mapping[str, Any] | None,
    ids: Sequence[str] | str | None,
    priority: int | None,
    queue: str | None,
    scope: Scope,
) -> Order:
    """Check what was asked for, naming the first field that is wrong."""
    known = _check_verb(verb)
    if (filter is None) == (ids is None):
        raise InvalidOperation("Say which jobs are meant by a filter or by ids, and not by both.", "filter")
    search = None if filter is None else _check_filter(known, filter, scope)
    named = None if ids is None else _check_ids(ids)
    return Order(
        known, search, named, _check_new_priority(known, priority), _check_new_queue(known, queue, scope), scope
    )


def check_why(reason: object) -> str:
    """The reason of an operation, which it has to have."""
    checked = _refusing("reason", check_reason, reason)
    if not checked.strip():
        raise InvalidOperation("An operation needs a reason; the audit log keeps it.", "reason")
    return checked


def check_start_after(value: object) -> int:
    """How long after its creation an operation starts, in milliseconds."""
    length = _refusing("start_after", duration_ms, value, "start_after", ConfigurationError)
    if not 0 <= length <= _LATEST_START:
        raise InvalidOperation(f"An operation starts within an hour of its creation, not after {value}.", "start_after")
    return length


def _check_verb(verb: object) -> Verb:
    for known in VERBS:
        if verb == known:
            return known  # type: ignore[no-any-return]
    raise InvalidOperation(f"There is no verb {verb!r:.100}.{suggestion(str(verb), VERBS)}", "verb")


def _check_filter(verb: Verb, filter: Mapping[str, Any], scope: Scope) -> Search:
    search = _refusing("filter", make_search, filter, scope)
    if not search.given:
        raise InvalidOperation(
            'An empty filter would mean all jobs; name one thing at least, such as {"state": "failed"}.', "filter"
        )
    if search.state is not None and search.state not in WORKS_ON[verb]:
        raise InvalidOperation(
            f"{verb} works on {_listed(WORKS_ON[verb])} jobs; for {search.state} ones there is nothing to do.",
            "filter.state",
        )
    return search


def _check_ids(value: Sequence[str] | str) -> tuple[str, ...]:
    ids = (value,) if isinstance(value, str) else value
    if not isinstance(ids, Sequence) or not all(isinstance(one, str) and one for one in ids) or not ids:
        raise InvalidOperation("ids must be the id of a job, or a list of such, and not an empty one.", "ids")
    if len(ids) > MOST_IDS:
        raise InvalidOperation(
            f"At most {MOST_IDS:,} jobs are named by their ids, not {len(ids):,}; use a filter.", "ids"
        )
    return tuple(dict.fromkeys(ids))


def _check_new_priority(verb: Verb, priority: int | None) -> int | None:
    if (verb == SET_PRIORITY) != (priority is not None):
        needs = "needs the priority that the jobs are to have, from 1 (first) to 10 (last)"
        wrong = f"{verb} {needs}." if priority is None else f"priority is for set_priority; leave it out for {verb}."
        raise InvalidOperation(wrong, "priority")
    return None if priority is None else _refusing("priority", check_priority, priority)


def _check_new_queue(verb: Verb, queue: str | None, scope: Scope) -> str | None:
    if (verb == MOVE) != (queue is not None):
        needs = "needs the queue that the jobs are to be in"
        wrong = (
            f"{verb} {needs}."
            if queue is None
            else f"queue is for move; a filter has its own. Leave it out for {verb}."
        )
        raise InvalidOperation(wrong, "queue")
    if queue is not None and not scope.allows_queue(queue):
        raise InvalidOperation("The queue is out of the scope that the operation is for.", "queue")
    return None if queue is None else _refusing("queue", check_name, queue, "queue")


def _refusing(field: str, check: Callable[P, T], *values: P.args, **options: P.kwargs) -> T:
    """What a check returns. Its refusal is one of this field."""
    try:
        return check(*values, **options)
    except ConfigurationError as error:
        raise InvalidOperation(str(error), field) from None


# -- why a job was left alone ----------------------------------------------------------------------------------------

NOT_THERE = "it does not exist"
DELETED = "it was deleted meanwhile"
OTHERWISE = "it does not match the filter any more"
CHANGED = "another program has changed it meanwhile"


def left_in_state(order: Order, state: object) -> tuple[str, bool]:
    """Why a job in this state was left alone, and whether the verb refuses it. A job that was named by its id is
    refused in a state that the verb does not work on; to cancel an ended job is no mistake."""
    if order.search is not None and state not in order.states:
        return f"its state is {state} now", False
    if state not in WORKS_ON[order.verb]:
        if order.verb == CANCEL:
            return f"its state is {state} now", False
        return f"its state is {state}; {order.verb} works on {_listed(WORKS_ON[order.verb])} jobs only", True
    return (OTHERWISE if order.search is not None else CHANGED), False


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
