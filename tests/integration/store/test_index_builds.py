"""Indexes are made by one process, however long it takes, while that process and all others work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.errors import OperationFailure

from harness.inside import inside
from harness.listening import Listener
from harness.looking import Database
from harness.waiting import eventually
from mainspring import ConfigurationError, Scheduler, Unavailable
from mainspring.store import Store
from mainspring.store import connection as connection_module
from mainspring.store import indexes as indexes_module
from mainspring.store.index_definitions import JOB_INDEXES
from mainspring.store.indexes import Indexes
from mainspring.store.schema import FAILURES, LEASE

Make = Callable[..., Scheduler]
Client = AsyncMongoClient[dict[str, Any]]


class Impatient(Indexes):
    """Goes on at once where something is to be built."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._patience = 0.05


@pytest.fixture
async def lacking(make_scheduler: Make, db: Database) -> None:
    """A database of an earlier version, which did not have one of the indexes, with a job in it."""
    await make_scheduler().schedule("work")
    await db.jobs.drop_index(FAILURES)


@pytest.fixture
def impatient(lacking: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, for processes that do not wait for it."""
    monkeypatch.setattr(connection_module, "Indexes", Impatient)


@asynccontextmanager
async def fail_point(db: Database, name: str, **data: Any) -> AsyncIterator[None]:
    await db.client.admin.command("configureFailPoint", name, mode="alwaysOn", data=data)
    try:
        yield
    finally:
        await db.client.admin.command("configureFailPoint", name, mode="off")


async def has_index(db: Database, name: str = FAILURES) -> bool:
    """Whether an index can be used."""
    try:
        await db.jobs.find_one({"last_failure_at": {"$exists": True}, "state": "running"}, hint=name)
    except OperationFailure:
        return False
    return True


async def failures_of(store: Store) -> list[Any]:
    """What needs the index."""
    return await store.connection.jobs.find_all({"last_failure_at": {"$exists": True}}, hint=FAILURES)


async def test_only_what_is_missing_is_made_and_without_a_deadline(
    make_scheduler: Make, uri: str, lacking: None
) -> None:
    listener = Listener()
    async with Client(uri, event_listeners=[listener]) as client:
        await make_scheduler(client=client).connect()
        (command,) = listener.named("createIndexes", "jobs")
        assert [index["name"] for index in command["indexes"]] == [FAILURES]
        assert "maxTimeMS" not in command
        listener.clear()
        await make_scheduler(client=client).connect()
        assert listener.named("createIndexes", "jobs") == []


async def test_a_build_that_takes_long_lets_the_process_work_and_what_needs_it_wait(
    make_scheduler: Make, db: Database, impatient: None, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = make_scheduler()

    @scheduler.job("work")
    async def work() -> str:
        return "done"

    async with fail_point(db, "hangAfterStartingIndexBuild"):
        await scheduler.start()
        job = await scheduler.schedule("work")
        assert (await scheduler.wait(job.id, timeout=60)).result == "done"
        store = inside(scheduler).open_store
        assert store.connection.indexes.missing() == (f"jobs.{FAILURES}",)
        with pytest.raises(Unavailable, match=f"still building jobs.{FAILURES}"):
            await failures_of(store)
        assert f"MongoDB is building the indexes jobs.{FAILURES}" in caplog.text
    await eventually(lambda: store.connection.indexes.missing() == ())
    assert await failures_of(store) == []


async def test_a_build_tells_how_far_it_is(
    make_scheduler: Make,
    db: Database,
    impatient: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "mainspring")
    monkeypatch.setattr(indexes_module, "_TELL_EVERY", 0.05)
    async with fail_point(db, "hangAfterStartingIndexBuild"):
        await make_scheduler().connect()
        await eventually(lambda: f"Building the indexes jobs.{FAILURES}: 100% scanned after" in caplog.text)


@pytest.mark.fresh_database
@pytest.mark.slow
async def test_of_many_processes_one_makes_the_indexes(uri: str) -> None:
    listeners = [Listener() for _ in range(4)]
    clients = [Client(uri, event_listeners=[one]) for one in listeners]
    schedulers = [Scheduler(client=client) for client in clients]
    await asyncio.gather(*(scheduler.connect() for scheduler in schedulers))
    heard = [command for one in listeners for command in one.named("createIndexes", "jobs")]
    assert [len(command["indexes"]) for command in heard] == [len(JOB_INDEXES)]
    for scheduler, client in zip(schedulers, clients, strict=True):
        await scheduler.stop()
        await client.close()


async def test_an_index_that_another_process_still_builds_is_waited_for(
    make_scheduler: Make, uri: str, db: Database, impatient: None
) -> None:
    listener = Listener()
    async with Client(uri, event_listeners=[listener]) as client:
        async with fail_point(db, "hangAfterStartingIndexBuild"):
            await make_scheduler().connect()
            waiting = await make_scheduler(client=client).connect()
            indexes = inside(waiting).open_store.connection.indexes
            assert indexes.missing() == (f"jobs.{FAILURES}",)
        await eventually(lambda: indexes.missing() == ())
        assert await has_index(db)
        assert listener.named("createIndexes", "jobs") == []


async def test_a_process_takes_over_from_one_that_died_while_it_made_the_indexes(
    make_scheduler: Make, db: Database, impatient: None
) -> None:
    lease = datetime.now(UTC) + timedelta(hours=1)
    await db["jobs.locks"].insert_one({"_id": "indexes", "owner": "another", "until": lease})
    scheduler = await make_scheduler().connect()
    assert not await has_index(db)
    await db["jobs.locks"].update_one({"_id": "indexes"}, {"$set": {"until": datetime(2020, 1, 1, tzinfo=UTC)}})
    indexes = inside(scheduler).open_store.connection.indexes
    await eventually(lambda: indexes.missing() == ())
    assert await has_index(db)
    assert await db["jobs.locks"].find_one({"_id": "indexes"}) is None


async def test_a_server_that_refuses_an_index_is_a_clear_error(
    make_scheduler: Make, db: Database, lacking: None
) -> None:
    scheduler = make_scheduler()
    async with fail_point(db, "failCommand", failCommands=["createIndexes"], errorCode=67):
        with pytest.raises(ConfigurationError, match=f"MongoDB refuses to create the indexes jobs.{FAILURES}"):
            await scheduler.connect()
    await scheduler.connect()
    assert await has_index(db)


async def test_a_build_that_fails_later_is_told_of_and_tried_again(
    make_scheduler: Make,
    db: Database,
    impatient: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(indexes_module, "_TRY_AGAIN", 0.05)
    send, go = Indexes._send, asyncio.Event()

    async def refused(self: Indexes, *args: Any) -> None:
        await go.wait()
        monkeypatch.setattr(Indexes, "_send", send)
        raise ConfigurationError("no room for it")

    monkeypatch.setattr(Indexes, "_send", refused)
    scheduler = await make_scheduler().connect()
    go.set()
    indexes = inside(scheduler).open_store.connection.indexes
    await eventually(lambda: indexes.missing() == ())
    assert f"The indexes jobs.{FAILURES} are not there yet: no room for it" in caplog.text
    assert await has_index(db)


async def test_a_chore_whose_index_was_dropped_has_it_made_again(make_scheduler: Make, db: Database) -> None:
    scheduler = make_scheduler(lease=2.0)
    await scheduler.start()
    await db.jobs.drop_index(LEASE)

    async def is_there() -> bool:
        return LEASE in await db.jobs.index_information()

    await eventually(is_there)


@pytest.mark.fresh_database
@pytest.mark.parametrize(
    "name, earlier, condition, now",
    [
        ("waiting_by_queue", ["queue", "waiting_for.by"], "waiting_for.by", ["queue", "waiting_for.by", "run_at"]),
        ("flow", ["flow", "state", "node", "_id"], "flow", ["flow", "node", "_id"]),
    ],
)
async def test_an_index_of_an_earlier_version_is_replaced(
    make_scheduler: Make, db: Database, name: str, earlier: list[str], condition: str, now: list[str]
) -> None:
    filter = {condition: {"$exists": True}}
    await db.jobs.create_index([(key, 1) for key in earlier], name=name, partialFilterExpression=filter)
    await make_scheduler().connect()
    index = (await db.jobs.index_information())[name]
    assert [key for key, _ in index["key"]] == now
