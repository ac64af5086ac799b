"""Payload versions: older data is upgraded to what its handler takes, newer data waits for a handler that takes it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from harness.apps import isolated
from harness.looking import Database
from harness.waiting import eventually
from mainspring import Every, Fail, HandlerError, InvalidJob, Job, JobContext, Retry, Scheduler
from mainspring.store.codec import document_id

Make = Callable[..., Scheduler]
SOON = Retry(attempts=3, delay=0.01)


def one_to_two(data: dict[str, Any]) -> dict[str, Any]:
    """The first version had one text for the whole name."""
    data["first"], _, data["last"] = data.pop("name").partition(" ")
    return data


def two_to_three(data: dict[str, Any]) -> dict[str, Any]:
    return {"names": [data["first"], data["last"]]}


LIFTS = {1: one_to_two, 2: two_to_three}


def greet_1(scheduler: Scheduler) -> list[Any]:
    seen: list[Any] = []

    @scheduler.job("greet")
    async def greet(ctx: JobContext, name: str) -> str:
        seen.append(ctx.data)
        return f"1: {name}"

    return seen


def greet_2(scheduler: Scheduler) -> list[Any]:
    seen: list[Any] = []

    @scheduler.job("greet", version=2, upgrade={1: one_to_two})
    async def greet(ctx: JobContext, first: str, last: str) -> str:
        seen.append(ctx.data)
        return f"2: {first} {last}"

    return seen


def greet_3(scheduler: Scheduler, **options: Any) -> list[Any]:
    seen: list[Any] = []

    @scheduler.job("greet", version=3, upgrade=LIFTS, retry=SOON, **options)
    async def greet(ctx: JobContext, names: list[str]) -> str:
        seen.append(ctx.data)
        return f"3: {' '.join(names)}"

    return seen


async def ended(scheduler: Scheduler, job: Job) -> Job:
    return await scheduler.wait(job.id, timeout=60)


async def held(scheduler: Scheduler, job: Job) -> Job:
    async def look() -> Job | None:
        now = await scheduler.get_job(job.id)
        return now if now.waiting_for is not None else None

    found: Job = await eventually(look)
    return found


async def stored(db: Database, job: Job) -> dict[str, Any]:
    document = await db.jobs.find_one({"_id": document_id(job.id)})
    assert document is not None
    return document


# -- upgrading ---------------------------------------------------------------------------------------------------


async def test_older_data_is_lifted_step_by_step_and_the_handler_sees_only_the_new(make_scheduler: Make) -> None:
    old, middle, new = make_scheduler(), make_scheduler(), make_scheduler()
    greet_1(old)
    greet_2(middle)
    seen = greet_3(new)
    jobs = [
        await old.schedule("greet", {"name": "Ada Lovelace"}),
        await middle.schedule("greet", {"first": "Alan", "last": "Turing"}),
        await new.schedule("greet", {"names": ["Grace", "Hopper"]}),
    ]
    await new.start()
    done = [await ended(new, job) for job in jobs]
    assert [job.result for job in done] == ["3: Ada Lovelace", "3: Alan Turing", "3: Grace Hopper"]
    assert sorted(data["names"][0] for data in seen) == ["Ada", "Alan", "Grace"]
    assert [job.data_version for job in done] == [1, 2, 3]


async def test_what_is_stored_is_not_changed_by_lifting(make_scheduler: Make, db: Database) -> None:
    told: list[Any] = []
    producer, worker = make_scheduler(), make_scheduler()
    greet_3(worker)
    worker.on("job:success", lambda job: told.append((dict(job.data), job.data_version)))
    job = await producer.schedule("greet", {"name": "Ada Lovelace"})
    await worker.start()
    assert (await ended(worker, job)).data == {"name": "Ada Lovelace"}
    document = await stored(db, job)
    assert document["data"] == {"name": "Ada Lovelace"} and "data_v" not in document
    await eventually(lambda: told == [({"name": "Ada Lovelace"}, 1)])


async def test_each_attempt_lifts_from_what_is_stored(make_scheduler: Make) -> None:
    producer, worker = make_scheduler(), make_scheduler()
    upgraded: list[dict[str, Any]] = []

    def upgrade(data: dict[str, Any]) -> dict[str, Any]:
        upgraded.append(dict(data))
        data["n"] += 1
        return data

    @worker.job("count", version=2, upgrade={1: upgrade}, retry=SOON)
    async def count(ctx: JobContext, n: int) -> int:
        if ctx.attempt < 3:
            raise ValueError("again")
        return n

    job = await producer.schedule("count", {"n": 1})
    await worker.start()
    assert (await ended(worker, job)).result == 2
    assert upgraded == [{"n": 1}] * 3


@pytest.mark.slow
async def test_a_process_of_its_own_gets_the_lifted_data(make_scheduler: Make) -> None:
    producer, worker = make_scheduler(), make_scheduler()
    worker.job("add", isolation="process", version=2, upgrade={1: lambda data: {**data, "b": 5}})(isolated.add)
    job = await producer.schedule("add", {"a": 2})
    await worker.start()
    assert (await worker.wait(job.id, timeout=60)).result == 7


async def test_a_lift_that_raises_is_retried_as_any_failure_and_named(make_scheduler: Make) -> None:
    producer, worker = make_scheduler(), make_scheduler()
    tries: list[int] = []

    def shaky(data: dict[str, Any]) -> dict[str, Any]:
        tries.append(1)
        if len(tries) < 3:
            raise KeyError("zip")
        return data

    @worker.job("send", version=2, upgrade={1: shaky}, retry=SOON)
    async def send(to: str) -> str:
        return to

    job = await producer.schedule("send", {"to": "x"})
    await worker.start()
    done = await ended(worker, job)
    assert (done.state, done.result, len(done.attempts)) == ("completed", "x", 3)
    error = done.attempts[0].error
    assert error is not None
    assert (error.type, error.message) == (
        "PayloadUpgradeFailed",
        "The upgrade of 'send' from version 1 to 2 raised KeyError: 'zip'",
    )
    assert error.stack is not None and "shaky" in error.stack


@pytest.mark.slow
async def test_a_lift_that_forgets_to_return_says_so(make_scheduler: Make) -> None:
    producer, worker = make_scheduler(), make_scheduler()

    def forget(data: dict[str, Any]) -> dict[str, Any]:
        data["b"] = 1
        return None  # type: ignore[return-value]

    @worker.job("send", version=2, upgrade={1: forget}, retry=Retry(attempts=1))
    async def send(**data: Any) -> None: ...

    job = await producer.schedule("send", {"to": "x"})
    await worker.start()
    done = await ended(worker, job)
    assert done.error is not None and "must return the data, not NoneType" in done.error.message


async def test_a_lift_may_give_a_job_up(make_scheduler: Make) -> None:
    producer, worker = make_scheduler(), make_scheduler()

    def too_old(data: dict[str, Any]) -> dict[str, Any]:
        raise Fail("too old to be sent")

    @worker.job("send", version=2, upgrade={1: too_old}, retry=SOON)
    async def send(to: str) -> None: ...

    job = await producer.schedule("send", {"to": "x"})
    await worker.start()
    done = await ended(worker, job)
    assert (done.state, str(done.error), len(done.attempts)) == ("failed", "Fail: too old to be sent", 1)


async def test_lifted_data_is_checked_like_any(make_scheduler: Make) -> None:
    producer, worker = make_scheduler(), make_scheduler()

    @worker.job("send", version=2, upgrade={1: lambda data: {"to": ["no", "text"]}}, retry=SOON)
    async def send(to: str) -> None: ...

    job = await producer.schedule("send", {"to": "x"})
    await worker.start()
    done = await ended(worker, job)
    assert (done.state, len(done.attempts), done.error and done.error.type) == ("failed", 1, "InvalidJob")


# -- registering ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"version": 3, "upgrade": {1: one_to_two}}, "lacks a function from version 2"),
        ({"version": 3, "upgrade": {2: two_to_three}}, "lacks a function from version 1"),
        ({"version": 2}, "lacks a function from version 1"),
        ({"version": 2, "upgrade": {1: one_to_two, 2: two_to_three}}, "has a function from 2"),
        ({"version": 1, "upgrade": {1: one_to_two}}, "has a function from 1"),
        ({"version": 0}, "whole number from 1 on"),
        ({"version": "2"}, "whole number from 1 on"),
        ({"version": True}, "whole number from 1 on"),
        ({"version": 1.0}, "whole number from 1 on"),
        ({"version": 2, "upgrade": {1: "one_to_two"}}, "must be a function"),
        ({"version": 2, "upgrade": [one_to_two]}, "must map versions to functions"),
        ({"version": 2, "upgrade": {1: asyncio.sleep}}, "must be a plain function"),
    ],
)
def test_a_chain_with_a_missing_link_is_refused_at_registration(
    scheduler: Scheduler, options: Any, complaint: str
) -> None:
    with pytest.raises(HandlerError, match=complaint):
        scheduler.job("greet", **options)(lambda names: None)


# -- storing -------------------------------------------------------------------------------------------------------


async def test_new_data_is_stored_with_the_version_of_its_handler(make_scheduler: Make, db: Database) -> None:
    first, third, without = make_scheduler(), make_scheduler(), make_scheduler()
    greet_1(first)
    greet_3(third)
    data = {"names": ["a", "b"]}
    bulk = await third.schedule_bulk([{"name": "greet", "data": data}, {"name": "greet", "data": data, "priority": 1}])
    async with third.transaction() as tx:
        inside = await third.schedule("greet", data, session=tx.session)
    jobs = [await third.schedule("greet", data), *bulk, inside, await third.schedule("greet", data, debounce=60)]
    assert [(await stored(db, job))["data_v"] for job in jobs] == [3] * 5
    assert [job.data_version for job in jobs] == [3] * 5
    plain = [await first.schedule("greet", {"name": "a"}), await without.schedule("greet", {"name": "a"})]
    assert ["data_v" in await stored(db, job) for job in plain] == [False, False]


async def test_a_debounced_call_replaces_the_version_with_the_data(make_scheduler: Make, db: Database) -> None:
    old, new = make_scheduler(), make_scheduler()
    greet_1(old)
    greet_3(new)
    job = await old.schedule("greet", {"name": "a b"}, debounce=60)
    await new.schedule("greet", {"names": ["c", "d"]}, debounce=60)
    assert (await stored(db, job))["data_v"] == 3
    await old.schedule("greet", {"name": "e f"}, debounce=60)
    assert "data_v" not in await stored(db, job)


async def test_a_process_without_the_handler_can_say_which_version_it_writes(make_scheduler: Make) -> None:
    without, worker = make_scheduler(), make_scheduler()
    greet_3(worker)
    jobs = [
        await without.schedule("greet", {"first": "Alan", "last": "Turing"}, version=2),
        *await without.schedule_bulk([{"name": "greet", "data": {"names": ["Grace", "Hopper"]}, "version": 3}]),
        await worker.schedule("greet", {"name": "Ada Lovelace"}, version=1),
    ]
    await worker.start()
    done = [await ended(worker, job) for job in jobs]
    assert [job.result for job in done] == ["3: Alan Turing", "3: Grace Hopper", "3: Ada Lovelace"]


async def test_data_is_checked_by_the_version_that_it_is_said_to_be_of(scheduler: Scheduler) -> None:
    greet_3(scheduler)
    with pytest.raises(InvalidJob, match="no argument 'name'"):
        await scheduler.schedule("greet", {"name": "Ada Lovelace"})
    with pytest.raises(InvalidJob, match="from version 1 to 2 raised KeyError"):
        await scheduler.schedule("greet", {"names": []}, version=1)
    with pytest.raises(InvalidJob, match="version must be"):
        await scheduler.schedule("greet", {"names": []}, version=0)
    assert (await scheduler.schedule("greet", {"surprise": 1}, version=4)).data_version == 4


async def test_changed_data_has_the_version_of_now(make_scheduler: Make, db: Database) -> None:
    old, new, without = make_scheduler(), make_scheduler(), make_scheduler()
    greet_1(old)
    greet_3(new)
    job = await old.schedule("greet", {"name": "Ada Lovelace"}, delay=3600)
    assert (await new.update(job.id, priority=1)).data_version == 1
    assert (await new.update(job.id, data={"names": ["Ada", "King"]})).data_version == 3
    assert (await without.update(job.id, data={"names": ["Ada", "Byron"]})).data_version == 3
    assert (await old.update(job.id, data={"name": "Ada Lovelace"})).data_version == 1
    assert "data_v" not in await stored(db, job)


async def test_the_jobs_of_a_schedule_carry_the_version_that_its_data_was_written_for(make_scheduler: Make) -> None:
    middle, new = make_scheduler(), make_scheduler()
    greet_2(middle)
    greet_3(new)
    data = {"first": "Alan", "last": "Turing"}
    await middle.schedule("greet", data, repeat=Every("1h"), schedule_id="daily")
    await new.start()
    job = await ended(new, await new.schedules.trigger("daily"))
    assert (job.result, job.data_version) == ("3: Alan Turing", 2)
    await new.schedules.edit("daily", priority=1)
    assert (await new.schedules.trigger("daily")).data_version == 2
    await new.schedules.edit("daily", data={"names": ["Grace", "Hopper"]})
    job = await ended(new, await new.schedules.trigger("daily"))
    assert (job.result, job.data_version) == ("3: Grace Hopper", 3)


async def test_a_declared_schedule_follows_the_version_of_its_handler(make_scheduler: Make) -> None:
    scheduler = make_scheduler()

    @scheduler.every("1h", data={"names": ["a", "b"]})
    @scheduler.job("greet", version=3, upgrade=LIFTS)
    async def greet(names: list[str]) -> list[str]:
        return names

    await scheduler.start()
    job = await ended(scheduler, await scheduler.schedules.trigger("greet"))
    assert (job.result, job.data_version) == (["a", "b"], 3)


async def test_another_program_may_insert_data_of_a_version(make_scheduler: Make, db: Database) -> None:
    worker = make_scheduler()
    greet_3(worker)
    await worker.start()
    given: list[dict[str, Any]] = [
        {"data": {"name": "a b"}},
        {"data": {"first": "c", "last": "d"}, "data_v": 2.0},
        {"data_v": "three"},
    ]
    inserted = await db.jobs.insert_many([{"name": "greet", "state": "pending", **one} for one in given])
    done = [await worker.wait(str(one), timeout=60) for one in inserted.inserted_ids]
    assert [job.result for job in done] == ["3: a b", "3: c d", None]
    assert str(done[2].error).startswith("Undecodable: data_v must be a whole number from 1 on")


# -- newer data than the handler takes -----------------------------------------------------------------------------


async def test_newer_data_than_any_worker_takes_is_held_and_says_why(make_scheduler: Make) -> None:
    producer, worker = make_scheduler(), make_scheduler()
    greet_3(producer)
    seen = greet_2(worker)
    await worker.start()
    job = await held(worker, await producer.schedule("greet", {"names": ["a", "b"]}))
    assert job.waiting_for is not None
    assert (job.state, job.waiting_for.by, job.tries, job.attempts) == ("pending", "version", 0, ())
    assert job.waiting_for.note == (
        "Its data is of version 3, and no live worker that serves the queue 'default' has a handler for 'greet' of "
        "that version or a later one."
    )
    behind = await producer.schedule("greet", {"first": "c", "last": "d"}, version=2, priority=10)
    assert (await ended(worker, behind)).result == "2: c d"
    assert len(seen) == 1


async def test_it_runs_as_soon_as_a_worker_that_takes_it_starts(make_scheduler: Make) -> None:
    producer, old, new = make_scheduler(), make_scheduler(), make_scheduler()
    greet_3(producer)
    seen = greet_1(old)
    await old.start()
    job = await held(old, await producer.schedule("greet", {"names": ["a", "b"]}))
    greet_3(new)
    await new.start()
    done = await ended(old, job)
    assert (done.result, done.waiting_for, len(done.attempts), seen) == ("3: a b", None, 1, [])


@pytest.mark.slow
async def test_an_old_worker_beside_a_new_one_leaves_it_the_new_data_and_runs_the_old(
    make_scheduler: Make, db: Database
) -> None:
    producer = make_scheduler()
    greet_3(producer)
    old, new = make_scheduler(concurrency=5), make_scheduler(concurrency=5)
    seen = [greet_1(old), greet_3(new)]
    items: list[dict[str, Any]] = [{"name": "greet", "data": {"names": ["a", "b"]}}] * 100
    items += [{"name": "greet", "data": {"name": "c d"}, "version": 1}] * 100
    await old.start()
    await new.start()
    jobs = await producer.schedule_bulk(items)
    done = await asyncio.gather(*(producer.wait(job.id, timeout=60) for job in jobs))
    assert Counter(job.state for job in done) == {"completed": 200}
    assert all(len(job.attempts) == 1 for job in done)
    assert {tuple(data) for data in seen[0]} <= {("name",)}
    assert {job.result for job in done[:100]} == {"3: a b"}


@pytest.mark.slow
async def test_a_long_line_of_newer_data_does_not_starve_what_is_behind_it(make_scheduler: Make) -> None:
    producer, worker, busy = make_scheduler(), make_scheduler(concurrency=2), make_scheduler(concurrency=1)
    greet_3(producer)
    greet_2(worker)

    @busy.job("greet", version=3, upgrade=LIFTS)
    async def never(names: list[str]) -> None:
        await asyncio.sleep(600)

    await busy.start()
    newer = await producer.schedule_bulk([{"name": "greet", "data": {"names": ["a", "b"]}, "priority": 1}] * 300)

    async def one_runs() -> bool:
        return any([job async for job in producer.jobs(state="running")])

    await eventually(one_runs)
    await worker.start()
    behind = await producer.schedule("greet", {"name": "c d"}, version=1, priority=9)
    assert (await ended(producer, behind)).result == "2: c d"
    assert (await producer.get_job(newer[-1].id)).waiting_for is None


async def test_newer_data_in_the_line_of_a_limit_is_held_too(make_scheduler: Make, db: Database) -> None:
    producer, worker = make_scheduler(), make_scheduler()
    greet_3(producer, concurrency=1)
    release = asyncio.Event()

    @worker.job("greet", version=2, upgrade={1: one_to_two}, concurrency=1)
    async def greet(first: str, last: str) -> str:
        await release.wait()
        return first

    await worker.start()
    ones = [await producer.schedule("greet", {"name": f"{n} x"}, version=1) for n in range(3)]

    async def two_wait() -> bool:
        return len([job async for job in producer.jobs(state="pending") if job.waiting_for is not None]) == 2

    await eventually(two_wait)
    newer = await producer.schedule("greet", {"names": ["a", "b"]}, priority=1, delay=3600)
    ahead = await stored(db, ones[-1])
    waits = {key: ahead[key] for key in ("run_at", "line", "waiting_for")}
    await db.jobs.update_one({"_id": document_id(newer.id)}, {"$set": waits, "$unset": {"ready": ""}})
    release.set()
    assert [(await ended(producer, job)).state for job in ones] == ["completed"] * 3

    async def is_held() -> bool:
        held = (await producer.get_job(newer.id)).waiting_for
        return held is not None and held.by == "version"

    await eventually(is_held)
    assert "line" not in await stored(db, newer)


async def test_data_that_is_changed_to_an_older_version_is_run_at_once(make_scheduler: Make) -> None:
    producer, worker = make_scheduler(), make_scheduler()
    greet_3(producer)
    greet_1(worker)
    await worker.start()
    job = await held(worker, await producer.schedule("greet", {"names": ["a", "b"]}))
    assert (await worker.update(job.id, data={"name": "a b"})).waiting_for is None
    assert (await ended(worker, job)).result == "1: a b"


async def test_a_catch_all_takes_data_of_any_version_as_it_is(make_scheduler: Make) -> None:
    producer = make_scheduler()
    greet_3(producer)
    caught: list[Any] = []
    worker = make_scheduler(handler=lambda ctx: caught.append(dict(ctx.data)))
    await worker.start()
    job = await producer.schedule("greet", {"names": ["a", "b"]})
    assert (await ended(worker, job)).state == "completed"
    assert caught == [{"names": ["a", "b"]}]


async def test_a_catch_all_does_not_make_an_old_handler_new(make_scheduler: Make) -> None:
    producer = make_scheduler()
    greet_3(producer)
    worker, other = make_scheduler(handler=lambda ctx: None), make_scheduler()
    seen = [greet_1(worker), greet_1(other)]
    await worker.start()
    await other.start()
    job = await held(worker, await producer.schedule("greet", {"names": ["a", "b"]}))
    assert job.waiting_for is not None and (job.waiting_for.by, seen) == ("version", [[], []])
    (gate,) = [gate for gate in (await worker.explain(job.id)).gates if gate.kind == "version"]
    assert "the 2 live workers have version 1 of the handler" in gate.text


# -- explaining ----------------------------------------------------------------------------------------------------


async def test_an_explanation_says_which_version_is_needed_and_who_has_which(make_scheduler: Make) -> None:
    producer, worker = make_scheduler(), make_scheduler()
    greet_3(producer)
    greet_2(worker)
    await worker.start()
    job = await held(worker, await producer.schedule("greet", {"names": ["a", "b"]}))
    explained = await producer.explain(job.id)
    assert explained.holding is not None and explained.holding.kind == "version"
    (gate,) = [gate for gate in explained.gates if gate.kind == "version"]
    (about,) = gate.data["workers"]
    assert (gate.open, gate.data["version"], about["version"]) == (False, 3, 2)
    assert gate.text == (
        f"Its data is of version 3, and worker {about['worker']} has version 2 of the handler for 'greet'."
    )
    assert "waiting_for" not in [gate.kind for gate in explained.gates]


async def test_an_explanation_of_data_that_somebody_takes_names_him(make_scheduler: Make) -> None:
    old, new = make_scheduler(), make_scheduler()
    greet_1(old)
    greet_3(new)
    await old.start()
    await new.start()
    await new.limits.pause("greet")
    explained = await new.explain((await new.schedule("greet", {"names": ["a", "b"]})).id)
    (gate,) = [gate for gate in explained.gates if gate.kind == "version"]
    assert gate.open and gate.text.startswith("Its data is of version 3, which worker ")
    assert sorted(one["version"] for one in gate.data["workers"]) == [1, 3]
    first = await new.explain((await new.schedule("greet", {"name": "a b"}, version=1)).id)
    assert "version" not in [gate.kind for gate in first.gates]
