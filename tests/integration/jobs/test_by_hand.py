"""Looking at jobs and changing them by hand: get, list, wait, retry, run now, update, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harness.servers import Servers
from harness.waiting import eventually
from mainspring import (
    Cancel,
    ConfigurationError,
    InvalidJob,
    Job,
    JobContext,
    JobNotFound,
    JobStateError,
    MainspringError,
    Retry,
    Scheduler,
    Unavailable,
    WaitTimeout,
)

Make = Callable[..., Scheduler]
NOBODY = "0" * 24


async def listed(scheduler: Scheduler, **filters: Any) -> list[Job]:
    return [job async for job in scheduler.jobs(**filters)]


def handlers(scheduler: Scheduler) -> asyncio.Event:
    """Handlers that end in the ways that a job can; the slow one waits for the returned event."""
    go_on = asyncio.Event()

    @scheduler.job("good")
    async def good(ctx: JobContext) -> str:
        return f"token {ctx.token}"

    @scheduler.job("bad", retry=1)
    async def bad(ctx: JobContext) -> None:
        raise ValueError("no")

    @scheduler.job("gone")
    async def gone() -> None:
        raise Cancel("never mind")

    @scheduler.job("slow")
    async def slow(ctx: JobContext) -> None:
        await go_on.wait()

    return go_on


async def until_running(scheduler: Scheduler, job: Job) -> None:
    async def look() -> bool:
        return (await scheduler.get_job(job.id)).state == "running"

    await eventually(look)


# -- unknown ids ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("job_id", [NOBODY, "no-such-job"])
@pytest.mark.parametrize("verb", ["get_job", "cancel", "retry", "run_now", "delete", "wait", "update", "update-data"])
async def test_an_unknown_id_is_not_found_by_any_verb(scheduler: Scheduler, verb: str, job_id: str) -> None:
    calls: dict[str, Callable[[], Awaitable[Any]]] = {
        "get_job": lambda: scheduler.get_job(job_id),
        "cancel": lambda: scheduler.cancel(job_id),
        "retry": lambda: scheduler.retry(job_id),
        "run_now": lambda: scheduler.run_now(job_id),
        "delete": lambda: scheduler.delete(job_id),
        "wait": lambda: scheduler.wait(job_id, 60),
        "update": lambda: scheduler.update(job_id, priority=1),
        "update-data": lambda: scheduler.update(job_id, data={}),
    }
    with pytest.raises(JobNotFound, match=f"No job has the id '{job_id}'") as caught:
        await calls[verb]()
    assert caught.value.job_id == job_id


async def test_an_id_that_is_no_text_is_refused(scheduler: Scheduler) -> None:
    with pytest.raises(ConfigurationError, match="A job's id is a non-empty string, not 5"):
        await scheduler.get_job(5)  # type: ignore[arg-type]


# -- schedule and get ----------------------------------------------------------------------------------------------


async def test_a_job_is_read_back_as_it_was_scheduled(scheduler: Scheduler) -> None:
    run_at = datetime.now(UTC) + timedelta(days=1, microseconds=1)
    job = await scheduler.schedule(
        "x",
        {"a": [1, {"b": None}]},
        run_at=run_at,
        priority=2,
        queue="q",
        expires_at=run_at + timedelta(days=1),
        start_within=timedelta(minutes=30),
        timeout=5,
        retry=Retry(attempts=7),
        tags=["t", "u"],
    )
    assert await scheduler.get_job(job.id) == job
    assert (job.state, job.queue, job.priority, job.tags) == ("pending", "q", 2, ("t", "u"))
    assert abs(job.run_at - run_at) < timedelta(milliseconds=1)
    assert (job.timeout, job.start_within) == (timedelta(seconds=5), timedelta(minutes=30))
    assert (job.token, job.tries, job.attempts, job.deduplicated) == (0, 0, (), False)


async def test_a_job_without_options_is_due_now_by_the_servers_clock(scheduler: Scheduler, db: Any) -> None:
    job = await scheduler.schedule("x")
    now = (await db.command("hello"))["localTime"].replace(tzinfo=UTC)
    assert abs(now - job.run_at) < timedelta(seconds=2) and job.run_at == job.created_at
    assert job.data == {}


async def test_arguments_are_checked_when_scheduling_where_the_handler_is_known(scheduler: Scheduler) -> None:
    @scheduler.job("send")
    async def send(ctx: JobContext, to: str, count: int = 1) -> None: ...

    for data, message in (
        ({}, "'send' lacks 'to'"),
        (None, "'send' lacks 'to'"),
        ({"to": "a", "cc": "b"}, "'send' has no argument 'cc'"),
        ({"to": "a", "count": "many"}, "wrong type"),
        ([1], "data must be a mapping"),
    ):
        with pytest.raises(InvalidJob, match=message):
            await scheduler.schedule("send", data)  # type: ignore[arg-type]
    assert await listed(scheduler) == []


async def test_data_over_the_limit_is_refused_and_nothing_is_stored(scheduler: Scheduler) -> None:
    with pytest.raises(InvalidJob, match="over the limit of 262,144; store the bulk elsewhere and pass a reference"):
        await scheduler.schedule("x", {"blob": "x" * 256 * 1024})
    with pytest.raises(InvalidJob, match=r"data\['thing'\] is of type object, which cannot be stored"):
        await scheduler.schedule("x", {"thing": object()})
    with pytest.raises(InvalidJob, match="data must be a mapping"):
        await scheduler.schedule("x", [1])  # type: ignore[call-overload]
    assert await listed(scheduler) == []
    await scheduler.schedule("x", {"blob": "x" * 255 * 1024})


async def test_one_bad_job_does_not_spoil_the_write_it_shares_with_others(scheduler: Scheduler) -> None:
    deep: dict[str, Any] = {}
    for _ in range(300):
        deep = {"a": deep}
    outcomes = await asyncio.gather(
        *(scheduler.schedule("x", {"n": n} if n % 3 else {"deep": deep}) for n in range(9)), return_exceptions=True
    )
    assert [isinstance(outcome, InvalidJob) for outcome in outcomes] == [n % 3 == 0 for n in range(9)]
    assert len(await listed(scheduler)) == 6


# -- listing -------------------------------------------------------------------------------------------------------


async def test_jobs_are_listed_by_state_name_queue_and_tag(scheduler: Scheduler) -> None:
    go_on = handlers(scheduler)
    ended = await scheduler.schedule_bulk(
        [
            {"name": "good", "queue": "a", "tags": ["t"]},
            {"name": "bad", "queue": "b", "tags": ["t", "u"]},
            {"name": "gone", "queue": "a"},
        ]
    )
    await scheduler.start()
    for job in ended:
        await scheduler.wait(job.id, 60)
    slow = await scheduler.schedule("slow", queue="b", tags=["u"])
    await until_running(scheduler, slow)
    later = await scheduler.schedule("good", queue="b", tags=["t"], delay=3600)
    held = await scheduler.schedule("nobody", queue="b")
    await eventually(lambda: listed_held(scheduler))
    good, bad, gone = ended

    async def ids(**filters: Any) -> list[str]:
        return [job.id for job in await listed(scheduler, **filters)]

    assert await ids() == [held.id, later.id, slow.id, gone.id, bad.id, good.id]
    assert await ids(state="completed") == [good.id]
    assert await ids(state="failed") == [bad.id]
    assert await ids(state="cancelled") == [gone.id]
    assert await ids(state="running") == [slow.id]
    assert await ids(state="pending") == [later.id, held.id]
    assert await ids(state="expired") == await ids(state="blocked") == []
    assert await ids(name="good") == [later.id, good.id]
    assert await ids(queue="b") == [held.id, later.id, slow.id, bad.id]
    assert await ids(tag="t") == [later.id, bad.id, good.id]
    assert await ids(tag="t", name="good", queue="a", state="completed") == [good.id]
    assert await ids(tag="t", state="pending") == [later.id]
    assert await ids(name="nobody", state="pending") == [held.id]
    assert await ids(limit=2) == [held.id, later.id]
    assert await ids(state="pending", limit=1) == [later.id]
    assert await ids(limit=0) == []
    go_on.set()


async def listed_held(scheduler: Scheduler) -> list[Job]:
    return [job for job in await listed(scheduler, state="pending") if job.waiting_for is not None]


async def test_finished_jobs_are_listed_newest_first_and_pending_ones_in_their_order(scheduler: Scheduler) -> None:
    jobs = [await scheduler.schedule("x", priority=priority, delay=60) for priority in (5, 1, 9)]
    assert [job.priority for job in await listed(scheduler, state="pending")] == [1, 5, 9]
    for job in jobs:
        await scheduler.cancel(job.id)
        await asyncio.sleep(0.002)  # BSON keeps milliseconds
    assert [job.id for job in await listed(scheduler, state="cancelled")] == [job.id for job in reversed(jobs)]


async def test_more_jobs_than_fit_one_batch_are_listed(scheduler: Scheduler) -> None:
    await scheduler.schedule_bulk([{"name": "x"}] * 450)
    assert len(await listed(scheduler)) == 450
    assert len(await listed(scheduler, state="pending", limit=310)) == 310


async def test_a_listing_may_be_left_early(scheduler: Scheduler) -> None:
    await scheduler.schedule_bulk([{"name": "x"}] * 10)
    async for _ in scheduler.jobs():
        break
    assert len(await listed(scheduler)) == 10


async def test_a_listing_that_the_server_does_not_answer_is_unavailable(make_scheduler: Make, servers: Servers) -> None:
    scheduler = await make_scheduler(operation_timeout=0.5).connect()
    fault = {"failCommands": ["find"], "closeConnection": True, "appName": "mainspring"}
    with servers.fail_point("failCommand", "alwaysOn", **fault), pytest.raises(Unavailable):
        await listed(scheduler)

    async def answers() -> bool:
        with suppress(Unavailable):  # it may take longer than that half second to connect anew
            return await listed(scheduler) == []
        return False

    await eventually(answers)


async def test_a_wrong_filter_is_refused(scheduler: Scheduler) -> None:
    with pytest.raises(ConfigurationError, match="There is no state 'done'; the states are pending, running, "):
        await listed(scheduler, state="done")
    with pytest.raises(ConfigurationError, match="limit must be 0 or more, not -1"):
        await listed(scheduler, limit=-1)


# -- waiting -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "state"), [("good", "completed"), ("bad", "failed"), ("gone", "cancelled")])
async def test_waiting_gives_the_job_in_whatever_way_it_ended(scheduler: Scheduler, name: str, state: str) -> None:
    handlers(scheduler)
    job = await scheduler.schedule(name)
    waiting = asyncio.create_task(scheduler.wait(job.id, timeout=60))
    await scheduler.start()
    done = await waiting
    assert done.state == state and done.finished
    assert await scheduler.wait(job.id) == done


async def test_waiting_ends_with_its_timeout_and_the_job_goes_on(scheduler: Scheduler) -> None:
    job = await scheduler.schedule("x", delay=3600)
    with pytest.raises(WaitTimeout, match=f"Job {job.id} has not ended within 0.05 s. It is due "):
        await scheduler.wait(job.id, timeout=timedelta(milliseconds=50))
    assert (await scheduler.get_job(job.id)).state == "pending"


async def test_waiting_for_a_job_that_is_deleted_ends(scheduler: Scheduler) -> None:
    job = await scheduler.schedule("x", delay=3600)
    waiting = asyncio.create_task(scheduler.wait(job.id, timeout=60))
    await asyncio.sleep(0)
    await scheduler.delete(job.id)
    with pytest.raises(JobNotFound):
        await waiting


async def test_many_can_wait_for_the_same_job_and_one_may_give_up(scheduler: Scheduler) -> None:
    handlers(scheduler)
    job = await scheduler.schedule("good")
    waits = [asyncio.create_task(scheduler.wait(job.id, timeout=60)) for _ in range(5)]
    await asyncio.sleep(0.01)
    waits[0].cancel()
    await scheduler.start()
    outcomes = await asyncio.gather(*waits, return_exceptions=True)
    assert isinstance(outcomes[0], asyncio.CancelledError)
    assert [getattr(outcome, "state", None) for outcome in outcomes[1:]] == ["completed"] * 4


async def test_one_can_wait_in_another_process_than_the_worker(make_scheduler: Make) -> None:
    worker, other = make_scheduler(), make_scheduler()
    handlers(worker)
    await worker.start()
    job = await other.schedule("good")
    assert (await other.wait(job.id, 60)).result == "token 1"


async def test_a_wait_under_way_ends_when_the_scheduler_is_stopped(scheduler: Scheduler) -> None:
    job = await scheduler.schedule("x", delay=3600)
    waiting = asyncio.create_task(scheduler.wait(job.id))
    await asyncio.sleep(0.01)
    await scheduler.stop()
    with pytest.raises(MainspringError, match="stopped"):
        await asyncio.wait_for(waiting, 5)


# -- run again, run now --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["good", "bad", "gone"])
async def test_an_ended_job_runs_again_as_a_new_round_of_attempts(scheduler: Scheduler, name: str) -> None:
    handlers(scheduler)
    await scheduler.start()
    job = await scheduler.schedule(name, expires_at=datetime.now(UTC) + timedelta(hours=1))
    first = await scheduler.wait(job.id, 60)
    again = await scheduler.retry(job.id)
    assert again.tries in (0, 1) and again.expires_at is None
    if again.state != first.state:  # the worker may have ended it again before it was read
        assert again.state in ("pending", "running") and again.finished_at is None and again.result is None
    second = await eventually(lambda: ended_with(scheduler, job.id, 2))
    assert (second.state, second.token, second.tries) == (first.state, 2, 1)
    assert [(attempt.number, attempt.token) for attempt in second.attempts] == [(1, 1), (1, 2)]


async def ended_with(scheduler: Scheduler, job_id: str, token: int) -> Job | None:
    job = await scheduler.get_job(job_id)
    return job if job.token == token and job.finished else None


async def test_a_new_round_has_all_its_attempts_again(scheduler: Scheduler) -> None:
    @scheduler.job("fail", retry=Retry(attempts=2, delay=0))
    async def fail() -> None:
        raise ValueError

    await scheduler.start()
    job = await scheduler.schedule("fail")
    await scheduler.wait(job.id, 60)
    await scheduler.retry(job.id)
    done = await eventually(lambda: ended_with(scheduler, job.id, 4))
    assert [attempt.outcome for attempt in done.attempts] == ["retried", "failed"] * 2


async def test_only_ended_jobs_run_again(scheduler: Scheduler) -> None:
    go_on = handlers(scheduler)
    job = await scheduler.schedule("slow")
    with pytest.raises(
        JobStateError, match=r"is pending; retry\(\) works on failed, cancelled and completed jobs only"
    ):
        await scheduler.retry(job.id)
    await scheduler.start()
    await until_running(scheduler, job)
    with pytest.raises(JobStateError, match=r"is running; retry\(\)") as caught:
        await scheduler.retry(job.id)
    assert (caught.value.job_id, caught.value.state) == (job.id, "running")
    go_on.set()


async def test_an_expired_job_does_not_run_again(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    handlers(scheduler)
    old = datetime.now(UTC) - timedelta(hours=1)
    job = await scheduler.schedule("good", run_at=old, start_within=1)
    await scheduler.start()
    assert (await scheduler.wait(job.id, 60)).state == "expired"
    with pytest.raises(JobStateError, match="is expired"):
        await scheduler.retry(job.id)


async def test_a_job_for_later_can_be_run_now(scheduler: Scheduler) -> None:
    handlers(scheduler)
    await scheduler.start()
    job = await scheduler.schedule("good", delay=3600)
    due = await scheduler.run_now(job.id)
    assert due.run_at < job.run_at
    assert (await scheduler.wait(job.id, 60)).state == "completed"
    with pytest.raises(JobStateError, match=r"is completed; run_now\(\) works on pending jobs only"):
        await scheduler.run_now(job.id)


# -- update and delete ---------------------------------------------------------------------------------------------

LATER = datetime(2040, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        ({"data": {"a": 2}}, "data", {"a": 2}),
        ({"data": {"$a.b": [1]}}, "data", {"$a.b": [1]}),
        ({"run_at": LATER}, "run_at", LATER),
        ({"priority": 1}, "priority", 1),
        ({"queue": "q"}, "queue", "q"),
        ({"expires_at": LATER}, "expires_at", LATER),
        ({"start_within": 5}, "start_within", timedelta(seconds=5)),
        ({"timeout": timedelta(minutes=1)}, "timeout", timedelta(minutes=1)),
        ({"tags": ["x", "y"]}, "tags", ("x", "y")),
        ({"tags": []}, "tags", ()),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
async def test_each_field_of_a_pending_job_can_be_changed(
    scheduler: Scheduler, change: dict[str, Any], field: str, value: Any
) -> None:
    job = await scheduler.schedule("x", {"a": 1}, delay=60, tags=["t"], timeout=3)
    changed = await scheduler.update(job.id, **change)
    assert getattr(changed, field) == value
    assert changed == await scheduler.get_job(job.id)
    assert {
        f
        for f in ("data", "run_at", "priority", "queue", "tags", "timeout", "expires_at", "start_within")
        if getattr(changed, f) != getattr(job, f)
    } == {field}


async def test_a_delay_counts_from_the_update(scheduler: Scheduler) -> None:
    job = await scheduler.schedule("x", delay=3600)
    changed = await scheduler.update(job.id, delay=0)
    assert changed.run_at - job.created_at < timedelta(seconds=10)


async def test_a_new_retry_policy_counts(scheduler: Scheduler) -> None:
    @scheduler.job("fail", retry=5)
    async def fail() -> None:
        raise ValueError

    job = await scheduler.schedule("fail")
    await scheduler.update(job.id, retry=1)
    await scheduler.start()
    assert (await scheduler.wait(job.id, 60)).tries == 1


async def test_an_update_of_nothing_changes_nothing(scheduler: Scheduler) -> None:
    job = await scheduler.schedule("x")
    assert await scheduler.update(job.id) == await scheduler.get_job(job.id) == job


@pytest.mark.parametrize(
    "change",
    [
        {"priority": 0},
        {"run_at": datetime(2040, 1, 1)},
        {"run_at": LATER, "delay": 5},
        {"tags": "x"},
        {"tags": [[]]},
        {"timeout": 0},
        {"queue": ""},
        {"data": {"blob": "x" * 300_000}},
        {"data": {"unknown": 1}},
        {"data": [1]},
    ],
    ids=str,
)
async def test_a_wrong_update_is_refused_and_changes_nothing(scheduler: Scheduler, change: dict[str, Any]) -> None:
    @scheduler.job("x")
    async def x(a: int) -> None: ...

    job = await scheduler.schedule("x", {"a": 1})
    with pytest.raises(ConfigurationError):
        await scheduler.update(job.id, **change)
    assert await scheduler.get_job(job.id) == job


async def test_neither_a_running_nor_an_ended_job_can_be_changed(scheduler: Scheduler) -> None:
    go_on = handlers(scheduler)
    await scheduler.start()
    job = await scheduler.schedule("slow")
    await until_running(scheduler, job)
    with pytest.raises(JobStateError, match=r"is running; update\(\) works on pending jobs only"):
        await scheduler.update(job.id, priority=1)
    go_on.set()
    await scheduler.wait(job.id, 60)
    with pytest.raises(JobStateError, match="is completed"):
        await scheduler.update(job.id, priority=1)


async def test_jobs_that_do_not_run_can_be_deleted(scheduler: Scheduler) -> None:
    go_on = handlers(scheduler)
    pending = await scheduler.schedule("good", delay=3600)
    await scheduler.delete(pending.id)
    await scheduler.start()
    job = await scheduler.schedule("slow")
    await until_running(scheduler, job)
    with pytest.raises(JobStateError, match=r"works on waiting and ended jobs only\. Cancel it first\.$"):
        await scheduler.delete(job.id)
    go_on.set()
    await scheduler.wait(job.id, 60)
    await scheduler.delete(job.id)
    for one in (pending, job):
        with pytest.raises(JobNotFound):
            await scheduler.get_job(one.id)


async def test_everything_but_running_works_before_the_start_and_after_the_stop(scheduler: Scheduler) -> None:
    job = await scheduler.schedule("x")
    await scheduler.update(job.id, priority=1)
    await scheduler.stop()
    assert (await scheduler.get_job(job.id)).priority == 1
    async with scheduler.transaction() as tx:
        await scheduler.schedule("y", session=tx.session)
    await scheduler.stop()
    async with scheduler.transaction() as tx:
        await scheduler.schedule("z", session=tx.session)
    assert len(await listed(scheduler)) == 3


async def test_a_scheduler_can_be_started_once_only_but_again_after_a_stop(scheduler: Scheduler) -> None:
    handlers(scheduler)
    await scheduler.start()
    with pytest.raises(MainspringError, match="already running"):
        await scheduler.start()
    await scheduler.stop()
    async with scheduler:
        job = await scheduler.schedule("good")
        assert (await scheduler.wait(job.id, 60)).state == "completed"


async def test_two_starts_at_once_make_one_worker(scheduler: Scheduler, db: Any) -> None:
    outcomes = await asyncio.gather(scheduler.start(), scheduler.start(), return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["MainspringError", "NoneType"]
    assert len([w async for w in db["jobs.workers"].find({"_id": {"$gt": ""}})]) == 1
