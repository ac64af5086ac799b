"""Group commit: items submitted while a write is in flight go out together in the next one."""

from __future__ import annotations

import asyncio

import pytest

from mainspring.errors import Unavailable
from mainspring.store.group_commit import GroupCommit


class Ferry:
    """Takes numbers across, as it is let; those above a hundred are refused, and a zero sinks it."""

    def __init__(self, max_batch: int = 10) -> None:
        self.trips: list[list[int]] = []
        self.go = asyncio.Event()
        self.group = GroupCommit(self._cross, max_batch)

    async def _cross(self, numbers: list[int]) -> list[str | Exception]:
        self.trips.append(numbers)
        await self.go.wait()
        if 0 in numbers:
            raise OSError("sunk")
        return [ValueError(number) if number > 100 else str(number) for number in numbers]

    async def take(self, *numbers: int) -> list[str | BaseException]:
        waiting = [asyncio.create_task(self.group.submit(number)) for number in numbers]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.go.set()
        return await asyncio.gather(*waiting, return_exceptions=True)


async def test_items_submitted_while_a_write_is_in_flight_go_out_with_the_next() -> None:
    ferry = Ferry()
    first = asyncio.create_task(ferry.group.submit(1))
    while not ferry.trips:
        await asyncio.sleep(0)
    assert await ferry.take(2, 3, 4) == ["2", "3", "4"]
    assert await first == "1"
    assert ferry.trips == [[1], [2, 3, 4]]


async def test_no_more_go_at_once_than_may() -> None:
    ferry = Ferry(max_batch=2)
    assert await ferry.take(1, 2, 3, 4, 5) == ["1", "2", "3", "4", "5"]
    assert max(map(len, ferry.trips)) == 2


async def test_an_error_of_one_item_is_its_own_and_an_error_of_the_write_is_that_of_all() -> None:
    one, two, three = await Ferry().take(1, 101, 3)
    assert (one, three) == ("1", "3")
    assert isinstance(two, ValueError)
    assert all(isinstance(outcome, OSError) for outcome in await Ferry().take(5, 0, 6))


async def test_it_goes_on_after_an_error() -> None:
    ferry = Ferry()
    await ferry.take(0)
    assert await ferry.take(7) == ["7"]


async def test_whoever_is_cancelled_keeps_nobody_else_from_it() -> None:
    ferry = Ferry()
    gone, stays = (asyncio.create_task(ferry.group.submit(number)) for number in (1, 2))
    while not ferry.trips:
        await asyncio.sleep(0)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    ferry.go.set()
    assert await stays == "2"


async def test_where_the_write_itself_is_cancelled_those_who_wait_are_told_and_the_next_are_served() -> None:
    calls: list[list[int]] = []

    async def act(numbers: list[int]) -> list[int]:
        calls.append(numbers)
        if len(calls) == 1:
            raise asyncio.CancelledError  # as a driver does that gives up waiting for a connection
        return numbers

    group = GroupCommit(act, 10)
    for outcome in await asyncio.gather(*(group.submit(number) for number in (1, 2)), return_exceptions=True):
        assert isinstance(outcome, Unavailable)
    assert await group.submit(3) == 3


async def test_no_task_waits_for_ever_when_everything_is_cancelled() -> None:
    ferry = Ferry(max_batch=1)
    waiting = [asyncio.create_task(ferry.group.submit(number)) for number in (1, 2)]
    while not ferry.trips:
        await asyncio.sleep(0)
    assert ferry.group._sender is not None
    ferry.group._sender.cancel()
    assert [type(one) for one in await asyncio.gather(*waiting, return_exceptions=True)] == [asyncio.CancelledError] * 2
