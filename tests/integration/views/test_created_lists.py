"""Listing what was created: jobs and schedules in one order, page by page, at a cost that does not grow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId
from pymongo import AsyncMongoClient

from harness.explaining import explain
from harness.listening import Listener
from harness.looking import Database
from mainspring import ConfigurationError, Every, Scheduler
from mainspring.client.service_backend import CreatedPage, ServiceBackend
from mainspring.store.views import search

NOW = datetime.now(UTC).replace(microsecond=0)
BOUND = 100


def at(age: int) -> datetime:
    return NOW - timedelta(seconds=age)


def job(age: int, name: str, queue: str = "default") -> dict[str, Any]:
    """A job that was made so many seconds ago."""
    identity = ObjectId(f"{int(at(age).timestamp()):08x}{age:016x}")
    times = {"run_at": at(age), "created_at": at(age), "finished_at": at(age)}
    return {"_id": identity, "v": 1, "name": name, "queue": queue, "state": "completed", "data": {}, **times}


async def make_schedule(scheduler: Scheduler, db: Database, age: int, name: str) -> None:
    await scheduler.schedule(name, repeat=Every("1h"), schedule_id=name)
    await db["jobs.schedules"].update_one({"_id": name}, {"$set": {"created_at": at(age)}})


async def pages(scheduler: Scheduler, **choice: Any) -> list[CreatedPage[Any]]:
    found = [await ServiceBackend(scheduler).created(**choice)]
    while found[-1].next is not None:
        found.append(await ServiceBackend(scheduler).created(**choice, after=found[-1].next))
    return found


def names(listed: list[CreatedPage[Any]]) -> list[str]:
    return [one.name for page in listed for one in page.things]


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SCANNED", BOUND)


@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_pages_go_on_where_the_last_one_ended_whatever_their_size(
    scheduler: Scheduler, db: Database, limit: int
) -> None:
    await scheduler.connect()
    await db.jobs.insert_many([job(age, f"job-{age}") for age in range(0, 20, 2)])
    for age in (3, 4, 15):
        await make_schedule(scheduler, db, age, f"schedule-{age}")
    listed = await pages(scheduler, limit=limit)
    ages = [int(name.rpartition("-")[2]) for name in names(listed)]
    assert len(ages) == 13 and ages == sorted(ages)
    assert all(page.complete for page in listed) and all(page.things for page in listed)
    assert names(await pages(scheduler, limit=limit, kind="schedule")) == ["schedule-3", "schedule-4", "schedule-15"]


@pytest.mark.usefixtures("bound")
@pytest.mark.slow
async def test_a_page_of_a_few_among_thousands_of_others_looks_at_so_many_and_says_that_there_is_more(
    scheduler: Scheduler, db: Database
) -> None:
    await scheduler.connect()
    others = [job(age, f"other.{age}", "others") for age in range(3000) if age % 700]
    await db.jobs.insert_many([*others, *(job(age, f"acme.{age}", "acme") for age in range(0, 3000, 700))])
    for age in (350, 2999):
        await make_schedule(scheduler, db, age, f"acme.s{age}")
    listed = await pages(scheduler, limit=2, prefixes=["acme."])
    expected = ["acme.0", "acme.s350", "acme.700", "acme.1400", "acme.2100", "acme.2800", "acme.s2999"]
    assert names(listed) == expected
    assert len(listed) >= 3000 // BOUND
    first, last = listed[0], listed[-1]
    assert (len(first.things), first.complete, last.complete) == (1, False, True)
    assert names(await pages(scheduler, limit=2, queues=["acme"], kind="job")) == [
        name for name in expected if ".s" not in name
    ]
    assert names(await pages(scheduler, limit=100, queues=["nobody"])) == []
    assert names(await pages(scheduler, limit=100, prefixes=[])) == []


@pytest.mark.usefixtures("bound")
@pytest.mark.slow
async def test_schedules_of_others_are_looked_at_only_so_many_at_a_time_too(scheduler: Scheduler, db: Database) -> None:
    await scheduler.connect()
    await make_schedule(scheduler, db, 1000, "acme.old")
    (model,) = await db["jobs.schedules"].find({"_id": "acme.old"}).to_list()
    for age in range(BOUND * 2):
        model |= {"_id": f"other-{age}", "created_at": at(age), "job": model["job"] | {"name": "other"}}
        await db["jobs.schedules"].insert_one(model)
    await db.jobs.insert_one(job(500, "acme.job"))
    listed = await pages(scheduler, limit=10, prefixes=["acme."])
    assert names(listed) == ["acme.job", "acme.old"]
    assert not listed[0].things and not listed[0].complete


@pytest.mark.usefixtures("bound")
async def test_no_page_reads_more_than_its_bound(uri: str, db: Database) -> None:
    listener = Listener()
    async with AsyncMongoClient[dict[str, Any]](uri, event_listeners=[listener]) as client:
        scheduler = Scheduler(client=client)
        await scheduler.connect()
        await db.jobs.insert_many([job(age, "other") for age in range(1000)])
        listener.clear()
        page = await ServiceBackend(scheduler).created(20, prefixes=["acme."], kind="job")
        heard = [command for command in listener.commands if next(iter(command)) == "find"]
        await scheduler.stop()
    assert page.things == () and page.next is not None
    costs = [cost for command in heard if command["find"] == "jobs" for cost in await explain(db, command, "jobs")]
    assert len(costs) >= 2
    for cost in costs:
        assert cost.keys <= BOUND + 2 and cost.documents <= BOUND + 1 and "COLLSCAN" not in cost.stages, cost


async def test_a_page_by_its_number_is_the_same_as_by_its_cursor(scheduler: Scheduler, db: Database) -> None:
    await scheduler.connect()
    await db.jobs.insert_many([job(age, f"job-{age}") for age in range(7)])
    listed = await pages(scheduler, limit=3)
    assert [await ServiceBackend(scheduler).created(3, skip=skip) for skip in (0, 3, 6)] == listed


async def test_a_cursor_of_another_list_is_refused(scheduler: Scheduler, db: Database) -> None:
    await scheduler.connect()
    await db.jobs.insert_many([job(age, f"job-{age}") for age in range(3)])
    cursor = (await ServiceBackend(scheduler).created(1)).next
    for choice in ({"kind": "job"}, {"queues": ["default"]}, {"prefixes": ["job"]}):
        with pytest.raises(ConfigurationError, match="another list"):
            await ServiceBackend(scheduler).created(1, after=cursor, **choice)
    for nonsense in ("", "x", "é", "AAAA"):
        with pytest.raises(ConfigurationError, match="another list"):
            await ServiceBackend(scheduler).created(1, after=nonsense)
