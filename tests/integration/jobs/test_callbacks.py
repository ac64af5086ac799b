"""Events as they really come: once each, in order, after what they tell of is stored; and callbacks that misbehave."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from harness.waiting import eventually
from mainspring import Cancel, Job, JobContext, Retry, Scheduler, Snooze
from mainspring.model.jobs.event_names import EVENTS
from mainspring.store.jobs.leases import ProgressUpdates

Make = Callable[..., Scheduler]


def listen(scheduler: Scheduler) -> list[tuple[str, Any]]:
    """All events, in order, with what they carry."""
    heard: list[tuple[str, Any]] = []
    for event in EVENTS:

        def hear(*payload: Any, event: str = event) -> None:
            heard.append((event, payload[0] if payload else None))

        scheduler.on(event, hear)
    return heard


def names(heard: list[tuple[str, Any]], job: Job) -> list[str]:
    return [event for event, payload in heard if isinstance(payload, Job) and payload.id == job.id]


async def heard_all(heard: list[tuple[str, Any]], job: Job, *expected: str) -> None:
    await eventually(lambda: len(names(heard, job)) >= len(expected))
    assert names(heard, job) == list(expected)


async def test_the_life_of_a_job_is_announced_in_order(scheduler: Scheduler) -> None:
    heard = listen(scheduler)

    @scheduler.job("good")
    async def good() -> str:
        return "result"

    job = await scheduler.schedule("good")
    assert names(heard, job) == ["job:created"]
    await scheduler.start()
    await scheduler.wait(job.id, 60)
    await heard_all(heard, job, "job:created", "job:start", "job:success")
    await scheduler.stop()
    around = [event for event, payload in heard if not isinstance(payload, Job)]
    assert around == ["worker:start", "scheduler:start", "worker:stop", "scheduler:stop"]
    created, started, success = (payload for _, payload in heard if isinstance(payload, Job))
    assert (created.state, started.state, success.state) == ("pending", "running", "completed")
    assert started.created_at == created.created_at == success.created_at
    assert (started.token, started.tries, started.worker, success.result) == (1, 1, heard[1][1], "result")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bad", ["job:created", "job:start", "job:retry", "job:start", "job:fail"]),
        ("sleepy", ["job:created", "job:start", "job:snooze", "job:start", "job:success"]),
        ("gone", ["job:created", "job:start", "job:cancel"]),
    ],
)
async def test_each_ending_is_announced_once(scheduler: Scheduler, name: str, expected: list[str]) -> None:
    heard = listen(scheduler)

    @scheduler.job("bad", retry=Retry(attempts=2, delay=0))
    async def bad() -> None:
        raise ValueError("no")

    @scheduler.job("sleepy")
    async def sleepy(ctx: JobContext) -> None:
        if ctx.token == 1:
            raise Snooze(0)

    @scheduler.job("gone")
    async def gone() -> None:
        raise Cancel

    job = await scheduler.schedule(name)
    await scheduler.start()
    await scheduler.wait(job.id, 60)
    await heard_all(heard, job, *expected)
    attempts = [payload for event, payload in heard if event in ("job:retry", "job:snooze")]
    assert all(payload.state in ("pending", "running") for payload in attempts)


async def test_what_an_event_tells_of_is_stored_when_it_comes(make_scheduler: Make) -> None:
    scheduler, beside = make_scheduler(), make_scheduler()
    stored: dict[str, str] = {}

    def look(event: str) -> Callable[[Job], Any]:
        async def read(job: Job) -> None:
            stored[f"{event} {job.name}"] = (await beside.get_job(job.id)).state

        return read

    for event in ("job:created", "job:start", "job:success", "job:fail"):
        scheduler.on(event, look(event))

    @scheduler.job("good")
    async def good() -> None:
        await eventually(lambda: "job:start good" in stored)

    @scheduler.job("bad", retry=1)
    async def bad() -> None:
        raise ValueError

    await scheduler.start()
    for name in ("good", "bad"):
        job = await scheduler.schedule(name, delay=0.05)
        await scheduler.wait(job.id, 60)
    await eventually(lambda: len(stored) == 6)
    assert stored["job:start good"] == "running"
    assert (stored["job:success good"], stored["job:fail bad"]) == ("completed", "failed")


async def test_progress_is_announced_after_it_is_stored(make_scheduler: Make) -> None:
    scheduler, beside = make_scheduler(), make_scheduler()
    stored: list[Any] = []
    enough = asyncio.Event()

    async def look(job: Job) -> None:
        stored.append((job.progress, (await beside.get_job(job.id)).progress))
        enough.set()

    scheduler.on("job:progress", look)

    @scheduler.job("work")
    async def work(ctx: JobContext) -> None:
        ctx.progress(50, "half")
        await enough.wait()

    await scheduler.start()
    job = await scheduler.schedule("work")
    await scheduler.wait(job.id, 60)
    ((told, found),) = stored
    assert told == found and told.percent == 50


async def test_the_last_progress_of_a_quick_job_is_kept_and_announced(scheduler: Scheduler) -> None:
    heard: list[Job] = []
    scheduler.on("job:progress", heard.append)

    @scheduler.job("quick")
    async def quick(ctx: JobContext) -> None:
        ctx.progress(100, "all")

    await scheduler.start()
    job = await scheduler.schedule("quick")
    done = await scheduler.wait(job.id, 60)
    assert done.progress is not None and done.progress.percent == 100
    await eventually(lambda: heard)
    assert [one.progress and one.progress.percent for one in heard] == [100]


async def test_progress_that_is_stored_again_with_the_end_is_announced_once(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Job] = []
    scheduler.on("job:progress", heard.append)
    noted = asyncio.Event()
    write = ProgressUpdates.write

    async def write_slowly(self: ProgressUpdates, *args: Any) -> None:
        await write(self, *args)
        noted.set()
        await eventually(lambda: heard)  # the end is stored and announced while the note is still being written

    monkeypatch.setattr(ProgressUpdates, "write", write_slowly)

    @scheduler.job("quick")
    async def quick(ctx: JobContext) -> None:
        ctx.progress(100, "all")
        await noted.wait()

    await scheduler.start()
    job = await scheduler.schedule("quick")
    await scheduler.wait(job.id, 60)
    await scheduler.stop()
    assert [one.progress and one.progress.percent for one in heard] == [100]


async def test_callbacks_that_raise_harm_nobody(scheduler: Scheduler) -> None:
    def broken(*payload: Any) -> None:
        raise RuntimeError("broken callback")

    async def broken_too(*payload: Any) -> None:
        raise RuntimeError("broken callback")

    for event in EVENTS:
        scheduler.on(event, broken)
        scheduler.on(event, broken_too)
    heard = listen(scheduler)

    @scheduler.job("good")
    async def good() -> None: ...

    job = await scheduler.schedule("good")
    await scheduler.start()
    assert (await scheduler.wait(job.id, 60)).state == "completed"
    await heard_all(heard, job, "job:created", "job:start", "job:success")
    await scheduler.stop()


async def test_no_end_is_left_behind_by_the_announcing_of_another(make_scheduler: Make) -> None:
    """Jobs that end while the end of another is being announced must be stored at once, not with the next one."""
    scheduler = make_scheduler(concurrency=20)
    heard = listen(scheduler)

    @scheduler.job("nap")
    async def nap(seconds: float) -> None:
        await asyncio.sleep(seconds)

    jobs = await scheduler.schedule_bulk([{"name": "nap", "data": {"seconds": 0.001 * i}} for i in range(60)])
    await scheduler.start()
    await asyncio.gather(*(scheduler.wait(job.id, 60) for job in jobs))
    await eventually(lambda: Counter(event for event, _ in heard)["job:success"] == 60)
    assert Counter(event for event, _ in heard)["job:start"] == 60
    assert Counter(event for event, _ in heard)["job:created"] == 60


async def test_a_bulk_announces_each_of_its_new_jobs(scheduler: Scheduler) -> None:
    heard = listen(scheduler)
    jobs = await scheduler.schedule_bulk([{"name": "x", "dedupe_key": key} for key in ("a", "b", "a")])
    assert [payload.id for _, payload in heard] == [jobs[0].id, jobs[1].id]
    await scheduler.schedule("x", dedupe_key="a")
    assert len(heard) == 2


async def test_a_lost_worker_is_announced_by_whoever_rescues_its_job(make_scheduler: Make, db: Any) -> None:
    scheduler = make_scheduler()
    heard = listen(scheduler)

    @scheduler.job("work", retry=2)
    async def work() -> str:
        return "done"

    jobs = [await scheduler.schedule("work"), await scheduler.schedule("work")]
    for job, tries in zip(jobs, (1, 2), strict=True):
        await db.jobs.update_one(
            {"_id": _object_id(job)},
            [
                {
                    "$set": {
                        "state": "running",
                        "token": 1,
                        "tries": tries,
                        "max_attempts": 2,
                        "worker": "gone",
                        "claim": "gone",
                        "lease_until": {"$subtract": ["$$NOW", 3_600_000]},
                        "ready": "$$REMOVE",
                    }
                }
            ],
        )
    await scheduler.start()
    assert [(await scheduler.wait(job.id, 60)).state for job in jobs] == ["completed", "failed"]
    # The job may start before its rescue is announced, with that of the other one.
    wanted = {"job:created", "job:rescue", "job:start", "job:success"}
    await eventually(lambda: set(names(heard, jobs[0])) == wanted)
    await heard_all(heard, jobs[1], "job:created", "job:rescue", "job:fail")
    failed = await scheduler.get_job(jobs[1].id)
    assert failed.error is not None and failed.error.type == "WorkerLost"
    assert [attempt.outcome for attempt in failed.attempts] == ["lost"]


async def test_a_claim_lost_to_another_is_announced_and_changes_nothing(make_scheduler: Make, db: Any) -> None:
    scheduler = make_scheduler()
    heard = listen(scheduler)
    go_on = asyncio.Event()

    @scheduler.job("work")
    async def work() -> str:
        await go_on.wait()
        return "by the loser"

    await scheduler.start()
    job = await scheduler.schedule("work")
    await eventually(lambda: "job:start" in names(heard, job))
    taken = {"token": 2, "claim": "another", "worker": "another"}
    await db.jobs.update_one({"_id": _object_id(job)}, {"$set": taken})
    before = await db.jobs.find_one({"_id": _object_id(job)})
    go_on.set()
    await heard_all(heard, job, "job:created", "job:start", "job:lost")
    assert await db.jobs.find_one({"_id": _object_id(job)}) == before


def _object_id(job: Job) -> Any:
    from bson import ObjectId

    return ObjectId(job.id)


async def test_errors_of_the_worker_itself_are_announced(scheduler: Scheduler, servers: Any) -> None:
    heard: list[Any] = []
    scheduler.on("scheduler:error", heard.append)
    await scheduler.start()
    database = (scheduler.uri or "").rpartition("/")[2].partition("?")[0]
    fault = {"failCommands": ["find"], "errorCode": 8000, "namespace": f"{database}.jobs"}
    with servers.fail_point("failCommand", {"times": 2}, **fault):
        await eventually(lambda: heard)
    assert isinstance(heard[0], Exception)

    @scheduler.job("after")
    async def after() -> None: ...

    job = await scheduler.schedule("after")
    assert (await scheduler.wait(job.id, 60)).state == "completed"
