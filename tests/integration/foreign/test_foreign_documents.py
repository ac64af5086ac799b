"""Documents in the jobs collection that are no jobs: left as they are, out of the way, and reported."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harness.explaining import explain
from harness.inside import inside
from harness.looking import Database
from harness.pruning import prune
from mainspring import Scheduler
from mainspring.engine.chores.jobs.report_foreign import ReportForeign
from mainspring.engine.worker import Worker
from mainspring.store.foreign.foreign import RAW_JOBS
from mainspring.store.schema import RAW

Document = dict[str, Any]

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)

FOREIGN: list[tuple[Document, str]] = [
    ({"_id": "other schema", "job_name": "Job_1", "status": "pending", "payload": {}}, "it has no name"),
    ({"_id": "no name", "state": "pending", "ready": True, "queue": "default"}, "it has no name"),
    ({"_id": "null name", "name": None, "state": "pending"}, "it has no name"),
    ({"_id": "failed elsewhere", "state": "failed", "finished_at": LONG_AGO}, "it has no name"),
    ({"_id": "done elsewhere", "state": "completed", "finished_at": LONG_AGO}, "it has no name"),
    ({"_id": "running elsewhere", "state": "running", "lease_until": LONG_AGO}, "it has no name"),
    ({"_id": "a customer", "name": "Bob", "state": "Ohio"}, "its state 'Ohio' is none of Mainspring's"),
    ({"_id": "odd state", "name": "tell", "state": {"a": 1}}, "its state {'a': 1} is none of Mainspring's"),
    (
        {"_id": "agenda", "name": "tell", "data": {}, "type": "normal", "nextRunAt": LONG_AGO},
        "it has no state, and fields that are not Mainspring's: nextRunAt, type",
    ),
]


@pytest.fixture
async def worker(scheduler: Scheduler) -> Scheduler:
    @scheduler.job("tell")
    async def tell() -> str:
        return "told"

    await scheduler.start()
    return scheduler


@pytest.mark.slow
async def test_documents_of_other_programs_are_left_as_they_are_and_nothing_is_made_a_dead_letter(
    worker: Scheduler, db: Database
) -> None:
    documents = [document for document, _ in FOREIGN]
    await db.jobs.insert_many([dict(document) for document in documents])
    store = inside(worker).open_store
    assert await store.upkeep.adopt() == (0, [])
    await store.rescues.rescue()
    job = await worker.schedule("tell")
    assert (await worker.wait(job.id, timeout=60)).result == "told"
    kept = {document["_id"]: document async for document in db.jobs.find({"v": None}, hint=RAW)}
    assert kept == {document["_id"]: document for document in documents}


async def test_retention_deletes_no_document_of_another_program(scheduler: Scheduler, db: Database) -> None:
    await scheduler.connect()
    await db.jobs.insert_many([dict(document) for document, _ in FOREIGN])
    ours = {"name": "tell", "v": 1, "rev": 0, "state": "completed", "finished_at": LONG_AGO}
    await db.jobs.insert_one(ours)
    assert await prune(scheduler, keep_finished=60.0, keep_failed=60.0) == 1


async def test_a_thousand_foreign_documents_keep_no_job_from_being_adopted(worker: Scheduler, db: Database) -> None:
    await db.jobs.insert_many([{"job_name": f"Job_{n}", "status": "pending"} for n in range(600)])
    await db.jobs.insert_many([{"name": "tell", "nextRunAt": LONG_AGO} for _ in range(600)])
    identity = (await db.jobs.insert_one({"name": "tell", "state": "pending"})).inserted_id
    assert (await worker.wait(str(identity), timeout=60)).state == "completed"


async def test_looking_for_raw_inserts_does_not_read_documents_without_a_name(
    scheduler: Scheduler, db: Database
) -> None:
    await scheduler.connect()
    await db.jobs.insert_many([{"job_name": f"Job_{n}", "status": "pending", "state": "pending"} for n in range(500)])
    (cost,) = await explain(db, {"find": "jobs", "filter": RAW_JOBS, "hint": RAW, "limit": 500}, "jobs")
    assert cost.documents <= 1 and cost.keys <= 20


async def test_foreign_documents_are_told_with_their_number_and_the_reason_of_each(
    worker: Scheduler, db: Database
) -> None:
    assert (await worker.monitor.foreign_documents()).count == 0
    await db.jobs.insert_many([dict(document) for document, _ in FOREIGN])
    found = await worker.monitor.foreign_documents()
    assert (found.count, found.more) == (len(FOREIGN), False)
    assert {one.id: one.reason for one in found.samples} == {document["_id"]: why for document, why in FOREIGN}
    assert len((await worker.monitor.foreign_documents(limit=2)).samples) == 2
    await db.jobs.insert_many([{"job_name": "x"} for _ in range(1000)])
    found = await worker.monitor.foreign_documents()
    assert (found.count, found.more) == (1000, True)


async def test_the_log_tells_of_foreign_documents_once_and_not_with_every_look(
    worker: Scheduler, db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    await db.jobs.insert_one({"_id": "theirs", "name": "Bob", "state": "CANARY-VALUE"})
    running = inside(worker).worker
    assert isinstance(running, Worker)
    (chore,) = [chore for chore in running.chores if isinstance(chore, ReportForeign)]
    with caplog.at_level(logging.WARNING, "mainspring"):
        await chore.run_once()
        await chore.run_once()
        await db.jobs.insert_one({"job_name": "Job_2"})
        await chore.run_once()
    lines = [record.getMessage() for record in caplog.records if "left alone" in record.getMessage()]
    assert len(lines) == 1
    assert "such as 'theirs'" in lines[0] and "CANARY" not in lines[0]


async def test_a_pass_over_many_foreign_documents_makes_the_next_one_come_later(
    worker: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mainspring.engine.chores.jobs import adopt_raw_inserts

    running = inside(worker).worker
    assert isinstance(running, Worker)
    (chore,) = [chore for chore in running.chores if isinstance(chore, adopt_raw_inserts.AdoptRawInserts)]
    monkeypatch.setattr(chore, "_took", 2.0)
    assert timedelta(seconds=chore.every) >= timedelta(seconds=100)
