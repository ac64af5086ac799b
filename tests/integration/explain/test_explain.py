"""Why is it not running? The gates of the job itself, of what was shut, and of the workers, on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta

import pytest

from harness.explained import gate, held_by, holding, running, serve, some_runs
from harness.looking import Database
from harness.waiting import eventually
from mainspring import (
    Breaker,
    Every,
    Fail,
    JobContext,
    JobNotFound,
    Limit,
    Retry,
    Scheduler,
)
from mainspring.sync import Scheduler as BlockingScheduler

Make = Callable[..., Scheduler]


@pytest.fixture
async def door() -> AsyncIterator[asyncio.Event]:
    """What the handlers of a test wait for; it opens by itself at the test's end."""
    event = asyncio.Event()
    yield event
    event.set()


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
    failed = await scheduler.wait((await scheduler.schedule("fails")).id, timeout=60)
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
    first, second, third = [await scheduler.schedules.trigger("hourly") for _ in range(3)]
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
    assert explanation.text.startswith("Another program inserted it, and no worker has adopted it yet.")


async def test_a_job_that_is_not_there_is_not_explained(scheduler: Scheduler) -> None:
    with pytest.raises(JobNotFound):
        await scheduler.explain("no-such-job")


async def test_a_job_that_only_waits_for_its_time_finds_all_other_gates_open(
    scheduler: Scheduler, make_scheduler: Make, door: asyncio.Event
) -> None:
    serve(scheduler, door, concurrency=2, rate="100/s")
    await scheduler.start()
    await running(scheduler, await scheduler.schedule("report"))
    asking = make_scheduler()
    explanation = await asking.explain((await asking.schedule("report", delay=600)).id)
    assert [one.kind for one in explanation.gates if not one.open] == ["time"]
    assert gate(explanation, "slots").data["busy"] == gate(explanation, "concurrency").data["taken"] == 1
    assert (
        gate(explanation, "handler").data["able"][0]["worker"]
        == gate(explanation, "slots").data["workers"][0]["worker"]
    )


# -- what was shut ---------------------------------------------------------------------------------------------------


async def test_a_paused_queue_tells_by_whom_why_and_since_when(scheduler: Scheduler) -> None:
    await scheduler.queues.pause("mail", reason="moving the database", actor="ops")
    job = await scheduler.schedule("report", queue="mail")
    told = holding(await scheduler.explain(job.id))
    assert (told.kind, told.data["actor"], told.data["reason"]) == ("queue_paused", "ops", "moving the database")
    assert told.data["since"] is not None
    assert told.text.startswith("The queue 'mail' has been paused for ")
    assert told.text.endswith(" by ops: moving the database.")
    other = await scheduler.explain((await scheduler.schedule("report", queue="other")).id)
    assert gate(other, "queue_paused").open
    await scheduler.queues.resume("mail")
    assert gate(await scheduler.explain(job.id), "queue_paused").open


async def test_a_paused_name_and_a_paused_key_are_named(scheduler: Scheduler, door: asyncio.Event) -> None:
    serve(scheduler, door)
    await scheduler.limits.pause("report", key={"tenant": "acme"}, reason="debts", actor="ops")
    await scheduler.limits.pause("report:x", key={"tenant": "acme"})
    await scheduler.start()
    paused = await scheduler.schedule("report", {"tenant": "acme"})
    told = holding(await held_by(scheduler, paused, "paused"))
    assert (told.data["key"], told.data["value"], told.data["target"]) == ("tenant", "acme", "report")
    assert told.text.startswith("Jobs of 'report' with tenant=acme have been paused for ")
    assert told.text.endswith(" by ops: debts.")
    await running(scheduler, await scheduler.schedule("report", {"tenant": "other"}))
    await scheduler.limits.pause("report")
    both = await scheduler.explain(paused.id)
    assert [one.data.get("key") for one in both.gates if one.kind == "paused"] == [None, "tenant"]


async def test_a_job_that_waits_in_the_line_of_a_pause_is_explained_by_the_pause(
    scheduler: Scheduler, make_scheduler: Make, door: asyncio.Event
) -> None:
    serve(scheduler, door)
    await scheduler.limits.pause("report", reason="moving")
    await scheduler.start()
    jobs = [await scheduler.schedule("report") for _ in range(3)]
    _, waiting = await some_runs(scheduler, jobs, 0)
    explanation = await make_scheduler().explain(waiting[0].id)
    assert holding(explanation).kind == "paused"
    assert [one.kind for one in explanation.gates if not one.open] == ["paused"]


async def test_an_open_breaker_tells_until_when_and_why(scheduler: Scheduler) -> None:
    await scheduler.limits.open_breaker(name="report", open_for=600, reason="the printer is on fire", actor="ops")
    job = await scheduler.schedule("report")
    told = holding(await scheduler.explain(job.id))
    assert (told.kind, told.data["state"], told.data["actor"]) == ("breaker", "open", "ops")
    assert told.data["open_until"] > datetime.now(UTC)
    assert told.text.startswith("The breaker of jobs of 'report' is open by ops, and lets a first job through in ")
    assert told.text.endswith(": the printer is on fire.")
    await scheduler.limits.close_breaker(name="report")
    assert gate(await scheduler.explain(job.id), "breaker").open


async def test_a_breaker_that_opened_by_itself_tells_its_error_rate(make_scheduler: Make) -> None:
    scheduler = make_scheduler(queues=["default"])

    @scheduler.job("printer", breaker=Breaker(errors=0.5, minimum=4, open_for=600))
    async def printer(ctx: JobContext, ok: bool) -> None:
        if not ok:
            raise Fail("no ink")

    await scheduler.start()
    for ok in (True, False, False, False):
        await scheduler.wait((await scheduler.schedule("printer", {"ok": ok})).id, timeout=60)

    async def opened() -> bool:
        return [one.state for one in await scheduler.limits.breakers()] == ["open"]

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
    await scheduler.limits.open_breaker(name="report", open_for=0.1)
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


# -- the registry and the blocking face ------------------------------------------------------------------------------


async def test_workers_tell_their_limits_in_the_registry(
    scheduler: Scheduler, db: Database, door: asyncio.Event
) -> None:
    serve(scheduler, door, concurrency=Limit(5, key="tenant"), rate="100/minute", fair="tenant")
    serve(scheduler, door, "plain", breaker=Breaker(errors=0.5, window=30, minimum=4, open_for=10))
    scheduler.queues.limit("mail", concurrency=2)
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
