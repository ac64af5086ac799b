"""The databases that tests take over from each other: as new, or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from harness.databases import Databases
from harness.looking import Database
from harness.servers import Servers
from mainspring import Scheduler

Client = AsyncMongoClient[dict[str, Any]]


@pytest.fixture
async def pool(servers: Servers, side_client: Client) -> AsyncIterator[Databases]:
    """Databases of which none has to rest."""
    pool = Databases(servers, side_client, resting=0)
    yield pool
    await pool.close()


@pytest.fixture
async def used(pool: Databases, servers: Servers, side_client: Client) -> AsyncIterator[Database]:
    """A database that a scheduler has connected to."""
    name = await pool.take()
    scheduler = await Scheduler(servers.uri(name)).connect()
    await scheduler.stop()
    yield side_client[name]
    await side_client.drop_database(name)


@pytest.mark.slow
async def test_a_database_is_handed_out_again_with_nothing_in_it(pool: Databases, used: Database) -> None:
    for collection in ("jobs", "jobs.audit", "jobs.calendars", "effects"):
        await used[collection].insert_many([{"n": n} for n in range(3)])
    await pool.give_back(used.name)
    assert await pool.take() == used.name
    names = await used.list_collection_names()
    assert "jobs.calendars" not in names and "effects" not in names and "jobs.audit" in names
    assert not any([await used[name].count_documents({}, hint="_id_") for name in names])


@pytest.mark.slow
async def test_a_fresh_one_is_never_one_that_was_used(pool: Databases, used: Database, side_client: Client) -> None:
    await pool.give_back(used.name)
    assert await pool.take(fresh=True) not in await side_client.list_database_names()


CHANGES: dict[str, Callable[[Database], Awaitable[Any]]] = {
    "an index more": lambda db: db.jobs.create_index([("colour", 1)]),
    "an index less": lambda db: db.jobs.drop_index("claim"),
    "a collection less": lambda db: db["jobs.audit"].drop(),
    "another shape": lambda db: db.command("collMod", "jobs.replies", index={"name": "at", "expireAfterSeconds": 7}),
    "a validator": lambda db: db.command("collMod", "jobs.keys", validator={"job": {"$exists": True}}),
}


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.slow
async def test_one_that_is_not_as_new_is_dropped(
    pool: Databases, used: Database, side_client: Client, how: str
) -> None:
    await CHANGES[how](used)
    await pool.give_back(used.name)
    assert await pool.take() != used.name
    await pool.close()
    assert used.name not in await side_client.list_database_names()


@pytest.mark.parametrize("collection", ["jobs", "jobs.locks"])
@pytest.mark.slow
async def test_one_that_somebody_writes_to_after_its_test_is_dropped(
    pool: Databases, used: Database, side_client: Client, collection: str
) -> None:
    await pool.give_back(used.name)
    await used[collection].insert_one({"late": True})
    assert await pool.take() != used.name
    await pool.close()
    assert used.name not in await side_client.list_database_names()


@pytest.mark.slow
async def test_the_one_that_has_rested_longest_is_first(servers: Servers, side_client: Client, used: Database) -> None:
    pool = Databases(servers, side_client, resting=1)
    await pool.give_back(used.name)
    other = await pool.take()
    assert other != used.name
    await (scheduler := Scheduler(servers.uri(other))).connect()
    await scheduler.stop()
    await pool.give_back(other)
    assert await pool.take() == used.name
    await pool.close()
    await side_client.drop_database(other)
