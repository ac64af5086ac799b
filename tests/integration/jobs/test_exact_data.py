"""Whatever verb takes data from a caller: the handler receives exactly that, or the verb refuses it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from mainspring import BulkError, Every, InvalidJob, JobContext, Retry, Scheduler

pytestmark = pytest.mark.usefixtures("uri")

Verb = Callable[[Scheduler, str, dict[str, Any]], Awaitable[Any]]
GIVEN = {"lines": ("a", "b"), "price": Decimal("1.20"), "ids": {1, 2}}
LATER = timedelta(hours=1)


async def _schedule(scheduler: Scheduler, name: str, data: dict[str, Any]) -> None:
    await scheduler.schedule(name, data)


async def _bulk(scheduler: Scheduler, name: str, data: dict[str, Any]) -> None:
    try:
        await scheduler.schedule_bulk([{"name": name, "data": data}])
    except BulkError as error:
        raise error.errors[0] from None


async def _bulk_with_options(scheduler: Scheduler, name: str, data: dict[str, Any]) -> None:
    try:
        await scheduler.schedule_bulk([{"name": name, "data": data, "tags": ["t"]}])
    except BulkError as error:
        raise error.errors[0] from None


async def _repeat(scheduler: Scheduler, name: str, data: dict[str, Any]) -> None:
    schedule = await scheduler.schedule(name, data, repeat=Every("1h"))
    await schedule.trigger()


async def _edit_schedule(scheduler: Scheduler, name: str, data: dict[str, Any]) -> None:
    first = {"lines": [], "price": "0", "ids": []} if name == "typed" else {"lines": [], "price": 0, "ids": 0}
    schedule = await scheduler.schedule(name, first, repeat=Every("1h"))
    await (await schedule.edit(data=data)).trigger()


async def _update(scheduler: Scheduler, name: str, data: dict[str, Any]) -> None:
    job = await scheduler.schedule(name, {"lines": [], "price": "0", "ids": []}, delay=LATER)
    await scheduler.update(job.id, data=data, run_at=datetime.now(UTC))


async def _debounce(scheduler: Scheduler, name: str, data: dict[str, Any]) -> None:
    await scheduler.schedule(name, data, debounce=0.01)


async def _in_transaction(scheduler: Scheduler, name: str, data: dict[str, Any]) -> None:
    async with scheduler.transaction() as tx:
        await scheduler.schedule(name, data, session=tx.session)


async def _child(scheduler: Scheduler, name: str, data: dict[str, Any]) -> None:
    async def parent(ctx: JobContext) -> None:
        await ctx.schedule(name, data)

    scheduler.job("parent", retry=Retry(attempts=1))(parent)
    done = await scheduler.wait((await scheduler.schedule("parent")).id)
    if done.error is not None:
        raise InvalidJob(done.error.message)


VERBS: list[Verb] = [
    *(_schedule, _bulk, _bulk_with_options, _repeat, _edit_schedule, _update, _debounce, _in_transaction, _child)
]


class Receiver:
    """Handlers with annotations and without, and what they have received."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.received: list[dict[str, Any]] = []
        scheduler.job("typed")(self.typed)
        scheduler.job("untyped")(self.untyped)
        scheduler.job("context")(self.context)

    async def typed(self, lines: list[str], price: Decimal, ids: set[int]) -> None:
        self.received.append({"lines": lines, "price": price, "ids": ids})

    async def untyped(self, lines, price, ids) -> None:  # type: ignore[no-untyped-def]
        self.received.append({"lines": lines, "price": price, "ids": ids})

    async def context(self, ctx: JobContext) -> None:
        self.received.append(dict(ctx.data))


async def _ran(scheduler: Scheduler, name: str) -> None:
    async for job in scheduler.jobs(name=name):
        assert (await scheduler.wait(job.id, timeout=60)).state == "completed"


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__.strip("_"))
async def test_each_verb_delivers_values_that_the_annotations_turn_back(scheduler: Scheduler, verb: Verb) -> None:
    receiver = Receiver(scheduler)
    await scheduler.start()
    await verb(scheduler, "typed", dict(GIVEN))
    await _ran(scheduler, "typed")
    assert receiver.received == [{"lines": ["a", "b"], "price": Decimal("1.20"), "ids": {1, 2}}]


@pytest.mark.parametrize("name", ["typed", "untyped", "context", "unknown"])
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__.strip("_"))
async def test_each_verb_refuses_an_iterator_and_stores_nothing(scheduler: Scheduler, verb: Verb, name: str) -> None:
    receiver = Receiver(scheduler)
    if verb is _child:
        await scheduler.start()
    with pytest.raises(InvalidJob, match=r"data\['lines'\] is of type map, which can be read only once"):
        await verb(scheduler, name, {"lines": map(str, [1]), "price": 1, "ids": []})
    assert [one.data["lines"] async for one in scheduler.jobs(name=name) if one.data["lines"]] == []
    assert receiver.received == []


@pytest.mark.parametrize("name", ["untyped", "context", "unknown"])
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__.strip("_"))
async def test_each_verb_refuses_what_no_annotation_turns_back(scheduler: Scheduler, verb: Verb, name: str) -> None:
    Receiver(scheduler)
    if verb is _child:
        await scheduler.start()
    with pytest.raises(InvalidJob, match=r"data\['lines'\] is of type tuple; it is stored as a list"):
        await verb(scheduler, name, dict(GIVEN))


async def test_a_redrive_lays_exact_values_over_the_data(scheduler: Scheduler) -> None:
    prices: list[Any] = []

    @scheduler.job("pay", retry=Retry(attempts=1))
    async def pay(price: Decimal) -> None:
        prices.append(price)
        if price == 1:
            raise ValueError("no")

    await scheduler.start()
    job = await scheduler.schedule("pay", {"price": Decimal("1")})
    assert (await scheduler.wait(job.id, timeout=60)).state == "failed"
    for data in ({"price": map(str, "1")}, {"price": {"a": Decimal("2")}}):
        with pytest.raises(InvalidJob, match=r"data\['price'\]"):
            await scheduler.dead_letters.retry(name="pay", data=data)
    with pytest.raises(InvalidJob, match="no annotation of a handler"):
        await scheduler.dead_letters.retry(everything=True, data={"price": Decimal("2.50")})
    await scheduler.dead_letters.retry(name="pay", data={"price": Decimal("2.50")})
    assert (await scheduler.wait(job.id, timeout=60)).state == "completed"
    assert prices == [Decimal("1"), Decimal("2.50")]


async def test_the_job_that_is_returned_has_the_data_that_is_stored(scheduler: Scheduler) -> None:
    @scheduler.job("pay")
    async def pay(price: Decimal) -> None: ...

    one = await scheduler.schedule("pay", {"price": Decimal("1.20")})
    (other,) = await scheduler.schedule_bulk([{"name": "pay", "data": {"price": Decimal("1.20")}}])
    for job in (one, other):
        assert job.data == (await scheduler.get_job(job.id)).data == {"price": "1.20"}
