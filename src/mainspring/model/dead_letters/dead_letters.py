"""Selections and groups of dead letters, and the progress of a redrive of many of them.

A redrive is one order to retry or to discard dead letters. It is stored, and carried out in batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, TypedDict

from mainspring.config.settings import check_name
from mainspring.durations import duration_ms
from mainspring.errors import ConfigurationError
from mainspring.model.jobs.draft import check_instant
from mainspring.spelling import suggestion

RETRY, DISCARD = "retry", "discard"
RUNNING, DONE, CANCELLED = "running", "done", "cancelled"
STATES = (RUNNING, DONE, CANCELLED)
UNKNOWN = "unknown"
"""The group of dead letters whose error has no fingerprint yet."""
DEFAULT_ALERT = "mainspring:dead-letter"
MOST_IDS = 10_000
_SHORTEST_PERIOD = 1000


class DeadLetterFilter(TypedDict, total=False):
    """A filter of dead letters; every given condition has to match. `error` is the error's type, `text` is in its
    message, and `since` and `until` bound the instant at which the job failed."""

    name: str
    queue: str
    tag: str
    error: str
    fingerprint: str
    since: datetime
    until: datetime
    text: str


_TEXTS = ("name", "queue", "tag", "error", "fingerprint")
_INSTANTS = ("since", "until")


@dataclass(frozen=True, slots=True)
class Selection:
    """A filter that was checked, as it is stored with a redrive. `ids` names dead letters one by one."""

    name: str | None = None
    queue: str | None = None
    tag: str | None = None
    error: str | None = None
    fingerprint: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    text: str | None = None
    ids: tuple[str, ...] | None = None

    def __bool__(self) -> bool:
        """Whether it has any condition."""
        return bool(self.to_document())

    def to_document(self) -> dict[str, Any]:
        given = {key: value for key, value in asdict(self).items() if value is not None}
        return given if self.ids is None else {**given, "ids": list(self.ids)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Selection:
        known = {key: document[key] for key in cls.__dataclass_fields__ if key in document}
        return cls(**known) if "ids" not in known else cls(**{**known, "ids": tuple(known["ids"])})


def make_selection(filter: Mapping[str, Any], ids: Sequence[str] | str | None = None) -> Selection:
    """Check a filter; the error names the first invalid condition."""
    known = tuple(DeadLetterFilter.__annotations__)
    unknown = [key for key in filter if key not in known]
    if unknown:
        raise ConfigurationError(f"Dead letters have no filter {unknown[0]!r}.{suggestion(unknown[0], known)}")
    given = {key: value for key, value in filter.items() if value is not None}
    checked: dict[str, Any] = {key: check_name(given[key], key) for key in _TEXTS if key in given}
    checked |= {key: check_instant(given[key], key).astimezone(UTC) for key in _INSTANTS if key in given}
    if "text" in given:
        checked["text"] = _check_text(given["text"])
    if ids is not None:
        checked["ids"] = _check_ids(ids)
    return Selection(**checked)


def _check_text(value: object) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= 1000 or "\0" in value:
        raise ConfigurationError(f"text must be 1 to 1,000 characters of an error's message, not {value!r:.100}.")
    return value


def _check_ids(value: Sequence[str] | str) -> tuple[str, ...]:
    ids = (value,) if isinstance(value, str) else value
    if not isinstance(ids, Sequence) or not all(isinstance(one, str) and one for one in ids):
        raise ConfigurationError(f"ids must be the id of a job, or a list of such, not {value!r:.100}.")
    if len(ids) > MOST_IDS:
        raise ConfigurationError(f"At most {MOST_IDS:,} dead letters are named by their ids, not {len(ids):,}.")
    return tuple(dict.fromkeys(ids))


@dataclass(frozen=True, slots=True)
class DeadLetterGroup:
    """Dead letters with the same fingerprint, that is, the same cause. `message` and `sample_job_id` are those of the
    latest one. The instants are None if another program stored the jobs without them."""

    fingerprint: str
    name: str
    error_type: str
    message: str
    count: int
    first_seen: datetime | None
    last_seen: datetime | None
    sample_job_id: str
    capped: bool = False
    """Whether there are more than `count`, or may be."""
    queues: tuple[str, ...] = ()
    """The queues of its failures in the last day, and of its latest dead letter."""
    trend_start: datetime | None = None
    trend: tuple[int, ...] = ()
    """The number of jobs that failed in each hour from `trend_start` on, the current hour last."""


@dataclass(frozen=True, slots=True)
class Skip:
    """A dead letter that a redrive has left alone, and the reason."""

    job_id: str
    reason: str


@dataclass(frozen=True)
class RedriveFacts:
    """A redrive as it was when it was read. `matched` is the number of dead letters that it selected when it began,
    counted up to 200,000; `done` counts those that it has retried or discarded, `skipped` those that it left alone."""

    id: str
    kind: str
    state: str
    matched: int
    done: int
    skipped: int
    started_at: datetime
    finished_at: datetime | None = None
    actor: str | None = None
    reason: str = ""
    skips: tuple[Skip, ...] = ()
    """The first dead letters that were left alone, up to 100."""

    @property
    def finished(self) -> bool:
        """Whether it has ended."""
        return self.state != RUNNING

    @property
    def progress(self) -> float:
        """Its progress, from 0 to 1."""
        if self.state == DONE:
            return 1.0
        return min(1.0, (self.done + self.skipped) / self.matched) if self.matched else 0.0


@dataclass(frozen=True, slots=True)
class Alert:
    """A handler of alerts about dead letters: one for each, or with `every`, one for all of that many seconds."""

    name: str
    every: float | None = None


def check_every(value: object) -> float | None:
    """The period that a summary covers, in seconds."""
    if value is None:
        return None
    length = duration_ms(value, "every", ConfigurationError)
    if length < _SHORTEST_PERIOD:
        raise ConfigurationError(f"every must be a second or more, not {value!r}.")
    return length / 1000
