"""Collections: every operation has a deadline, whatever it is, and an outage leaves it as one error."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any

import pymongo
import pytest
from pymongo import _csot
from pymongo.errors import AutoReconnect

from mainspring.errors import Unavailable
from mainspring.store.collection import Collection, Session, deadline

TIMEOUT = 100.0
OPERATIONS: dict[str, Callable[[Collection], Awaitable[Any]]] = {
    "find_one": lambda jobs: jobs.find_one({}),
    "find_all": lambda jobs: jobs.find_all({}),
    "find_ids": lambda jobs: jobs.find_ids({}),
    "find_dict": lambda jobs: jobs.find_dict({}),
    "find_batches": lambda jobs: anext(jobs.find_batches({}, 10)),
    "aggregate": lambda jobs: jobs.aggregate([], hint="_id_"),
    "distinct": lambda jobs: jobs.distinct("name", {}),
    "count": lambda jobs: jobs.count({}, hint="_id_", limit=1),
    "insert_one": lambda jobs: jobs.insert_one({}),
    "insert_many": lambda jobs: jobs.insert_many([{}]),
    "update_one": lambda jobs: jobs.update_one({}, {}),
    "update_many": lambda jobs: jobs.update_many({}, {}, hint="_id_"),
    "replace_one": lambda jobs: jobs.replace_one({}, {}),
    "delete_one": lambda jobs: jobs.delete_one({}),
    "delete_many": lambda jobs: jobs.delete_many({}),
    "delete_some": lambda jobs: jobs.delete_some({}, hint="_id_", limit=1),
    "find_one_and_update": lambda jobs: jobs.find_one_and_update({}, {}),
    "find_one_and_delete": lambda jobs: jobs.find_one_and_delete({}),
    "bulk_write": lambda jobs: jobs.bulk_write([]),
}


class Away:
    """A driver's collection, and its cursors, of a server that is away. It notes the deadlines of what is asked."""

    name, full_name = "jobs", "test.jobs"

    def __init__(self) -> None:
        self.deadlines: list[float] = []

    def find(self, *args: Any, **options: Any) -> Away:
        return self

    async def __aenter__(self) -> Away:
        return self

    async def __aexit__(self, *error: object) -> None: ...

    def __getattr__(self, operation: str) -> Callable[..., Awaitable[Any]]:
        async def ask(*args: Any, **options: Any) -> Any:
            self.deadlines.append(_csot.get_deadline())
            raise AutoReconnect("connection refused")

        return ask


def bounded(session: Session) -> AbstractContextManager[None]:
    return deadline(TIMEOUT) if session is None else pymongo.timeout(TIMEOUT)


@pytest.fixture
def away() -> Away:
    return Away()


@pytest.fixture
def jobs(away: Away) -> Collection:
    return Collection(away, bounded)  # type: ignore[arg-type]


def test_every_operation_is_tried_here() -> None:
    operations = {
        name
        for name, function in inspect.getmembers(Collection, inspect.isfunction)
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    }
    assert operations == OPERATIONS.keys()


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_an_outage_leaves_every_operation_as_unavailable(jobs: Collection, operation: str) -> None:
    with pytest.raises(Unavailable, match="connection refused"):
        await OPERATIONS[operation](jobs)


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_every_operation_has_a_deadline(jobs: Collection, away: Away, operation: str) -> None:
    with pytest.raises(Unavailable):
        await OPERATIONS[operation](jobs)
    assert away.deadlines and max(away.deadlines) < float("inf")


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_no_operation_extends_the_deadline_around_it(jobs: Collection, away: Away, operation: str) -> None:
    with pytest.raises(Unavailable), deadline(TIMEOUT / 10):
        shared = _csot.get_deadline()
        await OPERATIONS[operation](jobs)
    assert set(away.deadlines) == {shared}


async def test_in_a_transaction_the_errors_of_the_driver_are_raised_as_they_are(jobs: Collection, away: Away) -> None:
    with pytest.raises(AutoReconnect):
        await jobs.update_one({}, {}, session=object())  # type: ignore[arg-type]
    assert max(away.deadlines) < float("inf")
