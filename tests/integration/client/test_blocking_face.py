"""The blocking face: the same verbs, from threads, scripts and forked servers."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from signal import SIGINT, SIGTERM
from typing import Any

import pytest

from harness.processes import TESTS
from mainspring import (
    BulkError,
    Calendar,
    ConfigurationError,
    Cron,
    Except,
    InvalidJob,
    InvalidSchedule,
    Job,
    JobNotFound,
    JobStateError,
    MainspringError,
    Pause,
    Retry,
    ScheduleNotFound,
    ScheduleStateError,
    WaitTimeout,
)
from mainspring import Scheduler as AsyncScheduler
from mainspring.clock import ManualClock
from mainspring.engine.worker import Worker
from mainspring.sync import JobContext, Schedule, Scheduler

Make = Callable[..., Scheduler]


@pytest.fixture
def make(uri: str) -> Iterator[Make]:
    """Makes blocking schedulers on the test's database and stops them at its end."""
    made: list[Scheduler] = []

    def make(**options: Any) -> Scheduler:
        made.append(Scheduler(uri, **{"poll_interval": 0.2, **options}))
        return made[-1]

    yield make
    for scheduler in made:
        scheduler.stop(graceful=False)


@pytest.fixture
def blocking(make: Make) -> Scheduler:
    return make()


# -- the verbs -----------------------------------------------------------------------------------------------------


def test_it_has_every_verb_of_the_async_face() -> None:
    theirs = {name for name in dir(AsyncScheduler) if not name.startswith("_")}
    ours = {name for name in dir(Scheduler("mongodb://127.0.0.1:9")) if not name.startswith("_")}
    assert theirs <= ours


def test_a_job_function_schedules_jobs_and_waits_until_they_are_stored(blocking: Scheduler) -> None:
    @blocking.job("double")
    def double(ctx: JobContext, number: int) -> int:
        return 2 * number

    blocking.start()
    jobs = [double.schedule(number=2), double.options(priority=1).schedule(3)]
    assert [job.wait(60).result for job in jobs] == [4, 6]
    assert [job.priority for job in jobs] == [5, 1]


def test_the_verbs_block_and_keep_their_signatures_and_docstrings() -> None:
    verbs = ("schedule", "schedule_bulk", "get_job", "wait", "cancel", "retry", "run_now", "update", "delete")
    for name in verbs:
        verb, model = getattr(Scheduler, name), getattr(AsyncScheduler, name)
        assert not inspect.iscoroutinefunction(verb)
        assert (verb.__doc__, inspect.signature(verb)) == (model.__doc__, inspect.signature(model))


def test_a_job_is_scheduled_run_and_waited_for(blocking: Scheduler) -> None:
    @blocking.job("greet", retry=Retry(attempts=1))
    def greet(who: str) -> str:
        return f"hello {who}"

    blocking.start()
    job = blocking.schedule("greet", {"who": "you"}, tags=["polite"])
    done = blocking.wait(job.id, timeout=60)
    assert (done.state, done.result, done.tags) == ("completed", "hello you", ("polite",))


def test_jobs_are_read_changed_cancelled_retried_and_deleted(blocking: Scheduler) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    job = blocking.schedule("work", {"n": 1}, run_at=later)
    assert blocking.get_job(job.id).data == {"n": 1}
    assert blocking.update(job.id, priority=2, data={"n": 2}).priority == 2
    assert blocking.run_now(job.id).run_at < later
    assert blocking.cancel(job.id, "no more").state == "cancelled"
    assert blocking.retry(job.id).state == "pending"
    blocking.delete(job.id)
    with pytest.raises(JobNotFound):
        blocking.get_job(job.id)


def test_errors_come_through_with_their_types(blocking: Scheduler) -> None:
    with pytest.raises(InvalidJob, match="priority"):
        blocking.schedule("work", priority=11)
    with pytest.raises(BulkError, match="1 of 2"):
        blocking.schedule_bulk([{"name": "work"}, {}])
    job = blocking.schedule("work")
    with pytest.raises(WaitTimeout):
        blocking.wait(job.id, timeout=0.05)
    with pytest.raises(JobStateError):
        blocking.retry(job.id)


def test_a_bulk_and_the_iterator_over_jobs(blocking: Scheduler) -> None:
    jobs = blocking.schedule_bulk([{"name": "work", "data": {"n": n}, "tags": [f"t{n % 2}"]} for n in range(300)])
    assert {job.id for job in blocking.jobs(state="pending")} == {job.id for job in jobs}
    assert len(list(blocking.jobs(tag="t1", limit=20))) == 20
    iterator = blocking.jobs(state="pending")
    assert isinstance(next(iterator), Job)
    del iterator
    with pytest.raises(MainspringError, match="no state"):
        list(blocking.jobs(state="sleeping"))  # type: ignore[arg-type]


def test_deduplication(blocking: Scheduler) -> None:
    first = blocking.schedule("work", dedupe_key="k")
    assert blocking.schedule("work", dedupe_key="k").id == first.id


def test_the_client_can_be_used_to_look_inside(blocking: Scheduler, uri: str) -> None:
    assert blocking.uri == uri
    job = blocking.schedule("work", {"n": 1})
    jobs = blocking.client.get_default_database()["jobs"]
    assert jobs.find_one({"name": "work"}, hint="_id_")["data"] == {"n": 1}
    assert [str(document["_id"]) for document in jobs.find({}, hint="_id_")] == [job.id]


def test_what_a_dead_worker_held_can_be_given_back(blocking: Scheduler) -> None:
    assert blocking.workers.rescue("nobody") == []


def test_events_hooks_and_middleware(blocking: Scheduler) -> None:
    heard: list[str] = []
    blocking.on("job:success", lambda job: heard.append(f"success {job.name}"))
    blocking.on_start(lambda: heard.append("start"))
    blocking.on_stop(lambda: heard.append("stop"))

    @blocking.middleware
    async def around(ctx: Any, run: Any) -> Any:
        heard.append(f"around {ctx.name}")
        return await run()

    @blocking.job("work")
    def work() -> None:
        heard.append("work")

    with blocking:
        blocking.wait(blocking.schedule("work").id, timeout=60)
    assert heard == ["start", "around work", "work", "success work", "stop"]


# -- schedules -----------------------------------------------------------------------------------------------------

T0 = datetime(2030, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_a_schedule_is_made_run_and_read(blocking: Scheduler) -> None:
    ran = threading.Event()

    @blocking.every(0.2, data={"n": 3})
    def tick(n: int) -> None:
        ran.set()

    blocking.start()
    assert ran.wait(60)
    (schedule,) = blocking.schedules.find(state="active")
    assert isinstance(schedule, Schedule) and (schedule.id, schedule.declared_by) == ("tick", "default")
    job = next(blocking.jobs(schedule_id="tick"))
    assert (job.schedule_id, job.data) == ("tick", {"n": 3})


def test_a_schedule_is_managed_by_the_same_verbs(make: Make) -> None:
    clock = ManualClock()
    blocking = make(clock=clock)
    schedule = blocking.schedule("work", repeat=Cron("0 * * * *"), schedule_id="s", priority=3)
    assert isinstance(schedule, Schedule) and schedule.next_at == T0 + HOUR
    assert schedule == blocking.schedules.get("s") == schedule.refresh()
    assert schedule.edit(priority=2).priority == blocking.schedules.edit("s", priority=2).priority == 2
    assert schedule.skip_next("why").next_at == blocking.schedules.get("s").next_at == T0 + 2 * HOUR
    paused = schedule.pause("rest", actor="ann")
    assert isinstance(paused, Schedule) and paused.paused == Pause(T0, "rest", "ann")
    clock.advance(3 * HOUR)
    assert blocking.schedules.resume("s").next_at == T0 + 4 * HOUR
    job = schedule.trigger()
    assert blocking.schedules.trigger("s").schedule_id == job.schedule_id == "s"
    entries = schedule.ledger(T0, T0 + 3.5 * HOUR)
    assert entries == blocking.schedules.ledger("s", T0, T0 + 3.5 * HOUR)
    assert [entry.outcome for entry in entries] == ["skipped"] * 3 + ["triggered"] * 2
    assert [firing.at for firing in schedule.upcoming(2)] == [T0 + 4 * HOUR, T0 + 5 * HOUR]
    assert blocking.schedules.upcoming("s", 2) == blocking.schedules.preview(Cron("0 * * * *"), 2)
    assert (
        len(schedule.preview_backfill(T0, T0 + 3 * HOUR))
        == len(blocking.schedules.preview_backfill("s", T0, T0 + 3 * HOUR))
        == 2
    )
    assert schedule.backfill(T0, T0 + 3 * HOUR).made == 2
    assert blocking.schedules.backfill("s", T0, T0 + 3 * HOUR).done
    schedule.delete()
    with pytest.raises(ScheduleNotFound):
        blocking.schedules.delete("s")
    assert list(blocking.schedules.find()) == []


def test_calendars_are_stored_read_and_deleted(make: Make) -> None:
    blocking = make(clock=ManualClock())
    blocking.calendars.put("h", Calendar(["2030-01-01"]))
    schedule = blocking.schedule("work", repeat=Except(Cron("0 9 * * *"), "h"))
    assert schedule.next_at == T0 + 33 * HOUR
    assert blocking.calendars.get("h").rev == 1 and [stored.name for stored in blocking.calendars.all()] == ["h"]
    with pytest.raises(ScheduleStateError, match="is needed by"):
        blocking.calendars.delete("h")
    schedule.delete()
    blocking.calendars.delete("h")
    assert blocking.calendars.all() == []


def test_errors_of_schedules_come_through_with_their_types(blocking: Scheduler) -> None:
    with pytest.raises(InvalidSchedule, match="repeat must be a rule"):
        blocking.schedule("work", repeat="daily")  # type: ignore[call-overload]
    with pytest.raises(ScheduleNotFound):
        blocking.schedules.get("x")
    with pytest.raises(MainspringError, match="no state"):
        list(blocking.schedules.find(state="asleep"))  # type: ignore[arg-type]
    schedule = blocking.schedule("work", repeat=Cron("0 9 * * *"))
    loose = Schedule(**{key: getattr(schedule, key) for key in Schedule.__dataclass_fields__ if key != "_from"})
    assert loose == schedule
    with pytest.raises(MainspringError, match="was not read from a Scheduler"):
        loose.pause()


# -- transactions --------------------------------------------------------------------------------------------------


def test_a_transaction_commits_jobs_and_writes_together(blocking: Scheduler) -> None:
    with blocking.transaction() as tx:
        tx.db["orders"].insert_one({"_id": 1, "paid": False}, session=tx.session)
        tx.db["orders"].update_one({"_id": 1}, {"$set": {"paid": True}}, session=tx.session)
        job = blocking.schedule("work", session=tx.session)
        (other,) = blocking.schedule_bulk([{"name": "work"}], session=tx.session)
        with pytest.raises(JobNotFound):
            blocking.get_job(job.id)
    assert {blocking.get_job(one.id).state for one in (job, other)} == {"pending"}
    assert blocking.client.get_default_database()["orders"].find_one({"_id": 1}) == {"_id": 1, "paid": True}


def test_a_transaction_that_raises_is_rolled_back(blocking: Scheduler) -> None:
    with pytest.raises(RuntimeError, match="no"), blocking.transaction() as tx:
        tx.db["orders"].insert_one({"_id": 1}, session=tx.session)
        job = blocking.schedule("work", session=tx.session)
        raise RuntimeError("no")
    with pytest.raises(JobNotFound):
        blocking.get_job(job.id)
    assert blocking.client.get_default_database()["orders"].find_one({"_id": 1}) is None


def test_a_session_of_the_client_can_be_used_too(blocking: Scheduler) -> None:
    with blocking.client.start_session() as session:
        session.start_transaction()
        job = blocking.schedule("work", session=session)
        session.abort_transaction()
    with pytest.raises(JobNotFound):
        blocking.get_job(job.id)


# -- handlers ------------------------------------------------------------------------------------------------------


def test_a_sync_handler_has_a_context_that_blocks(blocking: Scheduler) -> None:
    @blocking.job("work", retry=1)
    def work(ctx: JobContext, n: int) -> list[Any]:
        ctx.progress(50, "half")
        ctx.log("a line")
        child = ctx.schedule("later", delay=3600)
        return [ctx.name, ctx.attempt, ctx.token, ctx.data["n"], ctx.is_cancelled, child.id]

    blocking.start()
    done = blocking.wait(blocking.schedule("work", {"n": 3}).id, timeout=60)
    assert done.state == "completed", done.error
    assert done.result[:5] == ["work", 1, 1, 3, False]
    assert done.attempts[0].log == ("a line",)
    assert blocking.get_job(done.result[5]).parent_id == done.id


def test_a_sync_handler_completes_its_job_in_a_transaction(blocking: Scheduler) -> None:
    @blocking.job("pay", retry=1)
    def pay(ctx: JobContext, order: int) -> None:
        with ctx.transaction() as tx:
            tx.db["payments"].insert_one({"_id": order, "token": ctx.token}, session=tx.session)
            ctx.schedule("receipt", {"order": order}, delay=3600, session=tx.session)
            tx.result = {"paid": order}

    blocking.start()
    done = blocking.wait(blocking.schedule("pay", {"order": 7}).id, timeout=60)
    assert (done.state, done.result) == ("completed", {"paid": 7}), done.error
    assert blocking.client.get_default_database()["payments"].find_one({"_id": 7}) == {"_id": 7, "token": 1}
    assert [job.data["order"] for job in blocking.jobs(name="receipt")] == [7]


def test_a_sync_handler_is_told_that_it_was_cancelled(blocking: Scheduler) -> None:
    begun = threading.Event()

    @blocking.job("work")
    def work(ctx: JobContext) -> None:
        begun.set()
        while not ctx.is_cancelled:
            threading.Event().wait(0.02)

    blocking.start()
    job = blocking.schedule("work")
    assert begun.wait(60)
    blocking.cancel(job.id)
    assert blocking.wait(job.id, timeout=60).state == "cancelled"


def test_an_async_handler_runs_too(blocking: Scheduler) -> None:
    @blocking.job("work")
    async def work() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    blocking.start()
    assert blocking.wait(blocking.schedule("work").id, timeout=60).result == "mainspring-loop"


def test_calling_it_on_its_own_event_loop_is_refused_with_the_cure(blocking: Scheduler) -> None:
    @blocking.job("work", retry=1)
    async def work(verb: str) -> None:
        if verb == "schedule":
            blocking.schedule("other")
        elif verb == "jobs":
            list(blocking.jobs())
        else:
            with blocking.transaction():
                pass

    blocking.start()
    for verb in ("schedule", "jobs", "transaction"):
        done = blocking.wait(blocking.schedule("work", {"verb": verb}).id, timeout=60)
        assert done.error is not None and "use the async Scheduler and await it" in done.error.message


# -- its life ------------------------------------------------------------------------------------------------------


def test_stopping_twice_or_before_anything_began_does_no_harm(make: Make) -> None:
    scheduler = make()
    scheduler.stop()
    scheduler.start()
    scheduler.stop()
    scheduler.stop()


def test_its_loop_is_closed_when_it_has_stopped_however_long_that_takes(make: Make) -> None:
    made: list[asyncio.AbstractEventLoop] = []

    class Slow(asyncio.SelectorEventLoop):
        async def shutdown_asyncgens(self) -> None:
            await asyncio.sleep(0.5)
            await super().shutdown_asyncgens()

    def slow() -> asyncio.AbstractEventLoop:
        made.append(Slow())
        return made[-1]

    scheduler = make()
    scheduler.loop_factory = slow
    for _ in range(2):
        scheduler.start()
        scheduler.stop()
    assert [loop.is_closed() for loop in made] == [True, True]  # the end of Python breaks off nothing


def test_it_can_be_used_and_started_again_after_it_was_stopped(blocking: Scheduler) -> None:
    @blocking.job("work")
    def work() -> str:
        return "done"

    for _ in range(2):
        blocking.start()
        with pytest.raises(MainspringError, match="already running"):
            blocking.start()
        assert blocking.wait(blocking.schedule("work").id, timeout=60).result == "done"
        blocking.stop()
    assert len(list(blocking.jobs(state="completed"))) == 2


def test_many_threads_share_one(blocking: Scheduler) -> None:
    with ThreadPoolExecutor(8) as threads:
        jobs = list(threads.map(lambda n: blocking.schedule("work", {"n": n}), range(100)))
    assert len({job.id for job in jobs}) == 100
    assert {job.data["n"] for job in blocking.jobs(state="pending")} == set(range(100))


# -- processes -----------------------------------------------------------------------------------------------------


@contextmanager
def program(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A program of its own; killed when it has not ended by itself."""
    command = [sys.executable, "-m", "harness.apps.blocking", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def lines(process: subprocess.Popen[str], until: str) -> list[str]:
    """What it prints, up to this line."""
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line.strip())
        if seen[-1] == until:
            return seen
    raise AssertionError(f"it ended without saying {until!r}: {seen}")


@pytest.mark.slow
def test_it_can_be_used_after_a_fork_by_both_sides(blocking: Scheduler, uri: str) -> None:
    with program("fork", uri) as process:
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    stored = dict(line.split() for line in output.splitlines())
    assert sorted(stored) == ["before", "child", "parent"]
    assert {job.id for job in blocking.jobs(state="pending")} == set(stored.values())


@pytest.mark.parametrize("number", [SIGTERM, SIGINT])
@pytest.mark.slow
def test_run_lets_handlers_finish_on_a_signal(blocking: Scheduler, uri: str, number: int) -> None:
    job = blocking.schedule("work", {"seconds": 0.5})
    with program("run", uri, "30") as process:
        lines(process, "begun")
        process.send_signal(number)
        assert lines(process, "ended") == ["done", "ended"]
        assert process.wait(60) == 0
    assert blocking.get_job(job.id).state == "completed"


@pytest.mark.slow
def test_a_second_signal_is_faster(blocking: Scheduler, uri: str) -> None:
    job = blocking.schedule("work", {"seconds": 600})
    with program("run", uri, "300") as process:
        lines(process, "begun")
        process.send_signal(SIGTERM)
        process.send_signal(SIGINT)  # another one: the system makes one of two equal ones
        assert lines(process, "ended") == ["stopped early", "ended"]
        assert process.wait(20) == 0
    given_back = blocking.get_job(job.id)
    assert (given_back.state, given_back.tries) == ("pending", 0)


async def test_the_blocking_face_refuses_to_stop_an_event_loop(uri: str) -> None:
    scheduler = Scheduler(uri)
    for call in (lambda: scheduler.schedule("x"), scheduler.start, lambda: list(scheduler.jobs())):
        with pytest.raises(ConfigurationError, match="made on the thread of an event loop, which it would block"):
            call()


async def test_a_scheduler_that_is_left_lets_handlers_finish_for_its_grace_time(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []

    async def stop(worker: Worker, grace: float) -> None:
        given.append(grace)
        await real(worker, 0)

    real = Worker.stop
    monkeypatch.setattr(Worker, "stop", stop)
    async with AsyncScheduler(uri, handler=nothing) as scheduler:
        assert scheduler.settings.grace == 25.0
    async with AsyncScheduler(uri, handler=nothing, grace=3):
        pass
    assert given == [25.0, 3.0]


async def nothing(ctx: Any) -> None:
    """A handler."""
