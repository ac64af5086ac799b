"""The books of slots balance, whatever raises or is cancelled between counting a slot and writing to the database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pymongo.errors import BulkWriteError

from harness.inside import inside
from harness.looking import Database
from harness.slots import lapse, limiter_of
from harness.waiting import eventually
from mainspring import Limit, Rate, Scheduler
from mainspring.clock import monotonic
from mainspring.engine.limits.limiter import Limiter
from mainspring.engine.run.claimed_jobs import ClaimedJob
from mainspring.engine.run.context_backend import ContextBackend
from mainspring.errors import Unavailable
from mainspring.store import Store
from mainspring.store.jobs.claim import fields_of
from mainspring.store.jobs.stored_job import StoredJob
from mainspring.store.limits.semaphore import Want

Make = Callable[..., Scheduler]
GATE, RATE_GATE = "c:name:x", "r:name:x"


class Fault:
    """Stands in for a verb of the store once: raises before or after it does its work, then lets it be."""

    def __init__(self, verbs: object, name: str, error: type[BaseException], *, after: bool = False) -> None:
        self._verbs, self._name, self._error, self._after = verbs, name, error, after
        self._verb = getattr(verbs, name)
        self.met = False
        setattr(verbs, name, self)

    async def __call__(self, *args: Any, **options: Any) -> Any:
        setattr(self._verbs, self._name, self._verb)
        self.met = True
        if self._after:
            await self._verb(*args, **options)
        raise self._error("injected")


FAULTS = [(Unavailable, False), (Unavailable, True), (asyncio.CancelledError, False), (asyncio.CancelledError, True)]
EACH_FAULT = pytest.mark.parametrize(("error", "after"), FAULTS, ids=["before", "reply", "cancel", "cancel-after"])


def limited(scheduler: Scheduler, **options: Any) -> Scheduler:
    @scheduler.job("x", **options)
    async def x(n: int = 0, tenant: str = "") -> None:
        pass

    return scheduler


async def candidates(scheduler: Scheduler, number: int, **options: Any) -> list[StoredJob]:
    """Ready jobs, as a worker reads them that is the first to know of their limits."""
    with inside(scheduler).without_limits():
        await scheduler.schedule_bulk([{"name": "x", "data": {"n": n}, **options} for n in range(number)])
    store = await inside(scheduler).store()

    async def all_are_due() -> list[StoredJob] | None:
        found = await store.claims.candidates("default", number)
        return found if len(found) == number else None

    return list(await eventually(all_are_due))


async def granted(db: Database, gate: str = GATE) -> int:
    """How much of a gate is taken in the database."""
    found = await db["jobs.gates"].find_one({"_id": gate}) or {}
    return sum(grant["n"] for grant in found.get("grants", ()))


async def tidied(limiter: Limiter) -> None:
    """One pass of what gives slots back, some time after the last was used."""
    for share in limiter.shares.by_name.values():
        share.idle_since = float("-inf")
    await limiter.tidy()


@pytest.mark.parametrize("verb", ["take", "look", "add_to_wait_lists", "mark"])
@EACH_FAULT
async def test_slots_counted_in_a_look_that_fails_are_free_again(
    make_scheduler: Make, db: Database, verb: str, error: type[BaseException], after: bool
) -> None:
    scheduler = limited(make_scheduler(), concurrency=1)
    limiter, found = await limiter_of(scheduler), await candidates(scheduler, 3)
    store = await inside(scheduler).store()
    fault = Fault(store.gates, verb, error, after=after)
    with pytest.raises(error):
        await limiter.admit(found, 10)
    assert fault.met
    await tidied(limiter)
    assert await granted(db) == 0
    next_ones = await store.gates.heads(GATE, None, 10, fields_of(False)) or found
    assert [job.id for job in (await limiter.admit(next_ones, 10)).now] == [next_ones[0].id]


async def test_jobs_under_a_limit_run_though_putting_those_behind_them_in_line_failed(make_scheduler: Make) -> None:
    scheduler = limited(make_scheduler(), concurrency=1)
    found = await candidates(scheduler, 3)
    fault = Fault((await inside(scheduler).store()).gates, "add_to_wait_lists", Unavailable)
    await scheduler.start()
    ended = [await scheduler.wait(str(job.id), timeout=60) for job in found]
    assert [job.state for job in ended] == ["completed"] * 3
    assert fault.met


@EACH_FAULT
async def test_slots_that_could_not_be_given_back_are_given_back_later(
    make_scheduler: Make, db: Database, error: type[BaseException], after: bool
) -> None:
    scheduler = limited(make_scheduler(), concurrency=10)
    limiter, found = await limiter_of(scheduler), await candidates(scheduler, 10)
    await limiter.admit(found, 10)
    gates = [limiter.taken(job) for job in found]
    assert await granted(db) == 10
    for passed in gates[1:]:
        limiter.freed(passed or [])
    fault = Fault((await inside(scheduler).store()).gates, "give_back", error, after=after)
    with pytest.raises(error):
        await tidied(limiter)
    assert fault.met
    await limiter.tidy()
    assert await granted(db) == 1
    limiter.freed(gates[0] or [])
    await tidied(limiter)
    assert (await granted(db), limiter.holds) == (0, False)


@EACH_FAULT
async def test_starts_of_a_rate_that_were_not_made_come_back_once(
    make_scheduler: Make, db: Database, error: type[BaseException], after: bool
) -> None:
    scheduler = limited(make_scheduler(), rate=Rate("4/day"))
    limiter, found = await limiter_of(scheduler), await candidates(scheduler, 3)
    admitted = await limiter.admit(found, 10)
    assert len(admitted.now) == 3
    limiter.freed(limiter.taken(found[0]) or [])
    limiter.not_claimed(job.id for job in found[1:])
    fault = Fault((await inside(scheduler).store()).gates, "give_back", error, after=after)
    with pytest.raises(error):
        await tidied(limiter)
    assert fault.met
    await limiter.tidy()
    assert await starts_left(db) == 3


@EACH_FAULT
async def test_starts_of_a_rate_are_not_lost_with_the_reply_that_granted_them(
    make_scheduler: Make, db: Database, error: type[BaseException], after: bool
) -> None:
    scheduler = limited(make_scheduler(), rate=Rate("1/day"))
    limiter, found = await limiter_of(scheduler), await candidates(scheduler, 1)
    Fault((await inside(scheduler).store()).gates, "take", error, after=after)
    with pytest.raises(error):
        await limiter.admit(found, 10)
    assert len((await limiter.admit(found, 10)).now) == 1
    assert await starts_left(db) == 0


async def starts_left(db: Database) -> int:
    gate = await db["jobs.gates"].find_one({"_id": RATE_GATE})
    assert gate is not None
    return int(gate["tokens"])


async def test_a_start_that_comes_back_opens_the_line_of_its_rate(scheduler: Scheduler) -> None:
    store = await inside(scheduler).store()
    job = (await scheduler.schedule("x")).id
    await store.gates.take("one", {RATE_GATE: Want(Rate("1/day"), 0, 2)})
    (found,) = await store.claims.candidates("default", 10)
    assert str(found.id) == job
    await store.gates.add_to_wait_lists({RATE_GATE: [found.id]}, {RATE_GATE: "wait"}, {})
    assert await store.gates.open_wait_lists(10) == []
    await store.gates.give_back("one", {}, {RATE_GATE: 0})
    await eventually(lambda: _open(store, RATE_GATE))


async def _open(store: Store, gate: str) -> bool:
    return [line.name for line in await store.gates.open_wait_lists(10)] == [gate]


# -- leases that run out ---------------------------------------------------------------------------------------------


async def test_a_slot_is_not_used_after_its_lease_has_run_out_though_the_heartbeat_is_back(
    make_scheduler: Make,
) -> None:
    scheduler = limited(make_scheduler(), concurrency=1)
    limiter, (job,) = await limiter_of(scheduler), await candidates(scheduler, 1)
    assert len((await limiter.admit([job], 10)).now) == 1
    lapse(limiter)
    limiter.extend(monotonic())
    assert limiter.taken(job) is None


async def test_a_job_that_ends_after_its_lease_has_run_out_frees_no_slot_of_the_next_lease(
    make_scheduler: Make,
) -> None:
    scheduler = limited(make_scheduler(), concurrency=1)
    limiter, (one, two, three) = await limiter_of(scheduler), await candidates(scheduler, 3)
    await limiter.admit([one], 10)
    old = limiter.taken(one)
    lapse(limiter)
    limiter.extend(monotonic())
    assert len((await limiter.admit([two], 10)).now) == 1
    assert limiter.taken(two)
    limiter.freed(old or [])
    assert (await limiter.admit([three], 10)).now == []


async def test_a_renewal_does_not_let_a_job_outlive_the_lease_of_its_slots(make_scheduler: Make) -> None:
    scheduler = limited(make_scheduler(), concurrency=1)
    limiter, (job,) = await limiter_of(scheduler), await candidates(scheduler, 1)
    await limiter.admit([job], 10)
    handler = inside(scheduler).handlers.get("x")
    assert handler is not None
    claimed = ClaimedJob(job, "claim", handler, monotonic(), 0.0, gates=limiter.taken(job) or [])
    claimed.renewed(monotonic(), limiter.claim_end(monotonic()))
    assert claimed.valid_until > monotonic()
    lapse(limiter)
    limiter.extend(monotonic())
    claimed.renewed(monotonic(), limiter.claim_end(monotonic()))
    assert claimed.valid_until < monotonic()


async def test_a_transaction_does_not_let_a_job_outlive_the_lease_of_its_slots(make_scheduler: Make) -> None:
    scheduler = limited(make_scheduler(), concurrency=1)
    limiter, (job,) = await limiter_of(scheduler), await candidates(scheduler, 1)
    store, handler = await inside(scheduler).store(), inside(scheduler).handlers.get("x")
    assert handler is not None
    await limiter.admit([job], 10)
    batch = await store.claims.claim([job], "w1", scheduler.settings.lease, lambda _: 3)
    claimed = ClaimedJob(batch.jobs[0], batch.claim, handler, monotonic(), 0.0, gates=limiter.taken(job) or [])
    lapse(limiter)
    limiter.extend(monotonic())
    unused: Any = None
    await ContextBackend(claimed, store, scheduler.settings, inside(scheduler).events, "w1", unused).freeze()
    assert claimed.valid_until < monotonic()


async def test_slots_granted_while_the_lease_ran_out_are_not_used(make_scheduler: Make, db: Database) -> None:
    scheduler = limited(make_scheduler(), concurrency=1)
    limiter, found = await limiter_of(scheduler), await candidates(scheduler, 1)
    gates = (await inside(scheduler).store()).gates
    take = gates.take

    async def frozen(worker: str, wants: Any) -> Any:
        taken = await take(worker, wants)
        lapse(limiter)
        limiter.shares.check_lease()  # as the next job that ends does
        limiter.extend(monotonic())
        await gates.take_back(worker)
        gates.take = take  # type: ignore[method-assign]
        return taken

    gates.take = frozen  # type: ignore[method-assign]
    assert (await limiter.admit(found, 10)).now == []
    await tidied(limiter)
    assert await granted(db) == 0


async def test_a_worker_that_comes_back_keeps_what_it_takes_under_its_next_lease(
    scheduler: Scheduler, db: Database
) -> None:
    store = await inside(scheduler).store()
    rule = Limit(5)
    await store.gates.take("w1", {GATE: Want(rule, 0, 3)})
    past = store.clock.now().replace(year=2020)
    await db["jobs.workers"].insert_one({"_id": "w1", "beat_at": past, "lease_until": past})
    assert await store.workers.gone(["w1"]) == ["w1"]
    await store.gates.take_back("w1")
    assert (
        await granted(db) == 3
    )  # it was taken after that lease: the worker is back, though no worker has heard it yet
    await db["jobs.gates"].update_one({"_id": GATE}, {"$set": {"grants.0.at": past}})
    await store.gates.take_back("w1")
    assert await granted(db) == 0


# -- claims ----------------------------------------------------------------------------------------------------------


@EACH_FAULT
async def test_a_claim_whose_outcome_was_not_heard_is_settled_and_its_slots_are_used(
    make_scheduler: Make, error: type[BaseException], after: bool
) -> None:
    scheduler = limited(make_scheduler(queues=["elsewhere"]), concurrency=1)
    await scheduler.start()
    found = await candidates(scheduler, 1)
    producer, store = inside(scheduler).worker.producer, await inside(scheduler).store()
    await store.gates.with_wait_lists([GATE])
    admitted = await producer.limiter.admit(found, 1)
    Fault(store.claims, "claim", error, after=after)
    with pytest.raises(error):
        await producer._take("default", list(admitted), 1)
    producer.wake()  # it settles them itself, before it looks for jobs
    await eventually(lambda: not producer._unclear)
    if after:
        assert (await scheduler.wait(str(found[0].id), timeout=60)).state == "completed"
    assert producer.limiter.admitted == {}

    def slots_in_use() -> int:
        share = producer.limiter.shares.get(GATE)
        return share.used if share is not None else 0  # unused slots may have been given back meanwhile

    await eventually(lambda: slots_in_use() == 0)


async def test_counting_turns_may_fail_and_the_slots_of_jobs_that_were_lost_are_free_all_the_same(
    make_scheduler: Make,
) -> None:
    scheduler = limited(make_scheduler(queues=["elsewhere"]), concurrency=1)
    await scheduler.start()
    (job,) = await candidates(scheduler, 1)
    producer, store = inside(scheduler).worker.producer, await inside(scheduler).store()
    await store.claims.claim([StoredJob(dict(job.document))], "another", 60, lambda _: 3)
    producer._lined = {"default": []}

    async def read(queue: str, want: int) -> list[StoredJob]:
        return [job]

    producer._with_lined = read  # type: ignore[method-assign]
    Fault(producer.limiter.wait_lists, "count_served", Unavailable)
    with pytest.raises(Unavailable):
        await producer._claim_batch("default", 1, monotonic())
    share = producer.limiter.shares.get(GATE)
    assert share is not None and share.used == 0


async def test_lines_whose_reading_failed_are_read_again(make_scheduler: Make) -> None:
    scheduler = limited(make_scheduler(), concurrency=2)
    limiter, found = await limiter_of(scheduler), await candidates(scheduler, 2)
    store = await inside(scheduler).store()
    await store.gates.add_to_wait_lists({GATE: [job.id for job in found]}, {GATE: "wait"}, {})
    limiter.wait_lists.poll_line(GATE)
    Fault(store.gates, "heads", Unavailable)
    with pytest.raises(Unavailable):
        await limiter.wait_lists.read(10)
    assert len(await limiter.wait_lists.read(10)) == 2


async def test_a_line_that_cannot_be_read_keeps_no_other_from_being_read(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = limited(make_scheduler(), concurrency=2)
    limiter, (one, two) = await limiter_of(scheduler), await candidates(scheduler, 2)
    store = await inside(scheduler).store()
    lines = {GATE: [one.id], f"{GATE}:n=2": [two.id]}
    await store.gates.add_to_wait_lists(lines, dict.fromkeys(lines, "wait"), {})
    for line in lines:
        limiter.wait_lists.poll_line(line)
    heads = store.gates.heads

    async def readable(name: str, *args: Any) -> list[StoredJob]:
        if name == GATE:
            raise Unavailable("injected")
        return await heads(name, *args)

    monkeypatch.setattr(store.gates, "heads", readable)
    assert [job.id for job in await limiter.wait_lists.read(10)] == [two.id]
    monkeypatch.undo()
    assert [job.id for job in await limiter.wait_lists.read(10)] == [one.id]


async def test_a_service_starts_again_when_what_it_waited_for_was_cancelled(make_scheduler: Make) -> None:
    scheduler = limited(make_scheduler(), concurrency=1)
    await scheduler.start()
    fault = Fault((await inside(scheduler).store()).claims, "claim", asyncio.CancelledError, after=True)
    job = await scheduler.schedule("x")
    assert (await scheduler.wait(job.id, timeout=60)).state == "completed"
    assert fault.met


async def test_a_write_that_no_majority_has_is_an_outage_and_not_an_error_of_this_program(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await inside(scheduler).store()

    async def bulk_write(statements: list[Any], **options: Any) -> None:
        assert statements
        raise BulkWriteError({"writeErrors": [], "writeConcernErrors": [{"code": 64, "errmsg": "waiting timed out"}]})

    monkeypatch.setattr(type(store.connection.gates), "bulk_write", lambda self, *args, **options: bulk_write(*args))
    with pytest.raises(Unavailable, match="waiting timed out"):
        await store.gates.take("w1", {GATE: Want(Limit(1), 0, 1)})
