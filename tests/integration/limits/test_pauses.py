"""Pauses: of a queue, a job name or a key; in force in other processes, and upgraded without a trace."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from harness.inside import inside
from harness.listening import Listener
from harness.looking import Database, count_jobs
from harness.pausing import pause, resume
from harness.servers import Servers
from harness.waiting import eventually
from mainspring import ConfigurationError, Limit, Scheduler, sync

Make = Callable[..., Scheduler]


class Ran(list[Any]):
    """What handlers were called with."""

    async def has(self, *expected: Any) -> None:
        await eventually(lambda: sorted(self) == sorted(expected))


@pytest.fixture
def ran() -> Ran:
    return Ran()


def recording(scheduler: Scheduler, ran: Ran, *names: str, **options: Any) -> None:
    for name in names:

        @scheduler.job(name, **options)
        async def handler(i: int = 0, tenant: str = "", name: str = name) -> None:
            ran.append((name, i))


def without_chore(scheduler: Scheduler, name: str) -> None:
    """Let nothing but what is tested see to it."""
    inside(scheduler).worker.chores = [chore for chore in inside(scheduler).worker.chores if chore.name != name]


async def held(scheduler: Scheduler, *ids: str) -> list[Any]:
    """Wait until all of these jobs are out of the claim's sight, and return why."""

    async def all_held() -> list[Any] | None:
        jobs = [await scheduler.get_job(one) for one in ids]
        return [job.waiting_for for job in jobs] if all(job.waiting_for for job in jobs) else None

    found: list[Any] = await eventually(all_held)
    return found


async def test_a_paused_queue_is_not_looked_into_and_goes_on_when_it_is_resumed(
    make_scheduler: Make, ran: Ran, db: Database
) -> None:
    worker, other = make_scheduler(), make_scheduler()
    recording(worker, ran, "x")
    await other.queues.pause("mail", reason="provider is down", actor="anna")
    await worker.start()
    jobs = [await other.schedule("x", {"i": i}, queue="mail") for i in range(5)]
    await other.wait((await other.schedule("x", {"i": 9})).id, 60)
    assert ran == [("x", 9)]
    assert await count_jobs(db, ready=True, queue="mail") == 5  # they have not even been touched
    (pause,) = await worker.limits.pauses()
    assert (pause.scope, pause.target, pause.key, pause.reason, pause.actor) == (
        "queue",
        "mail",
        None,
        "provider is down",
        "anna",
    )
    assert await other.queues.resume("mail") == pause
    for job in jobs:
        await other.wait(job.id, 60)
    assert await other.limits.pauses() == []


@pytest.mark.slow
async def test_a_running_worker_hears_of_a_pause_made_elsewhere(make_scheduler: Make, ran: Ran) -> None:
    worker, other = make_scheduler(poll_interval=3600), make_scheduler()
    recording(worker, ran, "x", "y")
    await worker.start()
    await other.wait((await other.schedule("x")).id, 60)
    await other.limits.pause("x", reason="bad release", actor="anna")
    await eventually(lambda: inside(worker).limits.closures)
    job = await other.schedule("x", {"i": 1})
    ((why),) = await held(other, job.id)
    assert (why.by, why.note) == ("limit", "The job 'x' is paused by anna: bad release")
    await other.wait((await other.schedule("y")).id, 60)
    assert ran == [("x", 0), ("y", 0)]
    await other.limits.resume("x")
    await other.wait(job.id, 60)


async def test_a_worker_that_stops_listening_looks_by_itself_soon(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.engine.limits.controls._TOLD", 1000.0)
    worker, other = make_scheduler(), make_scheduler()
    await worker.start()
    inner = inside(worker).worker
    assert inner is not None
    await eventually(lambda: inner.watcher.listening)
    for _ in range(2):
        await inner.controls.run_once()  # it would sleep for very long now
    monkeypatch.setattr(inner.watcher, "_on_control", lambda: None)
    await other.limits.pause("x")
    monkeypatch.setattr(inner.controls, "_told", lambda: False)
    await eventually(lambda: inside(worker).limits.closures)


async def test_a_pause_of_a_key_holds_back_only_the_jobs_that_have_it(make_scheduler: Make, ran: Ran) -> None:
    worker, other = make_scheduler(), make_scheduler()
    recording(worker, ran, "report")
    await other.limits.pause("report", key={"tenant": "acme"})
    await worker.start()
    paused = await other.schedule("report", {"i": 1, "tenant": "acme"})
    await other.wait((await other.schedule("report", {"i": 2, "tenant": "bravo"})).id, 60)
    await held(other, paused.id)
    assert ran == [("report", 2)]
    assert await other.limits.resume("report") is None
    assert await other.limits.resume("report", key={"tenant": "bravo"}) is None
    assert (await other.get_job(paused.id)).state == "pending"
    await other.limits.resume("report", key={"tenant": "acme"})
    await other.wait(paused.id, 60)


async def test_a_key_of_a_queue_can_be_paused_too(scheduler: Scheduler, ran: Ran) -> None:
    recording(scheduler, ran, "x", "y")
    await scheduler.queues.pause("default", key={"tenant": "acme"})
    await scheduler.start()
    paused = [(await scheduler.schedule(name, {"i": 1, "tenant": "acme"})).id for name in ("x", "y")]
    await scheduler.wait((await scheduler.schedule("x", {"i": 2})).id, 60)
    await held(scheduler, *paused)
    await scheduler.queues.resume("default", key={"tenant": "acme"})
    await ran.has(("x", 1), ("x", 2), ("y", 1))


@pytest.mark.parametrize("selector", [{"queue": "default"}, {"name": "x"}, {"name": "x", "key": {"i": 1}}], ids=str)
async def test_a_paused_job_can_be_cancelled_at_once(scheduler: Scheduler, ran: Ran, selector: dict[str, Any]) -> None:
    recording(scheduler, ran, "x")
    await scheduler.start()
    await pause(scheduler, **selector)
    await eventually(lambda: inside(scheduler).limits.closures)
    job = await scheduler.schedule("x", {"i": 1})
    if "queue" not in selector:
        await held(scheduler, job.id)
    cancelled = await scheduler.cancel(job.id, "not needed")
    assert (cancelled.state, cancelled.waiting_for) == ("cancelled", None)
    await resume(scheduler, **selector)
    await scheduler.wait((await scheduler.schedule("x", {"i": 2})).id, 60)
    assert ran == [("x", 2)]


async def test_what_runs_goes_on_when_its_queue_is_paused_and_can_be_cancelled(scheduler: Scheduler) -> None:
    started = asyncio.Event()

    @scheduler.job("slow")
    async def slow() -> None:
        started.set()
        await asyncio.sleep(60)

    await scheduler.start()
    job = await scheduler.schedule("slow")
    await started.wait()
    await scheduler.queues.pause("default")
    await scheduler.limits.pause("slow")
    await eventually(lambda: len(inside(scheduler).limits.closures) == 2)
    assert (await scheduler.get_job(job.id)).state == "running"
    await scheduler.cancel(job.id)
    assert (await scheduler.wait(job.id, 60)).state == "cancelled"


@pytest.mark.slow
async def test_paused_jobs_in_the_line_of_a_limit_let_those_behind_them_pass(
    make_scheduler: Make, ran: Ran, db: Database
) -> None:
    """Two names share a queue's one slot; what is paused must not stand in the way of the other name."""
    worker, other = make_scheduler(), make_scheduler()
    release = asyncio.Event()
    worker.queues.limit("default", concurrency=1)
    recording(worker, ran, "x", "y")

    @worker.job("blocker")
    async def blocker() -> None:
        await release.wait()

    await worker.start()
    await other.schedule("blocker")
    await eventually(lambda: inside(worker).worker.running)
    jobs = [await other.schedule("x", {"i": i}) for i in range(30)]
    last = await other.schedule("y")
    await held(other, jobs[0].id, last.id)
    await other.limits.pause("x")
    await eventually(lambda: inside(worker).limits.closures)
    release.set()
    await other.wait(last.id, 60)
    assert ran == [("y", 0)]
    await eventually(lambda: count_jobs(db, line="p:name:x"))
    await other.limits.resume("x")
    for job in jobs:
        await other.wait(job.id, 60)
    assert await count_jobs(db, line={"$exists": True}) == 0


@pytest.mark.slow
async def test_a_paused_queue_whose_keys_take_turns_is_left_as_it_is(
    scheduler: Scheduler, ran: Ran, db: Database
) -> None:
    recording(scheduler, ran, "x", fair="tenant")
    await scheduler.queues.pause("default")
    await scheduler.start()
    jobs = [await scheduler.schedule("x", {"i": i, "tenant": f"t{i % 3}"}) for i in range(9)]
    await scheduler.wait((await scheduler.schedule("x", {"i": 9}, queue="other")).id, 60)
    assert ran == [("x", 9)]
    lines = Counter([job["line"] async for job in db["jobs"].find({"line": {"$gt": ""}}, hint="line")])
    # A worker that mends lines may see the first job of a key before it is marked, and send it to the pause's line.
    assert lines.total() == 9
    assert sum(line.startswith("f:default:") for line in lines) >= 2
    await scheduler.queues.resume("default")
    for job in jobs:
        await scheduler.wait(job.id, 60)


@pytest.mark.slow
async def test_jobs_of_a_paused_queue_in_the_line_of_a_limit_let_others_pass(make_scheduler: Make, ran: Ran) -> None:
    worker, other = make_scheduler(), make_scheduler()
    release = asyncio.Event()

    @worker.job("x", concurrency=1)
    async def x(i: int) -> None:
        if i == 0:
            await release.wait()
        ran.append(i)

    await worker.start()
    await other.schedule("x", {"i": 0}, queue="first")
    await eventually(lambda: inside(worker).worker.running)
    paused = [await other.schedule("x", {"i": i}, queue="second") for i in range(1, 20)]
    last = await other.schedule("x", {"i": 20}, queue="first")
    await held(other, paused[0].id, last.id)
    await other.queues.pause("second")
    await eventually(lambda: inside(worker).limits.closures)
    release.set()
    await other.wait(last.id, 60)
    assert ran == [0, 20]
    await other.queues.resume("second")
    await ran.has(*range(21))


@pytest.mark.slow
async def test_a_long_stretch_of_paused_jobs_does_not_starve_those_behind_it(
    uri: str, make_scheduler: Make, ran: Ran, db: Database
) -> None:
    """They are put in line by the thousand, not as many at a time as there are slots."""
    listener = Listener()
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(uri, event_listeners=[listener])
    worker, other = make_scheduler(client=client, concurrency=2), make_scheduler()
    recording(worker, ran, "x", "y")
    await other.schedule_bulk([{"name": "x", "data": {"i": i}} for i in range(3000)])
    last = await other.schedule("y")
    await other.limits.pause("x")
    await worker.start()
    await other.wait(last.id, 60)
    assert ran == [("y", 0)]
    assert await count_jobs(db, line="p:name:x") == 3000
    assert len(listener.named("update", "jobs")) < 100
    await worker.stop()
    await client.close()


async def test_claimed_jobs_that_wait_for_a_slot_are_given_back_when_they_are_paused(
    make_scheduler: Make, ran: Ran
) -> None:
    worker, other = make_scheduler(concurrency=1), make_scheduler()
    release = asyncio.Event()

    @worker.job("x")
    async def x(i: int) -> None:
        ran.append(i)
        await release.wait()

    await worker.start()
    jobs = [await other.schedule("x", {"i": i}) for i in range(3)]
    await eventually(lambda: ran)
    without_chore(worker, "return_unstarted")
    await inside(worker).worker.producer._claim_batch("default", 2, 0.0)  # as it does when jobs are very short
    assert len(inside(worker).worker.slots.waiting) == 2
    await other.limits.pause("x")
    await held(other, jobs[1].id, jobs[2].id)
    release.set()
    await other.wait(jobs[0].id, 60)
    assert ran == [0]
    assert [(await other.get_job(job.id)).attempts for job in jobs[1:]] == [(), ()]


async def test_a_pause_that_is_made_again_has_the_new_reason(scheduler: Scheduler) -> None:
    await scheduler.queues.pause("mail", reason="one", actor="anna")
    await scheduler.queues.pause("mail", reason="two")
    (pause,) = await scheduler.limits.pauses()
    assert (pause.reason, pause.actor) == ("two", None)


async def test_several_pauses_of_one_job_all_have_to_end(scheduler: Scheduler, ran: Ran) -> None:
    recording(scheduler, ran, "x")
    await scheduler.limits.pause("x")
    await scheduler.queues.pause("default")
    await scheduler.limits.pause("x", key={"tenant": "acme"})
    await scheduler.start()
    job = await scheduler.schedule("x", {"tenant": "acme"})
    await scheduler.queues.resume("default")
    await held(scheduler, job.id)
    await scheduler.limits.resume("x")

    async def moved() -> bool:
        now = await scheduler.get_job(job.id)
        return now.waiting_for is not None and "tenant" in now.waiting_for.note

    await eventually(moved)
    assert ran == []
    await scheduler.limits.resume("x", key={"tenant": "acme"})
    await scheduler.wait(job.id, 60)


async def test_a_line_whose_pause_is_gone_is_found_and_dissolved(make_scheduler: Make, ran: Ran, db: Database) -> None:
    """A process has ended the pause and died before it could dissolve the wait list."""
    worker, other = make_scheduler(), make_scheduler()
    recording(worker, ran, "x")
    await worker.start()
    without_chore(worker, "dissolve_wait_lists")
    await other.limits.pause("x")
    await eventually(lambda: inside(worker).limits.closures)
    job = await other.schedule("x")
    await held(other, job.id)
    await db["jobs.controls"].delete_one({"_id": "pause:name:x"})
    await other.wait(job.id, 60)


async def test_a_line_of_a_pause_that_ended_while_nobody_ran_is_dissolved_at_the_start(
    make_scheduler: Make, ran: Ran, db: Database
) -> None:
    worker, other = make_scheduler(), make_scheduler()
    recording(worker, ran, "x")
    job = await other.schedule("x")
    await db.jobs.update_one(
        {"name": "x"},
        {"$set": {"line": "p:name:x", "waiting_for": {"by": "limit"}}, "$unset": {"ready": 1}},
        hint="_id_",
    )
    await worker.start()
    await other.wait(job.id, 60)


@pytest.mark.slow
async def test_pauses_count_on_a_server_without_change_streams(standalone: Servers, make_scheduler: Make) -> None:
    at = standalone.uri("pauses")
    worker, other = make_scheduler(at), make_scheduler(at)
    ran = Ran()
    recording(worker, ran, "x", "y")
    await worker.start()
    await other.limits.pause("x")
    await eventually(lambda: inside(worker).limits.closures)
    job = await other.schedule("x")
    await held(other, job.id)
    await other.limits.resume("x")
    await other.wait(job.id, 60)


async def test_a_control_that_cannot_be_understood_does_not_stop_the_others(
    make_scheduler: Make, ran: Ran, db: Database
) -> None:
    worker, other = make_scheduler(), make_scheduler()
    recording(worker, ran, "x", "y")
    await db["jobs.controls"].insert_many(
        [
            {"_id": "pause:odd", "kind": "pause"},
            {"_id": "limit:odd", "kind": "limit", "scope": "name", "target": "x", "concurrency": 3},
            {"_id": "breaker:odd", "kind": "breaker", "state": 5},
            {"_id": "strange"},
        ]
    )
    await other.limits.pause("x")
    await worker.start()
    job = await other.schedule("x")
    await other.wait((await other.schedule("y")).id, 60)
    await held(other, job.id)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": ""}, "a job's name must be printable text"),
        ({"queue": 5}, "a queue's name must be printable text"),
        ({"name": "x", "key": "tenant"}, "key is one value in the data"),
        ({"name": "x", "key": {}}, "key is one value in the data"),
        ({"name": "x", "key": {"a": 1, "b": 2}}, "key is one value in the data"),
        ({"name": "x", "key": {"": 1}}, "A key is the path of a value"),
        ({"name": "x", "key": {"$a": 1}}, "key is a path and a plain value"),
        ({"name": "x", "key": {"a": [1]}}, "key is a path and a plain value"),
        ({"name": "x", "reason": 5}, "A reason is a text of at most 1,000 characters"),
        ({"name": "x", "reason": "x" * 1001}, "A reason is a text of at most 1,000 characters"),
        ({"name": "x", "actor": ""}, "an actor must be printable text"),
    ],
    ids=str,
)
async def test_a_pause_that_makes_no_sense_is_refused_and_changes_nothing(
    scheduler: Scheduler, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        await pause(scheduler, **arguments)
    assert await scheduler.limits.pauses() == []


async def test_the_blocking_face_pauses_and_resumes(uri: str, ran: Ran) -> None:
    def use() -> None:
        scheduler = sync.Scheduler(uri)
        try:
            scheduler.queues.pause("mail", reason="why not")
            assert [pause.reason for pause in scheduler.limits.pauses()] == ["why not"]
            assert scheduler.queues.resume("mail") is not None
            scheduler.limits.set(name="x", concurrency=Limit(3))
            assert [status.concurrency for status in scheduler.limits.all()] == [Limit(3)]
            assert scheduler.limits.remove(name="x") is not None
            assert scheduler.limits.open_breaker(name="x").state == "open"
            assert [status.state for status in scheduler.limits.breakers()] == ["open"]
            assert scheduler.limits.close_breaker(name="x").state == "closed"
        finally:
            scheduler.stop()

    await asyncio.to_thread(use)
