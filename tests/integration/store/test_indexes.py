"""Every hot query reads what it returns and little else, however many other jobs are stored.

The commands are the real ones, heard from a scheduler's own client while it works on a small collection; they are then
explained on a collection that holds the same jobs among thousands of future and finished ones.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId
from pymongo import AsyncMongoClient

from harness.explaining import Cost, explain
from harness.inside import inside
from harness.listening import Listener
from harness.looking import Database
from harness.servers import Servers
from mainspring import Scheduler
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.jobs.job import JobError
from mainspring.model.jobs.outcome import Completed, Retried
from mainspring.model.jobs.retention import Retention, Share
from mainspring.model.views.search import Search
from mainspring.store import Store
from mainspring.store.index_definitions import JOB_INDEXES
from mainspring.store.jobs.claim import Batch
from mainspring.store.jobs.end_fields import Finish
from mainspring.store.jobs.stored_job import stored_jobs
from mainspring.store.views import search

Document = dict[str, Any]

DUE, RUNNING, FUTURE, FINISHED = 300, 200, 5000, 5000
LOST, ASKED, LATE, WAITING_FOR = 20, 5, 10, 8
WORKER = "host:1:abc"
NOW = datetime.now(UTC).replace(microsecond=0)
QUEUES = ("default", "mail", "reports")


def job(number: int, state: str, **fields: Any) -> Document:
    return {
        "_id": ObjectId(),
        "v": 1,
        "name": "work",
        "data": {"n": number},
        "queue": QUEUES[number % 3],
        "priority": number % 10 + 1,
        "state": state,
        "run_at": NOW - timedelta(minutes=5),
        "created_at": NOW - timedelta(minutes=5),
        "rev": 0,
        "token": 0,
        "tries": 0,
        **fields,
    }


def live_jobs() -> Iterator[Document]:
    """What the verbs are about: due, late, held and running jobs."""
    for n in range(DUE):
        yield job(n, "pending", ready=True)
    for n in range(LATE):
        yield job(n, "pending", ready=True, start_by=NOW - timedelta(minutes=1))
    for n in range(WAITING_FOR):
        yield job(n, "pending", name="unknown", waiting_for={"by": "handler", "note": ""})
    for n in range(RUNNING):
        held = {"claim": "c", "worker": WORKER, "token": 1, "tries": 1, "rev": 1, "max_attempts": 3}
        lease = NOW - timedelta(minutes=1) if n < LOST else NOW + timedelta(hours=1)
        asked = {"cancel": {"at": NOW, "reason": ""}} if RUNNING - n <= ASKED else {}
        yield job(n, "running", lease_until=lease, claimed_at=NOW, **held, **asked)


def other_jobs() -> Iterator[Document]:
    """What must not matter: future jobs, some of them with a limit for their start, and finished ones."""
    for n in range(FUTURE):
        later = NOW + timedelta(hours=1, seconds=n)
        limit = {"start_by": later + timedelta(hours=1)} if n % 5 == 0 else {}
        yield job(n, "pending", ready=True, run_at=later, **limit)
    for n in range(FINISHED):
        state = ("completed", "failed", "cancelled", "expired")[n % 4]
        # A hundred of each state are old enough to be pruned.
        age = timedelta(days=30) if n < 400 else timedelta(minutes=n % 60)
        firing = {"schedule_id": f"s{n % 10}", "scheduled_for": NOW - timedelta(minutes=n)}
        failure = {"last_failure_at": NOW - timedelta(seconds=n)} if n % 5 == 0 else {}
        yield job(n, state, finished_at=NOW - age, token=1, tries=1, rev=2, **firing, **failure)


@dataclass(slots=True)
class World:
    """The scheduler that works on the small collection, what it says, and the large one."""

    store: Store
    listener: Listener
    db: Database

    async def costs(self, verb: Callable[[], Awaitable[Any]], *names: str) -> list[Cost]:
        """The costs on the large collection of the commands that a verb puts to the small one."""
        self.listener.clear()
        await verb()
        heard = [command for command in self.listener.commands if next(iter(command)) in names]
        assert heard, f"it said none of {names}: {self.listener.commands}"
        return [cost for command in heard for cost in await explain(self.db, command, "large")]

    async def cost(self, verb: Callable[[], Awaitable[Any]], name: str) -> Cost:
        (cost,) = await self.costs(verb, name)
        return cost


@pytest.fixture(scope="module")
async def large(servers: Servers, side_client: AsyncMongoClient[Document]) -> AsyncIterator[tuple[str, list[Document]]]:
    """A database whose large collection holds all jobs; its name, and the live ones among them."""
    name = f"t_{secrets.token_hex(4)}"
    scheduler = Scheduler(servers.uri(name), collection="large")
    await scheduler.connect()
    live = list(live_jobs())
    await side_client[name]["large"].insert_many([*live, *other_jobs()], ordered=False)
    yield name, live
    await scheduler.stop()
    await side_client.drop_database(name)


@pytest.fixture(scope="module")
async def used_world(
    servers: Servers, side_client: AsyncMongoClient[Document], large: tuple[str, list[Document]]
) -> AsyncIterator[World]:
    name, _ = large
    listener = Listener()
    async with AsyncMongoClient[Document](servers.uri(name), event_listeners=[listener]) as client:
        scheduler = Scheduler(client=client, collection="small")
        await scheduler.connect()
        yield World(inside(scheduler).open_store, listener, side_client[name])
        await scheduler.stop()


@pytest.fixture
async def world(used_world: World, large: tuple[str, list[Document]]) -> World:
    """The world as it was before any test has changed its small collection."""
    _, live = large
    await used_world.db["small"].delete_many({}, hint="_id_")
    await used_world.db["small"].insert_many(live)
    return used_world


def named(name: str) -> Document:
    return {"name": {"$in": [name]}}


def is_tight(cost: Cost, matched: int, *, spare: int = 2) -> None:
    """It matched so many, and read little more."""
    assert cost.matched == matched, cost
    assert cost.keys <= matched + spare and cost.documents <= matched, cost
    assert "COLLSCAN" not in cost.stages and "SORT" not in cost.stages, cost


def is_by_id(cost: Cost, matched: int) -> None:
    """It went from one given id to the next; the key behind an id may have to be read to know that it is passed."""
    assert cost.matched == matched and cost.keys <= 2 * matched + 1 and cost.documents <= matched, cost


async def running(world: World) -> list[Document]:
    return await world.db["small"].find({"state": "running"}, sort=[("lease_until", 1)], hint="lease").to_list(None)


# -- claiming ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_reading_candidates_reads_no_more_than_is_asked_for(world: World) -> None:
    cost = await world.cost(lambda: world.store.claims.candidates("default", 50), "find")
    # From each priority to the next the scan skips with one key of its own.
    is_tight(cost, 50, spare=12)


async def test_reading_candidates_stops_at_the_first_job_that_is_not_due(world: World) -> None:
    due = sum(1 for n in range(DUE) if n % 3 == 0) + sum(1 for n in range(LATE) if n % 3 == 0)
    cost = await world.cost(lambda: world.store.claims.candidates("default", 1000), "find")
    is_tight(cost, due, spare=22)


async def test_reading_candidates_of_some_names_reads_no_more_when_all_have_them(world: World) -> None:
    cost = await world.cost(lambda: world.store.claims.candidates("mail", 50, where=named("work")), "find")
    is_tight(cost, 50, spare=12)
    is_tight(await world.cost(lambda: world.store.claims.due("mail", named("work"), 50), "find"), 50, spare=12)


@pytest.mark.parametrize("read_before", [3, 15])
async def test_reading_on_begins_behind_what_was_read(world: World, read_before: int) -> None:
    read = await world.store.claims.candidates("default", read_before)
    cost = await world.cost(lambda: world.store.claims.candidates_after("default", read, 5), "find")
    is_tight(cost, 5, spare=3)


@pytest.mark.parametrize("queues", [QUEUES[:1], QUEUES])
async def test_the_next_run_at_takes_one_seek_per_queue_and_priority(world: World, queues: tuple[str, ...]) -> None:
    cost = await world.cost(lambda: world.store.claims.next_run_at(queues), "find")
    # One seek per queue and priority, and nothing but the index is read.
    assert (cost.matched, cost.documents) == (1, 0), cost
    assert cost.keys <= 10 * len(queues) + 2 and "SORT" not in cost.stages, cost


async def test_the_head_of_a_queue_is_found_at_once(world: World) -> None:
    costs = await world.costs(lambda: world.store.claims.heads(QUEUES), "find")
    assert len(costs) == 3
    for cost in costs:
        is_tight(cost, 1, spare=2)


async def test_the_queues_take_one_seek_each(world: World) -> None:
    cost = await world.cost(world.store.claims.queues, "distinct")
    assert cost.keys <= len(QUEUES) + 2 and cost.documents <= len(QUEUES), cost
    assert "DISTINCT_SCAN" in cost.stages


async def test_a_claim_goes_by_the_ids_it_was_given(world: World) -> None:
    found = await world.store.claims.candidates("default", 80)

    async def claim() -> None:
        batch = await world.store.claims.claim(found, WORKER, 60, lambda document: 3, 1000)
        assert len(batch.jobs) == 80

    costs = await world.costs(claim, "update")
    assert sum(cost.matched for cost in costs) == 80
    for cost in costs:
        is_by_id(cost, cost.matched)


async def test_reading_a_claim_back_goes_by_the_ids_it_was_given(world: World) -> None:
    mine = await running(world)
    cost = await world.cost(lambda: world.store.claims.resolve(Batch("c", stored_jobs(mine[:50]))), "find")
    is_by_id(cost, 50)


# -- holding and ending --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [Completed("same"), Retried(1.0, JobError("Error", "no"))])
async def test_ending_attempts_goes_by_the_ids_it_was_given(world: World, ending: Any) -> None:
    mine = [document for document in await running(world) if "cancel" not in document][:100]
    finishes = [Finish(document["_id"], 1, 1, WORKER, NOW, NOW, ending) for document in mine]
    costs = await world.costs(lambda: world.store.finishing.finish(finishes), "update")
    assert sum(cost.matched for cost in costs) == 100
    for cost in costs:
        is_by_id(cost, cost.matched)


async def test_renewing_goes_by_the_ids_it_was_given(world: World) -> None:
    mine = [document["_id"] for document in await running(world)]
    renewals = world.store.renewals()

    async def renew() -> None:
        assert renewals.renew(["c"], mine) == set()

    is_by_id(await world.cost(renew, "update"), RUNNING)


async def test_looking_for_cancellations_finds_those_and_reads_no_others(world: World) -> None:
    renewals = world.store.renewals()

    async def notice() -> None:
        assert len(renewals.cancellations(WORKER)) == ASKED

    is_tight(await world.cost(notice, "find"), ASKED)


# -- chores --------------------------------------------------------------------------------------------------------


async def test_rescuing_reads_only_what_is_lost(world: World) -> None:
    async def rescue() -> None:
        assert len(await world.store.rescues.rescue()) == LOST

    found, *rest = await world.costs(rescue, "find", "update")
    is_tight(found, LOST)
    for cost in rest:
        is_by_id(cost, 1)


async def test_expiring_reads_only_what_is_late(world: World) -> None:
    async def expire() -> None:
        assert len(await world.store.upkeep.expire()) == LATE

    found, *rest = await world.costs(expire, "find", "update")
    is_tight(found, LATE)
    for cost in rest:
        is_by_id(cost, cost.matched)


async def test_pruning_reads_only_what_is_old(world: World) -> None:
    share, since = Share("completed", age=86400.0), NOW - timedelta(days=30)
    is_tight(await world.cost(lambda: world.store.removal.read(share, None, NOW, 50), "find"), 50)
    is_tight(await world.cost(lambda: world.store.removal.read(share, since, NOW, 50), "find"), 50)
    by_count = Share("completed", count=70)
    found, *_ = await world.costs(lambda: world.store.removal.cut(by_count, Retention()), "find")
    assert (found.matched, found.keys, found.documents) == (1, 71, 0), found


async def test_adopting_and_releasing_read_only_what_they_change(world: World) -> None:
    is_tight(await world.cost(world.store.upkeep.adopt, "find"), 0)
    released = await world.cost(lambda: world.store.upkeep.release("handler", named("unknown")), "update")
    is_tight(released, WAITING_FOR)
    is_tight(await world.cost(lambda: world.store.upkeep.release("handler", named("work")), "update"), 0)
    fit = named("work") | {"data_v": {"$not": {"$gt": 2}}}
    is_tight(await world.cost(lambda: world.store.upkeep.release("version", fit), "update"), 0)


async def test_aging_reads_only_what_has_waited_long(world: World) -> None:
    found, moved = await world.costs(lambda: world.store.aging.age("default", 60.0, 50), "find", "update")
    is_tight(found, 50, spare=12)
    is_by_id(moved, 50)
    (found,) = await world.costs(lambda: world.store.aging.age("default", 3600.0, 50), "find", "update")
    is_tight(found, 0, spare=22)


@pytest.mark.parametrize("most", [50, 10_000])
async def test_counting_what_is_pending_reads_indexes_alone_and_no_more_than_it_is_told_to(
    world: World, most: int
) -> None:
    costs = await world.costs(lambda: world.store.jobs.count_pending("default", most), "aggregate")
    pending = await world.db["large"].count_documents({"queue": "default", "state": "pending"}, hint="_id_")
    assert pending > 1700
    assert sum(cost.keys for cost in costs) <= min(most, pending) + 4, costs
    assert all(cost.documents == 0 for cost in costs), costs


# -- looking -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["running", "completed", "failed", "cancelled", "expired"])
async def test_listing_a_state_reads_no_more_than_is_asked_for(world: World, state: str) -> None:
    async def list_some() -> None:
        async for _ in world.store.searching.find(Search(state=state), 40):
            pass

    is_tight(await world.cost(list_some, "find"), 40)


async def test_listing_pending_jobs_or_all_reads_no_more_than_is_asked_for(world: World) -> None:
    async def list_some(state: str | None) -> None:
        async for _ in world.store.searching.find(Search(state=state), 40):
            pass

    for state in ("pending", None):
        is_tight((await world.costs(lambda state=state: list_some(state), "find"))[0], 40)  # type: ignore[misc]


async def test_listing_the_jobs_of_a_schedule_reads_no_more_than_is_asked_for(world: World) -> None:
    async def list_some() -> None:
        async for _ in world.store.searching.find(Search(schedule_id="s1"), 40):
            pass

    is_tight(await world.cost(list_some, "find"), 40)


async def test_looking_for_the_latest_failures_reads_no_more_than_is_asked_for(world: World) -> None:
    for cost in await world.costs(lambda: world.store.recent_failures.latest(40, EVERYTHING), "find"):
        is_tight(cost, 40)


async def test_looking_for_failures_within_a_scope_reads_no_more_than_so_many(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "SCANNED", 100)
    await world.db["small"].insert_many(
        [job(n, "failed", finished_at=NOW, last_failure_at=NOW, token=1, tries=1, rev=2) for n in range(300)]
    )
    nobody = Scope(queues=("nobody",))
    costs = await world.costs(lambda: world.store.recent_failures.latest(40, nobody), "find")
    for ends, reads in (costs[:2], costs[2:]):
        assert ends.keys <= 103 and ends.documents == 0, ends
        assert "COLLSCAN" not in reads.stages and "SORT" not in reads.stages, reads


async def test_waiting_for_jobs_goes_by_their_ids(world: World) -> None:
    mine = [document["_id"] for document in await running(world)][:30]
    cost = await world.cost(lambda: world.store.jobs.finished_among(mine), "find")
    assert (cost.matched, cost.documents) == (0, 30) and cost.keys <= 61


# -- the indexes themselves ----------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_job_is_in_few_indexes_at_a_time(world: World) -> None:
    """Each index costs every write; a job is in that of its state only."""
    stats = await world.db.command({"collStats": "large"})
    assert len(stats["indexSizes"]) == len(JOB_INDEXES) + 1
    limited = LATE + FUTURE // 5
    sizes = {
        "lease": RUNNING,
        "cancel": ASKED,
        "waiting_for": WAITING_FOR,
        "inserted": 0,
        "start_by": limited,
        "schedule": FINISHED,
    }
    sizes["failures"] = FINISHED // 5
    for name, expected in sizes.items():
        entries = await world.db["large"].find({}, {"_id": 1}, hint=name).to_list(None)
        assert len(entries) == expected, name
