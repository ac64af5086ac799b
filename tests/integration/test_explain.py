"""Why is it not running? Each gate between a job and its run, on a real server, with workers where it needs them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId

from harness.looking import Database
from harness.waiting import eventually
from mainspring import (
    Breaker,
    Every,
    ExplainedGate,
    Explanation,
    Fail,
    Job,
    JobContext,
    JobNotFound,
    Limit,
    Rate,
    Retry,
    Scheduler,
    Sequence,
)
from mainspring.model.known_limits import Declared
from mainspring.sync import Scheduler as BlockingScheduler

Make = Callable[..., Scheduler]


@pytest.fixture
async def door() -> AsyncIterator[asyncio.Event]:
    """What the handlers of a test wait for; it opens by itself at the test's end."""
    event = asyncio.Event()
    yield event
    event.set()


def serve(scheduler: Scheduler, door: asyncio.Event, name: str = "report", **options: Any) -> None:
    """Register a handler that runs until the door is opened."""

    @scheduler.job(name, **options)
    async def run(ctx: JobContext) -> None:
        await door.wait()


def holding(explanation: Explanation) -> ExplainedGate:
    assert explanation.holding is not None, explanation.to_document()
    assert explanation.text.startswith(explanation.holding.text), explanation.text
    assert json.loads(json.dumps(explanation.to_document()))["holding"] == explanation.holding.kind
    return explanation.holding


def gate(explanation: Explanation, kind: str) -> ExplainedGate:
    found = [one for one in explanation.gates if one.kind == kind]
    assert found, [one.kind for one in explanation.gates]
    return found[0]


async def held_by(scheduler: Scheduler, job: Job, kind: str) -> Explanation:
    """The explanation, once this kind of gate holds the job."""

    async def look() -> Explanation | None:
        explanation = await scheduler.explain(job.id)
        return explanation if explanation.holding is not None and explanation.holding.kind == kind else None

    found: Explanation = await eventually(look)
    return found


async def running(scheduler: Scheduler, *jobs: Job) -> None:
    async def look() -> bool:
        return all([(await scheduler.get_job(job.id)).state == "running" for job in jobs])

    await eventually(look)


async def some_runs(scheduler: Scheduler, jobs: list[Job], number: int) -> tuple[list[Job], list[Job]]:
    """Wait until so many of these jobs run and the others are in line; returns both."""

    async def look() -> tuple[list[Job], list[Job]] | None:
        found = [await scheduler.get_job(job.id) for job in jobs]
        runs, waits = [one for one in found if one.state == "running"], [one for one in found if one.held is not None]
        return (runs, waits) if len(runs) == number and len(runs) + len(waits) == len(jobs) else None

    found: tuple[list[Job], list[Job]] = await eventually(look)
    return found


# -- the job itself --------------------------------------------------------------------------------------------------


async def test_a_running_job_tells_since_when_on_which_worker_and_until_when(
    scheduler: Scheduler, door: asyncio.Event
) -> None:
    serve(scheduler, door)
    await scheduler.start()
    job = await scheduler.schedule("report")
    told = holding(await held_by(scheduler, job, "state"))
    now = await scheduler.get_job(job.id)
    assert told.data["state"] == "running"
    assert (told.data["worker"], told.data["since"], told.data["attempt"]) == (now.worker, now.started_at, 1)
    assert "It has been running for" in told.text and f"on worker {now.worker}" in told.text
    assert "its lease lasts for another" in told.text
    assert [one.kind for one in (await scheduler.explain(job.id)).gates] == ["state"]


async def test_an_ended_job_tells_how_and_when(scheduler: Scheduler) -> None:
    @scheduler.job("fails")
    async def fails(ctx: JobContext) -> None:
        raise Fail("no ink")

    await scheduler.start()
    failed = await scheduler.wait((await scheduler.schedule("fails")).id, timeout=20)
    told = holding(await scheduler.explain(failed.id))
    assert (told.kind, told.data["state"], told.data["finished_at"]) == ("state", "failed", failed.finished_at)
    assert told.text.startswith("It failed ") and told.text.endswith(": Fail: no ink.")
    cancelled = await scheduler.cancel((await scheduler.schedule("fails", delay=600)).id, "typo")
    assert (await scheduler.explain(cancelled.id)).text.endswith(": typo.")


async def test_a_job_that_is_not_due_tells_when_it_is(scheduler: Scheduler) -> None:
    job = await scheduler.schedule("report", delay=timedelta(minutes=4, seconds=12))
    told = holding(await scheduler.explain(job.id))
    assert (told.kind, told.data["run_at"]) == ("time", job.run_at)
    assert 240 < told.data["seconds"] <= 252
    assert told.text.startswith("It is due in 4 min ")


async def test_a_retry_tells_its_number_and_the_error_before_it(scheduler: Scheduler) -> None:
    @scheduler.job("flaky", retry=Retry(attempts=3, delay=600, jitter=0))
    async def flaky(ctx: JobContext) -> None:
        raise OSError("no route")

    await scheduler.start()
    job = await scheduler.schedule("flaky")
    told = holding(await held_by(scheduler, job, "time"))
    assert told.data["retry"] == {"number": 1, "error": "OSError: no route"}
    assert told.text.startswith("Retry 1 is due in ") and told.text.endswith(", after OSError: no route.")


async def test_a_job_that_may_not_be_started_any_more_is_about_to_expire(scheduler: Scheduler, db: Database) -> None:
    job = await scheduler.schedule("report", start_within=60)
    late = datetime.now(UTC) - timedelta(seconds=5)
    await db.jobs.update_one({"name": "report"}, {"$set": {"start_by": late}}, hint="_id_")
    told = holding(await scheduler.explain(job.id))
    assert (told.kind, told.data["expires"]) == ("time", True)
    assert told.text.endswith("ago: it is about to expire.")


async def test_a_blocked_job_waits_for_what_it_depends_on(scheduler: Scheduler, db: Database) -> None:
    job = await scheduler.schedule("report")
    await db.jobs.update_one({"name": "report"}, {"$set": {"state": "blocked"}, "$unset": {"ready": ""}}, hint="_id_")
    explanation = await scheduler.explain(job.id)
    assert (holding(explanation).kind, gate(explanation, "state").open) == ("dependency", True)
    assert explanation.text.startswith("It waits for jobs that it depends on.")


async def test_a_run_of_a_schedule_that_must_not_overlap_names_the_earlier_one(
    scheduler: Scheduler, door: asyncio.Event
) -> None:
    serve(scheduler, door)
    await scheduler.start()
    await scheduler.schedule("report", repeat=Every("1h"), schedule_id="hourly", overlap="queue_all")
    first, second, third = [await scheduler.trigger_schedule("hourly") for _ in range(3)]
    await running(scheduler, first)
    told = holding(await scheduler.explain(third.id))
    assert (told.kind, told.data["schedule"], told.data["after"]) == ("overlap", "hourly", [first.id, second.id])
    assert told.text == (
        f"It waits until job {second.id}, an earlier run of the schedule hourly, has ended; "
        "1 other run is before that one."
    )


async def test_an_insert_by_another_program_that_nobody_has_taken_up_says_so(
    scheduler: Scheduler, db: Database
) -> None:
    await scheduler.connect()
    inserted = await db.jobs.insert_one({"name": "report", "state": "pending"})
    explanation = await scheduler.explain(str(inserted.inserted_id))
    assert (holding(explanation).kind, holding(explanation).data["adopted"]) == ("state", False)
    assert explanation.text.startswith("Another program has inserted it, and no worker has taken it up yet.")


async def test_a_job_that_is_not_there_is_not_explained(scheduler: Scheduler) -> None:
    with pytest.raises(JobNotFound):
        await scheduler.explain("no-such-job")


async def test_a_job_that_nothing_holds_is_said_to_be_free(
    scheduler: Scheduler, make_scheduler: Make, door: asyncio.Event
) -> None:
    serve(scheduler, door)
    await scheduler.start()
    job = await scheduler.schedule("report")
    await running(scheduler, job)
    explanation = await make_scheduler().explain((await make_scheduler().schedule("report", delay=0.5)).id)
    assert holding(explanation).kind == "time"
    others = [one for one in explanation.gates if one.kind != "time"]
    assert all(one.open for one in others), others
    assert gate(explanation, "slots").data["busy"] == 1


# -- what was shut ---------------------------------------------------------------------------------------------------


async def test_a_paused_queue_tells_by_whom_why_and_since_when(scheduler: Scheduler) -> None:
    await scheduler.pause(queue="mail", reason="moving the database", actor="ops")
    job = await scheduler.schedule("report", queue="mail")
    told = holding(await scheduler.explain(job.id))
    assert (told.kind, told.data["actor"], told.data["reason"]) == ("queue_paused", "ops", "moving the database")
    assert told.data["since"] is not None
    assert told.text.startswith("The queue 'mail' has been paused for ")
    assert told.text.endswith(" by ops: moving the database.")
    other = await scheduler.explain((await scheduler.schedule("report", queue="other")).id)
    assert gate(other, "queue_paused").open
    await scheduler.resume(queue="mail")
    assert gate(await scheduler.explain(job.id), "queue_paused").open


async def test_a_paused_name_and_a_paused_key_are_named(scheduler: Scheduler, door: asyncio.Event) -> None:
    serve(scheduler, door)
    await scheduler.pause(name="report", key={"tenant": "acme"}, reason="debts", actor="ops")
    await scheduler.pause(name="report:x", key={"tenant": "acme"})
    await scheduler.start()
    paused = await scheduler.schedule("report", {"tenant": "acme"})
    told = holding(await held_by(scheduler, paused, "paused"))
    assert (told.data["key"], told.data["value"], told.data["target"]) == ("tenant", "acme", "report")
    assert told.text.startswith("Jobs of 'report' with tenant=acme have been paused for ")
    assert told.text.endswith(" by ops: debts.")
    await running(scheduler, await scheduler.schedule("report", {"tenant": "other"}))
    await scheduler.pause(name="report")
    both = await scheduler.explain(paused.id)
    assert [one.data.get("key") for one in both.gates if one.kind == "paused"] == [None, "tenant"]


async def test_a_job_that_waits_in_the_line_of_a_pause_is_explained_by_the_pause(
    scheduler: Scheduler, make_scheduler: Make, door: asyncio.Event
) -> None:
    serve(scheduler, door)
    await scheduler.pause(name="report", reason="moving")
    await scheduler.start()
    jobs = [await scheduler.schedule("report") for _ in range(3)]
    _, waiting = await some_runs(scheduler, jobs, 0)
    explanation = await make_scheduler().explain(waiting[0].id)
    assert holding(explanation).kind == "paused"
    assert [one.kind for one in explanation.gates if not one.open] == ["paused"]


async def test_an_open_breaker_tells_until_when_and_why(scheduler: Scheduler) -> None:
    await scheduler.open_breaker(name="report", open_for=600, reason="the printer is on fire", actor="ops")
    job = await scheduler.schedule("report")
    told = holding(await scheduler.explain(job.id))
    assert (told.kind, told.data["state"], told.data["actor"]) == ("breaker", "open", "ops")
    assert told.data["open_until"] > datetime.now(UTC)
    assert told.text.startswith("The breaker of jobs of 'report' is open by ops, and lets a first job through in ")
    assert told.text.endswith(": the printer is on fire.")
    await scheduler.close_breaker(name="report")
    assert gate(await scheduler.explain(job.id), "breaker").open


async def test_a_breaker_that_opened_by_itself_tells_its_error_rate(make_scheduler: Make) -> None:
    scheduler = make_scheduler(queues=["default"])

    @scheduler.job("printer", breaker=Breaker(errors=0.5, minimum=4, open_for=600))
    async def printer(ctx: JobContext, ok: bool) -> None:
        if not ok:
            raise Fail("no ink")

    await scheduler.start()
    for ok in (True, False, False, False):
        await scheduler.wait((await scheduler.schedule("printer", {"ok": ok})).id, timeout=20)

    async def opened() -> bool:
        return [one.state for one in await scheduler.breakers()] == ["open"]

    await eventually(opened)
    job = await scheduler.schedule("printer", {"ok": True}, queue="elsewhere")
    told = holding(await scheduler.explain(job.id))
    assert told.kind == "breaker"
    assert (told.data["good"], told.data["bad"], told.data["error_rate"]) == (1, 3, 0.75)
    assert "The breaker of jobs of 'printer' is open, and lets a first job through in " in told.text
    assert told.data["reason"] and told.text.endswith(told.data["reason"])


async def test_a_half_open_breaker_tells_that_a_probe_is_under_way(
    scheduler: Scheduler, make_scheduler: Make, door: asyncio.Event
) -> None:
    serve(scheduler, door)
    await scheduler.open_breaker(name="report", open_for=0.1)
    await scheduler.start()
    jobs = [await scheduler.schedule("report") for _ in range(3)]
    _, waits = await some_runs(scheduler, jobs, 1)
    told = holding(await held_by(make_scheduler(), waits[0], "breaker"))
    assert (told.data["state"], told.data["probes"]) == ("half_open", 1)
    assert told.text == (
        "The breaker of jobs of 'report' is half open: one job at a time is let through as a probe, and one is under "
        "way."
    )


# -- the workers -----------------------------------------------------------------------------------------------------


async def test_a_queue_that_no_live_worker_serves_is_told_with_those_that_are(
    make_scheduler: Make, door: asyncio.Event
) -> None:
    worker = make_scheduler(queues=["default", "reports"])
    serve(worker, door)
    asking = make_scheduler()
    job = await asking.schedule("report", queue="mail")
    nobody = await asking.explain(job.id)
    assert nobody.text == "No worker is alive. No live worker has a handler for 'report'."
    await worker.start()
    explanation = await asking.explain(job.id)
    told = holding(explanation)
    assert (told.kind, told.data["live"], told.data["serving"]) == ("worker", 1, 0)
    assert told.text == "No live worker serves the queue 'mail'; 1 worker serves others: default, reports."
    assert gate(explanation, "handler").data["elsewhere"][0]["queues"] == ["default", "reports"]


async def test_a_handler_that_nobody_has_is_told_with_those_who_have_it_elsewhere(
    make_scheduler: Make, door: asyncio.Event
) -> None:
    here, there = make_scheduler(queues=["mail"]), make_scheduler(queues=["default"])
    serve(here, door, "other")
    serve(there, door, "report")
    await here.start()
    await there.start()
    job = await here.schedule("report", queue="mail")
    told = holding(await held_by(here, job, "handler"))
    (elsewhere,) = told.data["elsewhere"]
    assert (told.data["able"], elsewhere["queues"]) == ([], ["default"])
    assert elsewhere["version"]
    assert told.text.startswith("No live worker that serves the queue 'mail' has a handler for 'report'.")


async def test_busy_slots_are_counted(make_scheduler: Make, door: asyncio.Event) -> None:
    worker = make_scheduler(concurrency=2, prefetch=0)
    serve(worker, door)
    await worker.start()
    jobs = [await worker.schedule("report") for _ in range(2)]
    await running(worker, *jobs)
    explanation = await worker.explain((await worker.schedule("report")).id)
    told = holding(explanation)
    assert (told.kind, told.data["slots"], told.data["busy"]) == ("slots", 2, 2)
    assert told.text == f"All 2 slots of worker {told.data['workers'][0]['worker']} that could run it are busy."


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
    scheduler.limit_queue("mail", concurrency=1)
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
    await scheduler.override_limit(name="report", concurrency=1, reason="slow disk", actor="ops")
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
    assert told.data["note"] == "1 jobs at once are allowed by name:report, and as many are running."
    assert "Neither a live worker nor this process tells of that limit." in told.text


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
    for name, on_failure in (("blocks", "block"), ("passes", "pass")):

        @scheduler.job(name, sequence=Sequence("order", on_failure=on_failure))
        async def fail(ctx: JobContext) -> None:
            raise Fail("no ink")

    await scheduler.start()
    first = await scheduler.wait((await scheduler.schedule("blocks", {"order": 7})).id, timeout=20)
    told = holding(await held_by(scheduler, await scheduler.schedule("blocks", {"order": 7}), "sequence"))
    assert (told.data["blocks"], told.data["first"]["job"]) == (True, first.id)
    assert told.text.endswith("it has failed (Fail: no ink), and blocks the others until it is retried or deleted.")
    await scheduler.wait((await scheduler.schedule("passes", {"order": 7})).id, timeout=20)
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


async def test_a_long_queue_is_counted_up_to_a_bound_and_says_so(scheduler: Scheduler, db: Database) -> None:
    await scheduler.connect()
    now = datetime.now(UTC) - timedelta(minutes=1)
    like = {"v": 1, "name": "report", "data": {}, "queue": "default", "priority": 5, "state": "pending", "ready": True}
    times = {"run_at": now, "created_at": now, "rev": 0, "token": 0, "tries": 0}
    await db.jobs.insert_many([{**like, **times} for _ in range(10_001)], ordered=False)
    job = await scheduler.schedule("report")
    told = gate(await scheduler.explain(job.id), "position")
    assert told.data["before"] == {"count": 10_000, "over": True}
    assert told.text == "Over 10,000 jobs are before it in the queue 'default' and could run."


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
    await worker.wait(last.id, timeout=20)
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
    standing = await scheduler._link.open_store().explaining.standing(await _document(db, job), Declared())
    assert standing.drain is not None
    assert standing.drain.jobs == 2000 and 20 <= standing.drain.seconds < 60


async def _document(db: Database, job: Job) -> dict[str, Any]:
    document = await db.jobs.find_one({"_id": ObjectId(job.id)})
    assert document is not None
    return document


# -- the registry and the blocking face ------------------------------------------------------------------------------


async def test_workers_tell_their_limits_in_the_registry(
    scheduler: Scheduler, db: Database, door: asyncio.Event
) -> None:
    serve(scheduler, door, concurrency=Limit(5, key="tenant"), rate="100/minute", fair="tenant")
    serve(scheduler, door, "plain", breaker=Breaker(errors=0.5, window=30, minimum=4, open_for=10))
    scheduler.limit_queue("mail", concurrency=2)
    await scheduler.start()
    (worker,) = await db["jobs.workers"].find({}, hint="_id_").to_list(None)
    assert worker["limits"] == [
        {
            "scope": "name",
            "target": "report",
            "concurrency": {"limit": 5, "key": "tenant"},
            "rate": {"rate": "100/60s", "key": None, "burst": 100, "weight": 1},
            "fair": "tenant",
        },
        {"scope": "queue", "target": "mail", "concurrency": {"limit": 2}},
    ]
    rule = {"errors": 0.5, "window": 30.0, "minimum": 4, "open_for": 10.0}
    assert worker["breakers"] == [{"scope": "name", "target": "plain", **rule}]


def test_the_blocking_face_explains_too(uri: str) -> None:
    scheduler = BlockingScheduler(uri)
    try:
        explanation = scheduler.explain(scheduler.schedule("report", delay=600).id)
        assert holding(explanation).kind == "time"
    finally:
        scheduler.stop()
