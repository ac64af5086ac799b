"""The end of a node of a graph: it is checked whether the nodes behind it start, and its root only where that may be
over; and the predecessors of many nodes are read together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from typing import Any

import pytest

from harness.inside import inside
from harness.looking import Database
from harness.waiters import LONG_AGO, Waiters
from harness.waiting import eventually
from mainspring import JobContext, Scheduler
from mainspring.engine.claim.producer import Producer
from mainspring.engine.flows import shared_reads
from mainspring.engine.flows.checker import Checker
from mainspring.store import Store
from mainspring.store.flows.checks import Checked, Checks
from mainspring.store.flows.layout import Layouts
from mainspring.store.jobs.claim import Claims

SOON = 30
BEHIND, NODES = "root.b#after", "root#nodes"


@pytest.fixture
async def store(scheduler: Scheduler) -> Store:
    return await inside(scheduler).store()


@pytest.fixture
async def waiters(store: Store, db: Database) -> Waiters:
    """A flow of two nodes, of which the first has completed."""
    stored = Waiters(db)
    nodes = {"ids": [NODES], "total": [2], "tolerate": [2], "fail_fast": [False], "sealed": True, "since": LONG_AGO}
    await stored.put("root", "blocked", root=True, spawned=True, waits=nodes, check_at=LONG_AGO)
    await stored.put("root.a", "completed", flow="root", node="a", before=[BEHIND, NODES])
    after = {**nodes, "ids": [BEHIND], "total": [1], "tolerate": [0], "when": "success"}
    await stored.put("root.b", "blocked", flow="root", node="b", before=[NODES], waits=after, token=0)
    return stored


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The waits of each check."""
    noted: list[list[str]] = []
    check = Checks.check

    async def checked(self: Checks, waits: Any) -> Checked:
        noted.append(sorted(waits))
        return await check(self, waits)

    monkeypatch.setattr(Checks, "check", checked)
    return noted


def checker_of(scheduler: Scheduler, store: Store, held_back: Container[str] = ()) -> Checker:
    """A checker of a worker whose claimed jobs hold back these waits."""

    def fails(error: Exception) -> None:
        raise error

    def holds_back(wait: str) -> bool:
        return wait in held_back

    events = inside(scheduler).events
    return Checker(store, events, lambda: None, lambda queues: None, fails, holds_back=holds_back)


async def test_the_end_of_a_node_leads_to_no_look_at_its_root_while_another_waits_for_it(
    scheduler: Scheduler, store: Store, waiters: Waiters, looked_at: list[list[str]]
) -> None:
    checker = checker_of(scheduler, store)
    checker.note_end([BEHIND, NODES])
    await checker.run_once()
    assert checker.idle and looked_at == [[BEHIND]]
    assert (await waiters.state("root.b"), await waiters.state("root")) == ("pending", "blocked")


async def test_the_end_of_a_node_leads_to_a_look_at_its_root_where_the_job_behind_it_has_ended_before(
    scheduler: Scheduler, store: Store, waiters: Waiters, looked_at: list[list[str]]
) -> None:
    await waiters.set("root.b", state="cancelled")
    checker = checker_of(scheduler, store)
    checker.note_end([BEHIND, NODES])
    await checker.run_once()
    await checker.run_once()
    assert checker.idle and looked_at == [[BEHIND], [NODES]]
    assert await waiters.state("root") == "pending"


async def putting_off(scheduler: Scheduler, store: Store, held_back: Container[str]) -> Checker:
    """A checker after the good end of a node, while other claimed jobs hold back these waits."""
    checker = checker_of(scheduler, store, held_back)
    checker.note_end([BEHIND, NODES], well=True)
    await checker.run_once()
    assert checker.idle
    return checker


async def test_a_good_end_leads_to_no_look_at_a_wait_that_another_claimed_job_holds_back(
    scheduler: Scheduler, store: Store, waiters: Waiters, looked_at: list[list[str]]
) -> None:
    held_back = {BEHIND}
    checker = await putting_off(scheduler, store, held_back)
    assert looked_at == []
    checker.note_end([BEHIND, NODES], well=False)  # the bad end of one job may decide while another job is running
    await checker.run_once()
    assert looked_at == [[BEHIND]]
    checker.note_end([BEHIND, NODES], well=True)
    held_back.clear()
    checker.note_end([BEHIND, NODES], well=True)
    await checker.run_once()
    assert looked_at == [[BEHIND], [BEHIND]]


async def test_a_wait_that_was_put_off_is_looked_at_when_the_job_that_held_it_back_is_lost(
    scheduler: Scheduler, store: Store, waiters: Waiters, looked_at: list[list[str]]
) -> None:
    held_back = {BEHIND}
    checker = await putting_off(scheduler, store, held_back)
    checker.note_left([BEHIND, NODES])  # a third job holds it back
    await checker.run_once()
    assert looked_at == []
    held_back.clear()
    checker.note_left([BEHIND, NODES])  # another worker may have ended it before
    checker.note_left([BEHIND, NODES])
    await checker.run_once()
    assert checker.idle and looked_at == [[BEHIND]]


async def test_a_worker_does_not_look_at_a_wait_while_it_has_more_of_its_children(
    make_scheduler: Callable[..., Scheduler], monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler, check = make_scheduler(concurrency=5), Checks.check
    here, looks, may_end = list[int](), list[bool](), [asyncio.Event() for _ in range(4)]

    async def checked(self: Checks, waits: Any) -> Checked:
        claimed = inside(scheduler).worker.claimed_jobs
        looks.append(any(claimed.holds_back(wait) for wait in waits))
        return await check(self, waits)

    monkeypatch.setattr(Checks, "check", checked)

    @scheduler.job("child")
    async def child(n: int) -> int:
        here.append(n)
        await may_end[n].wait()
        return n

    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> int:
        return sum([one.result async for one in await ctx.map("all", child, [{"n": n} for n in range(4)])])

    async def has_ended(job_id: str) -> bool:
        worker = inside(scheduler).worker
        over = (await scheduler.get_job(job_id)).finished
        return over and worker.claimed_jobs.get(job_id) is None and worker.checker.idle

    await scheduler.start()
    job = await scheduler.schedule("parent")
    await eventually(lambda: len(here) == 4 and inside(scheduler).worker.checker.idle)
    await eventually(lambda: len(inside(scheduler).worker.claimed_jobs) == 4)  # the parent is suspended
    await eventually(lambda: inside(scheduler).worker.checker.idle)
    looks.clear()
    may_end[0].set()
    await eventually(lambda: has_ended(f"{job.id}.all.00000000"))
    assert looks == []
    for one in may_end[1:]:
        one.set()
    done = await scheduler.wait(job.id, timeout=60)
    assert (done.state, done.result) == ("completed", 6)
    assert looks and not any(looks)


async def test_a_check_that_fails_forgets_no_root(
    scheduler: Scheduler,
    store: Store,
    waiters: Waiters,
    looked_at: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await waiters.set("root.b", state="cancelled")
    checker, decide, left = checker_of(scheduler, store), Checks._decide, [RuntimeError("once")]

    async def disturbed(self: Checks, *arguments: Any) -> Checked:
        if left:
            raise left.pop()
        return await decide(self, *arguments)

    monkeypatch.setattr(Checks, "_decide", disturbed)
    checker.note_end([BEHIND, NODES])
    with pytest.raises(RuntimeError):
        await checker.run_once()
    await checker.run_once()
    await checker.run_once()
    assert looked_at == [[BEHIND], [BEHIND], [NODES]] and await waiters.state("root") == "pending"


async def test_a_node_that_may_start_is_claimed_from_a_queue_of_its_own_without_a_look_for_all_queues(
    make_scheduler: Callable[..., Scheduler], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Producer, "hint", lambda self, hint: None)
    scheduler, ran = make_scheduler(), list[str]()

    async def without_other(self: Claims) -> list[str]:
        return ["default"]

    monkeypatch.setattr(Claims, "queues", without_other)

    @scheduler.job("note")
    async def note(ctx: JobContext) -> None:
        ran.append(ctx.queue)

    flow = scheduler.flow("chain")
    flow.add("note", after=flow.add("note", name="first"), name="second", queue="other")
    run = await flow.start()
    async with scheduler:
        await run.wait(60)
    assert ran == ["default", "other"]


async def test_the_predecessors_of_nodes_that_are_claimed_together_are_read_together(
    scheduler: Scheduler, store: Store, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    results, seen = Layouts.results, []

    async def read(self: Layouts, ids: Any) -> Any:
        reads.append(len(ids))
        return await results(self, ids)

    monkeypatch.setattr(Layouts, "results", read)

    @scheduler.job("job")
    async def job(ctx: JobContext) -> None:
        seen.append((ctx.id, ctx.before.result))

    stored = Waiters(db)
    for n in range(4):
        await stored.put(f"p{n}", "completed", result=n)
        await stored.put(f"n{n}", "pending", after=[{"node": f"p{n}", "job": f"p{n}"}])
    async with scheduler:
        for n in range(4):
            await scheduler.wait(f"n{n}", SOON)
    assert sorted(seen) == [(f"n{n}", n) for n in range(4)]
    assert reads == [4]


async def test_nodes_share_reads_of_a_bounded_number_of_predecessors(
    scheduler: Scheduler, store: Store, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_reads, "_TOGETHER", 3)
    stored = Waiters(db)
    for number in range(6):
        after = [{"node": f"p{number}", "job": f"p{number}"}, {"node": "common", "job": "common"}]
        await stored.put(f"n{number}", "pending", after=after)
    await stored.put("plain", "pending")
    jobs = sorted(await store.claims.candidates("default", 10), key=lambda job: str(job.id))
    grouping = shared_reads.Grouping()
    groups = [grouping.share(job) for job in jobs]
    assert groups.pop() is None
    assert [groups.index(one) for one in groups] == [0, 0, 2, 2, 4, 4]
    assert [len(one.ids) for one in groups if one is not None] == [3] * 6
