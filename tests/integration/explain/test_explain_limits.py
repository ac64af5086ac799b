"""Why is it not running? The gates of limits, rates, sequences, fairness and queues, with real workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId

from harness.explained import gate, held_by, holding, running, serve, some_runs
from harness.inside import inside
from harness.looking import Database
from harness.profiling import profiled
from mainspring import (
    Fail,
    Job,
    JobContext,
    Limit,
    Rate,
    Scheduler,
    Sequence,
)
from mainspring.model.explain.applicable_limits import Declared
from mainspring.model.limits.limits import OnFailure
from mainspring.store.views.explain import ENDED_READ

Make = Callable[..., Scheduler]


@pytest.fixture
async def door() -> AsyncIterator[asyncio.Event]:
    """What the handlers of a test wait for; it opens by itself at the test's end."""
    event = asyncio.Event()
    yield event
    event.set()


# -- limits ----------------------------------------------------------------------------------------------------------


async def test_a_limit_that_is_reached_tells_who_holds_it_and_for_how_long(
    scheduler: Scheduler, door: asyncio.Event
) -> None:
    serve(scheduler, door, concurrency=2)
    await scheduler.start()
    jobs = [await scheduler.schedule("report") for _ in range(5)]
    runs, waits = await some_runs(scheduler, jobs, 2)
    told = holding(await scheduler.explain(waits[0].id))
    assert (told.kind, told.data["gate"]) == ("concurrency", "c:name:report")
    assert (told.data["limit"], told.data["taken"], told.data["source"]) == (2, 2, "workers")
    assert {one["job"] for one in told.data["holders"]} == {one.id for one in runs}
    assert {one["worker"] for one in told.data["holders"]} == {runs[0].worker}
    assert all(one["seconds"] >= 0 for one in told.data["holders"])
    assert told.text.startswith("2 of the 2 slots for jobs of 'report' are taken, the longest for ")
    last = await scheduler.explain(waits[-1].id)
    line = gate(last, "line")
    assert (line.open, line.data["before"], line.data["in_line"]) == (False, {"count": 2, "over": False}, True)
    assert last.text.endswith("2 jobs are before it in the line for jobs of 'report'.")


async def test_a_limit_by_key_counts_only_the_holders_of_that_key(
    scheduler: Scheduler, make_scheduler: Make, door: asyncio.Event
) -> None:
    serve(scheduler, door, concurrency=Limit(1, key="user.tenant"))
    await scheduler.start()
    acme, other = [
        [await scheduler.schedule("report", {"user": {"tenant": tenant}}) for _ in range(number)]
        for tenant, number in (("acme", 2), ("other", 1))
    ]
    runs, waits = await some_runs(scheduler, acme, 1)
    await running(scheduler, *other)
    # Asked by a process that has no code at all: the workers have told of their limits.
    told = holding(await make_scheduler().explain(waits[0].id))
    assert (told.data["key"], told.data["value"], told.data["source"]) == ("user.tenant", "acme", "workers")
    assert [one["job"] for one in told.data["holders"]] == [runs[0].id]
    assert told.text.startswith("The only slot for jobs of 'report' with user.tenant=acme is taken for ")
    assert f"by job {runs[0].id} on worker {runs[0].worker}" in told.text


async def test_a_limit_of_a_queue_counts_jobs_of_every_name(scheduler: Scheduler, door: asyncio.Event) -> None:
    scheduler.queues.limit("mail", concurrency=1)
    serve(scheduler, door, "letter", queue="mail")
    serve(scheduler, door, "report", queue="mail")
    await scheduler.start()
    letter = await scheduler.schedule("letter")
    await running(scheduler, letter)
    told = holding(await held_by(scheduler, await scheduler.schedule("report"), "concurrency"))
    assert (told.data["scope"], told.data["target"]) == ("queue", "mail")
    assert [one["job"] for one in told.data["holders"]] == [letter.id]
    assert "The only slot for jobs of the queue 'mail' is taken" in told.text


async def test_an_overridden_limit_tells_who_set_it_and_why(
    scheduler: Scheduler, make_scheduler: Make, door: asyncio.Event
) -> None:
    serve(scheduler, door)
    await scheduler.limits.set(name="report", concurrency=1, reason="slow disk", actor="ops")
    await scheduler.start()
    jobs = [await scheduler.schedule("report") for _ in range(2)]
    _, waits = await some_runs(scheduler, jobs, 1)
    told = holding(await make_scheduler().explain(waits[0].id))
    assert (told.kind, told.data["source"], told.data["actor"]) == ("concurrency", "override", "ops")
    assert told.data["reason"] == "slow disk"
    assert told.text.startswith("The only slot set at run time by ops for jobs of 'report' is taken")


async def test_without_a_live_worker_the_asking_process_tells_its_own_limits(
    make_scheduler: Make, door: asyncio.Event
) -> None:
    knows, knows_not = make_scheduler(), make_scheduler()
    serve(knows, door, concurrency=3)
    job = await knows.schedule("report")
    told = gate(await knows.explain(job.id), "concurrency")
    assert (told.open, told.data["source"], told.data["limit"], told.data["taken"]) == (True, "code", 3, 0)
    assert "concurrency" not in [one.kind for one in (await knows_not.explain(job.id)).gates]


async def test_a_line_that_nobody_alive_tells_of_is_explained_by_what_the_job_says(
    make_scheduler: Make, door: asyncio.Event
) -> None:
    worker, asking = make_scheduler(), make_scheduler()
    serve(worker, door, concurrency=1)
    await worker.start()
    jobs = [await worker.schedule("report") for _ in range(3)]
    _, waits = await some_runs(worker, jobs, 1)
    await worker.stop(graceful=False)
    explanation = await asking.explain(waits[0].id)
    assert holding(explanation).kind == "worker"
    told = gate(explanation, "concurrency")
    assert (told.open, told.data["source"], told.data["gate"]) == (False, "job", "c:name:report")
    assert told.data["note"] == "At most 1 job of 'report' runs at once, and one is running."
    assert "Neither a live worker nor this process declares that limit." in told.text


async def test_a_rate_that_is_used_up_tells_when_the_next_start_is_earned(
    scheduler: Scheduler, door: asyncio.Event
) -> None:
    serve(scheduler, door, rate="2/hour")
    await scheduler.start()
    jobs = [await scheduler.schedule("report") for _ in range(4)]
    _, waits = await some_runs(scheduler, jobs, 2)
    told = holding(await scheduler.explain(waits[0].id))
    assert (told.kind, told.data["left"], told.data["cost"], told.data["gate"]) == ("rate", 0, 1, "r:name:report")
    assert 0 < told.data["seconds"] <= 1800 and told.data["next_at"] > datetime.now(UTC)
    assert told.text.startswith(
        "The starts of jobs of 'report' are used up: 2 in 1 h are allowed, and the next one is earned in "
    )
    line = gate(await scheduler.explain(waits[1].id), "line")
    assert line.data["before"] == {"count": 1, "over": False}


async def test_a_rate_counts_by_key_and_by_weight(scheduler: Scheduler, door: asyncio.Event) -> None:
    serve(scheduler, door, rate=Rate("6/hour", key="tenant", weight="pages"))
    await scheduler.start()
    big = [await scheduler.schedule("report", {"tenant": "acme", "pages": 4}) for _ in range(2)]
    _, waits = await some_runs(scheduler, big, 1)
    told = holding(await scheduler.explain(waits[0].id))
    assert (told.data["gate"], told.data["cost"], told.data["value"]) == ("r:name:report:tenant=acme", 4, "acme")
    assert told.text.startswith("It costs 4 starts of jobs of 'report' with tenant=acme, and ")
    await running(scheduler, await scheduler.schedule("report", {"tenant": "other", "pages": 4}))


# -- order -----------------------------------------------------------------------------------------------------------


async def test_a_sequence_names_the_job_that_has_to_end_first(
    scheduler: Scheduler, make_scheduler: Make, door: asyncio.Event
) -> None:
    serve(scheduler, door, sequence="order")
    await scheduler.start()
    jobs = [await scheduler.schedule("report", {"order": 7}) for _ in range(3)]
    await running(scheduler, jobs[0])
    told = holding(await held_by(make_scheduler(), jobs[2], "sequence"))
    assert (told.data["sequence"], told.data["before"]) == ("report:7", {"count": 2, "over": False})
    assert (told.data["first"]["job"], told.data["first"]["state"]) == (jobs[0].id, "running")
    assert told.text.startswith(
        f"In the sequence report:7, job {jobs[0].id} has to end first; it is running on worker "
    )
    assert told.text.endswith("; 2 jobs are before it.")


async def test_a_failed_job_that_blocks_its_sequence_is_named_with_its_error(scheduler: Scheduler) -> None:
    choices: tuple[tuple[str, OnFailure], ...] = (("blocks", "block"), ("passes", "pass"))
    for name, on_failure in choices:

        @scheduler.job(name, sequence=Sequence("order", on_failure=on_failure))
        async def fail(ctx: JobContext) -> None:
            raise Fail("no ink")

    await scheduler.start()
    first = await scheduler.wait((await scheduler.schedule("blocks", {"order": 7})).id, timeout=60)
    told = holding(await held_by(scheduler, await scheduler.schedule("blocks", {"order": 7}), "sequence"))
    assert (told.data["blocks"], told.data["first"]["job"]) == (True, first.id)
    assert told.text.endswith("it has failed (Fail: no ink), and blocks the others until it is retried or deleted.")
    await scheduler.wait((await scheduler.schedule("passes", {"order": 7})).id, timeout=60)
    later = await scheduler.schedule("passes", {"order": 7}, delay=600)
    assert gate(await scheduler.explain(later.id), "sequence").open


async def test_keys_that_take_turns_tell_the_place_in_the_line(make_scheduler: Make, door: asyncio.Event) -> None:
    worker = make_scheduler(concurrency=1, prefetch=0)
    serve(worker, door, fair="tenant")
    await worker.start()
    first = await worker.schedule("report", {"tenant": "acme"})
    await running(worker, first)
    jobs = [await worker.schedule("report", {"tenant": tenant}) for tenant in ("acme", "acme", "other")]
    told = holding(await held_by(make_scheduler(), jobs[1], "fairness"))
    assert (told.data["value"], told.data["before"], told.data["source"]) == (
        "acme",
        {"count": 1, "over": False},
        "workers",
    )
    assert told.data["keys"] == {"count": 2, "over": False}
    assert told.text == (
        "Keys of the queue 'default' take turns, and 2 keys are waiting; 1 job is before it in the line of 'acme'."
    )
    assert gate(await worker.explain(jobs[2].id), "fairness").open


# -- the queue -------------------------------------------------------------------------------------------------------


async def test_jobs_before_it_in_the_queue_are_counted_in_their_order(scheduler: Scheduler) -> None:
    await scheduler.schedule_bulk([{"name": "report", "queue": "mail", "priority": 1}] * 3)
    await scheduler.schedule_bulk([{"name": "report", "queue": "mail", "priority": 1, "delay": 600}] * 4)
    await scheduler.schedule_bulk([{"name": "report", "queue": "other", "priority": 1}] * 5)
    jobs = await scheduler.schedule_bulk([{"name": "report", "queue": "mail"}] * 6)
    await scheduler.schedule_bulk([{"name": "report", "queue": "mail", "priority": 9}] * 7)
    assert len({job.run_at for job in jobs}) == 1
    for place, job in enumerate(jobs):
        told = gate(await scheduler.explain(job.id), "position")
        assert told.data["before"] == {"count": 3 + place, "over": False}
    assert told.text == "8 jobs are before it in the queue 'mail' and could run."
    assert "estimate_seconds" not in told.data


async def test_jobs_due_at_the_same_instant_are_counted_by_their_ids_whatever_their_type(
    scheduler: Scheduler, db: Database
) -> None:
    jobs = await scheduler.schedule_bulk([{"name": "report"}] * 2)
    like = await db.jobs.find_one({"name": "report"}, hint="_id_")
    assert like is not None
    await db.jobs.insert_many([{**like, "_id": f"text-{n}"} for n in range(3)])
    before = [
        gate(await scheduler.explain(job_id), "position").data["before"]["count"]
        for job_id in ("text-0", "text-1", "text-2", *(job.id for job in jobs))
    ]
    assert before == [0, 1, 2, 3, 4]


@pytest.mark.fresh_database
@pytest.mark.slow
async def test_a_long_queue_is_counted_up_to_a_bound_and_says_so(scheduler: Scheduler, db: Database) -> None:
    await scheduler.connect()
    now = datetime.now(UTC) - timedelta(minutes=1)
    like = {"v": 1, "name": "report", "data": {}, "queue": "default", "priority": 5, "state": "pending", "ready": True}
    times = {"run_at": now, "created_at": now, "rev": 0, "token": 0, "tries": 0}
    await db.jobs.insert_many([{**like, **times} for _ in range(4_000)], ordered=False)
    job = await scheduler.schedule("report")
    async with profiled(db) as spent:
        told = gate(await scheduler.explain(job.id), "position")
    assert spent.keys <= 2_000
    assert told.data["before"] == {"count": 1_000, "over": True}
    assert told.text == "Over 1,000 jobs are before it in the queue 'default' and could run."


async def test_the_turn_is_estimated_from_what_the_queue_has_got_through_lately_and_only_then(
    make_scheduler: Make, door: asyncio.Event
) -> None:
    worker = make_scheduler(concurrency=1, prefetch=0)
    serve(worker, door)

    @worker.job("quick")
    async def quick(ctx: JobContext) -> None: ...

    await worker.start()
    await running(worker, await worker.schedule("report"))
    first, last = [await worker.schedule("quick", queue="mail") for _ in range(2)]
    unknown = await worker.explain(last.id)
    position = gate(unknown, "position")
    assert holding(unknown).kind == "slots"
    assert position.text == "1 job is before it in the queue 'mail' and could run."
    assert "estimate_seconds" not in position.data and "drain" not in position.data
    door.set()
    await worker.wait(last.id, timeout=60)
    door.clear()
    await running(worker, await worker.schedule("report"))
    first, last = [await worker.schedule("quick", queue="mail") for _ in range(2)]
    position = gate(await worker.explain(last.id), "position")
    assert position.data["drain"] == {"jobs": 2, "seconds": 60.0}
    assert position.data["estimate_seconds"] == pytest.approx(30)
    assert position.text.endswith("at the rate of the last 1 min, in which 2 jobs of it ended, that takes about 30 s.")
    other = [await worker.schedule("quick", queue="new") for _ in range(2)]
    assert "drain" not in gate(await worker.explain(other[1].id), "position").data
    assert (first.queue, last.queue) == ("mail", "mail")


@pytest.mark.slow
async def test_of_a_fast_queue_only_the_last_ends_are_read_and_the_rate_is_over_their_time(
    scheduler: Scheduler, db: Database, door: asyncio.Event
) -> None:
    serve(scheduler, door)
    await scheduler.schedule("report")
    job = await scheduler.schedule("report")
    like = await db.jobs.find_one({"name": "report"}, hint="_id_")
    assert like is not None
    ended = {key: value for key, value in like.items() if key not in ("_id", "ready")} | {"state": "completed"}
    now = datetime.now(UTC)
    await db.jobs.insert_many(
        [{**ended, "finished_at": now - timedelta(milliseconds=10 * n)} for n in range(2500)], ordered=False
    )
    standing = await inside(scheduler).open_store.explaining.standing(await _document(db, job), Declared())
    assert standing.drain is not None
    assert standing.drain.jobs == ENDED_READ and 1 <= standing.drain.seconds < 60


async def _document(db: Database, job: Job) -> dict[str, Any]:
    document = await db.jobs.find_one({"_id": ObjectId(job.id)})
    assert document is not None
    return document
