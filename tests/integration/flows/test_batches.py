"""Batches: any number of jobs, streamed in, and callbacks when all have ended."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from harness.waiting import eventually
from mainspring import Fail, InvalidFlow, JobContext, JobStateError, NotRepeatable, Scheduler
from mainspring.client.flows import batches
from mainspring.client.scheduler import core_of
from mainspring.store.codec import document_id
from mainspring.store.flows.batches import STREAM_LEASE

SOON = 30
Make = Callable[..., Scheduler]


@pytest.fixture
def called(scheduler: Scheduler) -> list[Any]:
    """The callbacks that were run, each with the numbers of its batch."""
    noted: list[Any] = []

    @scheduler.job("work", retry=1)
    async def work(n: int) -> int:
        if n < 0:
            raise Fail("negative")
        return n

    for name in ("sent", "complain", "report"):

        @scheduler.job(name)
        async def callback(ctx: JobContext, note: str = "") -> None:
            summary = ctx.before["items"].result
            noted.append((ctx.name, ctx.before["items"].state, summary["total"], summary["failed"], note))

    return noted


def items(*numbers: int) -> Iterator[dict[str, Any]]:
    return ({"name": "work", "data": {"n": n}} for n in numbers)


@pytest.mark.slow
async def test_the_callbacks_of_success_run_once_all_jobs_have_completed(
    scheduler: Scheduler, called: list[Any]
) -> None:
    async with scheduler:
        batch = await scheduler.batch(
            items(*range(2500)),
            on_success=("sent", {"note": "x"}),
            on_failure="complain",
            on_done="report",
            name="mail",
        )
        assert (batch.kind, batch.name) == ("batch", "mail")
        ended = await batch.wait(60)
    assert ended.state == "completed", ended.error
    assert sorted(called) == [("report", "completed", 2500, 0, ""), ("sent", "completed", 2500, 0, "x")]
    exact = await scheduler.flows.get(batch.id, exact=True)
    assert exact.node("items").counts == {"completed": 2500} and not exact.node("items").at_least
    assert ended.node("items").at_least and ended.node("items").counts["completed"] <= 2000


@pytest.mark.slow
async def test_the_callbacks_of_failure_run_if_more_jobs_ended_badly_than_are_tolerated(
    scheduler: Scheduler, called: list[Any]
) -> None:
    async with scheduler:
        bad = await scheduler.batch(items(1, -1, 2, -2), tolerate=1, on_success="sent", on_failure="complain")
        fine = await scheduler.batch(items(1, -1, 2, -2), tolerate=0.5, on_success="sent", on_failure="complain")
        bad, fine = await bad.wait(SOON), await fine.wait(SOON)
    assert (bad.state, fine.state) == ("failed", "completed")
    assert bad.error is not None and "2 of its 4 jobs ended badly" in bad.error
    assert sorted(called) == [("complain", "failed", 4, 2, ""), ("sent", "completed", 4, 2, "")]


async def test_a_callback_reads_the_results_of_the_jobs(scheduler: Scheduler, called: list[Any]) -> None:
    read: list[Any] = []

    @scheduler.job("collect")
    async def collect(ctx: JobContext) -> None:
        read.extend([job.result async for job in ctx.results("items")])

    await scheduler.start()
    await (await scheduler.batch(items(3, 1, 2), on_success="collect")).wait(SOON)
    assert read == [3, 1, 2]


async def test_an_empty_batch_completes(scheduler: Scheduler, called: list[Any]) -> None:
    async with scheduler:
        batch = await scheduler.batch([], on_success="sent")
        assert (await batch.wait(SOON)).state == "completed"
    assert called == [("sent", "completed", 0, 0, "")]


async def test_jobs_run_while_others_are_stored_and_the_batch_waits_for_the_last(
    scheduler: Scheduler, called: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "CHUNK", 2)
    go_on = asyncio.Event()

    async def slowly() -> AsyncIterator[dict[str, Any]]:
        for one in items(1, 2):
            yield one
        await go_on.wait()
        for one in items(3, 4):
            yield one

    async with scheduler:
        storing = asyncio.create_task(scheduler.batch(slowly(), on_success="sent"))

        async def two_completed() -> bool:
            return len([job async for job in scheduler.jobs(name="work", state="completed")]) == 2

        await eventually(two_completed)
        (open_batch,) = await scheduler.flows.all()
        assert open_batch.state == "blocked" and called == []
        go_on.set()
        assert (await (await storing).wait(SOON)).state == "completed"
    assert called == [("sent", "completed", 4, 0, "")]


async def test_a_batch_that_was_interrupted_is_continued_by_its_id_and_no_job_is_stored_twice(
    scheduler: Scheduler, called: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "CHUNK", 3)

    def broken() -> Iterator[dict[str, Any]]:
        yield from items(1, 2, 3, 4)
        raise OSError("the file ended early")

    with pytest.raises(OSError, match="ended early"):
        await scheduler.batch(broken(), id="import-7", on_success="sent")
    with pytest.raises(NotRepeatable):
        await scheduler.batch(items(1, 2, 99), id="import-7", on_success="sent")
    batch = await scheduler.batch(items(1, 2, 3, 4, 5), id="import-7", on_success="sent")
    again = await scheduler.batch(items(8, 9), id="import-7", on_success="sent")
    assert batch.id == again.id == "import-7"
    async with scheduler:
        await batch.wait(SOON)
    assert called == [("sent", "completed", 5, 0, "")]


async def test_a_batch_without_an_id_is_cancelled_when_its_items_cannot_be_read(
    scheduler: Scheduler, called: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "CHUNK", 1)

    def wrong() -> Iterator[dict[str, Any]]:
        yield from items(1)
        yield {"name": "work", "data": {"m": 1}}

    with pytest.raises(InvalidFlow, match=r"Item 1 of the batch: .*'m'"):
        await scheduler.batch(wrong())
    (batch,) = await scheduler.flows.all()
    assert batch.state == "cancelled"
    assert [job.state async for job in scheduler.jobs(name="work")] == ["cancelled"]


@pytest.mark.slow
async def test_a_batch_whose_process_died_fails_when_its_stored_jobs_have_ended(
    scheduler: Scheduler, called: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "CHUNK", 2)

    def dying() -> Iterator[dict[str, Any]]:
        yield from items(1, 2)
        raise SystemExit

    with pytest.raises(SystemExit):
        await scheduler.batch(dying(), id="dies", on_success="sent", on_failure="complain", on_done="report")
    jobs = (await core_of(scheduler).store()).connection.jobs
    past = scheduler.now() - timedelta(seconds=1)
    await jobs.update_one({"_id": "dies"}, {"$set": {"check_at": past}}, hint="_id_")
    async with scheduler:
        ended = await (await scheduler.flows.get("dies")).wait(SOON)
    assert ended.state == "failed" and ended.aborted
    assert ended.error is not None and "died before the last one" in ended.error
    assert sorted(called) == [("complain", "failed", 2, 0, ""), ("report", "failed", 2, 0, "")]


async def test_an_open_batch_is_not_given_up_before_its_lease_has_run_out(
    scheduler: Scheduler, called: list[Any]
) -> None:
    go_on = asyncio.Event()

    async def slowly() -> AsyncIterator[dict[str, Any]]:
        await go_on.wait()
        for one in items(1):
            yield one

    storing = asyncio.create_task(scheduler.batch(slowly(), id="slow"))
    jobs = (await core_of(scheduler).store()).connection.jobs
    stored = await eventually(lambda: jobs.find_one({"_id": "slow"}, hint="_id_"))
    left = (stored["check_at"] - scheduler.now()).total_seconds()
    assert STREAM_LEASE / 2 < left <= STREAM_LEASE
    go_on.set()
    await storing


async def test_a_process_that_was_given_up_stores_no_more_jobs(scheduler: Scheduler, called: list[Any]) -> None:
    async def paused() -> AsyncIterator[dict[str, Any]]:
        jobs = (await core_of(scheduler).store()).connection.jobs
        await jobs.update_one({"_id": "late"}, {"$set": {"waits.sealed": True}}, hint="_id_")
        for one in items(1):
            yield one

    with pytest.raises(JobStateError, match="given up"):
        await scheduler.batch(paused(), id="late")
    assert [job async for job in scheduler.jobs(name="work")] == []


async def test_a_callback_has_options_and_unknown_ones_are_refused(scheduler: Scheduler, called: list[Any]) -> None:
    batch = await scheduler.batch(items(1), on_done=("report", {}, {"queue": "reports", "priority": 2}))
    assert batch.queue == "reports"
    async with scheduler:
        assert (await batch.wait(SOON)).state == "completed"
    callback = await scheduler.get_job(f"{batch.id}.on_done")
    assert (callback.queue, callback.priority) == ("reports", 2)
    with pytest.raises(InvalidFlow, match=r"on_done: .*'run_at'"):
        await scheduler.batch([], on_done=("report", {}, {"run_at": scheduler.now()}))


async def test_the_data_of_a_callback_is_encrypted_if_its_handler_declares_it(make_scheduler: Make) -> None:
    scheduler = make_scheduler(keys={"k": "A" * 43 + "="})
    got: list[str] = []

    @scheduler.job("secret", encrypt=True)
    async def secret(text: str) -> None:
        got.append(text)

    batch = await scheduler.batch([], on_done=("secret", {"text": "hunter2"}))
    jobs = (await core_of(scheduler).store()).connection.jobs
    assert "hunter2" not in str(await jobs.find_one({"_id": document_id(batch.id)}, hint="_id_"))
    async with scheduler:
        assert (await batch.wait(SOON)).state == "completed"
    assert got == ["hunter2"]


@pytest.mark.parametrize("tolerate", [2.5, 1.0, float("nan"), float("inf"), -1, True, "1"])
async def test_a_tolerance_that_is_neither_a_number_nor_a_fraction_is_refused(
    scheduler: Scheduler, tolerate: Any
) -> None:
    with pytest.raises(InvalidFlow, match="tolerate is"):
        await scheduler.batch([], tolerate=tolerate)
    with pytest.raises(InvalidFlow, match="tolerate is"):
        scheduler.flow("wrong").map("kid", over=[], tolerate=tolerate)
    assert not await scheduler.flows.all()


@pytest.mark.parametrize("callback", [(), (None,), ("kid", {}, {}, {}), ("kid", {}, "queue"), ("kid", 5), 5])
async def test_a_callback_that_is_no_job_with_data_and_options_is_refused(scheduler: Scheduler, callback: Any) -> None:
    with pytest.raises(InvalidFlow, match="on_done"):
        await scheduler.batch([], on_done=callback)
    assert not await scheduler.flows.all()


async def test_a_job_of_a_batch_that_is_to_be_repeated_is_refused_with_the_cure(scheduler: Scheduler) -> None:
    with pytest.raises(InvalidFlow, match=r"no option 'repeat'. A schedule is stored by itself: scheduler.schedule"):
        await scheduler.batch([{"name": "kid", "repeat": {"every": "5m"}}])


@pytest.mark.parametrize("wrong", ["a/b", "", "x" * 101, "0" * 24, 7])
async def test_the_id_of_a_batch_is_checked(scheduler: Scheduler, wrong: Any) -> None:
    with pytest.raises(InvalidFlow, match="The id of a batch"):
        await scheduler.batch([], id=wrong)


@pytest.mark.slow
async def test_the_memory_of_a_batch_does_not_grow_with_its_items(scheduler: Scheduler) -> None:
    def many(number: int) -> Iterator[dict[str, Any]]:
        return ({"name": "elsewhere", "data": {"text": "x" * 200, "n": n}} for n in range(number))

    await scheduler.batch(many(1_000))
    tracemalloc.start()
    try:
        await scheduler.batch(many(2_000))
        _, small = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        await scheduler.batch(many(8_000))
        _, large = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert large < small * 1.5


async def test_a_batch_is_renewed_while_its_next_item_does_not_come(
    scheduler: Scheduler, called: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "RENEW_EVERY", 0.01)
    jobs = (await core_of(scheduler).store()).connection.jobs

    async def lease() -> Any:
        root = await jobs.find_one({"_id": "slow"}, hint="_id_")
        assert root is not None
        return root["check_at"]

    async def slowly() -> AsyncIterator[dict[str, Any]]:
        before = await lease()

        async def renewed() -> bool:
            return bool(await lease() > before)

        await eventually(renewed, SOON)
        for one in items(1):
            yield one

    assert (await scheduler.batch(slowly(), id="slow")).counts == {"pending": 1}


async def test_a_chunk_that_takes_long_to_fill_is_stored_before_it_is_full(
    scheduler: Scheduler, called: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "CHUNK_AGE", 0.0)
    stored = []

    async def slowly() -> AsyncIterator[dict[str, Any]]:
        for one in items(0, 1, 2):
            yield one
            stored.append(len([job async for job in scheduler.jobs(name="work")]))

    await scheduler.batch(slowly())
    assert stored == [1, 2, 3]
