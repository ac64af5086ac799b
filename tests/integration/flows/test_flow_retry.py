"""Retrying a flow: what failed runs again, what was cancelled because of it waits again, and nothing else."""

from collections.abc import Callable
from typing import Any

import pytest

from harness.inside import inside
from harness.looking import Database
from harness.pruning import prune
from harness.waiters import LONG_AGO, Waiters
from harness.waiting import eventually
from mainspring import ChildrenFailed, Fail, JobContext, JobStateError, Keep, Scheduler
from mainspring.client.scheduler import core_of
from mainspring.errors import Unavailable
from mainspring.store.collection import Collection
from mainspring.store.flows import retrying
from mainspring.store.flows.retrying import FlowRetries
from mainspring.store.refusals import change_jobs
from mainspring.store.schema import FLOW_ENDED

SOON = 30


@pytest.fixture
def ran(scheduler: Scheduler) -> list[Any]:
    noted: list[Any] = []

    @scheduler.job("note")
    async def note(ctx: JobContext, what: str) -> str:
        noted.append(what)
        return what

    @scheduler.job("flaky", retry=1)
    async def flaky(n: int = 0) -> int:
        noted.append(("flaky", n))
        if n == 1 and noted.count(("flaky", 1)) < 2:
            raise ValueError("only once")
        return n

    return noted


@pytest.mark.slow
async def test_a_retried_flow_runs_what_failed_and_what_was_cancelled_because_of_it(
    scheduler: Scheduler, ran: list[Any]
) -> None:
    flow = scheduler.flow("retried")
    first = flow.add("note", {"what": "first"}, name="first")
    flaky = flow.add("flaky", {"n": 1}, after=first)
    second = flow.add("note", {"what": "second"}, after=flaky, name="second")
    flow.add("note", {"what": "third"}, after=[second, first], name="third")
    flow.add("note", {"what": "oncall"}, after=flaky, when="failure", name="oncall")
    async with scheduler:
        run = await flow.start()
        failed = await run.wait(SOON)
        assert failed.state == "failed"
        assert sorted(map(str, ran)) == ["('flaky', 1)", "first", "oncall"]
        again = await run.retry()
        assert again.state in ("pending", "running", "blocked")
        ended = await again.wait(SOON)
    assert ended.state == "completed", ended.error
    assert ran[3:] == [("flaky", 1), "second", "third"]
    assert {node.name: node.state for node in ended.nodes} == dict.fromkeys(
        ("first", "flaky", "second", "third", "oncall"), "completed"
    )
    assert ended.node("third").because is None


@pytest.mark.slow
async def test_a_retried_map_runs_only_its_failed_jobs_again(scheduler: Scheduler, ran: list[Any]) -> None:
    flow = scheduler.flow("map")
    items = flow.map("flaky", over=[{"n": n} for n in range(4)])
    flow.add("note", {"what": "after"}, after=items)
    async with scheduler:
        run = await flow.start()
        assert (await run.wait(SOON)).state == "failed"
        ended = await (await run.retry()).wait(SOON)
    assert ended.state == "completed", ended.error
    assert [one for one in ran if one != "after"].count(("flaky", 1)) == 2
    assert len(ran) == 6 and ran[-1] == "after"


async def test_a_flow_fails_by_a_job_that_its_last_node_has_added_and_its_retry_runs_that_job(
    scheduler: Scheduler, ran: list[Any]
) -> None:
    @scheduler.job("find-more")
    async def find_more(ctx: JobContext) -> None:
        await ctx.grow("flaky", {"n": 1})

    flow = scheduler.flow("grown")
    flow.add("find-more", name="last")
    async with scheduler:
        run = await flow.start()
        failed = await run.wait(SOON)
        assert failed.state == "failed" and failed.node("last").state == "completed"
        assert failed.error is not None and "1 job that its nodes have added ended badly. The first is " in failed.error
        assert failed.error.endswith("ValueError: only once")
        ended = await (await failed.retry()).wait(SOON)
    assert (ended.state, ran) == ("completed", [("flaky", 1), ("flaky", 1)]), ended.error


@pytest.mark.slow
async def test_a_retried_batch_calls_back_again(scheduler: Scheduler, ran: list[Any]) -> None:
    async with scheduler:
        batch = await scheduler.batch(
            ({"name": "flaky", "data": {"n": n}} for n in range(3)),
            on_success=("note", {"what": "success"}),
            on_failure=("note", {"what": "failure"}),
            on_done=("note", {"what": "done"}),
        )
        assert (await batch.wait(SOON)).state == "failed"
        ended = await (await batch.retry()).wait(SOON)
    assert ended.state == "completed", ended.error
    assert sorted(one for one in ran if isinstance(one, str)) == ["done", "done", "failure", "success"]


async def test_a_flow_that_completed_is_not_retried(scheduler: Scheduler, ran: list[Any]) -> None:
    async with scheduler:
        run = await scheduler.chain(("note", {"what": "x"}))
        await run.wait(SOON)
        with pytest.raises(JobStateError, match=r"failed and live jobs only\. Start a new flow instead\.$"):
            await run.retry()


@pytest.mark.slow
async def test_no_check_ends_a_member_again_while_the_others_are_put_back(
    scheduler: Scheduler, ran: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One member at a time is put back, the last of the flow first, with a check after each."""
    monkeypatch.setattr(retrying, "_BATCH", 1)
    find_all = Collection.find_all
    flow = scheduler.flow("order")
    middle = flow.add("note", {"what": "middle"}, after=flow.add("flaky", {"n": 1}), name="b-middle")
    flow.add("note", {"what": "last"}, after=middle, name="a-last")
    async with scheduler:
        run = await flow.start()
        assert (await run.wait(SOON)).state == "failed"
        checks = (await core_of(scheduler).store()).checks
        waits = [f"{run.id}.{node}#after" for node in ("b-middle", "a-last")]

        async def checked(jobs: Collection, *args: Any, **options: Any) -> Any:
            if options.get("hint") == FLOW_ENDED:
                await checks.check(waits)
            return await find_all(jobs, *args, **options)

        monkeypatch.setattr(Collection, "find_all", checked)
        ended = await (await run.retry()).wait(SOON)
    assert ended.state == "completed", ended.error
    assert ran[-2:] == ["middle", "last"]


@pytest.mark.slow
async def test_a_saga_whose_undoing_failed_goes_on_with_it_when_both_are_retried(scheduler: Scheduler) -> None:
    undone: list[str] = []
    down = ["yes"]

    @scheduler.job("book", retry=1)
    async def book(what: str) -> str:
        if what == "car":
            raise Fail("none is free")
        return what

    @scheduler.job("release", retry=1)
    async def release(booking: str) -> None:
        if down:
            raise Fail("down")
        undone.append(booking)

    @scheduler.job("trip")
    async def trip(ctx: JobContext) -> None:
        booked = []
        try:
            booked = [await ctx.call("flight", book, {"what": "flight"})]
            await ctx.call("car", book, {"what": "car"})
        except ChildrenFailed as failed:
            for booking in booked:
                await ctx.call(f"release-{booking}", release, {"booking": booking})
            raise Fail("not booked") from failed

    async with scheduler:
        job = await trip.schedule()
        assert "'release-flight' ended badly" in str((await job.wait(SOON)).error)
        down.clear()
        (undoing,) = [one.id async for one in scheduler.jobs(name="release")]
        await scheduler.retry(undoing)
        await scheduler.wait(undoing, timeout=SOON)
        await scheduler.retry(job.id)
        ended = await scheduler.wait(job.id, timeout=SOON)
    assert (str(ended.error), undone) == ("Fail: not booked", ["flight"])


# -- a process that dies, and workers that run while a flow is put back ------------------------------------------------


def after_first(patch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
    """Do something once, right after the members that failed were put back."""
    real, left = FlowRetries._put_back, [act]

    async def disturbed(self: FlowRetries, *arguments: Any) -> Any:
        held = await real(self, *arguments)
        if left:
            await left.pop()()
        return held

    patch.setattr(FlowRetries, "_put_back", disturbed)


def node(name: str, *after: str, **fields: Any) -> dict[str, Any]:
    """The fields of a node of the flow `root`."""
    waits = {"ids": [f"root.{name}#after"], "total": [len(after)], "tolerate": [0], "fail_fast": [False]}
    waits |= {"sealed": True, "when": "success", "since": LONG_AGO}
    stored: dict[str, Any] = {"flow": "root", "node": name, "token": 0, **fields}
    return stored | ({"waits": waits} if after else {})


async def test_a_retry_that_dies_after_the_failed_members_were_put_back_is_carried_on(
    scheduler: Scheduler, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, waiters = await inside(scheduler).store(), Waiters(db)
    await waiters.put("root", "failed", root=True, spawned=True)
    await waiters.put("root.a", "failed", **node("a", before=["root.b#after", "root#nodes"]))
    await waiters.put("root.b", "cancelled", **node("b", "a", before=["root#nodes"], because="root.a"))

    async def die() -> None:
        raise Unavailable("died")

    after_first(monkeypatch, die)
    with pytest.raises(Unavailable):
        await store.flow_retries.retry("root")
    assert [await waiters.state(one) for one in ("root.a", "root.b", "root")] == ["pending", "cancelled", "failed"]
    await waiters.due("root")
    checked, _ = await store.checks.sweep()
    await store.flow_retries.carry_on(checked.marked[0])
    assert [await waiters.state(one) for one in ("root.a", "root.b", "root")] == ["pending", "blocked", "pending"]


async def test_members_that_were_cancelled_because_of_one_that_was_cancelled_by_hand_stay(
    scheduler: Scheduler, db: Database
) -> None:
    store, waiters = await inside(scheduler).store(), Waiters(db)
    await waiters.put("root", "failed", root=True, spawned=True)
    await waiters.put("root.a", "cancelled", **node("a", before=["root.b#after", "root#nodes"]))
    await waiters.put("root.b", "cancelled", **node("b", "a", before=["root#nodes"], because="root.a"))
    await waiters.put("root.c", "cancelled", **node("c", before=["root#nodes"], because="root.a"))
    await waiters.put("root.x", "failed", **node("x", before=["root.y#after", "root#nodes"]))
    await waiters.put("root.y", "cancelled", **node("y", "x", before=["root#nodes"], because="root.x"))
    await store.flow_retries.retry("root")
    states = [await waiters.state(f"root.{one}") for one in "abcxy"]
    assert states == ["cancelled", "cancelled", "cancelled", "pending", "blocked"]


async def test_a_member_that_judges_its_children_is_put_back_after_them(
    scheduler: Scheduler, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A map that fails fast, in a map: it would fail again if it ran before one of its children is put back."""
    store, waiters = await inside(scheduler).store(), Waiters(db)
    await waiters.put("root", "failed", root=True, spawned=True)
    inner, outer = "root.m.0#items", "root.m#items"
    await waiters.put("root.m", "failed", **node("m", before=["root#nodes"], spawned=True))
    await waiters.put("root.m.0", "failed", **node("m/items", before=[outer], spawned=True))
    await waiters.put("root.m.1", "cancelled", **node("m/items", before=[outer], spawned=True, because="root.m.0"))
    await waiters.put("root.m.0.0", "failed", **node("m/items/items", before=[inner]))
    await waiters.put("root.m.0.1", "cancelled", **node("m/items/items", before=[inner], because="root.m.0.0"))
    below = {"root.m": ["root.m.0", "root.m.1"], "root.m.0": ["root.m.0.0", "root.m.0.1"], "root": ["root.m"]}

    async def looked_after(*arguments: Any) -> Any:
        outcome = await change_jobs(*arguments)
        for parent, children in below.items():
            if await waiters.state(parent) == "pending":
                assert [await waiters.state(one) for one in children] == ["pending"] * len(children), parent
        return outcome

    monkeypatch.setattr(retrying, "change_jobs", looked_after)
    await store.flow_retries.retry("root")
    assert {await waiters.state(one) for one in ["root", *below["root.m"], *below["root.m.0"]]} == {"pending"}


@pytest.mark.slow
async def test_the_jobs_of_a_failed_flow_are_kept_as_long_as_its_root(scheduler: Scheduler, ran: list[Any]) -> None:
    flow = scheduler.flow("kept")
    first = flow.add("note", {"what": "first"}, name="first")
    flaky = flow.add("flaky", {"n": 1}, after=first)
    flow.add("note", {"what": "last"}, after=flaky, name="last")
    rules = [Keep(count=0)]
    async with scheduler:
        run = await flow.start()
        assert (await run.wait(SOON)).state == "failed"
        assert await prune(scheduler, rules) == 0
        ended = await (await run.retry()).wait(SOON)
        assert ended.state == "completed", ended.error

        async def all_are_gone() -> bool:
            await prune(scheduler, rules)
            return not [job async for job in scheduler.jobs()]

        await eventually(all_are_gone)
    assert ran == ["first", ("flaky", 1), ("flaky", 1), "last"]
