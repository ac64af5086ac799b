"""Every way in which a predecessor can end, against every `when` of the node behind it."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from harness.waiting import eventually
from mainspring import Fail, Flow, JobContext, Scheduler
from mainspring.client.scheduler import core_of

SOON = 30
RUN, CANCELLED, SKIPPED = "run", "cancelled", "skipped"
WHENS = ("success", "done", "failure")
TABLE = {
    "completed": (RUN, RUN, SKIPPED),
    "failed": (CANCELLED, RUN, RUN),
    "cancelled": (CANCELLED, RUN, RUN),
    "cancelled while running": (CANCELLED, RUN, RUN),
    "expired": (CANCELLED, RUN, RUN),
    "deleted": (CANCELLED, RUN, RUN),
    "skipped": (SKIPPED, RUN, SKIPPED),
    "retried": (RUN, RUN, SKIPPED),
}
"""What becomes of the node behind, for each `when` of WHENS."""


class Stage:
    """A predecessor that ends in a chosen way, and the node behind it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.ran: list[Any] = []
        self.started = asyncio.Event()
        self.fails = 1
        scheduler.job("works")(self.works)
        scheduler.job("fails", retry=1)(self.fail)
        scheduler.job("stays")(self.stays)
        scheduler.job("flaky", retry=2)(self.flaky)
        scheduler.job("behind")(self.behind)

    async def works(self) -> int:
        return 1

    async def fail(self) -> None:
        raise Fail("no")

    async def stays(self) -> None:
        self.started.set()
        await asyncio.sleep(60)

    async def flaky(self) -> int:
        self.fails -= 1
        if self.fails >= 0:
            raise ValueError("once")
        return 1

    async def behind(self, ctx: JobContext) -> None:
        self.ran.append({name: one.state for name, one in ctx.before.items()})


Ending = Callable[[Stage, Flow], Awaitable[None]]


async def _laid_out(stage: Stage, run: Flow) -> str:
    """The id of the predecessor, once it is stored and the node behind it waits: that one is stored first."""

    async def stored() -> bool:
        nodes = await run.refresh()
        return nodes.node("behind").state == "blocked" and nodes.node("first").state is not None

    await eventually(stored)
    return (await run.refresh()).node("first").id or ""


async def _cancel(stage: Stage, run: Flow) -> None:
    await stage.scheduler.cancel(await _laid_out(stage, run))


async def _cancel_running(stage: Stage, run: Flow) -> None:
    await stage.started.wait()
    await _cancel(stage, run)


async def _delete(stage: Stage, run: Flow) -> None:
    await stage.scheduler.delete(await _laid_out(stage, run))


async def _expire(stage: Stage, run: Flow) -> None:
    node = await _laid_out(stage, run)
    store = await core_of(stage.scheduler).store()
    past = stage.scheduler.now() - timedelta(seconds=1)
    await store.connection.jobs.update_one({"_id": node}, {"$set": {"start_by": past}}, hint="_id_")
    expired = await store.upkeep.expire(10)
    core_of(stage.scheduler).worker.waits_changed(await store.checks.held_back_by(expired))


async def _nothing(stage: Stage, run: Flow) -> None:
    return


ENDINGS: dict[str, tuple[str, dict[str, Any], Ending]] = {
    "completed": ("works", {}, _nothing),
    "failed": ("fails", {}, _nothing),
    "cancelled": ("works", {"queue": "nowhere"}, _cancel),
    "cancelled while running": ("stays", {}, _cancel_running),
    "expired": ("works", {"queue": "nowhere"}, _expire),
    "deleted": ("works", {"queue": "nowhere"}, _delete),
    "retried": ("flaky", {}, _nothing),
}


@pytest.mark.parametrize("when", WHENS)
@pytest.mark.parametrize("ending", TABLE)
@pytest.mark.slow
async def test_the_end_of_a_predecessor_decides_about_the_node_behind_it(
    make_scheduler: Callable[..., Scheduler], ending: str, when: Any
) -> None:
    scheduler = make_scheduler(queues=["default"])
    stage = Stage(scheduler)
    flow = scheduler.flow("table", queue="default")
    if ending == "skipped":
        root = flow.add("works", name="root")
        first = flow.add("works", after=root, when="failure", name="first")
        end: Ending = _nothing
    else:
        job, options, end = ENDINGS[ending]
        first = flow.add(job, name="first", **options)
    flow.add("behind", after=first, when=when)
    async with scheduler:
        run = await flow.start()
        await end(stage, run)
        ended = await run.wait(SOON)
    expected = TABLE[ending][WHENS.index(when)]
    node = ended.node("behind")
    found = RUN if node.state == "completed" else SKIPPED if node.skipped else str(node.state)
    assert found == expected
    state = {"cancelled while running": "cancelled", "skipped": "cancelled", "retried": "completed"}.get(ending, ending)
    assert stage.ran == ([{"first": state}] if expected == RUN else [])
    if expected == CANCELLED:
        assert node.because == ended.node("first").id
    assert ended.state == ("completed" if ending in ("completed", "skipped", "retried") else "failed")
