"""Following changes from a program: where one who catches up meets the stream that all share, and in both faces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from bson import ObjectId

from harness.inside import inside
from harness.waiting import eventually
from mainspring import Change, Scheduler
from mainspring.engine.services import change_feed
from mainspring.store.views.change_stream import ChangeReader, HistoryLost
from mainspring.sync import Scheduler as BlockingScheduler

Hook = Callable[[ChangeReader], Awaitable[list[Change]]]


def intercept(monkeypatch: pytest.MonkeyPatch, events: Any, patience: float, hook: Hook) -> None:
    """Let a hook read in the place of the streams that are opened with this patience: the shared one, or one's own."""
    plain = events.open

    class Hooked:
        def __init__(self, stream: ChangeReader) -> None:
            self._stream = stream

        @property
        def place(self) -> str | None:
            return self._stream.place

        async def batch(self) -> list[Change]:
            return await hook(self._stream)

    @asynccontextmanager
    async def opened(after: str | None, waits: float) -> AsyncIterator[Any]:
        async with plain(after, waits) as stream:
            yield Hooked(stream) if waits == patience else stream

    monkeypatch.setattr(events, "open", opened)


async def first(changes: AsyncIterator[Change], count: int) -> list[str | None]:
    async with asyncio.timeout(60):
        return [(await anext(changes)).name for _ in range(count)]


async def start(scheduler: Scheduler) -> tuple[AsyncIterator[Change], str | None]:
    """One who follows live, and where he began."""
    live = scheduler.monitor.follow(beat=60)
    return live, (await anext(live)).id


async def test_what_was_caught_up_before_the_shared_stream_came_to_it_is_not_told_twice(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()

    async def late(stream: ChangeReader) -> list[Change]:
        await gate.wait()
        return await stream.batch()

    async def ends_with_b(stream: ChangeReader) -> list[Change]:
        return [change for change in await stream.batch() if change.name in ("a", "b")]

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

    async def outrun(stream: ChangeReader) -> list[Change]:
        changes = await stream.batch()
        if not changes and not seen:
            await scheduler.schedule("between")
            seen.extend(await first(live, 1))  # the shared stream is past it
        return changes

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

    async def forget(stream: ChangeReader) -> list[Change]:
        changes = await stream.batch()
        if changes and not forgotten:
            forgotten.append(True)
            raise HistoryLost
        return changes

    intercept(monkeypatch, (await inside(scheduler).store()).change_stream, change_feed._PATIENCE, forget)
    live, _ = await start(scheduler)
    await scheduler.schedule("lost")
    async with asyncio.timeout(60):
        gap = await anext(live)
    assert (gap.type, gap.change) == ("gap", "history")
    await scheduler.schedule("next")
    back = scheduler.monitor.follow(after=gap.id)
    assert await first(back, 1) == ["next"]


@pytest.mark.slow
async def test_one_who_reads_is_not_let_go_however_many_changes_come_at_once(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    gathered = asyncio.Event()

    async def held_up(stream: ChangeReader) -> list[Change]:
        await gathered.wait()  # as while the stream is opened anew after an outage
        return await stream.batch()

    intercept(monkeypatch, (await inside(scheduler).store()).change_stream, change_feed._PATIENCE, held_up)
    live, _ = await start(scheduler)
    count = 4 * change_feed.MOST_KEPT
    await scheduler.schedule_bulk([{"name": "work"}] * count)
    gathered.set()
    assert set(await first(live, count)) == {"work"}


async def test_updates_that_arrive_together_cost_one_look_up(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = await scheduler.schedule_bulk([{"name": f"n{number}", "queue": "mail"} for number in range(50)])
    store = await inside(scheduler).store()
    async with store.change_stream.open(None, 1.0) as stream:
        place = stream.place
    for job in jobs:
        await scheduler.cancel(job.id)
    looks: list[int] = []
    plain = store.connection.jobs.find_all

    async def find_all(filter: Any, *given: Any, **options: Any) -> list[Any]:
        looks.append(len(filter["_id"]["$in"]))
        return await plain(filter, *given, **options)

    monkeypatch.setattr(store.connection.jobs, "find_all", find_all)
    async with store.change_stream.open(place, 1.0) as stream:
        changes = await stream.batch()
    assert [(change.change, change.name, change.queue) for change in changes] == [
        ("cancelled", f"n{number}", "mail") for number in range(50)
    ]
    assert looks == [50]


async def test_an_update_of_a_job_that_is_gone_is_told_without_its_name(scheduler: Scheduler) -> None:
    job, other = await scheduler.schedule("gone"), await scheduler.schedule("other")
    store = await inside(scheduler).store()
    async with store.change_stream.open(None, 1.0) as stream:
        place = stream.place
    for one in (job, other):
        await scheduler.cancel(one.id)
    await store.connection.jobs.raw.delete_one({"_id": ObjectId(job.id)})
    async with store.change_stream.open(place, 1.0) as stream:
        changes = await stream.batch()
    assert [(change.key, change.change, change.name) for change in changes] == [
        (job.id, "cancelled", None),
        (other.id, "cancelled", "other"),
    ]


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
