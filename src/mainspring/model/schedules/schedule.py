"""A schedule: a rule that makes jobs, with its policies for missed firings and overlapping runs.

`make_spec` checks a user's options; `ScheduleFacts` shows a stored schedule to users. A schedule never runs itself:
each firing makes a job of its own, whose id is made of the schedule's id and the firing's instant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypedDict, get_type_hints

from mainspring.config.checks import check_whole
from mainspring.config.settings import check_name
from mainspring.errors import ConfigurationError, InvalidSchedule
from mainspring.model.jobs.draft import Draft, check_instant
from mainspring.model.jobs.options import TemplateChanges, TemplateOptions
from mainspring.model.jobs.reserved_names import HTTP
from mainspring.model.jobs.retry import Retry, Seconds, seconds
from mainspring.model.schedules.firing_plan import MISFIRES, OVERLAPS, Misfire, Overlap, Policy
from mainspring.model.schedules.times import is_after_end
from mainspring.rules.rule import Rule, as_rule
from mainspring.rules.spelled import spelled
from mainspring.spelling import suggestion

ACTIVE, PAUSED, ENDED = "active", "paused", "ended"
ScheduleState = Literal["active", "paused", "ended"]
SCHEDULE_STATES = (ACTIVE, PAUSED, ENDED)
SYSTEM = "mainspring"
"""The actor of a pause that a schedule got by itself."""
_MOST_CAUGHT_UP = 1000


class ScheduleOptions(TypedDict, total=False):
    """The options of `schedule(..., repeat=...)` beside the job's own."""

    start_at: datetime | None
    """No firing before this instant."""
    end_at: datetime | None
    """No firing after this instant."""
    max_runs: int | None
    """The most jobs that its firings make."""
    jitter: Seconds | None
    """Spreads the firings by up to this much: always the same for the same firing."""
    misfire: Misfire | None
    """The policy for missed firings: "skip", "latest" (one run for all of them) or "all" (up to `misfire_limit`)."""
    misfire_grace: Seconds | None
    """Until this long after its instant a firing is not missed: it gets its job, late. 60 seconds."""
    misfire_limit: int | None
    """The most missed firings that get a job with "all", the latest ones. 100."""
    start_deadline: Seconds | None
    """A missed firing that is older than this gets no job."""
    overlap: Overlap | None
    """The policy for a run that is still going: "allow", "skip", "queue_one", "queue_all" or "cancel_running"."""
    pause_after: int | None
    """Pause the schedule when this many of its runs have failed in a row."""
    paused: bool | None
    """Create it paused: it fires only once it is resumed. Has no effect on an existing schedule."""


class DeclaredOptions(ScheduleOptions, TemplateOptions, total=False):
    """The options of `@scheduler.cron(…)` and `@scheduler.every(…)`: those of the schedule, and of its jobs."""


class EditOptions(ScheduleOptions, TemplateChanges, total=False):
    """The options that `scheduler.schedules.edit` changes."""


class RepeatOptions(DeclaredOptions, total=False):
    """The options of `schedule(…, repeat=…)` beside the rule."""

    schedule_id: str | None


@dataclass(frozen=True, slots=True)
class Spec:
    """The checked options of a schedule."""

    id: str
    draft: Draft
    rule: Rule
    start_at: datetime | None
    end_at: datetime | None
    jitter: float
    policy: Policy
    pause_after: int | None
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """The pause of a schedule: since when, the reason, and the actor."""

    at: datetime
    reason: str = ""
    actor: str | None = None


@dataclass(frozen=True)
class ScheduleFacts:
    """A schedule as it was stored when it was read. A snapshot: it does not change by itself."""

    id: str
    name: str
    data: Mapping[str, Any] = field(repr=False)
    rule: Rule
    state: str
    next_at: datetime | None
    """The next firing: its nominal time, which its job will carry as `scheduled_for`."""
    due_at: datetime | None
    """When the job of the next firing is made: `next_at` and the jitter."""
    last_at: datetime | None
    last_job_id: str | None
    runs: int
    failures: int
    """The number of runs that have failed in a row; counted only when `pause_after` is set."""
    paused: Pause | None
    queue: str
    priority: int
    created_at: datetime
    updated_at: datetime
    start_at: datetime | None = None
    end_at: datetime | None = None
    jitter: timedelta = timedelta(0)
    policy: Policy = field(default_factory=Policy)
    pause_after: int | None = None
    tags: tuple[str, ...] = ()
    label: str | None = None
    """The name that its jobs have beside that of their handler."""
    retry_policy: Retry | None = None
    """The policy of its jobs; None for their handler's."""
    guarantee: str | None = None
    timeout: timedelta | None = None
    start_within: timedelta | None = None
    declared_by: str | None = None
    """The app in whose code it is declared, if it is."""
    rev: int = 0
    error: str | None = None
    """The unreadable fields of its document, written by another program: they have defaults, or None."""
    kept: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)
    """Where its data has encrypted values: the stored data, with `EncryptedValue` in place of each."""


@dataclass(frozen=True, slots=True)
class Firing:
    """A future firing: its nominal time in the rule's zone, when its job is made, and notes if it was moved."""

    at: datetime
    due: datetime
    notes: tuple[str, ...] = ()


def make_spec(schedule_id: str, draft: Draft, repeat: object, options: Mapping[str, Any]) -> Spec:
    """Check the options of a schedule; the error names the first invalid one and its cure."""
    check_options(options)
    rule = as_rule(spelled(repeat), "repeat")
    given = {key: value for key, value in options.items() if value is not None}
    start_at, end_at = (_instant(given.get(key), key) for key in ("start_at", "end_at"))
    if start_at is not None and end_at is not None and end_at < start_at:
        raise InvalidSchedule(f"end_at ({end_at.isoformat()}) is before start_at ({start_at.isoformat()}).")
    try:
        jitter = seconds(given.get("jitter", 0.0), "jitter")
        policy = _policy(given, usual_overlap(draft.name, rule))
        identity = check_name(schedule_id, "schedule_id")
    except InvalidSchedule:
        raise
    except ConfigurationError as error:
        raise InvalidSchedule(str(error)) from None
    if is_after_end(rule) and policy.overlap != "allow":
        raise InvalidSchedule(
            'overlap has no effect with after="end" (runs never overlap); leave it out or set it to "allow".'
        )
    paused = given.get("paused", False)
    if not isinstance(paused, bool):
        raise InvalidSchedule(f"paused must be True or False, not {paused!r}.")
    return Spec(identity, draft, rule, start_at, end_at, jitter, policy, _count(given, "pause_after"), paused)


def check_repeated(draft: Draft, session: object) -> None:
    """Refuse options of a single job that have no meaning for the jobs of a schedule."""
    given = {
        "run_at": (draft.run_at, "use start_at"),
        "debounce": (draft.debounce, "each firing makes one job anyway"),
        "delay": (draft.delay or None, "use start_at"),
        "expires_at": (draft.expires_at, "use start_within"),
        "dedupe_key": (draft.dedupe_key, "each firing makes one job anyway"),
        "parent_id": (draft.parent_id, "leave it out"),
        "job_id": (draft.job_id, "use schedule_id"),
        "session": (session, "a schedule is stored at once, outside of transactions"),
    }
    for key, (value, cure) in given.items():
        if value is not None:
            raise InvalidSchedule(f"{key} is for a single job; with repeat, {cure}.")


def check_removed(names: object) -> None:
    """Refuse to remove options that a schedule must have, or does not have."""
    known = set(ScheduleOptions.__annotations__) - {"paused"}
    if isinstance(names, str) or not isinstance(names, Sequence) or not set(names) <= known:
        raise InvalidSchedule(f"remove takes a list of options, out of {', '.join(sorted(known))}, not {names!r}.")


def check_options(options: Mapping[str, Any]) -> None:
    for key in options.keys() - ScheduleOptions.__annotations__.keys():
        raise InvalidSchedule(unknown_option(key))


def unknown_option(key: str) -> str:
    """The error for an option that schedules do not have."""
    known = sorted((*get_type_hints(DeclaredOptions), "schedule_id"))
    return f"A schedule has no option {key!r}.{suggestion(key, known)}"


def usual_overlap(name: str, rule: Rule) -> str:
    """The overlap policy where none is given: a webhook does not overlap itself, since its receiver rarely wants
    that; other jobs may."""
    return "skip" if name == HTTP and not is_after_end(rule) else "allow"


def _policy(given: Mapping[str, Any], usual: str) -> Policy:
    deadline = given.get("start_deadline")
    return Policy(
        misfire=_choice(given, "misfire", MISFIRES, "latest"),
        misfire_grace=_grace(given.get("misfire_grace", 60.0)),
        misfire_limit=_count(given, "misfire_limit", most=_MOST_CAUGHT_UP) or 100,
        start_deadline=None if deadline is None else seconds(deadline, "start_deadline"),
        overlap=_choice(given, "overlap", OVERLAPS, usual),
        max_runs=_count(given, "max_runs"),
    )


def _grace(value: Seconds) -> float:
    grace = seconds(value, "misfire_grace")
    if grace < 1:
        raise InvalidSchedule(f"misfire_grace must be at least 1 second, since no job is made at once, not {value!r}.")
    return grace


def _choice(given: Mapping[str, Any], key: str, choices: tuple[str, ...], default: str) -> str:
    value = given.get(key, default)
    if value not in choices:
        raise InvalidSchedule(f"{key} must be one of {', '.join(choices)}, not {value!r}.")
    return str(value)


def _count(given: Mapping[str, Any], key: str, most: int = 2**31) -> int | None:
    value = given.get(key)
    return None if value is None else check_whole(value, key, 1, most, InvalidSchedule)


def _instant(value: object, key: str) -> datetime | None:
    try:
        if value is None:
            return None
        instant = check_instant(value, key).astimezone(UTC)
        return instant.replace(microsecond=instant.microsecond // 1000 * 1000)
    except ConfigurationError as error:
        raise InvalidSchedule(str(error)) from None
