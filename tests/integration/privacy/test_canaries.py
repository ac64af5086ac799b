"""Secrets planted wherever a job can carry one, and then looked for everywhere: in the database's files, in every
collection and the oplog, in the logs and in what callbacks were given."""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from harness.apps import sealed
from harness.canaries import UNCOMPRESSED, Canaries, documents, files
from harness.servers import Servers
from harness.waiting import eventually
from mainspring import Cancel, Every, Fail, Job, JobContext, Retry, RetryAfter, Scheduler
from mainspring.model.jobs.event_names import EVENTS


@pytest.fixture(scope="module")
def open_servers() -> Iterator[Servers]:
    """A replica set whose files are written as they are, so that they can be searched."""
    with Servers(1, name="canaries", tablescans=True, arguments=UNCOMPRESSED) as servers:
        yield servers


def told(payload: Any) -> str:
    """All that a callback could find in what it was given."""
    if isinstance(payload, list):
        return " ".join(map(told, payload))
    return f"{payload!r} {vars(payload)!r}" if hasattr(payload, "__dict__") else repr(payload)


@pytest.fixture
async def scheduler(open_servers: Servers) -> AsyncIterator[Scheduler]:
    scheduler = Scheduler(
        open_servers.uri(f"t_{secrets.token_hex(4)}"), poll_interval=0.2, keys={"k": secrets.token_bytes(32)}
    )
    yield scheduler
    await scheduler.stop(graceful=False)


def register(scheduler: Scheduler, canaries: Canaries) -> None:
    """Handlers that do with their secrets whatever a careless one would."""

    @scheduler.job("pay", encrypt=["card.number", "note"], retry=1)
    async def pay(ctx: JobContext, card: dict[str, str], note: str) -> dict[str, str]:
        ctx.log(f"paying with {card['number']}")
        ctx.progress(50, f"half of {card['number']}")
        await ctx.step("ask", lambda: f"{note} and {canaries.plant('a step')}")
        await ctx.schedule("quiet", {"secret": card["number"]}, encrypt=True)
        return {"receipt": card["number"], "own": canaries.plant("a result")}

    @scheduler.job("raise", encrypt=True, retry=Retry(attempts=2, delay=0))
    async def raise_(secret: str, deep: dict[str, Any]) -> None:
        local = f"{secret} in a local variable"
        try:
            raise KeyError(deep["er"][0])
        except KeyError as error:
            raise RuntimeError(f"cannot use {secret}{local[:0]}") from error

    @scheduler.job("end", encrypt=True, retry=1)
    async def end(ctx: JobContext, secret: str, how: str) -> None:
        if how == "retry":
            raise RetryAfter(0, secret)
        raise {"cancel": Cancel, "fail": Fail}[how](secret)

    @scheduler.job("commit", encrypt=True)
    async def commit(ctx: JobContext, secret: str) -> None:
        async with ctx.transaction() as tx:
            tx.result = {"secret": secret}
        raise ValueError(secret)

    @scheduler.dead_letters.handler()
    async def alert(ctx: JobContext) -> None:
        ctx.log(f"told of {ctx.data}")

    @scheduler.job("quiet", encrypt=True)
    async def quiet(secret: str) -> str:
        return secret

    for function in (sealed.tell, sealed.fail):
        scheduler.job(function.__name__, isolation="process", encrypt=True, retry=1)(function)


async def plant(scheduler: Scheduler, canaries: Canaries) -> list[Job]:
    """Jobs by every way there is, with a secret of its own in each."""

    def data(place: str) -> dict[str, str]:
        return {"secret": canaries.plant(place)}

    card = {"card": {"number": canaries.plant("a field")}, "note": canaries.plant("another field")}
    later = await scheduler.schedule("quiet", data("data that was changed"), delay=3600)
    await scheduler.schedule("quiet", data("a schedule"), repeat=Every("1h"), schedule_id="nightly")
    await scheduler.schedules.edit("nightly", data=data("an edited schedule"))
    async with scheduler.transaction() as tx:
        transacted = await scheduler.schedule("quiet", data("a transaction"), session=tx.session)
    return [
        await scheduler.schedule("pay", card),
        await scheduler.schedule(
            "raise", {**data("an error"), "deep": {"er": [canaries.plant("a chained error")]}}, dedupe_key="one"
        ),
        *[
            await scheduler.schedule("end", {**data(f"an end: {how}"), "how": how})
            for how in ("cancel", "fail", "retry")
        ],
        await scheduler.schedule("commit", data("a handler's transaction")),
        await scheduler.schedule("quiet", data("a debounced job"), debounce=0.1, dedupe_key="two"),
        *await scheduler.schedule_bulk([{"name": "quiet", "data": data(f"a bulk: {n}")} for n in range(3)]),
        await scheduler.schedule("tell", data("a process")),
        await scheduler.schedule("fail", data("a process that fails")),
        await scheduler.run_now((await scheduler.update(later.id, data=data("new data"))).id),
        await scheduler.schedules.trigger("nightly"),
        transacted,
    ]


@pytest.mark.slow
async def test_no_planted_secret_is_found_anywhere(
    open_servers: Servers, scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    heard: list[str] = []
    for event in EVENTS:
        scheduler.on(event, lambda *payload, event=event: heard.append(event + " ".join(map(told, payload))))
    planted, control = Canaries(), Canaries()
    register(scheduler, planted)
    await scheduler.start()
    await scheduler.schedule("plain", {"x": control.plant("a job that is not encrypted")}, delay=3600)
    jobs = await plant(scheduler, planted)
    ended = [await scheduler.wait(job.id, timeout=60) for job in jobs]
    await eventually(lambda: sum(one.startswith("job:fail") for one in heard) >= 4)
    assert {job.state for job in ended} == {"completed", "failed", "cancelled"}
    assert len(await scheduler.dead_letters.groups()) >= 3
    for job in (await scheduler.retry(ended[1].id), ended[0]):
        await scheduler.wait(job.id, timeout=60)
        await scheduler.explain(job.id)
    # The search finds what is there to be found.
    for place in (files(open_servers), documents(open_servers), "\n".join(heard).encode()):
        assert control.found_in(place) == {"a job that is not encrypted"}
    assert "The handler of job" in caplog.text and len(heard) > 30
    # And nothing that was encrypted.
    assert planted.found_in(files(open_servers)) == set()
    assert planted.found_in(documents(open_servers)) == set()
    assert planted.found_in(caplog.text.encode()) == set()
    assert planted.found_in("\n".join(heard).encode()) == set()
    # A process that has the key reads it all.
    assert ended[0].result["own"] == planted.plant("a result")
    assert ended[1].data["secret"] == planted.plant("an error")
