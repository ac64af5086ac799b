"""The latest failures, whatever has become of their jobs, and when each attempt was due.

The store's verbs on a real server, with a clock that is moved by hand.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest

from harness.inside import documents_of
from mainspring import ConfigurationError, Scheduler
from mainspring.clock import ManualClock
from mainspring.config.settings import Settings
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.jobs.draft import make_draft
from mainspring.model.jobs.job import JobError
from mainspring.model.jobs.outcome import Cancelled, Completed, Failed, Outcome, Retried, Snoozed
from mainspring.store import Store
from mainspring.store.codec import decode_job
from mainspring.store.connection import Connection, Document
from mainspring.store.jobs.end_fields import Finish
from mainspring.store.views import search

LEASE = 60.0
ERROR = JobError("ValueError", "no")
RETRIED, FAILED = Retried(10.0, ERROR), Failed(ERROR)


@pytest.fixture
async def store(uri: str, clock: ManualClock) -> AsyncIterator[Store]:
    connection = await Connection.open(Settings(lease=LEASE), clock, uri=uri)
    yield Store(connection)
    await connection.close()


class Life:
    """One job, led from attempt to attempt."""

    def __init__(self, store: Store, clock: ManualClock, document: Document) -> None:
        self._store = store
        self._clock = clock
        self.id: Any = document["_id"]

    @classmethod
    async def begin(cls, store: Store, clock: ManualClock, name: str = "work", queue: str = "default") -> Life:
        document, _ = await store.inserts.insert(make_draft(name, None, queue=queue))
        return cls(store, clock, document)

    async def claim(self) -> Document:
        candidates = await self._store.claims.candidates((await self.document())["queue"], 1000)
        mine = [job for job in candidates if job.id == self.id]
        (held,) = documents_of(await self._store.claims.claim(mine, "w", LEASE, lambda document: 3))
        return held

    async def attempt(self, ending: Outcome) -> datetime:
        """An attempt that takes a second; returns when it ended."""
        held, started = await self.claim(), self._clock.now()
        self._clock.advance(1)
        finish = Finish(self.id, held["token"], held["tries"], "w", started, self._clock.now(), ending)
        assert await self._store.finishing.finish([finish]) == [ending]
        return self._clock.now()

    async def document(self) -> Document:
        return await self._store.jobs.get(self.id)

    async def due(self) -> list[datetime | None]:
        """When each attempt was due, as far as its record tells."""
        return [attempt.run_at for attempt in decode_job(await self.document()).attempts]


async def latest(store: Store, limit: int = 20, scope: Scope = EVERYTHING) -> list[Any]:
    return [document["_id"] for document in await store.recent_failures.latest(limit, scope)]


# -- the latest failures -----------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_failures_are_told_whatever_becomes_of_their_jobs_the_latest_first(
    store: Store, clock: ManualClock
) -> None:
    tried, mended, dead, good = [await Life.begin(store, clock) for _ in range(4)]
    await tried.attempt(RETRIED)
    await mended.attempt(RETRIED)
    await dead.attempt(FAILED)
    await good.attempt(Completed("fine"))
    assert await latest(store) == [dead.id, mended.id, tried.id]
    clock.advance(10)
    await mended.attempt(Completed("at last"))
    await tried.attempt(RETRIED)
    assert await latest(store) == [tried.id, dead.id, mended.id]
    assert await latest(store, limit=1) == [tried.id]
    assert "last_failure_at" not in await good.document()


async def test_a_job_that_was_retried_and_then_failed_for_good_is_told_once_by_its_end(
    store: Store, clock: ManualClock
) -> None:
    dead, other = [await Life.begin(store, clock) for _ in range(2)]
    await dead.attempt(RETRIED)
    await other.attempt(RETRIED)
    clock.advance(10)
    await dead.attempt(FAILED)
    assert await latest(store) == [dead.id, other.id]


async def test_an_attempt_whose_worker_died_is_a_failure(store: Store, clock: ManualClock) -> None:
    lost = await Life.begin(store, clock)
    await lost.claim()
    clock.advance(LEASE + 5)
    assert len(await store.rescues.rescue()) == 1
    assert (await lost.document())["state"] == "pending"
    assert await latest(store) == [lost.id]


async def test_a_dead_letter_that_is_run_again_by_hand_is_still_told(store: Store, clock: ManualClock) -> None:
    dead, done = [await Life.begin(store, clock) for _ in range(2)]
    await dead.attempt(FAILED)
    await done.attempt(Completed("fine"))
    for one in (dead, done):
        await store.jobs.retry(one.id)
    assert await latest(store) == [dead.id]
    await dead.attempt(Completed("at last"))
    assert await latest(store) == [dead.id]


async def test_a_snooze_and_a_cancellation_are_no_failures(store: Store, clock: ManualClock) -> None:
    for ending in (Snoozed(1.0), Cancelled("no more")):
        await (await Life.begin(store, clock)).attempt(ending)
    assert await latest(store) == []


async def test_of_a_scope_only_its_own_are_told_and_no_more_than_so_many_looked_at(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "SCANNED", 12)
    mine = await Life.begin(store, clock, "acme.send", "acme")
    await mine.attempt(RETRIED)
    scopes = (Scope(queues=("acme",)), Scope(prefixes=("acme.",)), Scope(("acme",), ("acme.",)))
    for _ in range(5):
        await (await Life.begin(store, clock)).attempt(RETRIED)
    for scope in scopes:
        assert await latest(store, scope=scope) == [mine.id]
    assert await latest(store, scope=Scope(("acme",), ("other.",))) == []
    await (await Life.begin(store, clock)).attempt(RETRIED)
    for scope in scopes:
        assert await latest(store, scope=scope) == []


async def test_the_scheduler_tells_failures_and_refuses_too_many(scheduler: Scheduler) -> None:
    assert await scheduler.monitor.failures() == []
    with pytest.raises(ConfigurationError, match="limit must be"):
        await scheduler.monitor.failures(201)


# -- when each attempt was due -----------------------------------------------------------------------------------------


async def test_an_attempt_notes_when_it_was_due_where_another_moves_that_on(store: Store, clock: ManualClock) -> None:
    life = await Life.begin(store, clock)
    first = (await life.document())["run_at"]
    await life.attempt(RETRIED)
    second = (await life.document())["run_at"]
    assert second > first and await life.due() == [first]
    clock.advance(10)
    await life.attempt(Completed("fine"))
    assert await life.due() == [first, None]
    assert (await life.document())["run_at"] == second


async def test_a_new_round_by_hand_leaves_what_the_last_one_was_due_at(store: Store, clock: ManualClock) -> None:
    life = await Life.begin(store, clock)
    first = (await life.document())["run_at"]
    await life.attempt(FAILED)
    await store.jobs.retry(life.id)
    second = (await life.document())["run_at"]
    assert second > first and await life.due() == [first]
    await store.jobs.cancel(life.id, "")
    clock.advance(5)
    await store.jobs.retry(life.id)
    assert await life.due() == [first], "the round that was not begun was not this attempt's"


async def test_an_attempt_whose_worker_died_notes_when_it_was_due(store: Store, clock: ManualClock) -> None:
    life = await Life.begin(store, clock)
    first = (await life.document())["run_at"]
    await life.claim()
    clock.advance(LEASE + 5)
    await store.rescues.rescue()
    await life.attempt(RETRIED)
    assert await life.due() == [first, first]
    assert (await life.document())["run_at"] > first


async def test_whatever_another_program_wrote_as_attempts_a_job_can_be_run_again(
    store: Store, clock: ManualClock
) -> None:
    for attempts in ([1, {}], "none", None):
        life = await Life.begin(store, clock)
        await life.attempt(FAILED)
        await store.connection.jobs.update_one({"_id": life.id}, {"$set": {"attempts": attempts}})
        await store.jobs.retry(life.id)
        assert (await life.document())["attempts"] == attempts
