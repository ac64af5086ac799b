"""A job that somebody wants, checked but not stored yet."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from mainspring.config import check_name
from mainspring.errors import ConfigurationError, InvalidJob
from mainspring.model.debounce import Debounce, choose_key, make_debounce
from mainspring.model.guarantee import check_executes, check_one_attempt
from mainspring.model.job import DEFAULT_PRIORITY, DEFAULT_QUEUE, FIRST_PRIORITY, LAST_PRIORITY
from mainspring.model.limits import Gate
from mainspring.model.retry import Retry, Seconds, seconds
from mainspring.model.sealing import AsStored, Encrypt, check_encrypt
from mainspring.model.versions import FIRST_VERSION, check_version

_ID = re.compile(r"[0-9a-f]{24}")


@dataclass(slots=True)
class Draft:
    """What `schedule()` was asked for. Durations are seconds; `run_at` None means now plus `delay`."""

    name: str
    data: Any = field(repr=False)
    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_PRIORITY
    run_at: datetime | None = None
    delay: float = 0.0
    expires_at: datetime | None = None
    start_within: float | None = None
    timeout: float | None = None
    retry: dict[str, Any] | None = None
    executes: str | None = None
    """The guarantee that was chosen for it; None for its handler's."""
    tags: list[str] | None = None
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
    """What of its data is stored encrypted."""
    gates: Sequence[Gate] = ()
    """The limits in its way at which it may have to wait in line."""
    has_options: bool = True
    """False when only name, data, queue and priority are given, as they mostly are in bulk."""


def make_draft(
    name: str,
    data: Any,
    *,
    run_at: datetime | None = None,
    delay: Seconds | None = None,
    priority: int | None = None,
    queue: str | None = None,
    dedupe_key: str | None = None,
    dedupe_window: Seconds | None = None,
    debounce: Seconds | None = None,
    debounce_max: Seconds | None = None,
    throttle: Seconds | None = None,
    expires_at: datetime | None = None,
    start_within: Seconds | None = None,
    timeout: Seconds | None = None,
    retry: Retry | int | None = None,
    executes: str | None = None,
    tags: Sequence[str] | None = None,
    version: int | None = None,
    encrypt: bool | Sequence[str] | None = None,
    parent_id: str | None = None,
    job_id: str | None = None,
) -> Draft:
    """Check what was asked for, naming the first thing that is wrong and its cure."""
    if run_at is not None and delay is not None:
        raise InvalidJob("Give run_at or delay, not both.")
    if debounce is not None and (run_at is not None or delay is not None):
        raise InvalidJob("debounce says when the job runs; leave run_at and delay out.")
    dedupe_key, dedupe_window = choose_key(name, dedupe_key, dedupe_window, debounce, throttle)
    draft = Draft(check_name(name, "a job's name"), data, parent_id=parent_id)
    if job_id is not None:
        if debounce is not None:
            raise InvalidJob("A debounced job may be one that is there already; leave job_id out.")
        draft.job_id = check_job_id(job_id)
    if queue is not None:
        draft.queue = check_name(queue, "a queue's name")
    if priority is not None:
        draft.priority = check_priority(priority)
    if run_at is not None:
        draft.run_at = check_instant(run_at, "run_at")
    if delay is not None:
        draft.delay = seconds(delay, "delay")
    if expires_at is not None:
        draft.expires_at = check_instant(expires_at, "expires_at")
    if start_within is not None:
        draft.start_within = seconds(start_within, "start_within")
    if timeout is not None:
        draft.timeout = check_timeout(timeout)
    if retry is not None:
        draft.retry = check_retry(retry).to_document()
    if executes is not None:
        draft.executes = check_executes(executes)
    check_attempts(draft)
    if tags is not None:
        draft.tags = check_tags(tags)
    if encrypt is not None:
        draft.encrypt = check_encrypt(encrypt)
    if version is not None and check_version(version) > FIRST_VERSION:
        draft.data_v = int(version)
    if dedupe_key is not None:
        draft.dedupe_key = check_name(dedupe_key, "dedupe_key")
        draft.dedupe_window = None if dedupe_window is None else seconds(dedupe_window, "dedupe_window")
    if debounce is not None or debounce_max is not None:
        options = {
            "queue": queue,
            "priority": priority,
            "expires_at": expires_at,
            "start_within": start_within,
            "timeout": timeout,
            "retry": retry,
            "executes": executes,
            "tags": tags,
            "parent_id": parent_id,
        }
        draft.debounce = make_debounce(debounce, debounce_max, options)
        draft.delay = draft.debounce.delay
    return draft


def check_attempts(draft: Draft, executes: str | None = None) -> None:
    """Refuse a retry policy of its own for a job that may be started once only; `executes` is its handler's."""
    if draft.retry is not None:
        check_one_attempt(draft.executes or executes, draft.retry["attempts"])


def check_in_transaction(draft: Draft) -> None:
    """Refuse what cannot be part of a caller's transaction."""
    if draft.debounce is not None:
        raise InvalidJob(
            "debounce cannot be part of a transaction: an open one would keep workers from the job that it changes. "
            "Leave session out, and call schedule() once the transaction has committed."
        )
    if draft.job_id is not None:
        raise InvalidJob("job_id cannot be part of a transaction, which a job that is there already would abort.")


def check_job_id(job_id: object) -> str:
    """An id of one's own for a job."""
    if not isinstance(job_id, str) or not _ID.fullmatch(job_id):
        raise InvalidJob(f"job_id must be 24 hexadecimal digits, in small letters, not {job_id!r}.")
    return job_id


OPTIONS = frozenset(make_draft.__kwdefaults__ or ())


def check_instant(value: object, name: str) -> datetime:
    """An aware datetime; a naive one is refused, for nobody can tell which instant it means."""
    if not isinstance(value, datetime):
        raise InvalidJob(f"{name} must be an aware datetime, not {value!r}.")
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidJob(
            f"{name}={value.isoformat()} has no time zone, so that it names no instant; "
            "use datetime.now(UTC) + …, or .replace(tzinfo=ZoneInfo('Europe/Paris'))."
        )
    return value


def check_priority(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not FIRST_PRIORITY <= value <= LAST_PRIORITY:
        raise InvalidJob(f"priority must be a whole number from 1 (first) to 10 (last), not {value!r}.")
    return value


def check_timeout(value: Seconds) -> float:
    limit = seconds(value, "timeout")
    if limit == 0:
        raise InvalidJob("timeout must be more than 0 seconds; leave it out for no limit.")
    return limit


def check_retry(value: Retry | int) -> Retry:
    """A policy, or the number of all tries as a short form of one."""
    if isinstance(value, Retry):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Retry(attempts=value)
    if isinstance(value, Mapping):
        raise ConfigurationError("retry must be a Retry, such as Retry(attempts=5, delay=10), not a mapping.")
    raise ConfigurationError(f"retry must be a Retry or a number of attempts, not {value!r}.")


def check_tags(value: Sequence[str]) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) > 50:
        raise InvalidJob(f"tags must be a list of at most 50 texts, not {value!r}.")
    return list(dict.fromkeys(check_name(tag, "a tag") for tag in value))


def start_by(run_at: datetime, expires_at: datetime | None, start_within: float | None) -> datetime | None:
    """The instant after which a job must not be started any more, if there is one."""
    limits = [] if expires_at is None else [expires_at]
    if start_within is not None:
        limits.append(run_at + timedelta(seconds=start_within))
    return min(limits, default=None)
