"""Locks and turns whose documents are gone are made anew: nothing that only they let happen stops for good."""

from __future__ import annotations

import pytest

from harness.inside import inside
from harness.looking import Database
from mainspring import Scheduler
from mainspring.store import locks


@pytest.fixture
def no_belief(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if each look were long after the one before."""
    monkeypatch.setattr(locks, "BELIEVED", 0.0)


@pytest.mark.usefixtures("no_belief")
async def test_a_lock_whose_document_is_gone_can_be_taken(scheduler: Scheduler, db: Database) -> None:
    workers = (await inside(scheduler).store()).workers
    assert await workers.lock("chores", "w1", 60)
    await db["jobs.locks"].delete_many({"_id": "chores"})
    assert await workers.lock("chores", "w2", 60)
    assert not await workers.lock("chores", "w1", 60)


@pytest.mark.usefixtures("no_belief")
async def test_the_lock_of_a_queue_whose_document_is_gone_can_be_taken(scheduler: Scheduler, db: Database) -> None:
    claims = (await inside(scheduler).store()).claims
    assert await claims.lock_head("default", "w1", 60)
    await db["jobs.locks"].delete_many({"_id": "head:default"})
    assert await claims.lock_head("default", "w2", 60)
    assert not await claims.lock_head("default", "w1", 60)
