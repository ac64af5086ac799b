"""What an import makes of each record of another scheduler: a job, a schedule, or nothing, with the reason. Pure.

Ids follow from the record's own id, so that importing twice is importing once. What could not be stored is refused
before anything is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Literal

from mainspring.errors import ConfigurationError, InvalidSchedule
from mainspring.model.fields import Fields
from mainspring.model.jobs.draft import make_draft
from mainspring.model.schedules.schedule import make_spec
from mainspring.rules.rule import Rule

Reason = Literal["finished", "refused"]
_TEMPLATE = ("priority", "queue", "start_within", "timeout", "retry", "tags", "guarantee")


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices of the user for one import."""

    prefix: str
    """The beginning of the ids of schedules; it keeps several sources apart."""
    timezone: str = "UTC"
    """The zone of rules that name none."""
    rename: Mapping[str, str] = field(default_factory=dict)
    """The names of handlers, by the names in the source."""
    arguments: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By the name in the source: the names of its positional arguments."""

    def name(self, name: str) -> str:
        return self.rename.get(name, name)


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A job to be made."""

    source_id: str
    job_id: str
    name: str
    data: Mapping[str, Any]
    options: Mapping[str, Any]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedSchedule:
    """A schedule to be made."""

    source_id: str
    schedule_id: str
    name: str
    data: Mapping[str, Any]
    rule: Rule
    options: Mapping[str, Any]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A record of which nothing is made: it has finished there, or cannot be translated."""

    source_id: str
    name: str
    kind: Reason
    reason: str


Planned = PlannedJob | PlannedSchedule | LeftOut


class CannotImport(Exception):
    """The reason why a record cannot be translated."""


def job_id(prefix: str, source_id: str) -> str:
    """The id of the job of a record: always the same for the same record."""
    return sha256(f"mainspring import\0{prefix}\0{source_id}".encode()).hexdigest()[:24]


def plan_job(
    source_id: str, name: str, data: Any, choices: Choices, options: Mapping[str, Any], notes: Sequence[str] = ()
) -> Planned:
    """A single job, checked as far as that is possible without its handler."""
    given = {key: value for key, value in options.items() if value is not None}
    try:
        plain = as_data(data)
        made = PlannedJob(source_id, job_id(choices.prefix, source_id), choices.name(name), plain, given, tuple(notes))
        make_draft(made.name, made.data, job_id=made.job_id, **given)
    except (CannotImport, ConfigurationError) as error:
        return LeftOut(source_id, str(name), "refused", str(error))
    return made


def plan_schedule(
    source_id: str,
    name: str,
    data: Any,
    rule: Rule,
    choices: Choices,
    options: Mapping[str, Any],
    notes: Sequence[str] = (),
) -> Planned:
    """A schedule, checked as far as that is possible without its handler."""
    given = {key: value for key, value in options.items() if value is not None}
    try:
        plain, identity = as_data(data), f"{choices.prefix}:{source_id}"
        made = PlannedSchedule(source_id, identity, choices.name(name), plain, rule, given, tuple(notes))
        of_jobs = {key: given[key] for key in _TEMPLATE if key in given}
        rest = {key: value for key, value in given.items() if key not in _TEMPLATE}
        make_spec(identity, make_draft(made.name, plain, **of_jobs), rule, rest)
    except (CannotImport, ConfigurationError, InvalidSchedule) as error:
        return LeftOut(source_id, str(name), "refused", str(error))
    return made


def as_data(data: Any) -> Fields:
    """The data of a job: named values."""
    if data is None:
        return {}
    if not isinstance(data, Mapping) or not all(isinstance(key, str) for key in data):
        raise CannotImport(f"Its data is of the type {type(data).__name__}; a handler takes named values.")
    return dict(data)


def named_arguments(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], choices: Choices) -> Fields:
    """Positional and named arguments as named values."""
    names = choices.arguments.get(name, ())
    if len(args) > len(names):
        raise CannotImport(
            f"It has {len(args)} positional argument{'' if len(args) == 1 else 's'}, and a handler takes named values; "
            f"name them: --arguments {name}=first,second"
        )
    taken = dict(zip(names, args, strict=False))
    if both := sorted(taken.keys() & kwargs.keys()):
        raise CannotImport(f"Its argument {both[0]!r} is given twice, by its position and by its name.")
    return {**taken, **kwargs}


def instant(value: Any, what: str) -> datetime:
    """An instant; of one without a zone, as MongoDB keeps it, in UTC."""
    if not isinstance(value, datetime):
        raise CannotImport(f"Its {what} is no date but {type(value).__name__}.")
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
