"""The guarantee of a job, how often it may take effect: the values, the options that they rule out, and the errors of
jobs whose guarantee forbids another run.

`at_least_once` is the default. A job that runs `at_most_once` is not run again when the progress of its run is unknown.
A job that runs `exactly_once` writes its effects in `ctx.transaction()`, and fails without it. Pure.
"""

from __future__ import annotations

import hashlib

from mainspring.errors import ConfigurationError
from mainspring.model.jobs.job import JobError
from mainspring.model.jobs.retry import Retry
from mainspring.spelling import suggestion

AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE = "at_least_once", "at_most_once", "exactly_once"
GUARANTEES = (AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE)

MAY_HAVE_RUN = "AtMostOnce"
"""The type of the error of a job that runs at most once, and whose end is unknown."""
NOT_COMMITTED = "ExactlyOnce"
"""The type of the error of a job that runs exactly once, and whose handler has committed nothing."""


def check_guarantee(value: object) -> str:
    """Check a guarantee."""
    if not isinstance(value, str):
        raise ConfigurationError(f"guarantee must be one of {', '.join(GUARANTEES)}, not {value!r}.")
    if value not in GUARANTEES:
        raise ConfigurationError(f"guarantee cannot be {value!r}.{suggestion(value, GUARANTEES)}")
    return value


def check_one_attempt(guarantee: str | None, attempts: int) -> None:
    """Refuse several attempts where the guarantee allows one."""
    if guarantee == AT_MOST_ONCE and attempts > 1:
        raise ConfigurationError(
            f'A job with guarantee="at_most_once" has one attempt, and retry asks for {attempts}; leave retry out, '
            'or choose guarantee="at_least_once".'
        )


def most_attempts(retry: Retry) -> int:
    """The most attempts that a policy allows, for any exception."""
    return max(retry.attempts, *(rule.attempts for rule in retry.rules.values()), 1)


def may_have_run(what: str, job_id: object) -> JobError:
    """The error of a job that must not be run again by itself; `what` describes the incident."""
    return JobError(
        MAY_HAVE_RUN,
        f'{what} The job has guarantee="at_most_once" and is not run again: it may have done all of its work, '
        f"some of it, or none. Find out which; retry({str(job_id)!r}) runs it again.",
    )


def not_committed() -> JobError:
    """The error of a job whose handler has returned without its transaction."""
    return JobError(
        NOT_COMMITTED,
        'The handler returned without having committed a transaction, and its job is "exactly_once": nothing '
        "that it did is bound to the job's completion. Write its effects in `async with ctx.transaction() as tx:`, "
        'with session=tx.session, and let what is raised there pass; or choose guarantee="at_least_once".',
    )


def idempotency_key(job_id: object, collection: str) -> str:
    """A key by which other systems recognise a job; `collection` is the full name of its collection.

    An ObjectId is unique everywhere. A text may be the id of another job elsewhere, so that the collection counts.
    """
    if not isinstance(job_id, str):
        return f"ms-{job_id}"
    digest = hashlib.blake2b(f"{collection}\0{job_id}".encode("utf-8", "surrogatepass"), digest_size=16)
    return f"ms-{digest.hexdigest()}"
