"""A job that the server refuses to change, at a limit or in a sequence: the jobs beside it and behind it run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from harness.inside import inside
from harness.looking import Database
from harness.refusing import refusing
from mainspring import Job, Limit, Scheduler
from mainspring.store import Store
from mainspring.store.codec import document_id

Make = Callable[..., Scheduler]
GATE = "c:name:work"


async def scheduled(scheduler: Scheduler, number: int) -> list[Job]:
    return await scheduler.schedule_bulk([{"name": "work", "data": {"number": one}} for one in range(number)])


async def states_of(scheduler: Scheduler, jobs: Sequence[Job]) -> set[str]:
    return {(await scheduler.wait(job.id, timeout=60)).state for job in jobs}


@pytest.fixture
def limited(make_scheduler: Make) -> Scheduler:
    """A scheduler whose jobs run one at a time."""
    scheduler = make_scheduler(concurrency=5)

    @scheduler.job("work", concurrency=Limit(1))
    async def work(number: int) -> int:
        return number

    return scheduler


@pytest.fixture
async def store(limited: Scheduler) -> Store:
    return await inside(limited).store()


async def test_a_job_that_cannot_be_put_on_a_wait_list_stops_no_other_job_of_its_queue(
    make_scheduler: Make, limited: Scheduler, db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    first, bad, *others = await scheduled(make_scheduler(), 6)
    async with refusing(db, "jobs", {"_id": document_id(bad.id)}):
        await limited.start()
        assert await states_of(limited, [first, *others]) == {"completed"}
        assert (await limited.get_job(bad.id)).state == "pending"
    assert f"Job {bad.id} cannot be claimed: MongoDB refuses to change it" in caplog.text


async def test_a_job_whose_waiting_alone_is_refused_fails_with_the_reason(
    make_scheduler: Make, limited: Scheduler, db: Database
) -> None:
    first, bad, *others = await scheduled(make_scheduler(), 4)
    async with refusing(db, "jobs", {"_id": document_id(bad.id), "line": {"$exists": True}}):
        await limited.start()
        assert await states_of(limited, [first, *others]) == {"completed"}
        failed = await limited.wait(bad.id, timeout=60)
    assert failed.error is not None and failed.error.type == "ClaimRefused"


async def test_a_job_that_cannot_be_claimed_from_a_wait_list_stops_no_other_job_on_it(
    make_scheduler: Make, limited: Scheduler, store: Store, db: Database
) -> None:
    bad, *others = await scheduled(make_scheduler(), 4)
    ids = [document_id(job.id) for job in (bad, *others)]
    await store.gates.add_to_wait_lists({GATE: ids}, {GATE: "full"}, {})
    async with refusing(db, "jobs", {"_id": ids[0]}):
        await limited.start()
        assert await states_of(limited, others) == {"completed"}
        assert (await limited.get_job(bad.id)).state == "pending"


async def test_a_job_that_cannot_leave_a_wait_list_keeps_no_other_job_on_it(
    make_scheduler: Make, store: Store, db: Database
) -> None:
    ids = [document_id(job.id) for job in await scheduled(make_scheduler(), 4)]
    await store.gates.add_to_wait_lists({GATE: ids}, {GATE: "full"}, {})
    async with refusing(db, "jobs", {"_id": ids[1]}):
        await store.gates.dissolve(GATE)
        ready = [job["_id"] async for job in db.jobs.find({"ready": True}, {"_id": 1}, hint="_id_")]
        assert ready == [ids[0], *ids[2:]]
        assert [job.id for job in await store.gates.heads(GATE, None, 5, {"line": 1})] == []


async def test_a_job_that_cannot_move_to_another_wait_list_keeps_no_other_job_from_it(
    make_scheduler: Make, store: Store, db: Database
) -> None:
    ids = [document_id(job.id) for job in await scheduled(make_scheduler(), 3)]
    await store.gates.add_to_wait_lists({GATE: ids}, {GATE: "full"}, {})
    async with refusing(db, "jobs", {"_id": ids[0]}):
        assert await store.gates.move_waiting(GATE, "p:name:work", "paused", ids) == 2


async def test_a_job_that_cannot_join_its_sequence_stops_no_other_sequence(make_scheduler: Make, db: Database) -> None:
    scheduler = make_scheduler(concurrency=5)

    @scheduler.job("work", sequence="number")
    async def work(number: int) -> int:
        return number

    bad, *others = await scheduled(make_scheduler(), 4)
    async with refusing(db, "jobs", {"_id": document_id(bad.id)}):
        await scheduler.start()
        assert await states_of(scheduler, others) == {"completed"}
