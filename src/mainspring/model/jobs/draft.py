"""A job that a caller wants to schedule, checked but not stored yet.

Of a burst of calls with one key, the last one counts (debounce), or the first in a window does (throttle). Both use a
dedupe key, by default the job's name. Throttling is a dedupe window under its own name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Unpack

from mainspring.config.checks import is_whole
from mainspring.config.settings import check_name
from mainspring.errors import ConfigurationError, InvalidJob
from mainspring.model.access.namespaces import dedupe_key_in
from mainspring.model.fields import Fields
from mainspring.model.jobs.guarantee import check_guarantee, check_one_attempt
from mainspring.model.jobs.job import DEFAULT_PRIORITY, DEFAULT_QUEUE, FIRST_PRIORITY, LAST_PRIORITY
from mainspring.model.jobs.options import JobOptions
from mainspring.model.jobs.payload_versions import FIRST_VERSION, check_version
from mainspring.model.jobs.retry import Retry, Seconds, seconds
from mainspring.model.limits.limits import Gate, window
from mainspring.model.privacy.encrypted_values import AsStored, Encrypt, check_encrypt

_ID = re.compile(r"[0-9a-f]{24}")


@dataclass(slots=True)
class Draft:
    """A job as the caller of `schedule()` wants it. Durations are seconds; `run_at` None means now plus `delay`."""

    name: str
    data: Any = field(repr=False)
    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_PRIORITY
    run_at: datetime | None = None
    delay: float = 0.0
    expires_at: datetime | None = None
    start_within: float | None = None
    timeout: float | None = None
    retry: Fields | None = None
    guarantee: str | None = None
    """The guarantee that was chosen for it; None for its handler's."""
    tags: list[str] | None = None
    label: str | None = None
    """The user's name for it, beside the name of its handler."""
    dedupe_key: str | None = None
    dedupe_window: float | None = None
    debounce: Debounce | None = None
    parent_id: str | None = None
    job_id: str | None = None
    """The id that it is to have; None for one of its own."""
    data_v: int | None = None
    """The version of the handler that the data is written for, where that is above the first."""
    seq: str | None = None
    """The sequence that it belongs to."""
    encrypt: Encrypt | AsStored | None = None
    """The parts of its data that are stored encrypted."""
    trace: dict[str, str] | None = None
    """The trace context of the call that stores it, where traces are on."""
    gates: Sequence[Gate] = ()
    """The gates on whose wait lists it may have to wait."""
    has_options: bool = True
    """False when only name, data, queue and priority are given, as they mostly are in bulk."""


def make_draft(name: str, data: Any, **options: Unpack[JobOptions]) -> Draft:
    """Check the options of a job; the error names the first invalid one and its cure."""
    given: Fields = {key: value for key, value in options.items() if value is not None}
    if "run_at" in given and "delay" in given:
        raise InvalidJob("Give run_at or delay, not both.")
    if "debounce" in given and ("run_at" in given or "delay" in given):
        raise InvalidJob("debounce decides when the job runs; leave out run_at and delay.")
    key, span = choose_key(name, *map(given.get, ("dedupe_key", "dedupe_window", "debounce", "throttle")))
    if "dedupe_namespace" in given and key is None:
        raise InvalidJob("dedupe_namespace needs a dedupe_key.")
    draft = Draft(check_name(name, "a job's name"), data, parent_id=given.get("parent_id"))
    if "job_id" in given and "debounce" in given:
        raise InvalidJob("A debounced call may change an existing job; leave out job_id.")
    for option, check in _CHECKS.items():
        if option in given:
            setattr(draft, option, check(given[option]))
    check_attempts(draft)
    if "version" in given and check_version(given["version"]) > FIRST_VERSION:
        draft.data_v = int(given["version"])
    if key is not None:
        draft.dedupe_key = dedupe_key_in(given.get("dedupe_namespace"), check_name(key, "dedupe_key"))
        draft.dedupe_window = None if span is None else seconds(span, "dedupe_window")
    if "debounce" in given or "debounce_max" in given:
        changed = {option: given.get(option) for option in _DEBOUNCED}
        draft.debounce = make_debounce(given.get("debounce"), given.get("debounce_max"), changed)
        draft.delay = draft.debounce.delay
    return draft


def check_attempts(draft: Draft, guarantee: str | None = None) -> None:
    """Refuse a retry policy of its own for a job that may be started once only; `guarantee` is its handler's."""
    if draft.retry is not None:
        check_one_attempt(draft.guarantee or guarantee, draft.retry["attempts"])


def check_in_transaction(draft: Draft) -> None:
    """Refuse options that cannot be part of a caller's transaction."""
    if draft.debounce is not None:
        raise InvalidJob(
            "debounce cannot be part of a transaction: an open one would keep workers from the job that it changes. "
            "Leave session out, and call schedule() once the transaction has committed."
        )
    if draft.job_id is not None:
        raise InvalidJob("job_id cannot be part of a transaction: an existing job with this id would abort it.")


def check_job_id(job_id: object) -> str:
    """Check an id that a caller has chosen for a job."""
    if not isinstance(job_id, str) or not _ID.fullmatch(job_id):
        raise InvalidJob(f"job_id must be 24 lowercase hexadecimal digits, not {job_id!r}.")
    return job_id


OPTIONS = frozenset(JobOptions.__annotations__) - {"session"}


def check_instant(value: object, name: str) -> datetime:
    """An aware datetime; a naive one is refused, since it names no instant."""
    if not isinstance(value, datetime):
        raise InvalidJob(f"{name} must be an aware datetime, not {value!r}.")
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidJob(
            f"{name}={value.isoformat()} has no time zone, so it is not an exact instant; use datetime.now(UTC) + …, "
            "or .replace(tzinfo=ZoneInfo('Europe/Paris'))."
        )
    return value


def check_priority(value: object) -> int:
    if not is_whole(value, FIRST_PRIORITY, LAST_PRIORITY):
        raise InvalidJob(f"priority must be a whole number from 1 (first) to 10 (last), not {value!r}.")
    return value


def check_timeout(value: Seconds) -> float:
    limit = seconds(value, "timeout")
    if limit == 0:
        raise InvalidJob("timeout must be more than 0 seconds; leave it out for no limit.")
    return limit


def check_retry(value: Retry | int) -> Retry:
    """A retry policy, or the number of attempts as a short form of one."""
    if isinstance(value, Retry):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Retry(attempts=value)
    if isinstance(value, Mapping):
        raise ConfigurationError("retry must be a Retry, such as Retry(attempts=5, delay=10), not a mapping.")
    raise ConfigurationError(f"retry must be a Retry or a number of attempts, not {value!r}.")


def check_tags(value: Sequence[str]) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) > 50:
        raise InvalidJob(f"tags must be a list of at most 50 strings, not {value!r}.")
    return list(dict.fromkeys(check_name(tag, "a tag") for tag in value))


def start_by(run_at: datetime, expires_at: datetime | None, start_within: float | None) -> datetime | None:
    """The instant after which a job must not be started, if there is one."""
    limits = [] if expires_at is None else [expires_at]
    if start_within is not None:
        limits.append(run_at + timedelta(seconds=start_within))
    return min(limits, default=None)


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "job_id": check_job_id,
    "queue": lambda value: check_name(value, "a queue's name"),
    "priority": check_priority,
    "run_at": lambda value: check_instant(value, "run_at"),
    "delay": lambda value: seconds(value, "delay"),
    "expires_at": lambda value: check_instant(value, "expires_at"),
    "start_within": lambda value: seconds(value, "start_within"),
    "timeout": check_timeout,
    "retry": lambda value: check_retry(value).to_document(),
    "guarantee": check_guarantee,
    "tags": check_tags,
    "label": lambda value: check_name(value, "label"),
    "encrypt": check_encrypt,
}
"""The check of each option that a draft keeps, in the order in which they are made."""
_DEBOUNCED = (
    "queue",
    "priority",
    "expires_at",
    "start_within",
    "timeout",
    "retry",
    "guarantee",
    "tags",
    "label",
    "parent_id",
)
"""The options of a debounced job that a further call changes."""


# -- bursts of calls -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Debounce:
    """The last call of a burst runs `delay` seconds after it, and not later than `most` seconds after the first."""

    delay: float
    most: float | None = None
    given: frozenset[str] = frozenset()
    """The options that this call gives beside its data: they are changed too, and the others stay as they are."""


def make_debounce(delay: Seconds | None, most: Seconds | None, options: Mapping[str, object]) -> Debounce:
    """Check the options of a debounced job; `options` are those that a later call of a burst may change."""
    if delay is None:
        raise InvalidJob("debounce_max needs debounce.")
    pause = window(delay, "debounce")
    longest = None if most is None else seconds(most, "debounce_max")
    if longest is not None and longest < pause:
        raise InvalidJob(f"debounce_max ({longest:g} s) must not be shorter than debounce ({pause:g} s).")
    return Debounce(pause, longest, frozenset(key for key, value in options.items() if value is not None))


def choose_key(
    name: str,
    key: str | None,
    dedupe_window: Seconds | None,
    debounce: Seconds | None,
    throttle: Seconds | None,
) -> tuple[str | None, Seconds | None]:
    """The dedupe key and window, by `dedupe_window`, `debounce` or `throttle`."""
    if dedupe_window is not None and key is None:
        raise InvalidJob("dedupe_window needs a dedupe_key.")
    if throttle is not None and dedupe_window is not None:
        raise InvalidJob("Give throttle or dedupe_window, not both: throttle is a dedupe_window under its own name.")
    if debounce is not None and (throttle is not None or dedupe_window is not None):
        raise InvalidJob("Give debounce (the last of a burst runs) or throttle (the first in a window does), not both.")
    if debounce is None and throttle is None:
        return key, dedupe_window
    return name if key is None else key, None if throttle is None else window(throttle, "throttle")
