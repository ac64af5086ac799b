"""Breakers by key: one for each value, opened by that value's attempts alone, and closing off only its jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.inside import inside
from harness.looking import Database, count_jobs
from harness.waiting import eventually
from mainspring import Breaker, BreakerStatus, ConfigurationError, Fail, Scheduler
from mainspring.clock import ManualClock
from mainspring.model.limits.controls import Target

Make = Callable[..., Scheduler]
LONG = Breaker(errors=0.5, window=60, minimum=4, open_for=600, key="target")
SHORT = Breaker(errors=0.5, window=60, minimum=4, open_for=0.3, key="target")


class Hosts:
    """Some hosts, which may be down; and what was asked of each."""

    def __init__(self) -> None:
        self.errors: dict[str, Exception] = {}
        self.calls: list[str] = []

    def serve(self, *schedulers: Scheduler, breaker: Breaker) -> None:
        for scheduler in schedulers:

            @scheduler.job("call", retry=1, breaker=breaker)
            async def call(target: str = "") -> None:
                self.calls.append(target)
                if target in self.errors:
                    raise self.errors[target]


@pytest.fixture
def hosts() -> Hosts:
    return Hosts()


async def call(scheduler: Scheduler, target: str, times: int = 1) -> list[str]:
    jobs = [await scheduler.schedule("call", {"target": target}) for _ in range(times)]
    return [(await scheduler.wait(job.id, 60)).state for job in jobs]


async def of(scheduler: Scheduler, value: Any) -> BreakerStatus | None:
    return next((one for one in await scheduler.limits.breakers() if one.value == value), None)


async def becomes(scheduler: Scheduler, value: Any, *states: str) -> BreakerStatus:
    async def look() -> BreakerStatus | None:
        found = await of(scheduler, value)
        return found if found is not None and found.state in states else None

    found: BreakerStatus = await eventually(look)
    return found


async def counted(scheduler: Scheduler, value: Any, ends: int) -> BreakerStatus:
    """A breaker when so many ends are counted, which is a moment after the jobs have ended."""

    async def look() -> BreakerStatus | None:
        found = await of(scheduler, value)
        return found if found is not None and found.good + found.bad >= ends else None

    found: BreakerStatus = await eventually(look)
    return found


@pytest.mark.slow
async def test_a_breaker_by_key_opens_for_the_value_that_fails_and_for_no_other(
    make_scheduler: Make, hosts: Hosts
) -> None:
    worker, other = make_scheduler(), make_scheduler()
    hosts.serve(worker, breaker=LONG)
    heard: list[BreakerStatus] = []
    worker.on("breaker:open", heard.append)
    await worker.start()
    hosts.errors["down.example"] = ConnectionError("down")
    await call(other, "up.example", 4)
    await call(other, "down.example", 4)
    opened = await becomes(other, "down.example", "open")
    assert (opened.scope, opened.target, opened.key, opened.good, opened.bad) == ("name", "call", "target", 0, 4)
    await eventually(lambda: inside(worker).limits.closures)
    calls = len(hosts.calls)
    waits = await other.schedule("call", {"target": "down.example"})
    assert await call(other, "up.example", 3) == ["completed"] * 3
    assert hosts.calls[calls:] == ["up.example"] * 3
    held = (await eventually(lambda: _held(other, waits.id))).waiting_for
    assert held.note == (
        "The breaker of the job 'call' with target 'down.example' is open: 4 of the 4 attempts of the last 60 s failed."
    )
    up = await of(other, "up.example")
    assert up is not None and (up.state, up.bad) == ("closed", 0)
    assert [one.value for one in heard] == ["down.example"]


async def _held(scheduler: Scheduler, job_id: str) -> Any:
    job = await scheduler.get_job(job_id)
    return job if job.waiting_for is not None else None


@pytest.mark.slow
async def test_a_probe_of_a_value_closes_that_values_breaker(make_scheduler: Make, hosts: Hosts, db: Database) -> None:
    worker, other = make_scheduler(), make_scheduler()
    hosts.serve(worker, breaker=SHORT)
    await worker.start()
    hosts.errors |= {"a.example": ConnectionError("down"), "b.example": ConnectionError("down")}
    await call(other, "a.example", 4)
    await call(other, "b.example", 4)
    await becomes(other, "a.example", "open", "half_open")
    await becomes(other, "b.example", "open", "half_open")
    del hosts.errors["a.example"]
    assert await call(other, "a.example", 6) == ["completed"] * 6
    assert (await becomes(other, "a.example", "closed")).bad == 0
    assert (await becomes(other, "b.example", "open", "half_open")).key == "target"
    del hosts.errors["b.example"]
    assert await call(other, "b.example", 3) == ["completed"] * 3
    assert await count_jobs(db, line={"$exists": True}) == 0


@pytest.mark.slow
async def test_a_failure_that_is_no_outage_counts_as_a_sign_of_life_and_one_that_tells_nothing_does_not_count(
    scheduler: Scheduler, hosts: Hosts
) -> None:
    hosts.serve(scheduler, breaker=LONG)
    await scheduler.start()
    hosts.errors["missing.example"] = Fail("answered 404", outage=False)
    hosts.errors["odd.example"] = Fail("no such secret", outage=None)
    hosts.errors["down.example"] = Fail("answered 503")
    for host in ("missing.example", "odd.example", "down.example"):
        assert await call(scheduler, host, 5) == ["failed"] * 5
    await becomes(scheduler, "down.example", "open")
    missing = await counted(scheduler, "missing.example", 5)
    assert (missing.state, missing.good, missing.bad) == ("closed", 5, 0)
    assert await of(scheduler, "odd.example") is None


async def test_an_exception_tells_by_its_attribute_whether_it_is_an_outage(scheduler: Scheduler, hosts: Hosts) -> None:
    class Refused(Exception):
        outage = False

    hosts.serve(scheduler, breaker=LONG)
    await scheduler.start()
    hosts.errors["a.example"] = Refused("400")
    await call(scheduler, "a.example", 5)
    status = await counted(scheduler, "a.example", 5)
    assert (status.state, status.good, status.bad) == ("closed", 5, 0)


async def test_a_value_is_broken_by_hand_and_explained_and_mended_by_hand(make_scheduler: Make, hosts: Hosts) -> None:
    worker, other = make_scheduler(), make_scheduler()
    hosts.serve(worker, breaker=LONG)
    await worker.start()
    key = {"target": "a.example"}
    opened = await other.limits.open_breaker(name="call", key=key, reason="they asked us to", actor="anna")
    assert (opened.state, opened.key, opened.value, opened.actor) == ("open", "target", "a.example", "anna")
    await eventually(lambda: inside(worker).limits.closures)
    waits = await other.schedule("call", {"target": "a.example"})
    assert await call(other, "b.example") == ["completed"]
    await eventually(lambda: _held(other, waits.id))
    told = next(gate for gate in (await other.explain(waits.id)).gates if gate.kind == "breaker")
    assert (told.open, told.data["key"], told.data["value"]) == (False, "target", "a.example")
    assert told.text == (
        "The breaker of jobs of 'call' with target=a.example was opened by anna, until an operator closes it: "
        "they asked us to."
    )
    assert (await other.limits.close_breaker(name="call", key=key)).state == "closed"
    assert (await other.wait(waits.id, 60)).state == "completed"


@pytest.mark.slow
async def test_a_long_value_and_a_missing_one_have_breakers_too(scheduler: Scheduler) -> None:
    @scheduler.job("call", retry=1, breaker=LONG)
    async def call(**data: Any) -> None:
        raise ConnectionError("down")

    await scheduler.start()
    for data in ({"target": "x" * 5000}, {"target": {"a": 1}}, {}):
        jobs = [await scheduler.schedule("call", data) for _ in range(4)]
        for job in jobs:
            await scheduler.wait(job.id, 60)

    async def all_open() -> bool:
        found = await scheduler.limits.breakers()
        return [one.state for one in found] == ["open"] * 3 and all(len(str(one.value)) <= 120 for one in found)

    await eventually(all_open)
    await eventually(lambda: len(inside(scheduler).limits.closures) == 3)
    waits = await scheduler.schedule("call", {"target": "x" * 5000})
    await eventually(lambda: _held(scheduler, waits.id))


async def test_closed_breakers_of_values_are_forgotten_when_nothing_is_counted_for_long(make_scheduler: Make) -> None:
    clock = ManualClock()
    store = await inside(make_scheduler(clock=clock)).store()
    for value in ("quiet", "broken"):
        await store.controls.count(Target("name", "call", "target", value), LONG, 0, 4 if value == "broken" else 1)
    await store.controls.count(Target("name", "call"), Breaker(), 1, 0)
    clock.advance(599)
    assert await store.controls.forget(100) == 0
    await store.controls.count(Target("name", "call", "target", "busy"), LONG, 1, 0)
    clock.advance(2)
    assert await store.controls.forget(100) == 1
    left = {one["_id"] for one in await store.controls.find()}
    assert left == {"breaker:name:call", "breaker:name:call:target=busy", "breaker:name:call:target=broken"}
    in_force = {one["_id"] for one in await store.controls.find_in_force()}
    assert in_force == {"breaker:name:call:target=broken"}


async def test_a_declared_breaker_by_key_is_shown_until_a_value_has_one(scheduler: Scheduler, hosts: Hosts) -> None:
    hosts.serve(scheduler, breaker=LONG)
    (shown,) = await scheduler.limits.breakers()
    assert (shown.state, shown.key, shown.value, shown.rule) == ("closed", "target", None, LONG)
    await scheduler.limits.open_breaker(name="call", key={"target": "a.example"})
    (shown,) = await scheduler.limits.breakers()
    assert (shown.state, shown.value, shown.rule) == ("open", "a.example", LONG)


def test_a_breakers_key_is_a_path_and_survives_its_document() -> None:
    assert Breaker.from_document(LONG.to_document()) == LONG
    assert "key" not in Breaker().to_document()
    with pytest.raises(ConfigurationError, match="A key is the path of a value"):
        Breaker(key="a..b")


def test_encrypted_data_cannot_tell_breakers_apart() -> None:
    scheduler = Scheduler("mongodb://127.0.0.1:1/x", keys={"k": bytes(32)})
    with pytest.raises(ConfigurationError, match="target"):
        scheduler.job("call", breaker=LONG, encrypt=["target"])(lambda target: None)
