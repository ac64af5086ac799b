"""Many jobs at once: what was claimed ahead of its slot, and ends that are written in company."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from harness.inside import documents_of
from mainspring.clock import ManualClock
from mainspring.config.settings import Settings
from mainspring.model.jobs.draft import make_draft
from mainspring.model.jobs.outcome import Completed
from mainspring.store import Store
from mainspring.store.connection import Connection, Document
from mainspring.store.jobs.end_fields import Finish

LEASE = 60.0

UNSTOPPED = """
import asyncio
from mainspring import Scheduler

scheduler = Scheduler({uri!r})

@scheduler.job("long")
async def long() -> None:
    await asyncio.sleep(60)

async def main() -> None:
    await scheduler.start()
    await scheduler.schedule("long")
    await asyncio.sleep(0.5)

asyncio.run(main())
"""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(uri: str, clock: ManualClock) -> AsyncIterator[Store]:
    connection = await Connection.open(Settings(lease=LEASE), clock, uri=uri)
    yield Store(connection)
    await connection.close()


async def claimed(store: Store, count: int, free: int | None = None) -> list[Document]:
    for _ in range(count):
        await store.inserts.insert(make_draft("x", None))
    candidates = await store.claims.candidates("default", count)
    return documents_of(await store.claims.claim(candidates, "A", LEASE, lambda job: 1, free))


async def test_what_was_claimed_ahead_loses_no_attempt_with_its_worker(store: Store, clock: ManualClock) -> None:
    started, ahead = await claimed(store, 2, free=1)
    clock.advance(2 * LEASE)
    await store.rescues.rescue()
    after = await store.jobs.get(started["_id"])
    assert (after["state"], after["tries"], after["error"]["type"]) == ("failed", 1, "WorkerLost")
    after = await store.jobs.get(ahead["_id"])
    assert (after["state"], after["tries"], after["suspect"], after.get("attempts")) == ("pending", 0, "ahead", None)


async def test_what_was_claimed_ahead_and_then_started_counts(store: Store, clock: ManualClock) -> None:
    (job,) = await claimed(store, 1, free=0)
    await asyncio.to_thread(store.renewals().started, [job["_id"]], [job["claim"]])
    clock.advance(2 * LEASE)
    await store.rescues.rescue()
    after = await store.jobs.get(job["_id"])
    assert (after["state"], [entry["outcome"] for entry in after["attempts"]]) == ("failed", ["lost"])


async def test_ends_with_results_of_their_own_are_each_kept_in_company(store: Store, clock: ManualClock) -> None:
    jobs = await claimed(store, 40)
    now = clock.now()
    finishes = [
        Finish(job["_id"], 1, 1, "A", now + timedelta(seconds=n), now + timedelta(seconds=2 * n), Completed({"n": n}))
        for n, job in enumerate(jobs)
    ]
    assert all(isinstance(ending, Completed) for ending in await store.finishing.finish(finishes))
    for finish in finishes:
        document = await store.jobs.get(finish.id)
        (entry,) = document["attempts"]
        assert isinstance(finish.ending, Completed)
        assert (document["state"], document["result"]) == ("completed", finish.ending.result)
        assert (entry["started_at"], entry["ended_at"]) == (finish.started_at, finish.ended_at)
        assert "own" not in document


@pytest.mark.slow
def test_a_program_that_ends_without_stopping_does_end(uri: str) -> None:
    program = UNSTOPPED.format(uri=uri)
    ended = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
