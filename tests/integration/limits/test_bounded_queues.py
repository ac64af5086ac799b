"""Bounded queues: producers that are refused or wait at a full queue, alone, in bulk, in company, in both faces."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from harness.inside import inside
from harness.listening import Listener
from harness.looking import Database, count_jobs
from harness.servers import Servers
from harness.waiting import eventually
from mainspring import BulkError, ConfigurationError, Job, JobContext, QueueFull, Scheduler
from mainspring.clock import monotonic
from mainspring.engine.claim.back_pressure import BoundedPassage
from mainspring.model.jobs.draft import make_draft
from mainspring.rules import Every
from mainspring.store.codec import document_id
from mainspring.store.jobs.stored_job import StoredJob
from mainspring.sync import Scheduler as BlockingScheduler

Make = Callable[..., Scheduler]
HOUR = 3600


@pytest.fixture
def bounded(scheduler: Scheduler) -> Scheduler:
    """A scheduler whose queue "q" takes three pending jobs."""
    scheduler.queues.limit("q", max_pending=3)
    return scheduler


@pytest.fixture
def patient(scheduler: Scheduler) -> Scheduler:
    """The same, but its producers wait."""
    scheduler.queues.limit("q", max_pending=3, when_full="wait")
    return scheduler


async def fill(scheduler: Scheduler, number: int = 3, **options: Any) -> list[Job]:
    return [await scheduler.schedule("work", queue="q", **options) for _ in range(number)]


async def is_full(scheduler: Scheduler) -> bool:
    try:
        await scheduler.schedule("work", queue="q")
    except QueueFull:
        return True
    return False


async def has_room(scheduler: Scheduler) -> bool:
    return not await is_full(scheduler)


def somebody_waits(scheduler: Scheduler) -> bool:
    backlog = (
        inside(scheduler).backlogs.of(inside(scheduler).open_store, "q")
        if inside(scheduler).core.link.connected
        else None
    )
    return backlog is not None and backlog._line.locked()


# -- refusing ------------------------------------------------------------------------------------------------------


async def test_a_job_beyond_the_bound_is_refused_and_not_stored(bounded: Scheduler, db: Database) -> None:
    await fill(bounded)
    with pytest.raises(QueueFull, match="The queue 'q' has 3 pending jobs, its maximum") as refused:
        await bounded.schedule("work", queue="q")
    assert (refused.value.queue, refused.value.max_pending) == ("q", 3)
    assert await count_jobs(db) == 3


async def test_other_queues_take_as_many_as_ever(bounded: Scheduler) -> None:
    await fill(bounded)
    for _ in range(5):
        await bounded.schedule("work")
    await bounded.schedule_bulk([{"name": "work"}] * 50)


async def test_there_is_room_again_when_a_job_has_left(bounded: Scheduler) -> None:
    jobs = await fill(bounded)
    assert await is_full(bounded)
    await bounded.cancel(jobs[0].id)
    await eventually(lambda: has_room(bounded))
    assert await is_full(bounded)


@pytest.mark.parametrize("kind", ["due", "later", "in line", "without a handler"])
async def test_whatever_is_pending_counts(bounded: Scheduler, kind: str) -> None:
    jobs = await fill(bounded, delay=HOUR if kind == "later" else 0)
    store = inside(bounded).open_store
    ids = [document_id(job.id) for job in jobs]
    if kind == "in line":
        await store.gates.add_to_wait_lists({"c:queue:q": ids}, {"c:queue:q": "full"}, {})
    elif kind == "without a handler":
        await store.upkeep.hold(ids, "handler", "nobody")
    bounded.queues.limit("q", max_pending=3)  # what it knew is forgotten
    assert await is_full(bounded)


async def test_what_runs_or_has_ended_does_not_count(bounded: Scheduler) -> None:
    going = asyncio.Event()

    @bounded.job("work", queue="q")
    async def work() -> None:
        await going.wait()

    await bounded.start()
    jobs = await fill(bounded)

    async def all_run() -> bool:
        return {(await bounded.get_job(job.id)).state for job in jobs} == {"running"}

    await eventually(all_run)
    await eventually(lambda: has_room(bounded))
    going.set()


async def test_a_bound_may_be_given_for_a_queue_that_is_full_already(scheduler: Scheduler) -> None:
    await fill(scheduler, 5)
    scheduler.queues.limit("q", max_pending=3)
    assert await is_full(scheduler)
    scheduler.queues.limit("q")
    assert await has_room(scheduler)


async def test_what_was_there_already_takes_no_room(bounded: Scheduler, db: Database) -> None:
    for _ in range(5):
        await bounded.schedule("work", queue="q", dedupe_key="k")
    await fill(bounded, 2)
    assert await is_full(bounded)
    assert (await bounded.schedule("work", queue="q", dedupe_key="k")).deduplicated
    assert await count_jobs(db) == 3


async def test_at_a_full_queue_a_burst_goes_on_while_its_job_waits_and_is_refused_when_it_runs(
    bounded: Scheduler,
) -> None:
    job = await bounded.schedule("index", {"n": 1}, queue="q", debounce=0.01)
    await fill(bounded, 2)
    again = await bounded.schedule("index", {"n": 2}, queue="q", debounce=0.01)
    assert (again.id, again.data, again.deduplicated) == (job.id, {"n": 2}, True)
    store = inside(bounded).open_store
    claimed = await store.claims.claim(
        [StoredJob(await store.jobs.get(document_id(job.id)))], "worker", 60, lambda _: 3
    )
    assert len(claimed.jobs) == 1
    await eventually(lambda: has_room(bounded))
    with pytest.raises(QueueFull):
        await bounded.schedule("index", {"n": 3}, queue="q", debounce=0.01)


async def test_a_handler_that_schedules_into_a_full_queue_is_told(bounded: Scheduler) -> None:
    @bounded.job("parent")
    async def parent(ctx: JobContext) -> str:
        try:
            await ctx.schedule("work", queue="q")
        except QueueFull:
            return "full"
        return "room"

    await fill(bounded, delay=HOUR)
    await bounded.start()
    job = await bounded.schedule("parent")
    assert (await bounded.wait(job.id, 60)).result == "full"


# -- what is never held up -----------------------------------------------------------------------------------------


async def test_jobs_of_schedules_are_made_at_a_full_queue_too(bounded: Scheduler, db: Database) -> None:
    await fill(bounded, delay=HOUR)
    schedule = await bounded.schedule("report", repeat=Every("1h"), queue="q")
    job = await schedule.trigger()
    assert (await bounded.get_job(job.id)).queue == "q"
    assert await count_jobs(db, queue="q") == 4


async def test_what_has_ended_can_be_run_again_at_a_full_queue(bounded: Scheduler) -> None:
    first, *_ = await fill(bounded)
    await bounded.cancel(first.id)
    await eventually(lambda: has_room(bounded))
    assert await is_full(bounded)
    assert (await bounded.retry(first.id)).state == "pending"


async def test_retries_are_not_held_up(bounded: Scheduler) -> None:
    @bounded.job("work", queue="q", retry=2)
    async def work(ctx: JobContext) -> None:
        if ctx.attempt == 1:
            await fill(bounded, delay=HOUR)
            raise RuntimeError("no")

    bounded.queues.limit("q", max_pending=3)
    await bounded.start()
    job = await bounded.schedule("work", retry=2)

    async def failed_once() -> bool:
        return len((await bounded.get_job(job.id)).attempts) == 1

    await eventually(failed_once)
    await bounded.run_now(job.id)
    assert (await bounded.wait(job.id, 60)).state == "completed"


# -- bulks ---------------------------------------------------------------------------------------------------------


async def test_of_a_bulk_that_does_not_fit_the_first_items_are_stored_and_the_others_reported(
    bounded: Scheduler, db: Database
) -> None:
    items = [{"name": "work", "queue": queue} for queue in ("q", "q", "other", "q", "q", "other", "q")]
    with pytest.raises(BulkError, match="2 of 7 items were refused, the others are stored") as refused:
        await bounded.schedule_bulk(items)
    assert {place: type(error) for place, error in refused.value.errors.items()} == {4: QueueFull, 6: QueueFull}
    assert [job is not None for job in refused.value.jobs] == [True, True, True, True, False, True, False]
    assert await count_jobs(db, queue="q") == 3 and await count_jobs(db, queue="other") == 2


async def test_of_a_large_bulk_exactly_as_many_are_stored_as_fit(scheduler: Scheduler, db: Database) -> None:
    scheduler.queues.limit("q", max_pending=2500)
    with pytest.raises(BulkError) as refused:
        await scheduler.schedule_bulk({"name": "work", "queue": "q"} for _ in range(6000))
    assert sorted(refused.value.errors) == list(range(2500, 6000))
    assert await count_jobs(db) == 2500


async def test_a_bulk_may_name_jobs_that_are_there_already_at_a_full_queue(bounded: Scheduler) -> None:
    await bounded.schedule("work", queue="q", dedupe_key="k")
    await fill(bounded, 2)
    (job,) = await bounded.schedule_bulk([{"name": "work", "queue": "q", "dedupe_key": "k"}])
    assert job.deduplicated


@pytest.mark.slow
async def test_a_bulk_of_a_producer_that_waits_is_stored_as_room_comes_and_never_goes_beyond_the_bound(
    scheduler: Scheduler,
) -> None:
    scheduler.queues.limit("q", max_pending=20, when_full="wait")
    pending: list[int] = []

    @scheduler.job("work", queue="q")
    async def work() -> None:
        pending.append(await inside(scheduler).open_store.jobs.count_pending("q", 1000))

    await scheduler.start()
    jobs = await scheduler.schedule_bulk({"name": "work"} for _ in range(300))
    assert len({job.id for job in jobs}) == 300
    await eventually(lambda: len(pending) == 300)
    assert 0 < max(pending) <= 20


async def test_a_bulk_that_is_cancelled_while_it_waits_has_stored_what_it_could(
    patient: Scheduler, db: Database
) -> None:
    bulk = asyncio.ensure_future(patient.schedule_bulk([{"name": "work", "queue": "q"}] * 10))
    await eventually(lambda: somebody_waits(patient))
    bulk.cancel()
    with pytest.raises(asyncio.CancelledError):
        await bulk
    assert await count_jobs(db) == 3
    async for job in patient.jobs(state="pending"):
        await patient.cancel(job.id)
    assert len(await patient.schedule_bulk([{"name": "work", "queue": "q"}] * 3)) == 3


# -- waiting -------------------------------------------------------------------------------------------------------


async def test_a_producer_waits_until_there_is_room(patient: Scheduler, db: Database) -> None:
    jobs = await fill(patient)
    late = asyncio.ensure_future(patient.schedule("work", {"n": 4}, queue="q"))
    await eventually(lambda: somebody_waits(patient))
    assert not late.done() and await count_jobs(db) == 3
    await patient.cancel(jobs[0].id)
    assert (await asyncio.wait_for(late, 60)).data == {"n": 4}


async def test_producers_that_wait_are_let_in_as_they_came(patient: Scheduler) -> None:
    jobs = await fill(patient)
    came_in: list[int] = []

    async def produce(n: int) -> None:
        await patient.schedule("work", {"n": n}, queue="q")
        came_in.append(n)

    waiting = []
    for n in range(3):
        waiting.append(asyncio.ensure_future(produce(n)))
        await eventually(lambda: somebody_waits(patient))
        await asyncio.wait(waiting, timeout=0.05)
    for number, job in enumerate(jobs, 1):
        await patient.cancel(job.id)
        await eventually(lambda number=number: len(came_in) == number)  # type: ignore[misc]
    assert came_in == [0, 1, 2]


async def test_who_comes_later_does_not_overtake_who_waits(patient: Scheduler) -> None:
    jobs = await fill(patient)
    came_in: list[str] = []

    async def produce(who: str) -> None:
        await patient.schedule("work", queue="q")
        came_in.append(who)

    waits = asyncio.ensure_future(produce("first"))
    await eventually(lambda: somebody_waits(patient))
    await asyncio.wait({waits}, timeout=0.5)  # until it looks less often
    await patient.cancel(jobs[0].id)
    late = asyncio.ensure_future(produce("late"))
    await eventually(lambda: came_in)
    assert came_in == ["first"]
    await patient.cancel(jobs[1].id)
    await asyncio.wait_for(asyncio.gather(waits, late), 60)


async def test_waiting_can_be_bounded_and_leaves_nothing_behind(patient: Scheduler, db: Database) -> None:
    jobs = await fill(patient)
    for _ in range(4):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await patient.schedule("work", queue="q")
    assert await count_jobs(db) == 3
    for job in jobs:
        await patient.cancel(job.id)
    await asyncio.wait_for(asyncio.gather(*(patient.schedule("work", queue="q") for _ in range(3))), 60)


async def test_a_transaction_is_refused_rather_than_kept_open(patient: Scheduler, db: Database) -> None:
    await fill(patient)
    async with patient.transaction() as tx:
        with pytest.raises(QueueFull):
            await asyncio.wait_for(patient.schedule("work", queue="q", session=tx.session), 20)
        with pytest.raises(BulkError, match="nothing is stored") as refused:
            await patient.schedule_bulk([{"name": "work"}, {"name": "work", "queue": "q"}], session=tx.session)
        assert list(refused.value.errors) == [1]
    assert await count_jobs(db) == 3


# -- in company ----------------------------------------------------------------------------------------------------


async def test_concurrent_calls_of_one_process_never_go_beyond_the_bound(bounded: Scheduler, db: Database) -> None:
    outcomes = await asyncio.gather(*(bounded.schedule("work", queue="q") for _ in range(50)), return_exceptions=True)
    assert sum(isinstance(outcome, Job) for outcome in outcomes) == 3
    assert sum(isinstance(outcome, QueueFull) for outcome in outcomes) == 47
    assert await count_jobs(db) == 3


async def test_a_count_that_may_have_seen_jobs_on_their_way_does_not_count_them_twice(bounded: Scheduler) -> None:
    store = inside(await bounded.connect()).open_store
    backlog, draft = inside(bounded).backlogs.of(store, "q"), make_draft("work", None, queue="q")
    assert backlog is not None and await backlog.take(draft)
    backlog.begin(1)
    await store.inserts.insert(draft)
    await eventually(lambda: monotonic() >= backlog._use_until)
    assert [await backlog.take(draft) for _ in range(3)] == [True, True, False]


async def test_a_job_that_may_be_counted_twice_refuses_none_until_it_has_landed_and_is_counted_once_more(
    bounded: Scheduler,
) -> None:
    store = inside(await bounded.connect()).open_store
    backlog, draft = inside(bounded).backlogs.of(store, "q"), make_draft("work", None, queue="q")
    assert backlog is not None and await backlog.take(draft)
    backlog.begin(1)
    await store.inserts.insert(draft)  # it is stored, and its reply is late
    backlog._use_until = float("-inf")
    assert await backlog.take(draft)
    third = asyncio.ensure_future(backlog.take(draft))
    await asyncio.wait({third}, timeout=0.2)
    assert not third.done()
    assert not await backlog.take(draft, patience=0.01)
    backlog.end(1)
    assert await asyncio.wait_for(third, 60)
    assert not await backlog.take(draft)


async def test_a_queue_that_is_full_without_the_jobs_in_flight_refuses_at_once(bounded: Scheduler) -> None:
    store = inside(await bounded.connect()).open_store
    backlog, draft = inside(bounded).backlogs.of(store, "q"), make_draft("work", None, queue="q")
    assert backlog is not None and await backlog.take(draft)
    backlog.begin(1)
    for _ in range(3):
        await store.inserts.insert(draft)  # by another process
    backlog._use_until = float("-inf")
    assert not await asyncio.wait_for(backlog.take(draft), 60)


async def test_of_a_bulk_that_is_counted_while_it_is_stored_as_many_are_stored_as_fit(
    scheduler: Scheduler, db: Database
) -> None:
    scheduler.queues.limit("q", max_pending=2500)
    store = inside(await scheduler.connect()).open_store
    backlog = inside(scheduler).backlogs.of(store, "q")
    assert backlog is not None

    def items() -> Iterator[dict[str, Any]]:
        for number in range(4000):
            if number % 250 == 0:
                backlog._use_until = float("-inf")  # as if storing took long
            kind = {"debounce": HOUR, "dedupe_key": str(number)} if number % 40 == 0 else {}
            yield {"name": "work", "queue": "q", **kind}

    with pytest.raises(BulkError) as refused:
        await scheduler.schedule_bulk(items())
    assert sorted(refused.value.errors) == list(range(2500, 4000))
    assert await count_jobs(db) == 2500


async def test_an_invalid_item_of_a_bulk_takes_no_room_from_the_items_behind_it(
    make_scheduler: Make, db: Database
) -> None:
    scheduler = make_scheduler(max_data=100)
    scheduler.queues.limit("q", max_pending=1000)
    items = [{"name": "work", "queue": "q", "data": {"text": "x" * 200 if n == 0 else "x"}} for n in range(1001)]
    with pytest.raises(BulkError, match="1 of 1001 items were refused") as refused:
        await scheduler.schedule_bulk(items)
    assert list(refused.value.errors) == [0]
    assert await count_jobs(db) == 1000


async def test_what_a_bulk_was_let_in_for_and_has_not_stored_is_given_back(bounded: Scheduler) -> None:
    store = inside(await bounded.connect()).open_store
    passage, draft = BoundedPassage(inside(bounded).backlogs, store), make_draft("work", None, queue="q")
    let_in = await passage.chunk(iter([draft] * 5), 1000)
    assert [isinstance(item, QueueFull) for item in let_in] == [False] * 3 + [True] * 2
    assert await is_full(bounded)
    passage.close()
    await fill(bounded)


async def test_two_processes_feel_each_others_jobs(make_scheduler: Make, db: Database) -> None:
    one, other = make_scheduler(), make_scheduler()
    for scheduler in (one, other):
        scheduler.queues.limit("q", max_pending=10)
    await fill(one, 10)
    await eventually(lambda: is_full(other))
    # Who has just seen an empty queue may go beyond the bound, but no further than the bound itself each.
    assert await count_jobs(db) <= 20


@pytest.mark.slow
async def test_two_processes_that_wait_get_everything_done_by_two_workers(make_scheduler: Make) -> None:
    schedulers = [make_scheduler(), make_scheduler()]
    pending: list[int] = []
    for scheduler in schedulers:
        scheduler.queues.limit("q", max_pending=10, when_full="wait")

        @scheduler.job("work", queue="q")
        async def work(ctx: JobContext) -> None:
            pending.append(await inside(schedulers[0]).open_store.jobs.count_pending("q", 1000))

        await scheduler.start()

    async def produce(scheduler: Scheduler) -> None:
        for _ in range(60):
            await scheduler.schedule("work")

    await asyncio.gather(*map(produce, schedulers))
    await eventually(lambda: len(pending) == 120)
    assert max(pending) <= 20


# -- what it costs -------------------------------------------------------------------------------------------------


async def test_a_producer_seldom_counts_while_there_is_room(uri: str) -> None:
    listener = Listener()
    async with AsyncMongoClient[dict[str, Any]](uri, event_listeners=[listener]) as client:
        scheduler = Scheduler(client=client)
        scheduler.queues.limit("q", max_pending=10_000)
        await scheduler.connect()
        for _ in range(20):
            await asyncio.gather(*(scheduler.schedule("work", queue="q") for _ in range(50)))
        await scheduler.stop()
    assert len(listener.named("insert", "jobs")) >= 20
    assert len(listener.named("aggregate", "jobs")) <= 100  # for a thousand jobs


async def test_while_the_queue_cannot_be_counted_what_is_known_has_to_do(
    scheduler: Scheduler, servers: Servers, db: Database
) -> None:
    scheduler.queues.limit("q", max_pending=3)
    await scheduler.connect()
    fault = {"failCommands": ["aggregate"], "errorCode": 50, "namespace": f"{db.name}.jobs"}
    with servers.fail_point("failCommand", "alwaysOn", **fault):
        await fill(scheduler)
        assert await is_full(scheduler)
    assert await count_jobs(db) == 3


# -- the blocking face ---------------------------------------------------------------------------------------------


@pytest.fixture
def blocking(uri: str) -> Iterator[BlockingScheduler]:
    scheduler = BlockingScheduler(uri)
    yield scheduler
    scheduler.stop(graceful=False)


async def test_the_blocking_face_refuses_and_waits_too(blocking: BlockingScheduler) -> None:
    blocking.queues.limit("q", max_pending=1)
    first = await asyncio.to_thread(blocking.schedule, "work", queue="q")
    with pytest.raises(QueueFull):
        await asyncio.to_thread(blocking.schedule, "work", queue="q")
    blocking.queues.limit("q", max_pending=1, when_full="wait")
    done = threading.Event()

    def produce() -> None:
        blocking.schedule("work", queue="q")
        done.set()

    thread = threading.Thread(target=produce)
    thread.start()
    assert not await asyncio.to_thread(done.wait, 0.2)
    await asyncio.to_thread(blocking.cancel, first.id)
    assert await asyncio.to_thread(done.wait, 60)
    await asyncio.to_thread(thread.join)


async def test_a_wrong_bound_is_refused_when_it_is_given(scheduler: Scheduler) -> None:
    with pytest.raises(ConfigurationError, match="max_pending must be a whole number"):
        scheduler.queues.limit("q", max_pending=0)
    wrong: Any = "block"
    with pytest.raises(ConfigurationError, match='when_full must be "refuse" or "wait"'):
        scheduler.queues.limit("q", max_pending=5, when_full=wrong)
