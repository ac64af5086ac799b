"""Flows together with the rest: schedules, encryption, processes, the blocking face, and explanations."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from harness.apps import flowing
from harness.waiting import eventually
from mainspring import Every, InvalidFlow, InvalidSchedule, JobContext, Scheduler
from mainspring.client.scheduler import core_of
from mainspring.sync import Flow as BlockingFlow
from mainspring.sync import Scheduler as BlockingScheduler

SOON = 30
KEYS = {"k1": b"0" * 32}


async def test_each_firing_of_a_schedule_starts_the_flow(scheduler: Scheduler) -> None:
    ran: list[str] = []

    @scheduler.job("step")
    async def step(ctx: JobContext) -> None:
        ran.append(ctx.id)

    flow = scheduler.flow("nightly", tags=["night"])
    flow.add("step", after=flow.add("step", name="first"), name="second")
    schedule = await scheduler.schedule(flow, repeat=Every("1h"), schedule_id="nightly", overlap="skip")
    assert schedule.id == "nightly"
    async with scheduler:
        job = await scheduler.schedules.trigger("nightly")
        ended = await (await scheduler.flows.get(job.id)).wait(SOON)
    assert (ended.name, ended.state) == ("nightly", "completed")
    assert (await scheduler.get_job(job.id)).tags == ("night",)
    assert len(ran) == 2
    with pytest.raises(InvalidFlow, match=r"flow\.start\(\)"):
        await scheduler.schedule(flow)  # type: ignore[call-overload]
    with pytest.raises(InvalidSchedule, match="dedupe_key is for a single job"):
        await scheduler.schedule(scheduler_flow(scheduler, dedupe_key="x"), repeat=Every("1h"))


def scheduler_flow(scheduler: Scheduler, **options: Any) -> Any:
    flow = scheduler.flow("other", **options)
    flow.add("step")
    return flow


@pytest.mark.slow
async def test_what_belongs_to_a_flow_or_its_nodes_is_refused_for_its_schedule(scheduler: Scheduler) -> None:
    flow = scheduler.flow("nightly")
    flow.add("report")
    with pytest.raises(InvalidFlow, match=r"The data of a flow is given to flow\(name, data\)"):
        await scheduler.schedule(flow, {"day": 1}, repeat=Every("1h"))
    options: Any
    for option in ("retry", "timeout"):
        options = {option: 3}
        with pytest.raises(InvalidFlow, match=f"{option} is an option of the jobs of a flow; give it to its nodes"):
            await scheduler.schedule(flow, repeat=Every("1h"), **options)


async def test_values_that_a_node_has_encrypted_are_nowhere_stored_in_plain_text(
    make_scheduler: Callable[..., Scheduler],
) -> None:
    scheduler = make_scheduler(keys=KEYS)
    seen: list[Any] = []

    @scheduler.job("secret", encrypt=True)
    async def secret(word: str) -> dict[str, str]:
        return {"word": word * 2}

    @scheduler.job("open")
    async def opened(ctx: JobContext, word: str) -> None:
        seen.append((word, ctx.before.result))

    @scheduler.job("item", encrypt=["word"])
    async def item(word: str) -> None:
        seen.append(word)

    flow = scheduler.flow("hidden")
    first = flow.add("secret", {"word": "canary"})
    flow.add("open", {"word": first.result["word"]}, after=first)
    flow.map("item", over=[{"word": "canary3"}], after=first)
    run = await flow.start()
    jobs = (await core_of(scheduler).store()).connection.jobs
    assert "canary" not in str(await jobs.find_all({}, hint="_id_"))
    async with scheduler:
        ended = await run.wait(SOON)
    assert ended.state == "completed", ended.error
    jobs = (await core_of(scheduler).store()).connection.jobs
    assert "canary" not in str(await jobs.find_all({}, hint="_id_"))
    assert ("canarycanary", {"word": "canarycanary"}) in seen and "canary3" in seen
    assert [node.name for node in ended.nodes] == ["secret", "open", "item"]


async def test_values_that_the_handler_of_a_node_redacts_are_not_shown_in_the_root(scheduler: Scheduler) -> None:
    @scheduler.job("pay", redact=["iban", "card.number"])
    async def pay(iban: str, card: dict[str, str]) -> None:
        return

    values = {"iban": "canary-iban", "card": {"number": "canary-card", "owner": "ann"}}
    flow = scheduler.flow("redacted")
    flow.add("pay", values)
    flow.map("pay", over=[values], name="many")
    root = await scheduler.get_job((await flow.start()).id)
    shown = str(scheduler.privacy.shown(root).data)
    assert "canary" not in shown and "ann" in shown


@pytest.mark.slow
async def test_nodes_of_one_sequence_run_one_after_the_other_and_hold_up_no_job_while_they_wait(
    scheduler: Scheduler,
) -> None:
    ran: list[str] = []
    go = asyncio.Event()

    @scheduler.job("ship", sequence="order")
    async def ship(order: int, what: str) -> None:
        ran.append(what)

    @scheduler.job("pack")
    async def pack() -> None:
        await go.wait()

    await scheduler.start()
    run = await scheduler.chain(
        (ship, {"order": 7, "what": "pick"}),
        pack,
        (ship, {"order": 7, "what": "send"}),
        (ship, {"order": 7, "what": "bill"}),
    )
    await eventually(lambda: ran == ["pick"])
    later = await ship.schedule(order=7, what="later")
    assert (await later.wait(timeout=SOON)).state == "completed"
    go.set()

    assert (await run.wait(timeout=SOON)).state == "completed"
    assert ran == ["pick", "later", "send", "bill"]


async def test_a_handler_does_not_wait_for_a_child_of_its_own_sequence(scheduler: Scheduler) -> None:
    @scheduler.job("ship", sequence="order")
    async def ship(ctx: JobContext, order: int, parts: int = 0) -> int:
        for part in range(parts):
            await ctx.call(f"part-{part}", ship, {"order": order + part})
        return parts

    await scheduler.start()
    job = await ship.schedule(order=7, parts=1)
    other = await ship.schedule(order=7)

    refused = await job.wait(timeout=SOON)
    assert "belongs to the sequence 'ship:7', as this job does" in str(refused.error)
    await scheduler.delete(job.id)
    assert (await other.wait(timeout=SOON)).state == "completed"


async def test_a_handler_does_not_wait_for_a_child_of_a_sequence_whose_job_waits_for_it(scheduler: Scheduler) -> None:
    @scheduler.job("ship", sequence="order")
    async def ship(ctx: JobContext, order: int, pack: bool = False) -> None:
        if pack:
            await ctx.call("packed", "pack", {"order": order})

    @scheduler.job("pack")
    async def pack(ctx: JobContext, order: int) -> None:
        await ctx.call("billed", "bill", {"order": order})

    @scheduler.job("bill")
    async def bill(ctx: JobContext, order: int) -> None:
        await ctx.call("other", ship, {"order": order + 1})
        await ctx.call("same", ship, {"order": order})

    await scheduler.start()
    job = await ship.schedule(order=7, pack=True)

    assert (await job.wait(timeout=SOON)).state == "failed"
    (bill_job,) = [one async for one in scheduler.jobs(name="bill")]
    assert f"belongs to the sequence 'ship:7', as job {job.id} does" in str(bill_job.error)


async def test_a_job_of_a_sequence_is_not_added_to_the_wait_of_a_job_of_the_same(scheduler: Scheduler) -> None:
    @scheduler.job("ship", sequence="order")
    async def ship(ctx: JobContext, order: int, pack: bool = False) -> None:
        if pack:
            await ctx.call("packed", "pack", {"order": order})

    @scheduler.job("pack")
    async def pack(ctx: JobContext, order: int) -> None:
        await ctx.grow(ship, {"order": order})

    await scheduler.start()
    job = await ship.schedule(order=7, pack=True)

    assert (await job.wait(timeout=SOON)).state == "failed"
    (packing,) = [one async for one in scheduler.jobs(name="pack")]
    assert f"belongs to the sequence 'ship:7', as job {job.id} does" in str(packing.error)


async def test_a_handler_in_a_process_of_its_own_gets_references_and_its_predecessors(scheduler: Scheduler) -> None:
    scheduler.job("first")(flowing.first)
    scheduler.job("second", isolation="process")(flowing.second)
    flow = scheduler.flow("process")
    first = flow.add("first")
    flow.add("second", {"value": first.result["value"]}, after=first)
    async with scheduler:
        ended = await (await flow.start()).wait(60)
    assert (await scheduler.get_job(ended.node("second").id or "")).result == [7, {"value": 7}, "completed"]


@pytest.mark.slow
def test_the_blocking_face_declares_starts_and_follows_flows(uri: str) -> None:
    scheduler = BlockingScheduler(uri, poll_interval=0.2)
    try:

        @scheduler.job("number")
        def number(n: int) -> int:
            return n

        flow = scheduler.flow("blocking")
        first = flow.add(number, {"n": 4})
        flow.map(number, over=[{"n": 1}, {"n": 2}], after=first, name="mapped")
        with scheduler:
            run = flow.start()
            assert isinstance(run, BlockingFlow)
            ended = run.wait(SOON)
            assert ended.state == "completed", ended.error
            assert ended.refresh().node("mapped").counts == {"completed": 2}
            assert [one.id for one in scheduler.flows.find(name="blocking")] == [run.id]
            chained = scheduler.chain((number, {"n": 1}), (number, {"n": 2})).wait(SOON)
            assert chained.state == "completed"
            batch = scheduler.batch({"name": "number", "data": {"n": n}} for n in range(3))
            assert batch.wait(SOON).state == "completed"
            assert scheduler.schedule(flow, repeat=Every("1h"), schedule_id="s").id == "s"
    finally:
        scheduler.stop()


@pytest.mark.slow
async def test_an_explanation_says_how_much_is_left_of_what_a_job_waits_for(scheduler: Scheduler) -> None:
    door, started = asyncio.Event(), asyncio.Event()

    @scheduler.job("item", retry=1)
    async def item(n: int) -> None:
        if n == 0:
            raise ValueError
        if n == 1:
            started.set()
            await door.wait()

    @scheduler.job("load")
    async def load() -> None:
        return

    flow = scheduler.flow("explained")
    items = flow.map("item", over=[{"n": n} for n in range(4)], tolerate=1, name="transform")
    flow.add("load", after=items)
    async with scheduler:
        run = await flow.start()
        await asyncio.wait_for(started.wait(), SOON)

        async def one_left() -> bool:
            counts = (await run.refresh()).node("transform").counts
            return counts == {"running": 1, "completed": 2, "failed": 1}

        await eventually(one_left)
        current = await run.refresh()
        explained = await scheduler.explain(current.node("load").id or "")
        assert explained.holding is not None and explained.holding.kind == "dependency"
        assert "It waits for transform: 1 of 4 left, oldest running for" in explained.text
        assert "1 failed" in explained.text
        assert "It waits for 'transform'" in str(current.node("load").holding)
        assert "1 of 4 left" in str(current.node("transform").holding)
        root = await scheduler.explain(run.id)
        assert "It waits for nodes: 2 of 2 left" in root.text
        door.set()
        assert (await run.wait(SOON)).state == "completed"


async def test_every_worker_runs_flows_and_none_says_so_among_its_handlers(
    make_scheduler: Callable[..., Scheduler],
) -> None:
    """The roots of flows are run by workers that have no handler for any of their nodes, too."""
    client, worker = make_scheduler(), make_scheduler()
    flow = client.flow("bare")
    flow.add("nobody-has-it")
    run = await flow.start()
    async with worker:
        await eventually(lambda: _blocked(client, run.id))
        (status,) = await client.workers.all()
        assert "mainspring:flow" not in (status.handlers or ())
        assert "no live worker" in str((await client.explain((await run.refresh()).nodes[0].id or "")).text).lower()
        await run.cancel()


async def _blocked(scheduler: Scheduler, job_id: str) -> bool:
    return (await scheduler.get_job(job_id)).state == "blocked"


async def test_flows_that_handlers_make_are_found_by_the_names_of_their_jobs(scheduler: Scheduler) -> None:
    @scheduler.job("leaf")
    async def leaf() -> None: ...

    @scheduler.job("site")
    async def site(ctx: JobContext) -> None:
        await ctx.call("leaf", leaf)

    flow = scheduler.flow("declared")
    flow.add(leaf)
    async with scheduler:
        job = await site.schedule()
        await job.wait(SOON)
        run = await (await flow.start()).wait(SOON)
    assert [found.id async for found in scheduler.flows.find(name="site")] == [job.id]
    assert [found.id for found in await scheduler.flows.all(name="site", state="completed")] == [job.id]
    assert [found.id async for found in scheduler.flows.find(name="declared")] == [run.id]
    assert await scheduler.flows.all(name="mainspring:flow") == []
