"""What operations cost: with many jobs stored, neither a preview nor a step examines more than so many keys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from harness.inside import inside
from harness.looking import Database
from harness.operating import NOW, fill, job
from harness.profiling import Spent, profiled
from mainspring import Operation, Scheduler
from mainspring.engine.services.operating import carry_on, is_under_way
from mainspring.model.views.search import JobFilter
from mainspring.store.operations.operations import SCANNED
from mainspring.store.operations.orders import BATCH
from mainspring.store.views.counts import EXAMINED

# Whether an index has ever held an array stays with it, and changes what it costs to read.
pytestmark = pytest.mark.fresh_database

STORED = 20_000
# Finding the end of a page, the page itself, and the statements by id: the batch taken in, changed and read back.
OF_A_STEP = 2 * SCANNED + 6 * BATCH
OF_A_PREVIEW = EXAMINED + 100


def many() -> list[dict[str, Any]]:
    """Half of the jobs are pending, half are failed; one in a hundred is of the name that is asked for."""
    documents = []
    for number in range(STORED):
        state = "pending" if number % 2 else "failed"
        later = {"run_at": NOW + timedelta(days=36500, seconds=number), "priority": number % 10 + 1}
        documents.append(job(state, number, name="rare" if number % 200 < 2 else "work", **later))
    return documents


@pytest.fixture
async def full(scheduler: Scheduler, db: Database) -> Scheduler:
    await fill(scheduler, db, *many())
    return scheduler


FILTERS: list[tuple[Any, JobFilter, int]] = [
    ("retry", {"state": "failed"}, STORED // 2),
    ("retry", {"state": "failed", "name": "rare"}, STORED // 200),
    ("cancel", {"state": "pending", "name": "rare"}, STORED // 200),
    ("run", {"queue": "default", "data": {"number": 1001}}, 1),
    ("delete", {"name": "rare"}, STORED // 100),
]


@pytest.mark.parametrize(("verb", "filter", "expected"), FILTERS, ids=lambda one: str(one)[:40])
@pytest.mark.slow
async def test_neither_a_preview_nor_a_step_examines_more_than_so_many_keys(
    full: Scheduler, db: Database, verb: Any, filter: JobFilter, expected: int
) -> None:
    async with profiled(db) as spent:
        preview = await full.operations.preview(verb, filter)
    assert 0 < spent.keys <= OF_A_PREVIEW and spent.documents <= OF_A_PREVIEW and not spent.scans
    assert preview.count == expected or (preview.capped and preview.count < expected)
    operation = await full.operations.create(verb, filter, reason="a test", start_after=0)
    steps = [one async for one in stepping(full, db, operation)]
    assert max(one.keys for one in steps) <= OF_A_STEP and max(one.documents for one in steps) <= OF_A_STEP
    assert not any(one.scans for one in steps)
    done = await operation.refresh()
    assert (done.state, done.progress.changed) == ("completed", expected)


async def stepping(scheduler: Scheduler, db: Database, operation: Operation) -> AsyncIterator[Spent]:
    """What each step of an operation examines."""
    store, archive = inside(scheduler).open_store, inside(scheduler).archive
    document = await store.operations.get(operation.id)
    while is_under_way(document):
        async with profiled(db) as spent:
            document = await carry_on(store, archive, document)
        yield spent


@pytest.mark.slow
async def test_looking_for_operations_reads_an_empty_index_while_there_are_none_under_way(
    full: Scheduler, db: Database
) -> None:
    for number in range(20):
        made = await full.operations.create("cancel", {"name": "none"}, reason=f"number {number}")
        await made.cancel()
    async with profiled(db) as spent:
        assert await inside(full).open_store.operations.next_start() is None
    assert (spent.keys, spent.documents, spent.scans) == (0, 0, 0)
