"""Reaching the database: URIs, clients handed in, servers that are down, too old or of another shape."""

from __future__ import annotations

import asyncio
import gc
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from pymongo import AsyncMongoClient, MongoClient
from pymongo.asynchronous.database import AsyncDatabase

from harness.listening import Listener
from harness.looking import Database
from harness.servers import free_port
from mainspring import ConfigurationError, Job, JobContext, MainspringError, Scheduler, Unavailable, UnsupportedServer
from mainspring.store.collection import deadline
from mainspring.store.index_definitions import JOB_INDEXES
from mainspring.sync import Scheduler as BlockingScheduler

pytestmark = pytest.mark.fresh_database

Make = Callable[..., Scheduler]
Client = AsyncMongoClient[dict[str, Any]]


async def ended(scheduler: Scheduler, name: str, **options: Any) -> Job:
    return await scheduler.wait((await scheduler.schedule(name, **options)).id, timeout=60)


# -- a client that is handed in ------------------------------------------------------------------------------------


async def test_a_client_that_is_handed_in_runs_jobs_and_stays_open(uri: str) -> None:
    async with Client(uri) as client:
        scheduler = Scheduler(client=client)

        @scheduler.job("work")
        async def work() -> str:
            return "done"

        async with scheduler:
            assert scheduler.client is client
            assert (await ended(scheduler, "work")).result == "done"
        assert (await client.admin.command("ping"))["ok"] == 1


@pytest.mark.slow
async def test_two_schedulers_can_share_a_client(uri: str) -> None:
    async with Client(uri) as client:
        one, other = Scheduler(client=client), Scheduler(client=client, collection="others")
        job = await one.schedule("work")
        await other.schedule("work")
        await other.stop()
        assert (await one.get_job(job.id)).state == "pending"
        await one.stop()


def test_a_blocking_client_is_refused_with_the_cure() -> None:
    with (
        MongoClient[dict[str, Any]]("mongodb://127.0.0.1:9", connect=False) as client,
        pytest.raises(ConfigurationError, match="must be an AsyncMongoClient"),
    ):
        Scheduler(client=client)


def test_something_that_is_no_client_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="not str"):
        Scheduler(client="mongodb://127.0.0.1:9")


# -- URIs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "uri",
    ["postgres://user:secret@host/db", "http://user:se/cret@host", "redis://user:p@secret@host", "user:secret@host"],
)
def test_a_uri_of_another_kind_is_refused_without_showing_the_password(uri: str) -> None:
    with pytest.raises(ConfigurationError, match="it must begin with mongodb://") as refused:
        Scheduler(uri)
    if "//" in uri:
        assert "secret" not in str(refused.value) and "cret" not in str(refused.value)


@pytest.mark.parametrize(
    "uri",
    [
        "mongodb://",
        "mongodb://user:secret@host:port/",
        "mongodb://user:secret",
        "mongodb://user:sec%ret@host/",
        "mongodb://user:secret@host/?replicaSet",
        "mongodb+srv://user:secret@one,two/",
        "mongodb+srv://user:secret@127.0.0.1/",
    ],
)
async def test_a_uri_that_cannot_be_understood_is_refused_without_showing_the_password(uri: str) -> None:
    scheduler = Scheduler(uri)
    with pytest.raises(ConfigurationError, match="The MongoDB URI cannot be used") as refused:
        await scheduler.schedule("work")
    assert "secret" not in str(refused.value)


async def test_the_uri_is_told_before_connecting_and_the_client_after(uri: str, make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    assert scheduler.uri == uri
    with pytest.raises(MainspringError, match=r"not connected yet.*connect"):
        _ = scheduler.client
    assert await scheduler.connect() is scheduler
    assert isinstance(scheduler.client, AsyncMongoClient)


async def test_a_transaction_connects_by_itself(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    async with scheduler.transaction() as tx:
        job = await scheduler.schedule("work", session=tx.session)
    assert (await scheduler.get_job(job.id)).state == "pending"


@pytest.mark.slow
async def test_the_database_is_the_uris_or_the_one_that_is_named(uri: str, make_scheduler: Make, db: Database) -> None:
    in_uri, named = make_scheduler(), make_scheduler(database=f"{db.name}_other", collection="work.items")
    await in_uri.schedule("one")
    await named.schedule("two", dedupe_key="k")
    other = db.client[f"{db.name}_other"]
    assert [job["name"] async for job in db.jobs.find({}, hint="_id_")] == ["one"]
    assert [job["name"] async for job in other["work.items"].find({}, hint="_id_")] == ["two"]
    parts = (
        "audit",
        "controls",
        "gates",
        "keys",
        "ledger",
        "locks",
        "operations",
        "redrives",
        "replies",
        "schedules",
        "sessions",
        "signals",
        "stats",
        "workers",
    )
    assert sorted(await other.list_collection_names()) == ["work.items", *(f"work.items.{part}" for part in parts)]
    await db.client.drop_database(other)


@pytest.mark.fresh_database
async def test_many_first_calls_at_once_connect_once(uri: str) -> None:
    listener = Listener()
    async with Client(uri, event_listeners=[listener]) as client:
        scheduler = Scheduler(client=client)
        await asyncio.gather(*(scheduler.schedule("work") for _ in range(20)))
        assert len(listener.named("createIndexes", "jobs")) == 1
        await scheduler.stop()


# -- servers that do not answer ------------------------------------------------------------------------------------


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


async def check_unavailable(port: int) -> None:
    scheduler = Scheduler(f"mongodb://user:secret@127.0.0.1:{port}/db", operation_timeout=0.5)
    began = time.monotonic()
    with pytest.raises(Unavailable, match=r"did not answer within 0.5 s or cannot be reached: ") as refused:
        await scheduler.schedule("work")
    assert time.monotonic() - began < 10
    assert f"127.0.0.1:{port}" in str(refused.value)
    assert "secret" not in str(refused.value) and "\n" not in str(refused.value)
    with pytest.raises(Unavailable):
        await scheduler.start()
    await scheduler.stop()
    gc.collect()


# The driver leaves a socket to the garbage collector when its client is closed while it connects.
left_to_the_collector = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@left_to_the_collector
async def test_a_server_that_is_down_is_reported_in_time_and_in_a_sentence() -> None:
    await check_unavailable(free_port())


@left_to_the_collector
async def test_a_server_that_is_silent_is_reported_in_time_and_in_a_sentence(silent: int) -> None:
    await check_unavailable(silent)


# -- cancellation --------------------------------------------------------------------------------------------------


async def test_a_cancellation_that_the_driver_forgets_still_arrives() -> None:
    async def forgetful() -> str:
        with deadline(20), suppress(asyncio.CancelledError):
            await asyncio.sleep(20)
        return "went on"

    task = asyncio.create_task(forgetful())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_is_cancelled_can_still_ask_the_database_while_it_cleans_up(make_scheduler: Make) -> None:
    scheduler = await make_scheduler().connect()

    async def work() -> str:
        try:
            await asyncio.sleep(20)
        finally:
            job = await scheduler.schedule("work")
        return job.id

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len([job async for job in scheduler.jobs()]) == 1


# -- servers that do not fit ---------------------------------------------------------------------------------------


async def test_an_old_server_is_refused(make_scheduler: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    command = AsyncDatabase.command

    async def older(self: Any, name: Any, *args: Any, **options: Any) -> Any:
        reply = await command(self, name, *args, **options)
        return {**reply, "version": "5.0.31", "versionArray": [5, 0, 31, 0]} if name == "buildInfo" else reply

    monkeypatch.setattr(AsyncDatabase, "command", older)
    scheduler = make_scheduler()
    with pytest.raises(UnsupportedServer, match=r"MongoDB 5.0.31 is too old; Mainspring needs 6.0"):
        await scheduler.schedule("work")
    monkeypatch.undo()
    assert (await scheduler.schedule("work")).state == "pending"


async def test_an_index_of_the_same_name_and_another_shape_is_a_clear_error(make_scheduler: Make, db: Database) -> None:
    await db.jobs.create_index([("colour", 1)], name="claim")
    scheduler = make_scheduler()
    with pytest.raises(ConfigurationError, match=rf"{db.name}.jobs has an index of the same name .* another shape"):
        await scheduler.connect()
    await db.jobs.drop_index("claim")
    await scheduler.connect()


INDEXES = {
    "jobs": {"_id_", *(str(index.document["name"]) for index in JOB_INDEXES)},
    "jobs.audit": {"_id_", "actor", "target"},
    "jobs.controls": {"_id_", "broken"},
    "jobs.gates": {"_id_", "holders", "in_turn", "open_lines", "unused"},
    "jobs.keys": {"_id_", "at"},
    "jobs.ledger": {"_id_", "firings", "old", "spans"},
    "jobs.operations": {"_id_", "created", "open"},
    "jobs.redrives": {"_id_", "started", "under_way"},
    "jobs.replies": {"_id_", "at"},
    "jobs.schedules": {"_id_", "calendars", "created", "declared", "due", "paused", "zones"},
    "jobs.sessions": {"_id_", "until"},
    "jobs.stats": {"_id_", "counted"},
    "jobs.workers": {"_id_", "beat_at", "handlers"},
}


async def indexes_of(db: Database) -> dict[str, set[str]]:
    return {name: set(await db[name].index_information()) for name in INDEXES}


async def test_connecting_again_makes_no_second_set_of_indexes(make_scheduler: Make, db: Database) -> None:
    for _ in range(2):
        await make_scheduler().connect()
    assert await indexes_of(db) == INDEXES


async def look_for_jobs(scheduler: Scheduler) -> None:
    assert [job async for job in scheduler.jobs()] == []


async def use_the_blocking_face(scheduler: Scheduler) -> None:
    def use() -> None:
        face = BlockingScheduler(scheduler.uri)
        face.schedule("work")
        face.stop()

    await asyncio.to_thread(use)


@pytest.mark.parametrize(
    "come",
    [Scheduler.connect, Scheduler.start, lambda one: one.schedule("work"), look_for_jobs, use_the_blocking_face],
    ids=["connect", "start", "schedule", "jobs", "blocking"],
)
async def test_whoever_comes_first_finds_no_database_and_leaves_all_indexes(
    make_scheduler: Make, db: Database, come: Callable[[Scheduler], Awaitable[Any]]
) -> None:
    assert await db.list_collection_names() == []
    await come(make_scheduler())
    assert await indexes_of(db) == INDEXES


# -- event loops ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_one_scheduler_works_on_one_event_loop_after_another(uri: str) -> None:
    scheduler = Scheduler(uri, poll_interval=0.2)

    @scheduler.job("work")
    async def work() -> str:
        return "done"

    async def use(start: bool) -> Any:
        if start:
            await scheduler.start()
            result = (await ended(scheduler, "work")).result
        else:
            result = (await scheduler.schedule("other")).state
        await scheduler.stop()
        return result

    assert await asyncio.to_thread(asyncio.run, use(True)) == "done"
    assert await asyncio.to_thread(asyncio.run, use(False)) == "pending"
    assert await asyncio.to_thread(asyncio.run, use(True)) == "done"
    assert await use(True) == "done"


# -- what the handles insist on ------------------------------------------------------------------------------------

WRITES = ("insert", "update", "delete", "findAndModify", "createIndexes", "commitTransaction")


@pytest.mark.parametrize(
    "options", ["w=0", "w=1", "w=1&journal=false", "readPreference=secondary&readConcernLevel=local"]
)
@pytest.mark.slow
async def test_every_write_is_majority_and_journaled_whatever_the_uri_says(uri: str, options: str) -> None:
    listener = Listener()
    async with Client(f"{uri}&{options}", event_listeners=[listener]) as client:
        scheduler = Scheduler(client=client, poll_interval=0.1, lease=1)

        @scheduler.job("work")
        async def work(ctx: JobContext) -> None:
            ctx.progress(10)
            await asyncio.sleep(0.5)
            async with ctx.transaction() as tx:
                await tx.db["effects"].insert_one({"_id": ctx.id}, session=tx.session)

        async with scheduler:
            job = await ended(scheduler, "work", dedupe_key="k")
            assert job.state == "completed", job.error
            await scheduler.schedule_bulk([{"name": "other", "delay": 60}, {"name": "other", "dedupe_key": "b"}])
            await scheduler.cancel((await scheduler.schedule("other", delay=60)).id)
            await scheduler.delete((await scheduler.schedule("other", delay=60)).id)
            await scheduler.retry(job.id)
        writes = [command for command in listener.commands if next(iter(command)) in WRITES]
        reads = listener.named("find") + listener.named("aggregate") + listener.named("distinct")
    assert {next(iter(command)) for command in writes} >= {*WRITES} - {"findAndModify"}
    for command in writes:
        if command.get("update") == "jobs.stats":
            continue  # counts are not waited for: an outage may lose a second of them
        inside = command.get("autocommit") is False and "commitTransaction" not in command
        assert command.get("writeConcern") == (None if inside else {"w": "majority", "j": True}), command
    for command in reads:
        assert command.get("$readPreference", {"mode": "primary"})["mode"] in ("primary", "primaryPreferred"), command


async def test_a_uri_that_forbids_journaling_and_acknowledgement_still_keeps_what_it_acknowledges(
    uri: str, make_scheduler: Make, db: Database
) -> None:
    scheduler = make_scheduler(f"{uri}&w=0&retryWrites=false")
    jobs = await scheduler.schedule_bulk([{"name": "work"}] * 10)
    assert await db.jobs.count_documents({}, hint="_id_") == len(jobs) == 10
