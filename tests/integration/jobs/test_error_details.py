"""What an exception carries as `details` is kept with the attempt's error: bounded and redacted."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from harness.apps.detailed import explain_badly
from mainspring import Fail, Job, JobError, RetryAfter, Scheduler
from mainspring.store.bounded_values import MAX_DETAILS, encode_details

Make = Callable[..., Scheduler]


class Refused(Exception):
    """An error of a program's own."""

    def __init__(self, details: Any) -> None:
        super().__init__("refused")
        self.details = details


async def attempt_of(scheduler: Scheduler, handler: Callable[..., Any], data: Any = None, **options: Any) -> Job:
    scheduler.job("work", retry=1, **options)(handler)
    async with scheduler:
        return await scheduler.wait((await scheduler.schedule("work", data)).id, timeout=60)


def error_of(job: Job) -> JobError:
    (attempt,) = job.attempts
    assert attempt.error is not None and attempt.error == job.error
    return attempt.error


@pytest.mark.parametrize(
    "error",
    [Refused({"status": 500}), Fail("no", details={"status": 500}), RetryAfter(1, "later", details={"status": 500})],
)
async def test_details_are_kept_with_the_attempt(scheduler: Scheduler, error: Exception) -> None:
    async def work() -> None:
        raise error

    assert error_of(await attempt_of(scheduler, work)).details == {"status": 500}


@pytest.mark.parametrize("details", [None, {}, "text", 7, lambda: {"a": 1}])
async def test_what_is_no_mapping_is_no_detail(scheduler: Scheduler, details: Any) -> None:
    async def work() -> None:
        raise Refused(details)

    assert error_of(await attempt_of(scheduler, work)).details is None


async def test_secrets_are_taken_out_of_details_before_they_are_cut(scheduler: Scheduler) -> None:
    async def work(password: str) -> None:
        raise Refused({"body": "x" * 1990 + password, "more": "y" * MAX_DETAILS, "deep": [{"a": password}]})

    details = error_of(await attempt_of(scheduler, work, {"password": "hunter-two"})).details
    assert details is not None and "hunter" not in str(details) and "more characters cut" in details["more"]


@pytest.mark.slow
async def test_details_of_a_process_of_its_own_arrive(make_scheduler: Make) -> None:
    job = await attempt_of(make_scheduler(), explain_badly, isolation="process")
    error = error_of(job)
    assert (error.message, error.details) == ("cannot be sent over", {"status": 418})


@pytest.mark.parametrize(
    ("details", "kept"),
    [
        ({"a": 1, "b": None}, {"a": 1, "b": None}),
        ({"a": object()}, {"note": "The details cannot be stored and were not kept."}),
        ({"a": "x" * MAX_DETAILS, "b": [1] * 10}, {"a": "x" * 2000 + "… (14,384 more characters cut)", "b": "… (cut)"}),
    ],
)
def test_details_are_bounded(details: dict[str, Any], kept: dict[str, Any]) -> None:
    assert encode_details(details) == kept


def test_signals_keep_their_details_between_processes() -> None:
    for signal in (Fail("x", details={"a": 1}), RetryAfter(5, "x", details={"a": 1})):
        again = pickle.loads(pickle.dumps(signal))
        assert (again.reason, again.details) == ("x", {"a": 1})
