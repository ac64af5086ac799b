"""Handlers in a process of their own: results, crashes, kills, and the context that reaches them there."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
from bson import ObjectId
from pymongo import AsyncMongoClient

from harness.apps import isolated
from harness.commands import alive
from harness.inside import inside
from harness.looking import Database
from harness.servers import Servers
from harness.waiting import eventually
from mainspring import HandlerError, Job, JobContext, Progress, Retry, Scheduler
from mainspring.engine.run.processes import Child

Make = Callable[..., Scheduler]

ISOLATED = (
    isolated.add,
    isolated.add_async,
    isolated.where,
    isolated.large,
    isolated.measure,
    isolated.end_hard,
    isolated.shoot_itself,
    isolated.hang,
    isolated.hang_async,
    isolated.raise_error,
    isolated.signal_end,
    isolated.report,
    isolated.report_async,
    isolated.schedule_nonsense,
    isolated.schedule_unpicklable,
    isolated.stop_iterating,
    isolated.babble,
    isolated.begin_only,
    isolated.count,
    isolated.count_async,
)
RETRY = Retry(attempts=3, delay=0.01, rules={isolated.Hopeless: Retry(attempts=1)})


@pytest.fixture(scope="module")
async def worker(servers: Servers, side_client: AsyncMongoClient[dict[str, Any]]) -> AsyncIterator[Scheduler]:
    """One worker for all tests here: its processes take a second to start, and serve one job after another."""
    name = f"t_{secrets.token_hex(4)}"
    scheduler = Scheduler(servers.uri(name), poll_interval=0.2, concurrency=4)
    for function in ISOLATED:
        scheduler.job(isolation="process", retry=RETRY)(function)
    scheduler.job("suspicious")(isolated.where)
    await scheduler.start()
    yield scheduler
    await scheduler.stop(graceful=False)
    await side_client.drop_database(name)


@pytest.fixture
def database(worker: Scheduler) -> Database:
    found: Database = worker.client.get_default_database()
    return found


async def ended(scheduler: Scheduler, name: str, data: dict[str, Any] | None = None, **options: Any) -> Job:
    job = await scheduler.schedule(name, data, **options)
    return await scheduler.wait(job.id, timeout=60)


async def pid_in(file: Path) -> int:
    """The pid that a handler has written down."""
    return int(await eventually(lambda: file.exists() and file.read_text(), timeout=60))


async def gone(pid: int) -> None:
    def is_gone() -> bool:
        try:
            return not alive(psutil.Process(pid))
        except psutil.NoSuchProcess:
            return True

    await eventually(is_gone)


# -- returning -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["add", "add_async"])
@pytest.mark.slow
async def test_the_result_comes_back(worker: Scheduler, name: str) -> None:
    done = await ended(worker, name, {"a": 2, "b": 3})
    assert (done.state, done.result, len(done.attempts)) == ("completed", 5, 1)


async def test_it_is_another_process_and_one_serves_job_after_job(worker: Scheduler) -> None:
    jobs = [await ended(worker, "where") for _ in range(2)]
    assert os.getpid() not in {job.result for job in jobs}
    assert len({job.result for job in jobs}) == 1


@pytest.mark.slow
async def test_several_run_at_once_each_in_its_own(worker: Scheduler, tmp_path: Path) -> None:
    files = [tmp_path / "a", tmp_path / "b"]
    jobs = [await worker.schedule("hang", {"pid_file": str(file)}) for file in files]
    pids = {await pid_in(file) for file in files}
    assert len(pids) == 2
    for job in jobs:
        await worker.cancel(job.id)
    assert {(await worker.wait(job.id, timeout=60)).state for job in jobs} == {"cancelled"}


@pytest.mark.slow
async def test_a_result_too_large_to_keep_is_said_to_be_so(worker: Scheduler) -> None:
    done = await ended(worker, "large", {"size": 100_000})
    assert (done.state, done.result) == ("completed", None)
    assert done.result_note is not None and "over the limit" in done.result_note


@pytest.mark.slow
async def test_middleware_that_calls_the_handler_again_calls_it_in_a_process_again(make_scheduler: Make) -> None:
    scheduler = make_scheduler()

    @scheduler.middleware
    async def twice(ctx: JobContext, run: Callable[[], Awaitable[Any]]) -> Any:
        return [await run(), await run()]

    scheduler.job(isolation="process")(isolated.where)
    await scheduler.start()
    assert os.getpid() not in (await ended(scheduler, "where")).result


@pytest.mark.slow
async def test_a_process_that_starts_after_its_job_was_cancelled_is_ended(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_start = threading.Event(), threading.Event()
    started: list[Child] = []

    class Late(Child):
        def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
            begun.set()
            may_start.wait(60)
            super().__init__(loop)
            started.append(self)

    monkeypatch.setattr("mainspring.engine.run.processes.Child", Late)
    scheduler = make_scheduler()
    scheduler.job(isolation="process")(isolated.where)
    await scheduler.start()
    job = await scheduler.schedule("where")
    await eventually(begun.is_set)
    await scheduler.cancel(job.id)
    assert (await scheduler.wait(job.id, timeout=60)).state == "cancelled"
    may_start.set()
    await eventually(lambda: started)
    pid = started[0].pid
    assert pid is not None
    await gone(pid)


# -- crashing ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_process_that_ends_itself_fails_its_attempt_and_the_next_one_runs(worker: Scheduler) -> None:
    done = await ended(worker, "end_hard", {"code": 7})
    assert (done.state, done.result) == ("completed", "attempt 2")
    first = done.attempts[0]
    assert first.outcome == "retried" and first.error is not None
    assert (first.error.type, "exit code 7" in first.error.message) == ("ProcessDied", True)


@pytest.mark.slow
async def test_a_process_that_is_killed_each_time_makes_a_dead_letter_and_the_worker_lives(worker: Scheduler) -> None:
    done = await ended(worker, "shoot_itself", retry=Retry(attempts=2, delay=0.01))
    assert (done.state, [attempt.outcome for attempt in done.attempts]) == ("failed", ["retried", "failed"])
    assert done.error is not None and "SIGKILL" in done.error.message
    assert (await ended(worker, "add", {"a": 1, "b": 1})).result == 2


@pytest.mark.slow
async def test_an_idle_process_that_dies_costs_no_job_an_attempt(worker: Scheduler) -> None:
    pid = (await ended(worker, "where")).result
    os.kill(pid, signal.SIGKILL)
    await gone(pid)
    idle = inside(worker).worker.executor.processes._idle
    await eventually(lambda: not any(child.lives for child in idle))  # its threads may end a moment later
    done = await ended(worker, "where")
    assert (done.state, len(done.attempts), done.result != pid) == ("completed", 1, True)


# -- being stopped -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hang", "hang_async"])
@pytest.mark.slow
async def test_a_timeout_kills_the_process(worker: Scheduler, tmp_path: Path, name: str) -> None:
    file = tmp_path / "pid"
    done = await ended(worker, name, {"pid_file": str(file)}, timeout=5, retry=1)
    assert (done.state, done.error and done.error.type) == ("failed", "Timeout")
    await gone(await pid_in(file))


@pytest.mark.slow
async def test_a_cancellation_kills_the_process(worker: Scheduler, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    job = await worker.schedule("hang", {"pid_file": str(file)})
    pid = await pid_in(file)
    await worker.cancel(job.id, "enough")
    done = await worker.wait(job.id, timeout=60)
    assert (done.state, done.error and done.error.message) == ("cancelled", "enough")
    await gone(pid)


@pytest.mark.slow
async def test_when_the_worker_stops_its_processes_are_gone_and_their_jobs_are_given_back(
    uri: str, tmp_path: Path, db: Database
) -> None:
    scheduler = Scheduler(uri)
    scheduler.job(isolation="process")(isolated.hang)
    await scheduler.start()
    job = await scheduler.schedule("hang", {"pid_file": str(tmp_path / "pid")})
    pid = await pid_in(tmp_path / "pid")
    await scheduler.stop(timeout=0)
    await gone(pid)
    document = await db.jobs.find_one({"_id": ObjectId(job.id)})
    assert document is not None and (document["state"], document["tries"]) == ("pending", 0)


# -- raising -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_an_exception_comes_over_with_its_type_message_and_stack(worker: Scheduler) -> None:
    done = await ended(worker, "raise_error", {"kind": "value"})
    assert done.state == "failed" and len(done.attempts) == 3
    assert done.error is not None and (done.error.type, done.error.message) == ("ValueError", "it is value")
    assert "isolated.py" in (done.error.stack or "")


async def test_retry_rules_know_an_exception_by_its_type(worker: Scheduler) -> None:
    done = await ended(worker, "raise_error", {"kind": "hopeless"})
    assert (done.state, len(done.attempts)) == ("failed", 1)
    assert done.error is not None and done.error.type == "harness.apps.isolated.Hopeless"


async def test_an_exception_that_cannot_be_sent_is_described(worker: Scheduler) -> None:
    done = await ended(worker, "raise_error", {"kind": "unpicklable"}, retry=1)
    assert done.error is not None
    assert (done.error.type, done.error.message) == ("harness.apps.isolated.Unpicklable", "this and that")


async def test_a_handler_that_wants_to_exit_fails_its_attempt(worker: Scheduler) -> None:
    done = await ended(worker, "raise_error", {"kind": "system"}, retry=1)
    assert (done.state, done.error and done.error.type) == ("failed", "SystemExit")


@pytest.mark.parametrize(
    ("kind", "state", "result", "outcomes"),
    [
        ("snooze", "completed", "attempt 1 of token 2", ["completed"]),
        ("retry", "completed", "attempt 2 of token 2", ["retried", "completed"]),
        ("cancel", "cancelled", None, ["cancelled"]),
        ("fail", "failed", None, ["failed"]),
    ],
)
async def test_signals_come_over(
    worker: Scheduler, kind: str, state: str, result: str | None, outcomes: list[str]
) -> None:
    done = await ended(worker, "signal_end", {"kind": kind})
    assert (done.state, done.result, [attempt.outcome for attempt in done.attempts]) == (state, result, outcomes)
    if state != "completed":
        assert done.error is not None and done.error.message == f"to {kind}"


async def test_data_that_does_not_fit_fails_at_once(worker: Scheduler, database: Database) -> None:
    job = await worker.schedule("add", {"a": 1, "b": 2}, delay=3600)
    await database.jobs.update_one({"_id": ObjectId(job.id)}, {"$set": {"data": {"a": "one"}}})
    await worker.run_now(job.id)
    done = await worker.wait(job.id, timeout=60)
    assert (done.state, len(done.attempts)) == ("failed", 1)
    assert done.error is not None and done.error.type == "InvalidJob"


# -- the context ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["report", "report_async"])
async def test_the_context_works_from_there(worker: Scheduler, name: str) -> None:
    done = await ended(worker, name, tags=["t"])
    assert done.state == "completed", done.error
    assert {key: done.result[key] for key in ("id", "attempt", "token", "tags")} == {
        "id": done.id,
        "attempt": 1,
        "token": 1,
        "tags": ["t"],
    }
    assert done.attempts[0].log == ("first", "second")
    assert done.progress == Progress(40, "on its way")
    child = await worker.get_job(done.result["child"])
    assert (child.parent_id, child.state, child.tags) == (done.id, "pending", ("child",))


async def test_what_the_context_refuses_is_raised_there(worker: Scheduler) -> None:
    done = await ended(worker, "schedule_nonsense", retry=1)
    assert done.error is not None and done.error.type.endswith("InvalidJob")


@pytest.mark.parametrize(
    ("name", "type", "message"),
    [
        ("schedule_unpicklable", "InvalidJob", "cannot be sent from the handler's process"),
        ("babble", "ProcessDied", "sent a message that cannot be read (TypeError("),
        ("stop_iterating", "RuntimeError", "the handler raised StopIteration"),
        ("begin_only", "HandlerError", "returned a coroutine"),
    ],
)
@pytest.mark.slow
async def test_whatever_a_process_sends_or_raises_its_job_fails(
    worker: Scheduler, name: str, type: str, message: str
) -> None:
    done = await ended(worker, name, retry=1)
    assert done.state == "failed" and done.error is not None
    assert done.error.type == type and message in done.error.message


@pytest.mark.slow
async def test_a_process_that_reads_nothing_does_not_stop_its_worker(worker: Scheduler) -> None:
    pid = (await ended(worker, "where")).result
    os.kill(int(pid), signal.SIGSTOP)
    job = await worker.schedule("measure", {"text": "x" * 260_000})
    await eventually(lambda: any(one.process is not None for one in inside(worker).worker.claimed_jobs.all()))
    assert (await ended(worker, "suspicious")).state == "completed"
    await worker.cancel(job.id)
    assert (await worker.wait(job.id, timeout=60)).state == "cancelled"


@pytest.mark.parametrize("name", ["count", "count_async"])
@pytest.mark.slow
async def test_a_transaction_commits_the_effect_with_the_completion(
    worker: Scheduler, database: Database, name: str
) -> None:
    done = await ended(worker, name, {"key": name})
    assert (done.state, len(done.attempts)) == ("completed", 1), done.error
    assert done.result not in (None, os.getpid())
    counter = await database["counters"].find_one({"_id": name})
    assert counter is not None and counter["n"] == 1


async def test_progress_and_log_stay_with_an_attempt_that_a_transaction_completed(worker: Scheduler) -> None:
    done = await ended(worker, "count_async", {"key": "logged"})
    assert done.attempts[0].log == ("counting",)
    assert done.progress == Progress(30, "counting")


async def test_a_transaction_that_raises_leaves_nothing_behind(worker: Scheduler, database: Database) -> None:
    done = await ended(worker, "count_async", {"key": "failed", "fail": True})
    assert (done.state, len(done.attempts)) == ("failed", 1)
    assert await database["counters"].find_one({"_id": "failed"}) is None


@pytest.mark.slow
async def test_transactions_that_conflict_run_again_and_cost_no_attempt(worker: Scheduler, database: Database) -> None:
    await database["counters"].insert_one({"_id": "wanted", "n": 0})
    jobs = await worker.schedule_bulk([{"name": "count_async", "data": {"key": "wanted"}}] * 8)
    done = await asyncio.gather(*(worker.wait(job.id, timeout=60) for job in jobs))
    assert [(job.state, len(job.attempts)) for job in done] == [("completed", 1)] * 8
    counter = await database["counters"].find_one({"_id": "wanted"})
    assert counter is not None and counter["n"] == 8


# -- who goes there ------------------------------------------------------------------------------------------------


async def test_a_local_function_is_refused(scheduler: Scheduler) -> None:
    def local() -> None: ...

    with pytest.raises(HandlerError, match="top level of a module"):
        scheduler.job("local", isolation="process")(local)
    with pytest.raises(HandlerError, match="top level of a module"):
        scheduler.job("lambda", isolation="process")(lambda: None)


@pytest.mark.slow
async def test_a_suspect_runs_in_a_process_that_ends_with_it(worker: Scheduler, database: Database) -> None:
    assert (await ended(worker, "suspicious")).result == os.getpid()
    pids = []
    for _ in range(2):
        job = await worker.schedule("suspicious", delay=3600)
        await database.jobs.update_one({"_id": ObjectId(job.id)}, {"$set": {"suspect": True}})
        await worker.run_now(job.id)
        done = await worker.wait(job.id, timeout=60)
        assert (done.state, done.suspect) == ("completed", False)
        pids.append(done.result)
        await gone(done.result)
    assert os.getpid() not in pids and len(set(pids)) == 2


@pytest.mark.slow
async def test_a_transaction_in_a_process_needs_the_address_and_says_so(uri: str) -> None:
    async with AsyncMongoClient[dict[str, Any]](uri) as client:
        scheduler = Scheduler(client=client)
        scheduler.job(isolation="process", retry=1)(isolated.count_async)
        await scheduler.start()
        done = await ended(scheduler, "count_async", {"key": "k"})
        assert done.error is not None and "give Scheduler the uri beside the client" in done.error.message
        await scheduler.stop()
