"""Databases of schema version 1. `schema_1.json` has the documents and indexes as the library of commit 3a9848a left
them while it ran: jobs that wait for a limit, a sequence or a handler, an at-most-once job, schedules, a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from bson import ObjectId, json_util
from pymongo.asynchronous.database import AsyncDatabase
from typer.testing import CliRunner

from harness.waiting import eventually
from mainspring import ConfigurationError, Scheduler
from mainspring.cli.app import app
from mainspring.client.migrating import migrate, schema_status
from mainspring.client.scheduler import core_of
from mainspring.store import migrations
from mainspring.store.index_definitions import EARLIER_INDEXES

Make = Callable[..., Scheduler]
Database = AsyncDatabase[dict[str, Any]]
OLD_WORKER = "host:9336:5f0ea542"
pytestmark = pytest.mark.fresh_database


async def load(db: Database, *, alive: bool) -> dict[str, Any]:
    """Store the documents and indexes, as if they had been written just now; with `alive`, the old worker is still
    there, otherwise it died two minutes ago."""
    stored: dict[str, Any] = json_util.loads(
        (Path(__file__).parent / "schema_1.json").read_text(),
        json_options=json_util.JSONOptions(tz_aware=True, tzinfo=UTC),
    )
    beat = stored["jobs.workers"]["documents"][0]["beat_at"]
    shift = datetime.now(UTC) - beat - timedelta(minutes=0 if alive else 2)
    for name, content in stored.items():
        for index in content["indexes"]:
            await db[name].create_index(list(index.pop("key").items()), **index)
        if content["documents"]:
            await db[name].insert_many([moved(one, shift) for one in content["documents"]])
    return stored


def moved(value: Any, by: timedelta) -> Any:
    if isinstance(value, dict):
        return {key: moved(one, by) for key, one in value.items()}
    if isinstance(value, list):
        return [moved(one, by) for one in value]
    return value + by if isinstance(value, datetime) else value


def with_handlers(make: Make, ran: list[tuple[str, int]], **options: Any) -> Scheduler:
    scheduler = make(**options)

    for name in ("echo", "limited", "stranger", "careful"):

        async def work(n: int, name: str = name) -> None:
            ran.append((name, n))

        scheduler.job(name, concurrency=1 if name == "limited" else None)(work)

    @scheduler.job("ordered", sequence="order")
    async def ordered(order: str, n: int) -> None:
        ran.append(("ordered", n))

    @scheduler.job("again")
    async def again() -> None:
        ran.append(("again", 0))

    return scheduler


@pytest.mark.slow
async def test_a_new_worker_runs_what_a_dead_worker_of_version_1_has_left(make_scheduler: Make, db: Database) -> None:
    await load(db, alive=False)
    ran: list[tuple[str, int]] = []
    scheduler = with_handlers(make_scheduler, ran, lease=5)
    await scheduler.start()
    everything = {("limited", n) for n in range(3)} | {("ordered", n) for n in range(3)} | {("again", 0)}
    everything |= {("stranger", n) for n in range(2)}
    await eventually(lambda: everything <= set(ran))
    assert [n for name, n in ran if name == "ordered"] == [0, 1, 2]
    careful = await db.jobs.find_one({"name": "careful"}, hint="_id_")
    assert careful is not None and (await scheduler.get_job(str(careful["_id"]))).guarantee == "at_most_once"
    assert (await scheduler.schedules.get("nightly")).guarantee == "at_most_once"
    assert await schema_status(scheduler) != (done := await migrate(scheduler))
    assert (done.version, done.minimum, done.pending, done.earlier_workers) == (2, 2, (), ())
    assert not await db.jobs.find_one(
        {"$or": [{"held": {"$exists": True}}, {"executes": {"$exists": True}}]}, hint="_id_"
    )
    names = {name: set(await db[name].index_information()) for name in ("jobs", "jobs.gates")}
    assert not names["jobs"] & {*EARLIER_INDEXES[""]} and not names["jobs.gates"] & {*EARLIER_INDEXES["gates"]}
    now = datetime.now(UTC)
    assert (await scheduler.monitor.statistics(now - timedelta(hours=1))).total.executions >= 0
    assert await migrate(scheduler) == done


async def test_workers_of_both_versions_run_side_by_side(make_scheduler: Make, db: Database) -> None:
    stored = await load(db, alive=True)
    await db["jobs.workers"].update_one(
        {"_id": OLD_WORKER}, {"$set": {"lease_until": datetime.now(UTC) + timedelta(hours=1)}}
    )
    ran: list[tuple[str, int]] = []
    scheduler = with_handlers(make_scheduler, ran)
    await scheduler.start()
    await eventually(lambda: {("stranger", 0), ("stranger", 1)} <= set(ran))
    status = await migrate(scheduler)
    assert status.waits and status.earlier_workers == (OLD_WORKER,) and status.version == 1
    assert (await (await core_of(scheduler).store()).migrations.step()).version == 1
    # The old worker goes on: it puts one more job aside, in its own fields.
    late = next(one for one in stored["jobs"]["documents"] if one["name"] == "stranger")
    await db.jobs.insert_one({**late, "_id": ObjectId(), "data": {"n": 77}})
    await eventually(lambda: ("stranger", 77) in ran)
    # Its own running jobs are left to it, as long as it renews its lease.
    assert ("limited", 0) not in ran and ("ordered", 0) not in ran
    await db["jobs.workers"].delete_one({"_id": OLD_WORKER})
    assert (await migrate(scheduler)).version == 2


@pytest.mark.slow
async def test_a_migration_that_was_interrupted_continues(make_scheduler: Make, db: Database) -> None:
    await load(db, alive=False)
    scheduler = make_scheduler()
    told: list[int] = []

    def interrupt(status: Any) -> None:
        told.append(status.seen)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await migrate(scheduler, interrupt)
    first = await schema_status(scheduler)
    assert first.seen == told[0] == 2 and first.total == 22 and first.version == 1
    done = await migrate(scheduler)
    assert (done.seen, done.version) == (22, 2)


async def test_fields_of_the_new_version_win_and_only_pending_jobs_are_judged_anew(
    make_scheduler: Make, db: Database
) -> None:
    stored = await load(db, alive=False)
    scheduler = make_scheduler()
    stranger = next(one for one in stored["jobs"]["documents"] if one["name"] == "stranger")
    both = {**stranger, "_id": ObjectId(), "waiting_for": {"by": "gate:x"}, "held": {"by": "gate:old"}}
    both |= {"guarantee": "at_least_once", "executes": "at_most_once"}
    cancelled = {**stranger, "_id": ObjectId(), "state": "cancelled"}
    await db.jobs.insert_many([both, cancelled])
    await migrate(scheduler)
    found = {one["_id"]: one for one in await db.jobs.find({}, hint="_id_").to_list()}
    assert found[both["_id"]]["waiting_for"] == {"by": "gate:x"}
    assert found[both["_id"]]["guarantee"] == "at_least_once"
    assert found[stranger["_id"]]["ready"] is True and "ready" not in found[cancelled["_id"]]
    assert found[stranger["_id"]]["rev"] == stranger["rev"] + 1, "a worker that has read it loses its claim"


async def test_jobs_whose_ids_sort_before_those_of_schedules_are_changed_too(
    make_scheduler: Make, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "_BATCH", 2)
    stored = await load(db, alive=False)
    careful = next(one for one in stored["jobs"]["documents"] if one["name"] == "careful")
    await db.jobs.insert_many([{**careful, "_id": job_id} for job_id in ("A1", "A2", "A3", -7)])
    done = await migrate(make_scheduler())
    assert (done.seen, done.version) == (26, 2)
    assert not await db.jobs.find_one({"executes": {"$exists": True}}, hint="_id_")


async def test_what_an_old_worker_wrote_behind_the_walk_is_changed_at_its_end(
    make_scheduler: Make, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "_BATCH", 5)
    stored = await load(db, alive=True)
    forever = {"$set": {"lease_until": datetime.now(UTC) + timedelta(hours=1)}}
    await db["jobs.workers"].update_one({"_id": OLD_WORKER}, forever)
    scheduler = make_scheduler()
    assert (await migrate(scheduler)).waits
    late = {one["name"]: one for one in stored["jobs"]["documents"]}
    waiting = [{**late["stranger"], "_id": ObjectId()} for _ in range(12)]
    careful = {**late["careful"], "_id": ObjectId()}
    assert all("held" in one for one in waiting) and "executes" in careful and "held" not in careful
    await db.jobs.insert_many([*waiting, careful])
    await db["jobs.workers"].delete_one({"_id": OLD_WORKER})
    assert (await migrate(scheduler)).version == 2
    found = {one["_id"]: one for one in await db.jobs.find({}, hint="_id_").to_list()}
    assert [one for one in found.values() if "held" in one or "executes" in one] == []
    assert {found[one["_id"]]["ready"] for one in waiting} == {True}
    assert found[careful["_id"]]["guarantee"] == "at_most_once"


async def test_a_migration_ends_where_another_process_has_dropped_the_indexes_and_recorded_the_version(
    make_scheduler: Make, db: Database
) -> None:
    await load(db, alive=False)
    verbs = (await core_of(make_scheduler()).store()).migrations
    assert {one.recorded for one in await asyncio.gather(*(verbs.record() for _ in range(10)))} == {True}
    for suffix, names in EARLIER_INDEXES.items():
        await db[f"jobs.{suffix}" if suffix else "jobs"].drop_index(names[0])
    assert await verbs.follow() >= 0
    status = await verbs.step()
    while status.pending:
        status = await verbs.step()
    assert status.version == 2


async def test_a_library_that_is_older_than_the_databases_minimum_says_so(make_scheduler: Make, db: Database) -> None:
    await db["jobs.locks"].insert_one({"_id": "schema", "version": 9, "minimum": 8})
    with pytest.raises(ConfigurationError, match=r"needs a newer Mainspring.*version 8 or newer.*has 2\. Upgrade"):
        await make_scheduler().connect()


@pytest.mark.slow
async def test_the_first_worker_records_the_version_of_a_new_database(make_scheduler: Make, db: Database) -> None:
    ran: list[tuple[str, int]] = []
    scheduler = with_handlers(make_scheduler, ran)
    await scheduler.start()

    async def recorded() -> Any:
        return await db["jobs.locks"].find_one({"_id": "schema"})

    await eventually(recorded)
    record = await recorded()
    assert (record["version"], record["minimum"]) == (2, 2)


@pytest.mark.slow
def test_the_command_shows_what_is_pending_and_carries_it_out(uri: str) -> None:
    shown = CliRunner().invoke(app, ["migrate", "--status", "--json", "--uri", uri])
    assert shown.exit_code == 0 and '"version": 2' in shown.stdout and '"pending": []' in shown.stdout
    done = CliRunner().invoke(app, ["migrate", "--uri", uri])
    assert done.exit_code == 0 and "Nothing is pending." in done.stdout
