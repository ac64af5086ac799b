"""Safety nets decide from the database: they work whatever the code of the worker declares that happens to carry them
out, and they reach every entry, however many there are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harness.inside import inside
from harness.looking import Database, count_jobs
from harness.waiting import eventually
from mainspring import Job, Limit, Retry, Scheduler
from mainspring.engine.chores.chore import Chore
from mainspring.engine.chores.limits import dissolve_wait_lists
from mainspring.engine.peers import Peers
from mainspring.errors import Unavailable
from mainspring.model.limits.limits import gate_name
from mainspring.store.codec import document_id
from mainspring.store.jobs.stored_job import StoredJob

Make = Callable[..., Scheduler]
LONG_AGO = datetime.now(UTC) - timedelta(hours=1)


def collect(scheduler: Scheduler, name: str, **options: Any) -> list[int]:
    """A handler that notes which jobs it has run."""
    ran: list[int] = []

    @scheduler.job(name, **options)
    async def handler(n: int = 0, tenant: str = "") -> None:
        ran.append(n)

    return ran


async def add_to_wait_lists(db: Database, line: str, jobs: Iterable[Job], **gate: Any) -> None:
    """Let jobs wait in a line, as a worker would have put them there."""
    ids = [document_id(job.id) for job in jobs]
    held = {"by": "limit", "note": "", "since": LONG_AGO}
    await db.jobs.update_many(
        {"_id": {"$in": ids}},
        {"$set": {"line": line, "waiting_for": held}, "$unset": {"ready": ""}, "$inc": {"rev": 1}},
    )
    if gate:
        fields = {"grants": [], "rev": 1, "line": True, "keep_until": LONG_AGO, **gate}
        await db["jobs.gates"].replace_one({"_id": line}, fields, upsert=True)


async def owns_chores(db: Database, scheduler: Scheduler) -> bool:
    lock = await db["jobs.locks"].find_one({"_id": "chores"})
    return lock is not None and scheduler.running and lock["owner"] == scheduler.workers.own_id


async def no_grants(db: Database) -> bool:
    return await db["jobs.gates"].count_documents({"grants.w": "dead"}) == 0


async def in_lines(db: Database) -> int:
    return await db.jobs.count_documents({"line": {"$gt": ""}}, hint="line")


async def wait_in_lines(db: Database, number: int) -> bool:
    return await in_lines(db) == number


async def all_are(db: Database, state: str, number: int) -> bool:
    return await count_jobs(db, state=state) == number


async def test_a_worker_without_limits_takes_back_the_slots_of_one_that_is_gone(
    make_scheduler: Make, db: Database
) -> None:
    mailer, reporter = make_scheduler(lease=1.0), make_scheduler(lease=1.0)
    collect(mailer, "mail")
    ran = collect(reporter, "report", concurrency=1)
    await mailer.start()
    await eventually(lambda: owns_chores(db, mailer))
    await db["jobs.gates"].insert_one(
        {"_id": "c:name:report", "grants": [{"w": "dead", "n": 1}], "limit": 1, "full": True, "rev": 0}
    )
    await eventually(lambda: no_grants(db))  # before any other worker is there
    await reporter.start()
    await reporter.schedule("report", {"n": 7})
    await eventually(lambda: ran == [7])


@pytest.mark.slow
async def test_a_worker_without_limits_finds_lines_that_nobody_knows_of(make_scheduler: Make, db: Database) -> None:
    mailer, reporter = make_scheduler(), make_scheduler()
    collect(mailer, "mail")
    ran = collect(reporter, "report", concurrency=1)
    await mailer.start()
    await eventually(lambda: owns_chores(db, mailer))
    await add_to_wait_lists(db, "c:name:report", [await mailer.schedule("report", {"n": 7})])
    await reporter.start()
    await eventually(lambda: ran == [7])


@pytest.mark.parametrize("limit", [{"concurrency": 1}, {"rate": "5/second"}], ids=["a limit", "a rate"])
async def test_a_line_whose_gate_was_marked_before_the_process_died_is_read(
    make_scheduler: Make, db: Database, monkeypatch: pytest.MonkeyPatch, limit: dict[str, Any]
) -> None:
    """The gate has no document that tells of room: the last slot went back before any job waited. The process that has
    put the job on the list, or has repaired it, dies after it has marked the gate."""
    scheduler = make_scheduler()
    ran = collect(scheduler, "report", **limit)
    store = await inside(scheduler).store()
    job = await scheduler.schedule("report", {"n": 7})
    (gate,) = inside(scheduler).limits.gates("report", "default", {"n": 7})
    await add_to_wait_lists(db, gate.name, [job])
    await db["jobs.gates"].delete_many({})

    async def die(*arguments: Any) -> None:
        raise Unavailable("died")

    monkeypatch.setattr(store.gates, "open", die)
    await store.gates.mark([gate.name])
    await scheduler.start()
    await eventually(lambda: ran == [7], 60)


@pytest.mark.slow
async def test_lines_with_room_for_others_hide_no_line_from_a_worker(make_scheduler: Make, db: Database) -> None:
    scheduler = make_scheduler(queues=["web"])
    ran = collect(scheduler, "report", concurrency=Limit(5, key="tenant"))
    store = await inside(scheduler).store()
    bulk = [await scheduler.schedule("report", {"tenant": f"b{n}"}, queue="bulk") for n in range(120)]
    for n, job in enumerate(bulk):
        line = f"c:name:report:tenant=b{n}"
        await add_to_wait_lists(db, line, [job], limit=5, open_at=LONG_AGO)
    web = await scheduler.schedule("report", {"n": 7, "tenant": "w"}, queue="web")
    await add_to_wait_lists(db, "c:name:report:tenant=w", [web], limit=5, open_at=LONG_AGO + timedelta(minutes=1))
    assert len(await store.gates.open_wait_lists(1000)) == 121
    await scheduler.start()
    await eventually(lambda: ran == [7])


@pytest.mark.slow
async def test_every_blocked_sequence_goes_on_once_the_failed_job_is_deleted_however_many_there_are(
    make_scheduler: Make, db: Database
) -> None:
    scheduler = make_scheduler(concurrency=50)
    ran: list[int] = []

    @scheduler.job("ship", sequence="order", retry=Retry(attempts=1))
    async def ship(order: int, step: int) -> None:
        if step == 0:
            raise ValueError("lost at sea")
        ran.append(order)

    await scheduler.start()
    orders = range(105)
    steps = [[{"name": "ship", "data": {"order": order, "step": step}} for order in orders] for step in range(2)]
    first = await scheduler.schedule_bulk(steps[0])
    await eventually(lambda: all_are(db, "failed", len(orders)))
    await scheduler.schedule_bulk(steps[1])
    await eventually(lambda: wait_in_lines(db, len(orders)))
    await scheduler.delete(first[-1].id)
    await eventually(lambda: ran == [orders[-1]])
    await scheduler.delete(first[0].id)
    await eventually(lambda: ran == [orders[-1], orders[0]])


async def test_jobs_in_the_line_of_a_sequence_run_after_the_code_has_dropped_it(
    make_scheduler: Make, db: Database
) -> None:
    before, after = make_scheduler(), make_scheduler()
    collect(before, "ship", sequence="tenant")
    jobs = [await before.schedule("ship", {"n": n, "tenant": "x"}) for n in range(3)]
    (gate,) = inside(before).limits.gates("ship", "default", {"tenant": "x"})
    await add_to_wait_lists(db, gate.name, jobs[1:], limit=None)
    ran = collect(after, "ship")
    await after.start()
    await eventually(lambda: len(ran) == 3)
    assert ran == [0, 1, 2]


@pytest.mark.slow
async def test_jobs_stored_in_a_sequence_keep_to_it_at_a_worker_whose_code_has_none(make_scheduler: Make) -> None:
    before, after = make_scheduler(), make_scheduler(concurrency=10)
    collect(before, "ship", sequence="tenant")
    at_once, most, ran = 0, 0, []

    @after.job("ship")
    async def ship(n: int, tenant: str) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.01)
        ran.append(n)
        at_once -= 1

    jobs = [await before.schedule("ship", {"n": n, "tenant": "x"}) for n in range(5)]
    await after.start()
    for job in jobs:
        await after.wait(job.id, timeout=60)
    assert (most, ran) == (1, [0, 1, 2, 3, 4])


@pytest.mark.parametrize("mixed", [False, True], ids=["alone", "beside jobs whose keys still take turns"])
@pytest.mark.slow
async def test_jobs_whose_keys_took_turns_run_after_the_code_has_dropped_it(
    make_scheduler: Make, db: Database, mixed: bool
) -> None:
    before, after = make_scheduler(), make_scheduler()
    for name in ("report", "mail"):
        collect(before, name, fair="tenant")
    ran = collect(after, "report")
    if mixed:
        collect(after, "mail", fair="tenant")
    for n in range(3):
        for name in ("mail", "report"):
            await before.schedule(name, {"n": n, "tenant": "x"})
    assert await in_lines(db) == 6
    await after.start()
    await eventually(lambda: sorted(ran) == [0, 1, 2])


async def test_jobs_that_only_the_scheduling_side_lets_take_turns_run(make_scheduler: Make) -> None:
    client, worker = make_scheduler(), make_scheduler()
    collect(client, "report", fair="tenant")
    ran = collect(worker, "report")
    await worker.start()
    await client.schedule("report", {"n": 7, "tenant": "x"})
    await eventually(lambda: ran == [7])


@pytest.mark.parametrize("limit", [Limit(1), Limit(1, key="tenant")], ids=["a limit", "a limit by key"])
@pytest.mark.slow
async def test_a_worker_that_lacks_the_handler_dissolves_lines_of_a_limit_that_no_code_declares(
    make_scheduler: Make, db: Database, limit: Limit
) -> None:
    mailer, reporter = make_scheduler(), make_scheduler()
    collect(mailer, "mail")
    ran = collect(reporter, "report")
    await mailer.start()
    await eventually(lambda: owns_chores(db, mailer))
    line = gate_name("c", "name", "report", limit, "default", {"tenant": "x"})
    await add_to_wait_lists(db, line, [await mailer.schedule("report", {"n": 7, "tenant": "x"})], limit=1, full=True)
    await reporter.start()
    await eventually(lambda: ran == [7])


async def register(db: Database, worker: str, *handlers: str, **fields: Any) -> None:
    """Another worker that lives, as far as the registry tells."""
    beat = {"beat_at": datetime.now(UTC) + timedelta(minutes=5), "queues": None, "handlers": list(handlers)}
    await db["jobs.workers"].insert_one({"_id": worker, **beat, "limits": [], **fields})


def take_chore(scheduler: Scheduler, name: str) -> Chore:
    """Takes a chore from a worker, for the test to do it."""
    (chore,) = [chore for chore in inside(scheduler).worker.chores if chore.name == name]
    inside(scheduler).worker.chores = [one for one in inside(scheduler).worker.chores if one is not chore]
    return chore


async def test_a_limit_that_any_live_worker_declares_keeps_its_lines(make_scheduler: Make, db: Database) -> None:
    mailer = make_scheduler(queues=["web"])
    await mailer.start()
    chore = take_chore(mailer, "dissolve_wait_lists")
    await register(db, "new", "report")
    limit = {"scope": "name", "target": "report", "concurrency": {"limit": 1, "key": "tenant"}}
    await register(db, "old", "report", limits=[limit])
    for tenant in ("x", "😀"):
        line = gate_name("c", "name", "report", Limit(1, "tenant"), "default", {"tenant": tenant})
        await add_to_wait_lists(db, line, [await mailer.schedule("report", {"tenant": tenant})], limit=1, full=True)
    assert not await chore.run_once()
    assert await in_lines(db) == 2
    await db["jobs.workers"].delete_one({"_id": "old"})

    async def dissolved() -> bool:
        await chore.run_once()
        return await in_lines(db) == 0

    await eventually(dissolved)


@pytest.mark.slow
async def test_every_line_of_a_limit_that_no_code_declares_is_dissolved_however_many_there_are(
    make_scheduler: Make, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dissolve_wait_lists, "_LINES", 10)
    mailer = make_scheduler(queues=["web"])
    await mailer.start()
    chore, repair = take_chore(mailer, "dissolve_wait_lists"), take_chore(mailer, "repair_wait_lists")
    jobs = [await mailer.schedule("report", {"tenant": n}) for n in range(25)]
    for n, job in enumerate(jobs):
        await add_to_wait_lists(db, f"c:name:report:tenant={n}", [job], limit=1, full=True)
    await repair.run_once()  # its last walk may have found no lines yet
    passes = [await chore.run_once() for _ in range(3)]
    assert (passes, await in_lines(db)) == ([True, True, False], 25)  # those that know their limit may only be away
    await register(db, "new", "report")
    assert [await chore.run_once() for _ in range(3)] == [True, True, False]
    assert await in_lines(db) == 0


# -- many workers ----------------------------------------------------------------------------------------------------


async def test_a_job_is_not_held_while_one_of_very_many_workers_has_its_handler(
    make_scheduler: Make, db: Database
) -> None:
    mailer = make_scheduler(queues=["web"])
    await mailer.start()
    beat = datetime.now(UTC) + timedelta(minutes=5)
    crowd = [
        {"_id": f"w{n}", "beat_at": beat, "queues": None, "handlers": ["mail"], "concurrency": 1, "running": 1}
        for n in range(1100)
    ]
    await db["jobs.workers"].insert_many(crowd)
    await register(db, "last", "report", beat_at=beat + timedelta(seconds=1))
    job = await mailer.schedule("report")
    (document,) = [await db.jobs.find_one({"_id": document_id(job.id)})]
    assert document is not None
    assert await inside(mailer).worker.producer.triage.sort("default", [StoredJob(document)]) == ([], True)
    assert await count_jobs(db, ready=True) == 1
    await db["jobs.workers"].delete_one({"_id": "last"})
    await inside(mailer).worker.producer.triage.sort("default", [StoredJob(document)])
    assert await count_jobs(db, ready=True) == 0


@pytest.mark.parametrize(("worker", "place"), [("a", 0), ("m", 2), ("z", 3)])
async def test_a_worker_that_is_not_seen_in_the_registry_has_a_place_among_the_others(
    scheduler: Scheduler, db: Database, worker: str, place: int
) -> None:
    await scheduler.connect()
    for other in ("b", "c", "x"):
        await register(db, other)
    peers = Peers(await inside(scheduler).store(), worker)
    await peers.refresh()
    assert peers.rank(None) == (place, 4)
