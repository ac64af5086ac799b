"""Flows whose processes crash, lose replies, or are cancelled at the worst moment; and jobs that are no flows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import bson
import pytest

from harness.apps import flowing
from harness.inside import inside
from harness.looking import Database
from harness.waiters import LONG_AGO, Waiters
from harness.waiting import eventually
from mainspring import Continue, Fail, InvalidJob, Job, JobContext, Scheduler
from mainspring.engine.flows.checker import Checker
from mainspring.engine.flows.children import Children
from mainspring.errors import JobStateError, Unavailable
from mainspring.store.flows.retrying import FlowRetries
from mainspring.store.flows.spawners import Spawners
from mainspring.store.flows.spawning import Spawning

Make = Callable[..., Scheduler]


async def ended(scheduler: Scheduler, name: str = "parent", data: dict[str, Any] | None = None) -> Job:
    return await scheduler.wait((await scheduler.schedule(name, data)).id, timeout=60)


async def children(db: Database, parent: str) -> list[dict[str, Any]]:
    return await db.jobs.find({"parent_id": parent}, hint="_id_").sort("_id").to_list()


def with_leaf(scheduler: Scheduler) -> list[int]:
    ran: list[int] = []

    @scheduler.job("leaf", retry=1)
    async def leaf(n: int) -> int:
        ran.append(n)
        if n < 0:
            raise Fail("negative")
        return len(ran)

    return ran


def once(patch: pytest.MonkeyPatch, owner: type, verb: str, *, raises: BaseException, after: bool = True) -> None:
    """Let a verb fail once, before or after it is carried out."""
    real, left = getattr(owner, verb), [raises]

    async def disturbed(*arguments: Any, **options: Any) -> Any:
        if left and not after:
            raise left.pop()
        outcome = await real(*arguments, **options)
        if left:
            raise left.pop()
        return outcome

    patch.setattr(owner, verb, disturbed)


# -- C3 ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_when_the_worker_dies_between_the_end_of_a_child_and_the_check_the_sweep_releases(
    scheduler: Scheduler, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_leaf(scheduler)

    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> Any:
        return await ctx.call("c", "leaf", {"n": 1})

    monkeypatch.setattr(Checker, "note", lambda self, waits: None)
    await scheduler.start()
    job = await scheduler.schedule("parent")

    async def child_ended() -> bool:
        return await db.jobs.find_one({"_id": f"{job.id}.c", "state": "completed"}) is not None

    await eventually(child_ended, 60)
    assert (await scheduler.get_job(job.id)).state == "blocked"
    await db.jobs.update_one({"parent_id": None, "state": "blocked"}, {"$set": {"check_at": LONG_AGO}}, hint="check")
    assert (await scheduler.wait(job.id, 60)).result == 1


# -- C4 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("error", [Unavailable("lost"), RuntimeError("crash"), asyncio.CancelledError()])
@pytest.mark.slow
async def test_a_spawn_that_is_repeated_makes_no_second_child_and_loses_none(
    scheduler: Scheduler, db: Database, monkeypatch: pytest.MonkeyPatch, error: BaseException, after: bool
) -> None:
    ran = with_leaf(scheduler)
    again = [1]

    @scheduler.job("parent", retry=3)
    async def parent(ctx: JobContext) -> Any:
        try:
            return len(await ctx.map("m", "leaf", ({"n": n} for n in range(1500))))
        except asyncio.CancelledError:
            if again.pop():
                raise RuntimeError("crash") from None
            raise

    once(monkeypatch, Spawning, "store", raises=error, after=after)
    await scheduler.start()
    done = await ended(scheduler)
    assert (done.state, done.result) == ("completed", 1500)
    assert sorted(ran) == list(range(1500))
    assert await db.jobs.count_documents({"parent_id": done.id}, hint="_id_") == 1500


@pytest.mark.parametrize(
    ("key", "second", "said"),
    [
        (None, [1, 2, 9], "item 2: it has another name or other data"),
        (None, [1, 2], "item 2: there was one at first"),
        ("n", [1], "a key was there at first"),
        ("n", [4], "a key was there at first"),
    ],
)
@pytest.mark.slow
async def test_items_that_differ_in_the_next_run_are_told_by_their_place(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch, key: str | None, second: list[int], said: str
) -> None:
    with_leaf(scheduler)
    items = [[1, 2, 3], second]

    @scheduler.job("parent", retry=2)
    async def parent(ctx: JobContext) -> Any:
        return len(await ctx.map("m", "leaf", [{"n": n} for n in items[ctx.attempt - 1]], key=key))

    once(monkeypatch, Spawning, "store", raises=RuntimeError("crash"))
    await scheduler.start()
    failed = await ended(scheduler)
    assert failed.state == "failed" and failed.error is not None
    assert failed.error.type == "NotRepeatable" and said in failed.error.message


@pytest.mark.slow
async def test_a_spawn_is_repeated_although_a_child_has_begun_a_further_round_with_other_data(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[int] = []

    @scheduler.job("child")
    async def child(n: int) -> int:
        rounds.append(n)
        if n < 3:
            raise Continue(n=n + 1)
        return n

    @scheduler.job("parent", retry=3)
    async def parent(ctx: JobContext) -> Any:
        if ctx.attempt == 2:
            await eventually(lambda: len(rounds) == 4)
        return [one.result async for one in await ctx.map("m", "child", [{"n": 1}, {"n": 3}])]

    once(monkeypatch, Spawning, "store", raises=RuntimeError("crash"))
    await scheduler.start()
    done = await ended(scheduler)
    assert (done.state, done.result, done.error) == ("completed", [3, 3], None)
    assert sorted(rounds) == [1, 2, 3, 3]


async def test_items_of_the_same_key_are_one_child(scheduler: Scheduler) -> None:
    ran = with_leaf(scheduler)

    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> Any:
        results = await ctx.map("m", "leaf", [{"n": 1}, {"n": 2}, {"n": 1}], key="n")
        return [len(results), [child.data["n"] async for child in results]]

    await scheduler.start()
    assert (await ended(scheduler)).result == [2, [1, 2]]
    assert sorted(ran) == [1, 2]


# -- C5 ------------------------------------------------------------------------------------------------------------


async def _cancel(scheduler: Scheduler, child: str) -> None:
    await scheduler.cancel(child)


async def _delete(scheduler: Scheduler, child: str) -> None:
    await scheduler.delete(child)


async def _expire(scheduler: Scheduler, child: str) -> None:
    store = await inside(scheduler).store()
    await store.connection.jobs.update_one({"_id": child}, {"$set": {"start_by": LONG_AGO}}, hint="_id_")


async def _operate(scheduler: Scheduler, child: str) -> None:
    operation = await scheduler.operations.create("delete", ids=[child], reason="tidy", start_after=0)
    await operation.wait(60)


@pytest.mark.parametrize("end", [_cancel, _delete, _expire, _operate])
@pytest.mark.slow
async def test_a_child_that_is_cancelled_deleted_or_expired_fails_its_wait(
    scheduler: Scheduler, db: Database, end: Callable[..., Any]
) -> None:
    with_leaf(scheduler)

    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> Any:
        return len(await ctx.map("m", "leaf", [{"n": 1}, {"n": 2}], delay=600))

    await scheduler.start()
    job = await scheduler.schedule("parent")

    async def waits() -> bool:
        return (await scheduler.get_job(job.id)).state == "blocked"

    await eventually(waits, 60)
    await end(scheduler, f"{job.id}.m.00000001")
    await db.jobs.update_one({"_id": f"{job.id}.m.00000000"}, {"$set": {"state": "completed"}, "$unset": {"ready": 1}})
    failed = await scheduler.wait(job.id, 60)
    assert failed.state == "failed" and failed.error is not None and "1 of the 2" in failed.error.message


async def test_a_child_that_is_deleted_before_its_parent_is_suspended_fails_the_wait(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_leaf(scheduler)
    real = Spawners.end

    async def delete(self: Spawners, spawner: Any, made: Any) -> None:
        await real(self, spawner, made)
        await scheduler.delete(f"{spawner.id}.m.00000001")

    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> Any:
        return len(await ctx.map("m", "leaf", [{"n": 1}, {"n": 2}], delay=1))

    monkeypatch.setattr(Spawners, "end", delete)
    await scheduler.start()
    failed = await ended(scheduler)
    assert failed.state == "failed" and failed.error is not None and "1 of the 2" in failed.error.message


# -- C9 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.slow
async def test_children_that_are_stored_while_their_flow_is_cancelled_are_cancelled(
    scheduler: Scheduler, db: Database, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    """The flow is cancelled after the first look of the spawner, and before its children are stored. The spawning is
    shielded, since the worker may stop the handler in the middle of it."""
    with_leaf(scheduler)
    begin, spawn = Spawners.begin, Children.spawn

    async def cancelled(self: Spawners, spawner: Any) -> None:
        await begin(self, spawner)
        await scheduler.cancel(str(spawner.id), "wrong day")

    async def shielded(self: Children, portion: Any) -> Any:
        return await asyncio.shield(spawn(self, portion))

    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> Any:
        return len(await ctx.map("m", "leaf", [{"n": 1}, {"n": 2}], delay=600))

    monkeypatch.setattr(Spawners, "begin", cancelled)
    monkeypatch.setattr(Children, "spawn", shielded)

    async def nothing(*_: Any) -> None:
        return None

    if dies:  # the process does not come to its second look: the sweep alone
        monkeypatch.setattr(Spawners, "end", nothing)
    else:  # the second look alone
        monkeypatch.setattr(Checker, "carry_on", nothing)
    monkeypatch.setattr(Checker, "cancel_below", lambda *_: None)
    await scheduler.start()
    job = await ended(scheduler)
    assert job.state == "cancelled"

    async def all_cancelled() -> bool:
        return [one["state"] for one in await children(db, job.id)] == ["cancelled", "cancelled"]

    await eventually(all_cancelled, 60)


async def test_the_sweep_watches_a_cancelled_job_for_longer_than_an_operation_lasts(
    scheduler: Scheduler, db: Database
) -> None:
    store, waiters = await inside(scheduler).store(), Waiters(db)
    wait = await waiters.waiter()
    await waiters.child("c", "pending", wait)
    await store.jobs.cancel("waiter", "no")
    assert (await waiters.get())["cancel_tree"]["reason"] == "no"
    assert (await waiters.get())["check_at"] <= store.clock.now()

    async def sweep() -> None:
        await waiters.due()
        checked, _ = await store.checks.sweep()
        for marked in checked.marked:
            await store.trees.carry_on(marked)

    await sweep()
    assert await waiters.state("c") == "cancelled"
    await waiters.child("late", "pending", wait)
    await sweep()
    assert await waiters.state("late") == "cancelled"
    assert "check_at" in await waiters.get()
    await waiters.set("waiter", **{"cancel_tree.at": LONG_AGO})
    await sweep()
    assert "check_at" not in await waiters.get()
    await scheduler.retry("waiter")
    assert "cancel_tree" not in await waiters.get()


async def test_a_job_of_a_cancelled_flow_that_is_retried_by_itself_is_cancelled_again_for_a_minute(
    scheduler: Scheduler, db: Database
) -> None:
    store, waiters = await inside(scheduler).store(), Waiters(db)
    wait = await waiters.waiter()
    await waiters.child("c", "pending", wait, waits={"ids": ["c#all"], "total": [1], "sealed": True})
    await waiters.child("deeper", "pending", "c#all")
    await waiters.set("deeper", flow="waiter")
    await scheduler.cancel("waiter", "wrong day")

    async def sweep() -> None:
        await waiters.due()
        for marked in (await store.checks.sweep())[0].marked:
            await store.trees.carry_on(marked)

    await sweep()
    with pytest.raises(JobStateError):
        await scheduler.flows.retry("waiter")
    assert await waiters.state("c") == "cancelled"
    assert (await scheduler.retry("c")).state == "pending"
    await sweep()
    assert await waiters.state("c") == "cancelled"
    await waiters.set("waiter", **{"cancel_tree.at": LONG_AGO})
    await sweep()
    assert (await scheduler.retry("c")).state == "pending", "it does not wait, although it has a predecessor"
    assert (await store.checks.sweep())[0].marked == [], "the sweep has forgotten the cancellation"
    assert (await waiters.state("c"), await waiters.state("deeper")) == ("pending", "cancelled")
    assert await waiters.state() == "cancelled" and "cancel_tree" in await waiters.get(), "so it can make no children"


async def test_a_retried_job_of_a_cancelled_flow_that_makes_children_is_cancelled_and_does_not_run_for_ever(
    scheduler: Scheduler, db: Database
) -> None:
    runs = 0

    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> None:
        nonlocal runs
        runs += 1
        await ctx.call("leaf", "nothing")

    await scheduler.start()
    waiters = Waiters(db)
    wait = await waiters.waiter()
    member = await scheduler.schedule("parent", delay=3600)
    await db.jobs.update_one({"name": "parent"}, {"$set": {"flow": "waiter", "before": [wait]}}, hint="_id_")
    await scheduler.cancel("waiter")
    assert (await member.wait(60)).state == "cancelled"
    await waiters.set("waiter", **{"cancel_tree.at": LONG_AGO})
    await waiters.due()

    async def sweep_has_forgotten_it() -> bool:
        return "check_at" not in await waiters.get()

    await eventually(sweep_has_forgotten_it, 60)
    ended = await (await scheduler.retry(member.id)).wait(60)
    assert (ended.state, runs) == ("cancelled", 1)
    assert ended.error is not None and "flow" in ended.error.message
    assert await db.jobs.count_documents({"name": "nothing"}, hint="_id_") == 0


# -- rounds, suspensions, edits ------------------------------------------------------------------------------------


async def test_a_completed_job_that_is_retried_makes_its_children_anew_and_a_failed_one_continues(
    scheduler: Scheduler,
) -> None:
    ran = with_leaf(scheduler)
    fails = [True]

    @scheduler.job("parent", retry=1)
    async def parent(ctx: JobContext) -> Any:
        result = await ctx.call("c", "leaf", {"n": 1})
        if fails:
            fails.pop()
            raise Fail("once")
        return result

    await scheduler.start()
    job = await ended(scheduler)
    assert job.state == "failed"
    await scheduler.retry(job.id)
    continued = await scheduler.wait(job.id, 60)
    assert (continued.result, len(ran)) == (1, 1)
    await scheduler.retry(job.id)
    anew = await scheduler.wait(job.id, 60)
    assert (anew.result, len(ran)) == (2, 2)


async def test_nothing_runs_after_a_suspension_that_was_caught(scheduler: Scheduler) -> None:
    order: list[str] = []

    @scheduler.job("child")
    async def child() -> None:
        await asyncio.sleep(0.1)
        order.append("child")

    async def carefully(act: Callable[[], Any]) -> None:
        try:
            await act()
        except BaseException as error:
            if type(error).__name__ != "Suspension":
                raise

    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> None:
        async def wait() -> None:
            await ctx.call("c", "child")

        async def step() -> None:
            await ctx.step("after", order.append, "step")

        async def schedule() -> None:
            await ctx.schedule("child", {})
            order.append("scheduled")

        async def call() -> None:
            await ctx.call("d", "child")

        for act in (wait, step, schedule, call):
            await carefully(act)

    await scheduler.start()
    assert (await ended(scheduler)).state == "completed"
    assert order[:3] == ["child", "step", "scheduled"]


async def test_the_data_of_a_job_that_waits_for_its_children_is_not_edited(scheduler: Scheduler, db: Database) -> None:
    store, waiters = await inside(scheduler).store(), Waiters(db)
    await waiters.waiter()
    with pytest.raises(InvalidJob, match="has made children of its data"):
        await store.jobs.edit("waiter", {"data": {"n": 2}})
    await store.jobs.edit("waiter", {"priority": 9})
    assert (await waiters.get())["priority"] == 9


async def test_a_job_may_grow_its_wait_beside_a_map_of_any_name(scheduler: Scheduler) -> None:
    with_leaf(scheduler)

    @scheduler.job("member")
    async def member(ctx: JobContext) -> int:
        await ctx.grow("leaf", {"n": 9})
        return len(await ctx.map("grow", "leaf", [{"n": 1}])) + len(await ctx.map("~grown", "leaf", [{"n": 2}]))

    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> Any:
        return await ctx.call("m", "member")

    await scheduler.start()
    assert (await ended(scheduler)).result == 2


@pytest.mark.slow
async def test_a_handler_in_a_process_of_its_own_waits(scheduler: Scheduler) -> None:
    with_leaf(scheduler)
    scheduler.job("parent", isolation="process")(flowing.waits)
    await scheduler.start()
    done = await ended(scheduler)
    assert done.result == [10, 11, 12]
    assert [step.name for step in done.steps] == ["m"]


# -- retrying a flow -----------------------------------------------------------------------------------------------


async def test_a_retry_that_dies_half_way_is_carried_on(
    scheduler: Scheduler, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, waiters = await inside(scheduler).store(), Waiters(db)
    await waiters.put("root", "failed", root=True, spawned=True)
    await waiters.put("root.a", "failed", flow="root", node="a", before=["root.b#after", "root#nodes"])
    waits = {"ids": ["root.b#after"], "total": [1], "tolerate": [0], "fail_fast": [False], "sealed": True}
    waits |= {"when": "success", "since": LONG_AGO}
    b = {"flow": "root", "node": "b", "before": ["root#nodes"], "waits": waits, "because": "root.a", "token": 0}
    await waiters.put("root.b", "cancelled", **b)
    once(monkeypatch, FlowRetries, "_seal", raises=Unavailable("died"), after=False)
    with pytest.raises(Unavailable):
        await store.flow_retries.retry("root")
    assert [await waiters.state(one) for one in ("root.a", "root.b", "root")] == ["pending", "blocked", "failed"]
    node = await waiters.get("root.b")
    assert node["waits"]["sealed"] is False and "check_at" not in node  # no sweep ends it by the state of another
    await waiters.due("root")
    checked, _ = await store.checks.sweep()
    assert [one["_id"] for one in checked.marked] == ["root"]
    assert await store.flow_retries.carry_on(checked.marked[0]) == {"root.b#after"}
    node, root = await waiters.get("root.b"), await waiters.get("root")
    assert node["waits"]["sealed"] is True and "retried" not in node["waits"]
    assert root["state"] == "pending" and "retry_tree" not in root and "check_at" not in root


@pytest.mark.slow
async def test_children_that_fail_fast_has_cancelled_run_again_when_their_flow_is_retried(
    scheduler: Scheduler, db: Database
) -> None:
    store, waiters = await inside(scheduler).store(), Waiters(db)
    wait = await waiters.waiter(total=2, fail_fast=[True])
    await waiters.child("waiter.bad", "failed", wait)
    await waiters.child("waiter.other", "pending", wait)
    await store.checks.check([wait])
    await waiters.set("waiter", state="failed", finished_at=LONG_AGO)
    assert await waiters.state("waiter.other") == "cancelled"
    await asyncio.sleep(0.002)
    await store.flow_retries.retry("waiter")
    assert {await waiters.state(one) for one in ("waiter", "waiter.bad", "waiter.other")} == {"pending"}


# -- what flows cost -----------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_the_document_of_a_parent_does_not_grow_with_its_children_and_is_written_a_few_times(
    scheduler: Scheduler, db: Database
) -> None:
    with_leaf(scheduler)

    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> Any:
        return sum([1 async for _ in await ctx.map("m", "leaf", ({"n": n} for n in range(2000)))])

    await scheduler.start()
    sizes: list[int] = []
    only_parent = [{"$match": {"operationType": {"$in": ["update", "replace"]}, "fullDocument.name": "parent"}}]
    async with await db.jobs.watch(only_parent, full_document="updateLookup") as stream:
        done = await ended(scheduler)
        while (change := await stream.try_next()) is not None:
            sizes.append(len(bson.encode(change["fullDocument"])))
    assert done.result == 2000
    assert 3 <= len(sizes) <= 20 and max(sizes) < 4000, sizes


async def test_plain_jobs_have_no_field_index_entry_or_statement_of_flows(
    scheduler: Scheduler, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_leaf(scheduler)
    noted: list[Any] = []
    for verb in ("note", "cancel_below"):
        monkeypatch.setattr(Checker, verb, lambda self, *what: noted.append(what))
    await scheduler.start()
    for n in (1, -1):
        await ended(scheduler, "leaf", {"n": n})
    later = await scheduler.schedule("leaf", {"n": 2}, delay=60)
    await scheduler.cancel(later.id)
    await scheduler.retry(later.id)
    await scheduler.delete((await scheduler.schedule("leaf", {"n": 2}, delay=60)).id)
    of_flows = {"flow", "root", "node", "label", "before", "waits", "check_at", "because", "after", "refs", "round"}
    of_flows |= {"cancel_tree", "retry_tree", "spawned"}
    async for document in db.jobs.find({}, hint="_id_"):
        assert not of_flows & document.keys()
    conditions = {"check": "check_at", "flow": "flow", "flow_ended": "flow", "roots": "root", "before": "before"}
    for index, field in conditions.items():
        found = await db.jobs.find({field: {"$exists": True}, **_partial(index)}, hint=index).to_list()
        assert found == []
    assert noted == []


def _partial(index: str) -> dict[str, Any]:
    if index == "roots":
        return {"root": True}
    if index == "flow_ended":
        return {"state": {"$in": ["completed", "failed"]}}
    return {"state": {"$in": ["pending", "failed"]}} if index == "before" else {}
