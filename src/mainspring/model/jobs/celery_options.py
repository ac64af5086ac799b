"""The options of Celery's `apply_async`, as options of a job. Pure.

The job objects of `client/job_functions.py` use it, so that code that is written for Celery moves over call by call.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.config.checks import is_whole
from mainspring.errors import InvalidJob
from mainspring.model.jobs.job import LAST_PRIORITY
from mainspring.model.jobs.options import JobOptions
from mainspring.model.jobs.retry import Seconds, seconds

MOST_URGENT = 9
"""Celery's priorities go from 0 to this one, which is the most urgent, as RabbitMQ has them."""


def celery_options(
    countdown: Seconds | None,
    eta: datetime | None,
    expires: Seconds | datetime | None,
    priority: int | None,
    queue: str | None,
) -> JobOptions:
    """The options of a job. A priority p of Celery is the priority 10 - p here: 9 is 1, the first, and 0 is 10."""
    if countdown is not None and eta is not None:
        raise InvalidJob("Give countdown or eta, not both.")
    options: JobOptions = {}
    if countdown is not None:
        options["delay"] = countdown
    if eta is not None:
        options["run_at"] = eta
    if isinstance(expires, datetime):
        options["expires_at"] = expires
    elif expires is not None:
        options["start_within"] = _start_within(expires, countdown, eta)
    if priority is not None:
        options["priority"] = _priority(priority)
    if queue is not None:
        options["queue"] = queue
    return options


def _start_within(expires: int | float | str | timedelta, countdown: Seconds | None, eta: datetime | None) -> float:
    """How long after it is due a job may start. Celery counts `expires` from the call."""
    if eta is not None:
        raise InvalidJob("With eta, give expires as an instant too: an aware datetime.")
    left = seconds(expires, "expires") - (0.0 if countdown is None else seconds(countdown, "countdown"))
    if left <= 0:
        raise InvalidJob("expires counts from this call, and the job would expire before it is due: raise expires.")
    return left


def _priority(value: object) -> int:
    if not is_whole(value, 0, MOST_URGENT):
        raise InvalidJob(
            f"The priority of apply_async() is a whole number from 0 to {MOST_URGENT} (first), as in Celery with "
            f"RabbitMQ, not {value!r}. options(priority=…) takes those of Mainspring, from 1 (first) to 10."
        )
    return LAST_PRIORITY - value
