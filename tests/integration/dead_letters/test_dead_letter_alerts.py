"""Being told of dead letters: one job for each, or one for all of a while, made once, whichever worker makes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId

from harness.dead import dead_letter, dead_letters
from harness.inside import inside
from harness.looking import Database
from harness.waiting import eventually
from mainspring import ConfigurationError, JobContext, Retry, Scheduler
from mainspring.clock import ManualClock
from mainspring.model.dead_letters.dead_letters import Alert
from mainspring.model.jobs.draft import Draft
from mainspring.store import Store
from mainspring.store.codec import fingerprint_of
from mainspring.store.dead_letters import alerts
from mainspring.store.dead_letters.alerts import OVERLAP

Make = Callable[..., Scheduler]

NAME = "mainspring:dead-letter"
SECOND = timedelta(seconds=1)


def store_of(scheduler: Scheduler) -> Store:
    return inside(scheduler).open_store


async def tell(scheduler: Scheduler, every: float | None = None, name: str = NAME) -> list[dict[str, Any]]:
    """The data of the jobs that one look makes."""
    made, _ = await store_of(scheduler).alerts.tell(Alert(name, every), Draft(name, None))
    return [dict(document["data"]) for document in made]


async def tell_all(scheduler: Scheduler) -> list[dict[str, Any]]:
    """The data of the jobs that are made until a whole walk has found nothing to tell of."""
    told: list[dict[str, Any]] = []
    more, fresh = True, True
    while more or fresh:
        fresh = fresh and more
        made, more = await store_of(scheduler).alerts.tell(Alert(NAME), Draft(NAME, None))
        fresh |= bool(made)
        told += [dict(document["data"]) for document in made]
    return told


async def follow(scheduler: Scheduler, clock: ManualClock) -> None:
    """Begin to follow, now."""
    await store_of(scheduler).alerts.open([NAME])
    clock.advance(1)


async def alert_jobs(db: Database) -> list[dict[str, Any]]:
    return [document async for document in db.jobs.find({"alert": True}, hint="_id_")]


# -- in a worker ---------------------------------------------------------------------------------------------------


async def test_a_handler_is_told_of_each_dead_letter_with_what_one_wants_to_know(scheduler: Scheduler) -> None:
    told: list[dict[str, Any]] = []

    @scheduler.job("work", retry=1, queue="mail")
    async def work(number: int) -> None:
        raise ValueError(f"number {number} is bad" + "!" * 1000)

    @scheduler.dead_letters.handler()
    async def alert(
        ctx: JobContext,
        job_id: str,
        name: str,
        queue: str,
        error: str,
        message: str,
        fingerprint: str,
        attempts: int,
        failed_at: datetime,
    ) -> None:
        told.append({**ctx.data, "alert": ctx.name})

    async with scheduler:
        jobs = [await scheduler.wait((await scheduler.schedule("work", {"number": n})).id) for n in (1, 2)]
        await eventually(lambda: len(told) == 2)
    by_id = {one["job_id"]: one for one in told}
    for job, number in zip(jobs, (1, 2), strict=True):
        one = by_id[job.id]
        assert (one["alert"], one["name"], one["queue"], one["error"]) == (NAME, "work", "mail", "ValueError")
        assert one["message"].startswith(f"number {number} is bad") and "more characters cut" in one["message"]
        assert (one["fingerprint"], one["attempts"], one["failed_at"]) == (job.fingerprint, 1, job.finished_at)


async def test_an_alert_is_an_ordinary_job_with_its_queue_its_retries_and_its_parent(
    make_scheduler: Make, db: Database
) -> None:
    scheduler = make_scheduler(queues=["default", "alerts"])
    tries: list[int] = []

    @scheduler.job("work", retry=1)
    async def work() -> None:
        raise ValueError

    @scheduler.dead_letters.handler("tell-us", queue="alerts", priority=1, retry=Retry(attempts=2, delay=0))
    async def alert(ctx: JobContext) -> None:
        tries.append(ctx.attempt)
        raise ValueError("this alert does not get through")

    async with scheduler:
        failed = await scheduler.wait((await scheduler.schedule("work")).id)

        async def given_up() -> bool:
            return [job["state"] for job in await alert_jobs(db)] == ["failed"]

        await eventually(given_up)
        (job,) = await alert_jobs(db)
        assert tries == [1, 2]
        assert (job["name"], job["queue"], job["priority"], job["parent_id"]) == ("tell-us", "alerts", 1, failed.id)

        # No alert tells of an alert that fails itself.
        other = await scheduler.schedule("work")
        await scheduler.wait(other.id)

        async def both() -> bool:
            return {job["parent_id"] for job in await alert_jobs(db)} == {failed.id, other.id}

        await eventually(both)
        assert len(await alert_jobs(db)) == 2


async def test_a_dead_letter_that_nobody_was_left_to_tell_of_is_told_of_by_the_next_worker(
    make_scheduler: Make, db: Database
) -> None:
    told: list[str] = []

    def make() -> Scheduler:
        scheduler = make_scheduler()

        @scheduler.dead_letters.handler()
        async def alert(job_id: str, **rest: Any) -> None:
            told.append(job_id)

        return scheduler

    async with make():
        pass
    letter = dead_letter(datetime.now(UTC))
    await db.jobs.insert_one(letter)
    async with make():
        await eventually(lambda: told == [str(letter["_id"])])


@pytest.mark.slow
async def test_several_workers_tell_of_each_dead_letter_once(make_scheduler: Make, db: Database) -> None:
    told: list[str] = []
    schedulers = [make_scheduler() for _ in range(3)]
    for scheduler in schedulers:

        @scheduler.dead_letters.handler()
        async def alert(job_id: str, **rest: Any) -> None:
            told.append(job_id)

        await scheduler.start()
    letters = [dead_letter(datetime.now(UTC), n) for n in range(50)]
    await db.jobs.insert_many(letters)
    looks = [
        store_of(scheduler).alerts.tell(Alert(NAME), Draft(NAME, None)) for scheduler in schedulers for _ in range(3)
    ]
    await asyncio.gather(*looks)
    await eventually(lambda: len(told) >= 50)
    await eventually(lambda: all(not inside(scheduler).worker.running for scheduler in schedulers if scheduler.running))
    assert sorted(told) == sorted(str(letter["_id"]) for letter in letters)


# -- one by one ----------------------------------------------------------------------------------------------------


async def test_dead_letters_from_before_the_first_start_are_not_told_of(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await db.jobs.insert_one(dead_letter(clock.now() - SECOND, 1))
    await follow(timed, clock)
    await db.jobs.insert_one(dead_letter(clock.now(), 2))
    assert [one["message"] for one in await tell(timed)] == ["number 2 is bad"]


@pytest.mark.slow
async def test_what_was_told_of_is_not_told_of_again_also_by_another_process(
    timed: Scheduler, make_scheduler: Make, clock: ManualClock, db: Database
) -> None:
    await follow(timed, clock)
    await db.jobs.insert_many(dead_letters(1200, clock.now() + SECOND))
    assert len(await tell(timed)) == 1200
    other = await make_scheduler(clock=clock).connect()
    assert await tell(timed) == await tell(other) == []
    clock.advance(1)
    await db.jobs.insert_one(dead_letter(clock.now()))
    assert len(await tell(other)) == 1
    assert await tell(timed) == []


async def test_one_that_is_seen_late_is_told_of_all_the_same(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await follow(timed, clock)
    clock.advance(60)
    await db.jobs.insert_one(dead_letter(clock.now(), 1))
    assert len(await tell(timed)) == 1
    await db.jobs.insert_one(dead_letter(clock.now() - OVERLAP + SECOND, 2))
    assert [one["message"] for one in await tell(timed)] == ["number 2 is bad"]


async def test_all_are_told_of_however_many_fail_within_a_moment(
    timed: Scheduler, clock: ManualClock, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerts, "_PAGE", 2)
    monkeypatch.setattr(alerts, "_MOST_PAGES", 2)
    await follow(timed, clock)
    await db.jobs.insert_many([dead_letter(clock.now(), n) for n in range(11)])
    assert [len(await tell(timed)) for _ in range(4)] == [4, 4, 3, 0]
    await db.jobs.insert_one(dead_letter(clock.now(), 12))
    clock.advance(1)
    await db.jobs.insert_many([dead_letter(clock.now(), n) for n in range(6)])
    assert len(await tell_all(timed)) == 7
    assert len(await alert_jobs(db)) == 18


@pytest.mark.slow
async def test_one_that_is_seen_late_is_told_of_though_the_walk_has_passed_it_and_goes_on(
    timed: Scheduler, clock: ManualClock, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerts, "_PAGE", 2)
    monkeypatch.setattr(alerts, "_MOST_PAGES", 2)
    await follow(timed, clock)
    clock.advance(60)
    await db.jobs.insert_many([dead_letter(clock.now(), n) for n in range(5)])
    assert len(await tell(timed)) == 4
    late = dead_letter(clock.now() - SECOND, name="late")
    for second in range(40):  # a flood, in which a walk without an end would never look back
        clock.advance(1)
        await db.jobs.insert_many([dead_letter(clock.now(), n) for n in range(4)])
        if second == 5:
            await db.jobs.insert_one(late)
        await tell(timed)
    await tell_all(timed)
    assert len(await alert_jobs(db)) == 5 + 40 * 4 + 1


async def test_a_worker_that_takes_over_again_does_not_tell_of_what_others_told_of_long_ago(
    timed: Scheduler, make_scheduler: Make, clock: ManualClock, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerts, "_PAGE", 2)
    monkeypatch.setattr(alerts, "_MOST_PAGES", 1)
    await follow(timed, clock)
    await db.jobs.insert_many([dead_letter(clock.now(), n) for n in range(4)])
    assert len(await tell(timed)) == 2
    other = await make_scheduler(clock=clock).connect()
    assert [len(await tell(other)) for _ in range(3)] == [0, 2, 0]
    clock.advance(timedelta(hours=1))
    await db.jobs.delete_many({"alert": True}, hint="_id_")
    await db.jobs.insert_one(dead_letter(clock.now(), 5))
    assert [one["message"] for one in await tell_all(other)] == ["number 5 is bad"]
    assert await tell_all(timed) == []


@pytest.mark.slow
async def test_a_job_that_is_retried_and_fails_again_is_told_of_again(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await follow(timed, clock)
    letter = dead_letter(clock.now())
    await db.jobs.insert_one(letter)
    assert len(await tell(timed)) == 1
    clock.advance(5)
    await db.jobs.update_one({"_id": letter["_id"]}, {"$set": {"finished_at": clock.now()}})
    assert len(await tell(timed)) == 1
    assert await tell(timed) == []


async def test_an_alert_is_not_made_again_though_finished_jobs_are_deleted_at_once(
    make_scheduler: Make, clock: ManualClock, db: Database
) -> None:
    timed = await make_scheduler(clock=clock, keep_finished=0).connect()
    await follow(timed, clock)
    await db.jobs.insert_one(dead_letter(clock.now()))
    assert len(await tell(timed)) == 1
    (job,) = await alert_jobs(db)
    ended = {**job, "state": "completed", "finished_at": clock.now()}
    clock.advance(OVERLAP)
    assert not store_of(timed).removal.may_go(ended)
    clock.advance(timedelta(minutes=10))
    assert store_of(timed).removal.may_go(ended)


async def test_nobody_is_told_of_the_failure_of_an_alert_of_whatever_name(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await follow(timed, clock)
    await db.jobs.insert_one(dead_letter(clock.now(), name="another-alert", alert=True))
    assert await tell(timed) == []
    assert await tell(timed, every=60) == []


# -- together ------------------------------------------------------------------------------------------------------


async def test_with_every_there_is_one_summary_in_that_time_with_all_since_the_last_one(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await follow(timed, clock)
    start = clock.now()
    await db.jobs.insert_many([dead_letter(start, n) for n in (1, 2)])
    clock.advance(1)
    (first,) = await tell(timed, every=300)
    assert (first["count"], first["until"]) == (2, clock.now()) and first["since"] <= start
    (group,) = first["groups"]
    assert (group["name"], group["error"], group["count"]) == ("work", "ValueError", 2)
    assert group["fingerprint"] == fingerprint_of("work", {"type": "ValueError", "message": "number 3 is bad"})
    assert group["first_seen"] == group["last_seen"] == start

    await db.jobs.insert_many([dead_letter(clock.now(), n, name="other") for n in range(3)])
    clock.advance(299)
    assert await tell(timed, every=300) == []
    await db.jobs.insert_one(dead_letter(clock.now()))
    clock.advance(1)
    (second,) = await tell(timed, every=300)
    assert (second["count"], second["since"]) == (4, first["until"])
    assert [(group["name"], group["count"]) for group in second["groups"]] == [("other", 3), ("work", 1)]
    clock.advance(3000)
    assert await tell(timed, every=300) == []
    await db.jobs.insert_one(dead_letter(clock.now()))
    clock.advance(1)
    assert [one["count"] for one in await tell(timed, every=300)] == [1]


async def test_a_summary_has_those_that_the_last_one_could_not_see_yet_and_none_twice(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await follow(timed, clock)
    clock.advance(60)
    seen = clock.now() - SECOND
    await db.jobs.insert_many([dead_letter(seen, 1), dead_letter(seen, 2)])
    assert [one["count"] for one in await tell(timed, every=10)] == [2]
    await db.jobs.insert_many([dead_letter(seen, 3), dead_letter(seen, 4, name="late")])
    clock.advance(10)
    (summary,) = await tell(timed, every=10)
    assert {group["name"]: group["count"] for group in summary["groups"]} == {"work": 1, "late": 1}
    clock.advance(10)
    assert await tell(timed, every=10) == []


async def test_a_summary_and_what_is_late_for_it_have_no_bound(
    timed: Scheduler, clock: ManualClock, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerts, "_PAGE", 2)
    await follow(timed, clock)
    clock.advance(60)
    seen = clock.now() - SECOND
    await db.jobs.insert_many([dead_letter(seen, n) for n in range(5)])
    assert [one["count"] for one in await tell(timed, every=10)] == [5]
    await db.jobs.insert_many([dead_letter(seen, n) for n in range(7)])
    clock.advance(10)
    assert [one["count"] for one in await tell(timed, every=10)] == [7]
    clock.advance(10)
    assert await tell(timed, every=10) == []


async def test_one_that_is_seen_just_after_a_summary_has_counted_is_in_the_next(
    timed: Scheduler, clock: ManualClock, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await follow(timed, clock)
    clock.advance(60)
    seen = clock.now() - SECOND
    await db.jobs.insert_one(dead_letter(seen, 1))
    store = store_of(timed)
    insert_made = store.inserts.insert_made

    async def insert_beside(documents: Any) -> Any:
        monkeypatch.undo()
        await db.jobs.insert_one(dead_letter(seen, 2))
        return await insert_made(documents)

    monkeypatch.setattr(store.inserts, "insert_made", insert_beside)
    assert [one["count"] for one in await tell(timed, every=10)] == [1]
    clock.advance(10)
    assert [one["count"] for one in await tell(timed, every=10)] == [1]


@pytest.mark.parametrize("place", ["_summary", "_summed"])
async def test_a_summary_that_was_decided_by_one_that_died_is_made_once_by_the_next(
    timed: Scheduler,
    make_scheduler: Make,
    clock: ManualClock,
    db: Database,
    place: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await follow(timed, clock)
    await db.jobs.insert_one(dead_letter(clock.now()))
    clock.advance(1)

    async def dies(*arguments: Any, **options: Any) -> None:
        raise RuntimeError("the process dies here")

    monkeypatch.setattr(store_of(timed).alerts, place, dies)
    with pytest.raises(RuntimeError):
        await tell(timed, every=300)
    clock.advance(7)
    other = await make_scheduler(clock=clock).connect()
    await tell(other, every=300)
    assert len(await alert_jobs(db)) == 1
    assert await tell(other, every=300) == []


async def test_a_worker_makes_summaries(scheduler: Scheduler) -> None:
    told: list[int] = []

    @scheduler.job("work", retry=1)
    async def work() -> None:
        raise ValueError

    @scheduler.dead_letters.handler(every="1s")
    async def alert(count: int, since: datetime, until: datetime, groups: list[dict[str, Any]]) -> None:
        told.append(count)

    async with scheduler:
        await scheduler.schedule_bulk([{"name": "work"}] * 20)
        await eventually(lambda: sum(told) == 20)


# -- registering ---------------------------------------------------------------------------------------------------


def test_a_handler_for_dead_letters_stays_callable_and_is_listed_among_the_handlers(scheduler: Scheduler) -> None:
    @scheduler.dead_letters.handler(every=timedelta(minutes=5))
    def alert(count: int, **rest: Any) -> int:
        return count

    assert alert(3) == 3
    assert scheduler.workers.handler_names == [NAME]
    assert inside(scheduler).handlers.alerts == {NAME: Alert(NAME, 300.0)}


@pytest.mark.parametrize(
    ("options", "words"),
    [({"every": "soon"}, "every"), ({"every": 0}, "a second or more"), ({"name": ""}, "printable text")],
)
def test_a_wrong_registration_is_refused(scheduler: Scheduler, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        scheduler.dead_letters.handler(**options)
    with pytest.raises(ConfigurationError, match="with brackets"):
        scheduler.dead_letters.handler(lambda: None)  # type: ignore[arg-type]


async def test_a_dead_letter_that_was_deleted_before_anybody_looked_is_passed_over(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await follow(timed, clock)
    row = {"_id": ObjectId(), "finished_at": clock.now(), "fingerprint": "x"}
    assert await store_of(timed).alerts._tell_of(Alert(NAME), [row], Draft(NAME, None)) == []
