"""Assertions about what was scheduled: they find it in the database, and show the nearest where it is not there."""

from __future__ import annotations

import pytest

from mainspring import ConfigurationError, Scheduler
from mainspring.sync import Scheduler as BlockingScheduler
from mainspring.testing import assert_not_scheduled, assert_scheduled


async def test_a_job_is_found_by_its_data_a_part_of_it_a_function_its_queue_and_its_number(
    scheduler: Scheduler,
) -> None:
    for number in range(3):
        await scheduler.schedule("mail", {"to": f"{number}@b.c", "body": {"text": "hi"}}, queue="out")
    (job,) = await assert_scheduled(scheduler, "mail", {"to": "1@b.c", "body": {"text": "hi"}})
    assert job.data["to"] == "1@b.c" and (await job.refresh()).state == "pending"
    assert len(await assert_scheduled(scheduler, "mail", matching={"body": {"text": "hi"}}, count=3)) == 3
    await assert_scheduled(scheduler, "mail", matching=lambda one: one.data["to"].startswith("2"), queue="out", count=1)
    await assert_scheduled(scheduler, "fax", count=0)
    await assert_not_scheduled(scheduler, "mail", {"to": "1@b.c"})
    await assert_not_scheduled(scheduler, "mail", queue="default")


async def test_the_error_shows_what_was_scheduled_instead_the_nearest_first(scheduler: Scheduler) -> None:
    await scheduler.schedule("other", {"to": "a@b.c"})
    await scheduler.schedule("mail", {"to": "x@b.c", "copy": True})
    await scheduler.schedule("mails", {"to": "a@b.c"})
    with pytest.raises(AssertionError) as raised:
        await assert_scheduled(scheduler, "mail", {"to": "a@b.c", "subject": "hi"}, queue="out")
    assert str(raised.value).splitlines() == [
        "No job 'mail' with data {'to': 'a@b.c', 'subject': 'hi'}, queue 'out' was scheduled. "
        "Scheduled were, the nearest first:",
        "  'mail' {'to': 'x@b.c', 'copy': True}, queue 'default', pending",
        "      queue is 'default', not 'out'; data.to is 'x@b.c', not 'a@b.c'; data.subject is missing; "
        "data.copy is True, and was not expected",
        "  'mails' {'to': 'a@b.c'}, queue 'default', pending",
        "      its name is 'mails'; queue is 'default', not 'out'; data.subject is missing",
        "  'other' {'to': 'a@b.c'}, queue 'default', pending",
        "      its name is 'other'; queue is 'default', not 'out'; data.subject is missing",
    ]
    with pytest.raises(AssertionError, match=r"The job 'mail' was scheduled once, not 2 times\."):
        await assert_scheduled(scheduler, "mail", count=2)
    with pytest.raises(AssertionError, match=r"The job 'mail' was scheduled once, not never\."):
        await assert_scheduled(scheduler, "mail", count=0)
    with pytest.raises(AssertionError, match=r"The job 'mail' was scheduled, once\. .*\n  'mail' {'to': 'x@b.c'"):
        await assert_not_scheduled(scheduler, "mail")


async def test_the_root_of_a_batch_is_none_of_the_scheduled_jobs(scheduler: Scheduler) -> None:
    await scheduler.batch([{"name": "mail"}])
    with pytest.raises(AssertionError) as raised:
        await assert_scheduled(scheduler, "fax")
    assert "'mail'" in str(raised.value) and "mainspring:" not in str(raised.value)


async def test_nothing_that_was_scheduled_and_a_wrong_use_are_named(scheduler: Scheduler) -> None:
    with pytest.raises(AssertionError, match="Nothing was scheduled"):
        await assert_scheduled(scheduler, "mail")
    with pytest.raises(ConfigurationError, match=r"no state 'done'\. Known are|Did you mean"):
        await assert_scheduled(scheduler, "mail", state="done")  # type: ignore[call-overload]
    with pytest.raises(ConfigurationError, match="takes a Scheduler as its first argument, not 'mail'"):
        assert_scheduled("mail", "mail")  # type: ignore[call-overload]


def test_a_blocking_scheduler_is_looked_into_without_an_event_loop(uri: str) -> None:
    scheduler = BlockingScheduler(uri)
    try:
        scheduler.schedule("mail", {"to": "a@b.c"})
        (job,) = assert_scheduled(scheduler, "mail")
        assert job.data == {"to": "a@b.c"}
    finally:
        scheduler.stop()
