"""Redacted fields: never in what is shown, logged or announced, nor in what is stored of a handler's words."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from harness.apps import sealed
from harness.waiting import eventually
from mainspring import Cancel, Every, Fail, Job, JobContext, Limit, Scheduler
from mainspring.model.jobs.event_names import EventName
from mainspring.store.bounded_values import MAX_LOG_LINE, MAX_MESSAGE, MAX_STACK

Make = Callable[..., Scheduler]

SECRET = "hunter2-qzwxvkjb"
JOB_EVENTS: tuple[EventName, ...] = (
    "job:created",
    "job:start",
    "job:success",
    "job:fail",
    "job:retry",
    "job:progress",
    "job:cancel",
)


def everything(job: Job) -> str:
    """All that a job holds."""
    return repr(vars(job))


def listen(scheduler: Scheduler) -> list[tuple[str, Job]]:
    heard: list[tuple[str, Job]] = []
    for event in JOB_EVENTS:
        scheduler.on(event, lambda job, event=event: heard.append((event, job)))
    return heard


async def test_the_jobs_in_events_have_words_in_place_of_redacted_values_and_handlers_get_them_plain(
    make_scheduler: Make,
) -> None:
    scheduler = make_scheduler(redact=["*.token", "pin"])
    heard = listen(scheduler)
    seen: list[Any] = []

    @scheduler.job("login", redact=["card.*"])
    async def login(ctx: JobContext) -> dict[str, str]:
        seen.append(ctx.data)
        ctx.progress(50, f"with {SECRET}")
        return {"pin": SECRET, "user": "ann"}

    data = {"user": "ann", "pin": SECRET, "auth": {"token": SECRET}, "card": {"number": SECRET, "cvc": 1}}
    job = await scheduler.schedule("login", data)
    assert job.data == data
    await scheduler.start()
    done = await scheduler.wait(job.id, timeout=60)
    await eventually(lambda: any(event == "job:success" for event, _ in heard))
    assert seen == [data] and done.data == data and done.result == {"pin": SECRET, "user": "ann"}
    assert {event for event, _ in heard} >= {"job:created", "job:start", "job:progress", "job:success"}
    for _, told in heard:
        assert told.data == {
            "user": "ann",
            "pin": "[redacted]",
            "auth": {"token": "[redacted]"},
            "card": {"number": "[redacted]", "cvc": "[redacted]"},
        }
        assert SECRET not in everything(told)
    assert heard[-1][1].result == {"pin": "[redacted]", "user": "ann"}


async def test_the_usual_names_are_redacted_unless_the_list_is_empty(make_scheduler: Make) -> None:
    usual, none = make_scheduler(), make_scheduler(redact=[])
    job = await usual.schedule("login", {"password": SECRET, "user": "ann"})
    assert usual.privacy.shown(job).data == {"password": "[redacted]", "user": "ann"}
    assert none.privacy.shown(job).data == {"password": SECRET, "user": "ann"}
    assert (await usual.get_job(job.id)).data == {"password": SECRET, "user": "ann"}


async def test_values_are_redacted_in_errors_logs_and_notes_before_these_are_cut(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    heard = listen(scheduler)
    half = len(SECRET) // 2

    @scheduler.job("login", retry=1)
    async def login(ctx: JobContext, password: str) -> None:
        # Each of these is cut in the middle of the secret.
        ctx.log("x" * (MAX_LOG_LINE - half) + password)
        ctx.progress(1, "x" * (MAX_LOG_LINE - half) + password)
        raise ValueError("x" * (MAX_MESSAGE - half) + password)

    job = await scheduler.schedule("login", {"password": SECRET})
    await scheduler.start()
    failed = await scheduler.wait(job.id, timeout=60)
    await eventually(lambda: any(event == "job:fail" for event, _ in heard))
    assert failed.error is not None and failed.progress is not None and failed.progress.note is not None
    texts = [failed.error.message, failed.error.stack or "", failed.progress.note, *failed.attempts[0].log]
    for text in [*texts, *(everything(told) for _, told in heard)]:
        assert SECRET[:4] not in text
    for text in (failed.error.message, failed.progress.note, failed.attempts[0].log[0]):
        assert text.endswith("cut)")


async def test_a_stack_is_redacted_before_its_beginning_is_cut(make_scheduler: Make) -> None:
    scheduler = make_scheduler()

    @scheduler.job("login", retry=1)
    async def login(password: str) -> None:
        try:
            raise KeyError(password)
        except KeyError as error:
            # The end of the stack is kept: the cut goes through the secret in the first line of this message.
            rest = "y" * (MAX_STACK - len(password) // 2 - 1)
            raise ValueError(password + rest) from error

    job = await scheduler.schedule("login", {"password": SECRET})
    await scheduler.start()
    failed = await scheduler.wait(job.id, timeout=60)
    assert failed.error is not None and failed.error.stack is not None
    assert failed.error.stack.startswith("… (cut)\n") and len(failed.error.stack) < MAX_STACK + 20
    for at in range(len(SECRET) - 3):
        assert SECRET[at : at + 4] not in failed.error.stack + failed.error.message


@pytest.mark.parametrize("signal", [Cancel, Fail])
async def test_what_a_handler_says_of_its_end_is_redacted(make_scheduler: Make, signal: Any) -> None:
    scheduler = make_scheduler()

    @scheduler.job("login")
    async def login(password: str) -> None:
        raise signal("x" * (MAX_MESSAGE - 4) + password)

    job = await scheduler.schedule("login", {"password": SECRET})
    await scheduler.start()
    ended = await scheduler.wait(job.id, timeout=60)
    assert (
        ended.error is not None
        and "[red" in ended.error.message
        and SECRET[:4] not in everything(ended).replace(SECRET, "", 1)
    )


@pytest.mark.slow
async def test_a_handler_in_a_process_is_redacted_too(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    scheduler.job("fail", isolation="process", retry=1)(sealed.fail)
    job = await scheduler.schedule("fail", {"secret": SECRET})
    await scheduler.start()
    failed = await scheduler.wait(job.id, timeout=60)
    assert failed.error is not None and failed.error.message == "no [redacted]"
    assert SECRET not in (failed.error.stack or "")


async def test_a_value_that_the_handler_takes_out_of_the_data_is_redacted_all_the_same(make_scheduler: Make) -> None:
    scheduler = make_scheduler()

    @scheduler.job("login", retry=1)
    async def login(user: dict[str, Any]) -> None:
        raise ValueError(user.pop("password"))

    job = await scheduler.schedule("login", {"user": {"password": SECRET}})
    await scheduler.start()
    failed = await scheduler.wait(job.id, timeout=60)
    assert failed.error is not None and failed.error.message == "[redacted]"


async def test_what_is_lifted_to_a_redacted_name_is_redacted(make_scheduler: Make) -> None:
    old, new = make_scheduler(), make_scheduler()
    job = await old.schedule("login", {"word": SECRET})

    @new.job("login", version=2, upgrade={1: lambda data: {"password": data["word"]}}, retry=1)
    async def login(password: str) -> None:
        raise ValueError(password)

    await new.start()
    failed = await new.wait(job.id, timeout=60)
    assert failed.error is not None and failed.error.message == "[redacted]"


@pytest.mark.slow
async def test_log_lines_of_the_worker_show_no_redacted_value(
    make_scheduler: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    scheduler = make_scheduler()

    @scheduler.job("login")
    async def login(ctx: JobContext, password: str) -> None:
        async with ctx.transaction() as tx:
            tx.result = 1
        raise ValueError(password)

    job = await scheduler.schedule("login", {"password": SECRET})
    await scheduler.start()
    assert (await scheduler.wait(job.id, timeout=60)).state == "completed"
    await eventually(lambda: "raised after its transaction" in caplog.text)
    assert SECRET not in caplog.text and "ValueError('[redacted]')" in caplog.text


async def test_an_explanation_shows_no_redacted_value(make_scheduler: Make) -> None:
    scheduler = make_scheduler(redact=["tenant"])

    @scheduler.job("work", concurrency=Limit(1, key="tenant"))
    async def work(tenant: str) -> None: ...

    await scheduler.limits.pause("work", key={"tenant": SECRET})
    job = await scheduler.schedule("work", {"tenant": SECRET})
    explanation = await scheduler.explain(job.id)
    assert "[redacted]" in explanation.text
    assert SECRET not in explanation.text + repr(explanation.gates) + everything(explanation.job)
    assert SECRET not in repr(explanation.to_document())


async def test_a_schedule_in_an_event_shows_no_redacted_or_encrypted_value(make_scheduler: Make) -> None:
    scheduler = make_scheduler(keys={"k": b"k" * 32})
    heard: list[Any] = []
    scheduler.on("schedule:pause", heard.append)
    await scheduler.schedule(
        "work", {"password": SECRET, "iban": SECRET}, encrypt=["iban"], repeat=Every("1h"), schedule_id="nightly"
    )
    await scheduler.schedules.pause("nightly")
    assert heard[0].data == {"password": "[redacted]", "iban": "[encrypted]"}
    assert SECRET not in repr(heard[0])
    assert SECRET not in repr(await scheduler.schedules.get("nightly"))


async def test_a_job_is_shown_without_what_its_errors_and_logs_told_before_it_was_redacted(
    make_scheduler: Make,
) -> None:
    careless, careful = make_scheduler(redact=[]), make_scheduler(redact=["pin"])

    @careless.job("login", retry=1)
    async def login(ctx: JobContext, pin: str) -> None:
        ctx.log(f"pin {pin}")
        ctx.progress(1, f"pin {pin}")
        raise ValueError(f"pin {pin}")

    job = await careless.schedule("login", {"pin": SECRET})
    await careless.start()
    failed = await careless.wait(job.id, timeout=60)
    assert failed.error is not None and failed.error.message == f"pin {SECRET}"
    shown = careful.privacy.shown(failed)
    assert shown.error is not None and shown.error.message == "pin [redacted]"
    assert SECRET not in everything(shown)
    assert (shown.id, shown.state, shown.tries, shown.run_at) == (failed.id, failed.state, failed.tries, failed.run_at)
