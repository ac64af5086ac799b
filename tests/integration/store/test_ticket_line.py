"""Lines in which processes take turns: first come, first served, and a process that is gone is passed over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import pytest

from harness.inside import inside
from harness.looking import Database
from harness.waiting import eventually
from mainspring import Scheduler
from mainspring.store.access import ticket_line
from mainspring.store.access.ticket_line import TicketLine

NEVER = float("inf")
LONGEST = ticket_line._LONGEST


class Line(TicketLine):
    """A line that counts how often it is looked at."""

    looks = 0

    async def _read_done(self, number: int) -> int:
        self.looks += 1
        return await super()._read_done(number)

    async def is_waiting(self, task: asyncio.Task[None]) -> bool:
        """Whether a task that waits in this line alone is still waiting, after it has looked twice from now on."""
        enough = self.looks + 3  # a look that is under way may have begun before
        await eventually(lambda: task.done() or self.looks >= enough)
        return not task.done()


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of the clock that turns are measured with; it stands still until it is moved."""
    seconds = [100.0]
    monkeypatch.setattr(ticket_line, "clocks", SimpleNamespace(monotonic=lambda: seconds[0]))
    return seconds


@pytest.fixture
async def lines(make_scheduler: Callable[..., Scheduler], now: list[float]) -> list[Line]:
    """One line, seen by four processes."""
    patient = [make_scheduler(operation_timeout=300) for _ in range(4)]
    return [Line((await inside(one).store()).connection, "line") for one in patient]


async def test_the_numbers_in_a_line_are_given_once_and_in_order(lines: list[Line]) -> None:
    numbers = await asyncio.gather(*(line.join() for line in lines * 5))
    assert sorted(numbers) == list(range(1, 21))
    assert await lines[0].join() == 21


async def test_the_first_in_a_line_does_not_wait(lines: list[Line]) -> None:
    await lines[0].wait(await lines[0].join(), NEVER)
    assert lines[0].looks == 1


async def test_the_second_in_a_line_waits_until_the_turn_of_the_first_is_over(lines: list[Line]) -> None:
    first, second = await lines[0].join(), await lines[1].join()
    await lines[0].wait(first, NEVER)
    waiting = asyncio.create_task(lines[1].wait(second, NEVER))
    assert await lines[1].is_waiting(waiting)
    await lines[0].end(first)
    await waiting


async def test_turns_are_taken_in_the_order_in_which_processes_came(lines: list[Line]) -> None:
    numbers = [await line.join() for line in lines]
    taken: list[int] = []
    over = [asyncio.Event() for _ in lines]

    async def take(place: int) -> None:
        await lines[place].wait(numbers[place], NEVER)
        taken.append(numbers[place])
        await over[place].wait()
        await lines[place].end(numbers[place])

    tasks = {place: asyncio.create_task(take(place)) for place in reversed(range(len(lines)))}
    for place, number in enumerate(numbers):
        await eventually(partial(taken.count, number))
        for later in range(place + 1, len(lines)):
            assert await lines[later].is_waiting(tasks[later])
        assert taken == numbers[: place + 1]
        over[place].set()
    await asyncio.gather(*tasks.values())


async def test_a_process_that_is_gone_is_passed_over_after_the_longest_turn(
    lines: list[Line], now: list[float], db: Database
) -> None:
    gone, number = await lines[0].join(), await lines[1].join()
    waiting = asyncio.create_task(lines[1].wait(number, NEVER))
    assert await lines[1].is_waiting(waiting)
    now[0] += LONGEST
    assert await lines[1].is_waiting(waiting)
    now[0] += 0.001
    await waiting
    line = await db["jobs.locks"].find_one({"_id": "line"})
    assert line is not None and line["done"] == gone


async def test_each_process_before_one_may_have_a_turn_of_the_longest_time(
    lines: list[Line], now: list[float], db: Database
) -> None:
    for gone in lines[:2]:
        await gone.join()
    waiting = asyncio.create_task(lines[2].wait(await lines[2].join(), NEVER))
    assert await lines[2].is_waiting(waiting)
    now[0] += LONGEST + 0.001
    assert await lines[2].is_waiting(waiting)
    line = await db["jobs.locks"].find_one({"_id": "line"})
    assert line is not None and line["done"] == 1
    now[0] += LONGEST + 0.001
    await waiting


async def test_a_process_waits_no_longer_than_its_time_and_leaves_the_line_as_it_is(
    lines: list[Line], now: list[float], db: Database
) -> None:
    await lines[0].join()
    waiting = asyncio.create_task(lines[1].wait(await lines[1].join(), until=now[0] + LONGEST / 2))
    now[0] += LONGEST / 2
    assert await lines[1].is_waiting(waiting)
    now[0] += 0.001
    await waiting
    line = await db["jobs.locks"].find_one({"_id": "line"})
    assert line is not None and "done" not in line


async def test_a_turn_that_ends_late_does_not_move_the_line_back(lines: list[Line]) -> None:
    first, second, third = [await line.join() for line in lines[:3]]
    await lines[1].end(second)
    await lines[0].end(first)
    await lines[2].wait(third, NEVER)
    assert lines[2].looks == 1


async def test_a_line_that_is_gone_lets_every_process_through(lines: list[Line], db: Database) -> None:
    numbers = [await line.join() for line in lines]
    waiting = [asyncio.create_task(line.wait(n, NEVER)) for line, n in zip(lines[1:], numbers[1:], strict=True)]
    for line, task in zip(lines[1:], waiting, strict=True):
        assert await line.is_waiting(task)
    await db["jobs.locks"].delete_one({"_id": "line"})
    await asyncio.gather(*waiting)
    await lines[0].end(numbers[0])
    assert await db["jobs.locks"].find_one({"_id": "line"}) is None


async def test_lines_with_other_names_do_not_hold_each_other_up(lines: list[Line]) -> None:
    await lines[0].join()
    other = Line(lines[0]._connection, "other")
    await other.wait(await other.join(), NEVER)
    assert other.looks == 1
