"""Misspelt and foreign names: what was meant, and that every call of the library says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mainspring import (
    Breaker,
    ConfigurationError,
    Cron,
    Every,
    HandlerError,
    InvalidJob,
    Keep,
    Limit,
    Rate,
    Retry,
    Scheduler,
)
from mainspring.spelling import meant_by, spelled

NOWHERE = "mongodb://127.0.0.1:1/x"


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("stat", ["name", "state"], "state"),
        ("countdown", ["delay", "run_at"], "delay"),
        ("tz", ["timezone"], "timezone"),
        ("maxRetries", ["retryAttempts", "retryDelay"], "retryAttempts"),
        ("schedule_id", ["scheduleId"], "scheduleId"),
        ("cron", ["schedule", "repeat"], "schedule"),
        ("xyz", ["state"], None),
    ],
)
def test_the_name_that_was_meant_is_found(word: str, known: list[str], meant: str | None) -> None:
    assert meant_by(word, known) == meant


MISTAKES: list[tuple[Callable[[], Any], str]] = [
    (lambda: Retry(max_retries=3), r"Retry has no argument 'max_retries'. Did you mean 'attempts'\?"),  # type: ignore[call-arg]
    (lambda: Cron("* * * * *", tz="UTC"), r"Cron has no argument 'tz'. Did you mean 'timezone'\?"),  # type: ignore[call-arg]
    (lambda: Every(interval="5m"), r"Every has no argument 'interval'. Did you mean 'period'\?"),  # type: ignore[call-arg]
    (lambda: Limit(1, kee="x"), r"Limit has no argument 'kee'. Did you mean 'key'\?"),  # type: ignore[call-arg]
    (lambda: Rate("1/s", brust=3), r"Did you mean 'burst'\?"),  # type: ignore[call-arg]
    (lambda: Breaker(open=3), r"Did you mean 'open_for'\?"),  # type: ignore[call-arg]
    (lambda: Keep(states="failed"), r"Keep has no argument 'states'. Did you mean 'state'\?"),  # type: ignore[call-arg]
    (lambda: Scheduler(NOWHERE, concurency=5), r"no option 'concurency'. Did you mean 'concurrency'\?"),  # type: ignore[call-arg]
    (lambda: Scheduler(NOWHERE).job("x", timout=3), r"job\(\) has no argument 'timout'. Did you mean 'timeout'\?"),  # type: ignore[call-arg]
    (lambda: Scheduler(NOWHERE).job("x", rate_limit="1/s"), r"Did you mean 'rate'\?"),  # type: ignore[call-arg]
]


@pytest.mark.parametrize(("call", "complaint"), MISTAKES)
def test_an_argument_that_does_not_exist_is_refused_with_the_one_that_does(
    call: Callable[[], Any], complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        call()


async def test_verbs_that_wait_say_it_too() -> None:
    scheduler = Scheduler(NOWHERE)
    with pytest.raises(ConfigurationError, match=r"set\(\) takes its arguments by name: name=…, queue=…"):
        await scheduler.limits.set("emails")  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match=r"cancel\(\) has no argument 'why'. Known are: job_id, reason."):
        await scheduler.cancel("x", why="y")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        await scheduler.cancel()  # type: ignore[call-arg]


def test_an_error_of_the_function_itself_is_not_touched() -> None:
    def broken(number: int) -> int:
        return number + "x"  # type: ignore[operator]

    with pytest.raises(TypeError, match="unsupported operand"):
        spelled(broken)(1)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"countdown": 60}, r"no option 'countdown'. Did you mean 'delay'\?"),
        ({"eta": 1}, r"Did you mean 'run_at'\?"),
        ({"cron": "* * * * *"}, r'Did you mean repeat=Cron\("0 9 \* \* \*"\)\?'),
        ({"max_retries": 3}, r"Did you mean retry=Retry\(attempts=…\)\?"),
        ({"to": "x"}, r"It is an argument of the handler: put it into data, as in schedule\('send', {'to': …}\)"),
        ({"zzz": "x"}, r"Arguments of the handler go into data, as in schedule\('send', {'zzz': …}\)"),
        ({"overlap": "skip"}, "overlap is an option of schedules; give repeat=… too"),
        ({"repeat": Every("1h"), "to": "x"}, "It is an argument of the handler: put it into data"),
        (
            {"repeat": Every("1h"), "max_instances": 1},
            r"A schedule has no option 'max_instances'. Did you mean 'overlap'\?",
        ),
    ],
)
async def test_an_option_that_a_job_does_not_have_is_refused_with_its_cure(
    options: dict[str, Any], complaint: str
) -> None:
    scheduler = Scheduler(NOWHERE)
    scheduler.job("send")(lambda to: None)
    with pytest.raises(ConfigurationError, match=complaint):
        await scheduler.schedule("send", {"to": "a"}, **options)


async def test_a_function_that_is_no_handler_cannot_name_a_job() -> None:
    def stray() -> None: ...

    with pytest.raises(InvalidJob, match=r"stray is not a handler of this scheduler; put @scheduler.job\(\) above it"):
        await Scheduler(NOWHERE).schedule(stray)


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": Limit(1, key="custmer")},
        {"rate": Rate("5/s", key="custmer")},
        {"rate": Rate("5/s", weight="custmer.size")},
        {"fair": "custmer"},
        {"sequence": "custmer.id"},
        {"breaker": Breaker(key="custmer")},
    ],
    ids=str,
)
def test_a_limit_by_a_value_that_no_job_can_have_is_refused_with_the_one_that_was_meant(options: Any) -> None:
    with pytest.raises(HandlerError, match=r"has no argument 'custmer'. Did you mean 'customer'\?"):
        Scheduler(NOWHERE).job("charge", **options)(lambda customer: None)


def test_a_limit_by_a_value_that_a_job_may_have_is_taken() -> None:
    scheduler = Scheduler(NOWHERE)
    limit = Limit(1, key="customer.id")
    scheduler.job("one", concurrency=limit)(lambda customer: None)
    scheduler.job("two", concurrency=limit)(lambda **rest: None)
    scheduler.job("three", concurrency=limit)(lambda ctx: None)


def test_a_handler_with_arguments_without_names_is_refused() -> None:
    with pytest.raises(HandlerError, match=r"'x' has \*args, but a job passes its data as keyword arguments"):
        Scheduler(NOWHERE).job("x")(lambda *args: None)


async def test_a_filter_that_does_not_exist_is_refused_with_the_one_that_does() -> None:
    with pytest.raises(ConfigurationError, match=r"Jobs have no filter 'status'. Did you mean 'state'\?"):
        async for _ in Scheduler(NOWHERE).jobs(status="failed"):  # type: ignore[call-arg]
            pass


@pytest.mark.parametrize(
    ("verb", "operation"), [("cancel", "cancel"), ("retry", "retry"), ("delete", "delete"), ("run_now", "run")]
)
async def test_a_verb_for_one_job_with_a_filter_names_the_verb_for_many(verb: str, operation: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        await getattr(Scheduler(NOWHERE), verb)(queue="mail")
    assert str(refused.value) == (
        f"{verb}() has no argument 'queue'. It is about one job; for many: "
        f"scheduler.operations.create({operation!r}, {{'queue': …}})."
    )
