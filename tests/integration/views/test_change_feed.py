"""Following changes from a program: where one who catches up meets the stream that all share, and in both faces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from harness.inside import inside
from harness.waiting import eventually
from mainspring import Change, Scheduler
from mainspring.engine.services import change_feed
from mainspring.store.views.change_stream import ChangeReader, HistoryLost
from mainspring.sync import Scheduler as BlockingScheduler

Hook = Callable[[ChangeReader], Awaitable[Change | None]]


def intercept(monkeypatch: pytest.MonkeyPatch, events: Any, patience: float, hook: Hook) -> None:
    """Let a hook read in the place of the streams that are opened with this patience: the shared one, or one's own."""
    plain = events.open

    class Hooked:
        def __init__(self, stream: ChangeReader) -> None:
            self._stream = stream

        @property
        def place(self) -> str | None:
            return self._stream.place

        async def next(self) -> Change | None:
            return await hook(self._stream)

    @asynccontextmanager
    async def opened(after: str | None, waits: float) -> AsyncIterator[Any]:
        async with plain(after, waits) as stream:
            yield Hooked(stream) if waits == patience else stream

    monkeypatch.setattr(events, "open", opened)


async def first(changes: AsyncIterator[Change], count: int) -> list[str | None]:
    async with asyncio.timeout(20):
        return [(await anext(changes)).name for _ in range(count)]


async def start(scheduler: Scheduler) -> tuple[AsyncIterator[Change], str | None]:
    """One who follows live, and where he began."""
    live = scheduler.monitor.follow(beat=60)
    return live, (await anext(live)).id


async def test_what_was_caught_up_before_the_shared_stream_came_to_it_is_not_told_twice(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()

    async def late(stream: ChangeReader) -> Change | None:
        await gate.wait()
        return await stream.next()

    async def ends_with_b(stream: ChangeReader) -> Change | None:
        change = await stream.next()
        return change if change is not None and change.name in ("a", "b") else None

    events = (await inside(scheduler).store()).change_stream
    intercept(monkeypatch, events, change_feed._PATIENCE, late)
    intercept(monkeypatch, events, change_feed._SHORT, ends_with_b)
    live, place = await start(scheduler)
    await scheduler.schedule("a")
    await scheduler.schedule("b")
    back = scheduler.monitor.follow(after=place)
    assert await first(back, 2) == ["a", "b"]
    rest = asyncio.create_task(first(back, 1))
    hub = inside(scheduler).feed
    await eventually(lambda: len(hub.readers) == 2)
    gate.set()
    assert await first(live, 2) == ["a", "b"]
    await scheduler.schedule("c")
    assert await rest == ["c"]


async def test_what_happens_while_one_who_caught_up_joins_is_not_missed(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str | None] = []

    async def outrun(stream: ChangeReader) -> Change | None:
        change = await stream.next()
        if change is None and not seen:
            await scheduler.schedule("between")
            seen.extend(await first(live, 1))  # the shared stream is past it
        return change

    intercept(monkeypatch, (await inside(scheduler).store()).change_stream, change_feed._SHORT, outrun)
    live, place = await start(scheduler)
    back = scheduler.monitor.follow(after=place)
    assert await first(back, 1) == ["between"]
    assert seen == ["between"]
    rest = asyncio.create_task(first(back, 1))
    await scheduler.schedule("later")
    assert await rest == ["later"]


async def test_one_who_comes_while_the_last_one_leaves_is_served(scheduler: Scheduler) -> None:
    for number in range(20):
        changes, _ = await start(scheduler)
        await scheduler.schedule(f"n{number}")
        assert await first(changes, 1) == [f"n{number}"]
        await changes.aclose()  # type: ignore[attr-defined]


async def test_a_shared_stream_that_cannot_go_on_tells_all_of_a_gap(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten: list[bool] = []

    async def forget(stream: ChangeReader) -> Change | None:
        change = await stream.next()
        if change is not None and not forgotten:
            forgotten.append(True)
            raise HistoryLost
        return change

    intercept(monkeypatch, (await inside(scheduler).store()).change_stream, change_feed._PATIENCE, forget)
    live, _ = await start(scheduler)
    await scheduler.schedule("lost")
    async with asyncio.timeout(20):
        gap = await anext(live)
    assert (gap.type, gap.change) == ("gap", "history")
    await scheduler.schedule("next")
    back = scheduler.monitor.follow(after=gap.id)
    assert await first(back, 1) == ["next"]


async def test_one_who_reads_is_not_let_go_however_many_changes_come_at_once(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    gathered = asyncio.Event()

    async def held_up(stream: ChangeReader) -> Change | None:
        await gathered.wait()  # as while the stream is opened anew after an outage
        return await stream.next()

    intercept(monkeypatch, (await inside(scheduler).store()).change_stream, change_feed._PATIENCE, held_up)
    live, _ = await start(scheduler)
    count = 4 * change_feed.MOST_KEPT
    await scheduler.schedule_bulk([{"name": "work"}] * count)
    gathered.set()
    assert set(await first(live, count)) == {"work"}


def test_a_blocking_program_follows_and_reads_statistics_too(uri: str) -> None:
    scheduler = BlockingScheduler(uri)
    try:
        changes = scheduler.monitor.follow(beat=60)
        assert next(changes).type == "beat"
        scheduler.schedule("work")
        assert next(changes).name == "work"
        assert scheduler.monitor.statistics(scheduler.inner.now()).total.started == 0
        assert scheduler.monitor.health().status == "degraded"
    finally:
        scheduler.stop()
