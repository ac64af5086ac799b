"""Operations: one verb on many jobs, each job once, only what was meant when the operation was created."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId

from harness.inside import inside
from harness.looking import Database, count_jobs
from harness.operating import NOW, counts, fill, job, jobs, states, take_steps
from harness.waiting import eventually
from mainspring import (
    AuditEntry,
    ConfigurationError,
    InvalidOperation,
    Job,
    Operation,
    OperationNotFound,
    Scheduler,
    Unavailable,
    WaitTimeout,
    sync,
)
from mainspring.client.service_backend import ServiceBackend
from mainspring.clock import ManualClock
from mainspring.model.access.api_keys import Scope
from mainspring.model.views.search import JobFilter

Make = Callable[..., Scheduler]


async def operate(scheduler: Scheduler, verb: Any, filter: JobFilter | None = None, **options: Any) -> Operation:
    """An operation that starts at once, carried out to its end."""
    operation = await scheduler.operations.create(verb, filter, reason="a test", start_after=0, **options)
    return await take_steps(scheduler, operation)


# -- the verbs -----------------------------------------------------------------------------------------------------


async def test_jobs_that_match_are_cancelled_and_no_others(scheduler: Scheduler, db: Database) -> None:
    await fill(scheduler, db, *jobs(3), *jobs(2, name="other"), *jobs(2, "failed"))
    done = await operate(scheduler, "cancel", {"state": "pending", "name": "work"})
    assert counts(done) == ("completed", 3, 0, 0)
    assert (done.count, done.capped, done.progress.examined) == (3, False, 3)
    assert await states(db) == {"cancelled": 3, "pending": 2, "failed": 2}
    cancelled = [job async for job in scheduler.jobs(state="cancelled")]
    assert {(job.name, job.error.message if job.error else None) for job in cancelled} == {("work", "a test")}


async def test_a_running_job_is_asked_to_stop(scheduler: Scheduler, db: Database) -> None:
    await fill(scheduler, db, *jobs(2, "running"))
    assert counts(await operate(scheduler, "cancel", {"name": "work"})) == ("completed", 2, 0, 0)
    assert {(job.state, job.cancel_requested) async for job in scheduler.jobs()} == {("running", True)}


async def test_ended_jobs_are_run_again_as_a_new_round(scheduler: Scheduler, db: Database) -> None:
    await fill(scheduler, db, *jobs(2, "failed"), *jobs(1, "completed"), *jobs(1, "cancelled"), *jobs(1, "expired"))
    assert counts(await operate(scheduler, "retry", {"queue": "default"})) == ("completed", 4, 0, 0)
    assert await states(db) == {"pending": 4, "expired": 1}
    assert {(job.tries, job.token, job.finished_at) async for job in scheduler.jobs(state="pending")} == {(0, 1, None)}


async def test_pending_jobs_are_made_due_at_once(scheduler: Scheduler, db: Database) -> None:
    await fill(scheduler, db, *jobs(3), *jobs(1, "running"))
    assert counts(await operate(scheduler, "run", {"name": "work"})) == ("completed", 3, 0, 0)
    now = scheduler.now() + timedelta(minutes=1)
    assert [job.run_at < now async for job in scheduler.jobs(state="pending")] == [True] * 3


async def test_priority_and_queue_of_waiting_jobs_are_changed(scheduler: Scheduler, db: Database) -> None:
    await fill(scheduler, db, *jobs(3), *jobs(1, "failed"))
    assert (await operate(scheduler, "set_priority", {"state": "pending"}, priority=1)).progress.changed == 3
    assert (await operate(scheduler, "move", {"state": "pending"}, queue="other")).progress.changed == 3
    moved = {(job.priority, job.queue) async for job in scheduler.jobs(state="pending")}
    assert moved == {(1, "other")} and await count_jobs(db, queue="default") == 1


async def test_jobs_are_deleted_with_their_dedupe_keys_and_the_archive_gets_ended_ones(
    scheduler: Scheduler, db: Database
) -> None:
    archived: list[str] = []

    @scheduler.archive
    async def archive(jobs: list[Job]) -> None:
        archived.extend(job.state for job in jobs)

    await fill(scheduler, db, *jobs(2), *jobs(2, "completed"), *jobs(1, "failed"), *jobs(1, "running"))
    keyed = await scheduler.schedule("work", dedupe_key="k", delay=3600)
    assert counts(await operate(scheduler, "delete", {"name": "work"})) == ("completed", 6, 0, 0)
    assert await states(db) == {"running": 1}
    assert sorted(archived) == ["completed", "completed", "failed"]
    assert (await scheduler.schedule("work", dedupe_key="k")).id != keyed.id


async def test_jobs_that_the_archive_refuses_stay_and_the_operation_tells_why_it_waits(
    scheduler: Scheduler, db: Database
) -> None:
    refuses = [True]

    @scheduler.archive
    async def archive(jobs: list[Job]) -> None:
        if refuses[0]:
            raise RuntimeError("the disk is full")

    await fill(scheduler, db, *jobs(3, "completed"))
    await scheduler.start()
    operation = await scheduler.operations.create("delete", {"state": "completed"}, reason="old", start_after=0)
    await eventually(lambda: _has_error(operation, "the disk is full"))
    assert await states(db) == {"completed": 3}
    refuses[0] = False
    await scheduler.stop()
    await scheduler.connect()
    done = await take_steps(scheduler, operation)
    assert counts(done) == ("completed", 3, 0, 0) and done.error is None


async def _has_error(operation: Operation, text: str) -> bool:
    return text in str((await operation.refresh()).error)


# -- which jobs are meant ------------------------------------------------------------------------------------------


async def test_every_part_of_a_filter_has_to_fit(scheduler: Scheduler, db: Database) -> None:
    mine: dict[str, Any] = {
        "queue": "q",
        "tags": ["t"],
        "parent_id": "p",
        "schedule_id": "s",
        "scheduled_for": NOW,
        "data": {"a": {"b": 7}},
    }
    (wanted,) = await fill(scheduler, db, job(**mine))
    for field, value in (
        ("queue", "x"),
        ("tags", []),
        ("parent_id", "x"),
        ("schedule_id", "x"),
        ("data", {"a": {"b": 8}}),
    ):
        await fill(scheduler, db, job(**{**mine, field: value}))
    await fill(scheduler, db, job(**mine, name="other"), job("failed", **mine))
    await fill(scheduler, db, job(**{**mine, "created_at": NOW - timedelta(days=2)}))
    await fill(scheduler, db, job(**{**mine, "created_at": NOW + timedelta(days=2)}))
    whole: JobFilter = {
        "state": "pending",
        "name": "work",
        "queue": "q",
        "tag": "t",
        "schedule_id": "s",
        "parent_id": "p",
        "since": NOW - timedelta(days=1),
        "until": NOW + timedelta(days=1),
        "data": {"a.b": 7},
    }
    preview = await scheduler.operations.preview("cancel", whole)
    assert (preview.count, [one.id for one in preview.sample]) == (1, [wanted])
    done = await operate(scheduler, "cancel", whole)
    assert counts(done) == ("completed", 1, 0, 0) and done.filter == whole
    assert [one.id async for one in scheduler.jobs(state="cancelled")] == [wanted]


async def test_jobs_that_are_made_after_it_was_created_are_never_touched(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    before = await timed.schedule("work", delay=3600)
    operation = await timed.operations.create("cancel", {"name": "work"}, reason="a test")
    clock.advance(1)
    after = await timed.schedule("work", delay=3600)
    clock.advance(10)
    done = await take_steps(timed, operation)
    assert counts(done) == ("completed", 1, 0, 0) and done.cutoff == before.created_at
    assert [(await timed.get_job(one.id)).state for one in (before, after)] == ["cancelled", "pending"]


async def test_a_job_that_fails_after_it_was_created_is_not_among_the_failed_ones_that_it_means(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    made: dict[str, Any] = {"schedule_id": "s", "scheduled_for": NOW}
    filters: list[JobFilter] = [{"state": "failed"}, {"schedule_id": "s"}]
    for filter in filters:
        await fill(timed, db, job("failed", **made))
        operation = await timed.operations.create("retry", filter, reason="a test", start_after=0)
        (later,) = await fill(timed, db, job("failed", finished_at=clock.now() + timedelta(seconds=1), **made))
        assert counts(await take_steps(timed, operation)) == ("completed", 1, 0, 0)
        assert (await timed.get_job(later)).state == "failed"
        await timed.delete(later)


async def test_a_job_that_does_not_match_any_more_is_skipped_and_the_operation_says_why(
    scheduler: Scheduler, db: Database
) -> None:
    ids = await fill(scheduler, db, *jobs(4))
    operation = await scheduler.operations.create("cancel", {"state": "pending"}, reason="a test", start_after=0)
    store = inside(scheduler).open_store
    taken = await store.operations.take_batch(await store.operations.start(await store.operations.get(operation.id)))
    objects = [one["_id"] for one in taken["batch"]]
    gone = {"$set": {"state": "completed", "finished_at": NOW}, "$unset": {"ready": 1}}
    await db.jobs.update_one({"_id": objects[0]}, gone)
    await db.jobs.delete_one({"_id": objects[1]})
    done = await take_steps(scheduler, operation)
    assert counts(done) == ("completed", 2, 2, 0) and len(ids) == 4
    told = {one.job_id: (one.outcome, one.reason) for one in done.progress.reasons}
    assert told == {
        str(objects[0]): ("skipped", "its state is completed now"),
        str(objects[1]): ("skipped", "it was deleted meanwhile"),
    }


async def test_the_whole_filter_is_compared_again_in_the_statement_that_changes_a_job(
    scheduler: Scheduler, db: Database
) -> None:
    ids = await fill(scheduler, db, *jobs(3, "failed", queue="a"))
    operation = await scheduler.operations.create(
        "retry", {"state": "failed", "queue": "a"}, reason="a test", start_after=0
    )
    operations = inside(scheduler).open_store.operations
    await operations.take_batch(await operations.start(await operations.get(operation.id)))
    await db.jobs.update_one({"_id": ObjectId(ids[0])}, {"$set": {"queue": "b"}})
    await db.jobs.update_one({"_id": ObjectId(ids[1])}, {"$set": {"state": "completed"}})
    done = await take_steps(scheduler, operation)
    assert counts(done) == ("completed", 1, 2, 0)
    assert {one.job_id: one.reason for one in done.progress.reasons} == {
        ids[0]: "it does not match the filter any more",
        ids[1]: "its state is completed now",
    }


async def test_jobs_named_by_their_ids_are_refused_by_the_rules_of_the_verb_with_a_reason_each(
    scheduler: Scheduler, db: Database
) -> None:
    failed, running, done = await fill(scheduler, db, job("failed"), job("running"), job("completed"))
    deleted = await operate(scheduler, "delete", ids=[failed, running, "no-such-job"])
    assert counts(deleted) == ("completed", 1, 1, 1)
    assert [(one.job_id, one.outcome, one.reason) for one in deleted.progress.reasons] == [
        (
            running,
            "refused",
            "its state is running; delete works on pending, blocked, completed, failed, cancelled and expired jobs "
            "only",
        ),
        ("no-such-job", "skipped", "it does not exist"),
    ]
    run = await operate(scheduler, "run", ids=done)
    assert counts(run) == ("completed", 0, 0, 1)
    assert run.progress.reasons[0].reason == "its state is completed; run works on pending jobs only"
    cancelled = await operate(scheduler, "cancel", ids=[done])
    assert counts(cancelled) == ("completed", 0, 1, 0)
    assert cancelled.progress.reasons[0].reason == "its state is completed now"


async def test_a_job_whose_dedupe_key_another_holds_is_refused(scheduler: Scheduler, db: Database) -> None:
    first = await scheduler.schedule("work", dedupe_key="k")
    await scheduler.cancel(first.id)
    second = await scheduler.schedule("work", dedupe_key="k")
    free = await scheduler.schedule("work", dedupe_key="free")
    await scheduler.cancel(free.id)
    done = await operate(scheduler, "retry", ids=[first.id, free.id, second.id])
    assert counts(done) == ("completed", 1, 0, 2)
    reasons = {one.job_id: one.reason for one in done.progress.reasons}
    assert reasons[first.id] == "another job holds its dedupe key now"
    assert reasons[second.id].startswith("its state is pending; retry works on")
    for key, holder in (("k", second), ("free", free)):
        assert (await scheduler.schedule("work", dedupe_key=key)).id == holder.id


async def test_a_document_that_cannot_be_changed_is_refused_and_holds_up_nothing(
    scheduler: Scheduler, db: Database
) -> None:
    broken = job(rev="text")
    await fill(scheduler, db, *jobs(3), broken, job(requests="text"))
    done = await operate(scheduler, "cancel", {"state": "pending"})
    assert counts(done) == ("completed", 3, 0, 2)
    assert {one.reason.partition("(")[0] for one in done.progress.reasons} == {"MongoDB refuses to change it "}


async def test_jobs_on_wait_lists_and_held_ones_are_found_too(scheduler: Scheduler, db: Database) -> None:
    line = {"line": "c:name:work", "waiting_for": {"by": "limit", "note": "", "since": NOW}}
    held = {"waiting_for": {"by": "handler", "note": "", "since": NOW}}
    waiting = [job(**{**job(number=n), **extra}) for n in range(3) for extra in (line, held)]
    for one in waiting:
        del one["ready"]
    await fill(scheduler, db, *waiting, *jobs(2))
    assert counts(await operate(scheduler, "cancel", {"state": "pending"})) == ("completed", 8, 0, 0)


@pytest.mark.slow
async def test_a_pending_job_that_moves_in_its_order_while_others_are_changed_is_found_all_the_same(
    scheduler: Scheduler, db: Database
) -> None:
    documents = list(jobs(501))
    await fill(scheduler, db, *documents)
    operation = await scheduler.operations.create("cancel", {"state": "pending"}, reason="a test", start_after=0)
    await take_steps(scheduler, operation, most=2)
    last = await db.jobs.find_one({"state": "pending"}, hint="_id_")
    assert last is not None
    await db.jobs.update_one({"_id": last["_id"]}, {"$set": {"priority": 1}})
    assert counts(await take_steps(scheduler, operation)) == ("completed", 501, 0, 0)


async def test_a_filter_on_a_value_that_is_not_shown_is_refused(make_scheduler: Make) -> None:
    scheduler = make_scheduler(redact=["pin"])
    with pytest.raises(InvalidOperation, match="redacted") as refused:
        await scheduler.operations.preview("cancel", {"data": {"pin": 1234}})
    assert refused.value.field == "filter.data"


# -- previews ------------------------------------------------------------------------------------------------------


async def test_a_preview_counts_and_shows_some_and_stores_nothing(scheduler: Scheduler, db: Database) -> None:
    await fill(scheduler, db, *jobs(7), *jobs(4, "running"), *jobs(2, "failed"))
    preview = await scheduler.operations.preview("cancel", {"name": "work"})
    assert (preview.count, preview.capped, len(preview.sample)) == (11, False, 5)
    assert (await scheduler.operations.preview("retry", {"state": "failed"})).count == 2
    named = await scheduler.operations.preview("run", ids=[preview.sample[0].id, "no-such-job"])
    assert (named.count, [one.id for one in named.sample]) == (1, [preview.sample[0].id])
    assert await scheduler.operations.all() == [] and await states(db) == {"pending": 7, "running": 4, "failed": 2}


async def test_an_operation_tells_what_it_meant_when_it_was_created(scheduler: Scheduler, db: Database) -> None:
    await fill(scheduler, db, *jobs(7))
    made = await scheduler.operations.create("cancel", {"name": "work"}, reason="why", actor="ada", start_after="5m")
    assert (made.count, made.capped, len(made.sample), made.created_by) == (7, False, 5, "ada")
    assert (made.state, made.starts_at - made.created_at) == ("waiting", timedelta(minutes=5))
    assert (await made.refresh()).sample == ()
    assert await states(db) == {"pending": 7}


# -- waiting and cancelling ----------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_it_starts_ten_seconds_after_its_creation(make_scheduler: Make, clock: ManualClock, db: Database) -> None:
    scheduler = make_scheduler(clock=clock)
    await fill(scheduler, db, *jobs(2))
    await scheduler.start()
    operation = await scheduler.operations.create("cancel", {"name": "work"}, reason="a test")
    assert operation.starts_at == clock.now() + timedelta(seconds=10)
    clock.advance(9)
    store = inside(scheduler).open_store
    assert await store.operations.find_due() == []
    clock.advance(1)
    done = await eventually(lambda: _ended(operation))
    assert counts(done) == ("completed", 2, 0, 0) and done.started_at == clock.now()


async def _ended(operation: Operation) -> Operation | None:
    now = await operation.refresh()
    return now if now.finished else None


async def test_cancelling_before_the_start_means_that_nothing_is_done(
    make_scheduler: Make, clock: ManualClock, db: Database
) -> None:
    scheduler = make_scheduler(clock=clock)
    await fill(scheduler, db, *jobs(2))
    operation = await scheduler.operations.create("cancel", {"name": "work"}, reason="a test")
    before = await db.command("dbHash", collections=["jobs"])
    cancelled = await operation.cancel()
    assert counts(cancelled) == ("cancelled", 0, 0, 0) and cancelled.started_at is None
    clock.advance(60)
    assert await inside(scheduler).open_store.operations.find_due() == []
    assert counts(await take_steps(scheduler, operation)) == ("cancelled", 0, 0, 0)
    assert (await db.command("dbHash", collections=["jobs"]))["md5"] == before["md5"]


async def test_cancelling_after_the_start_stops_it_where_it_is(scheduler: Scheduler, db: Database) -> None:
    await fill(scheduler, db, *jobs(1200))
    operation = await scheduler.operations.create("cancel", {"name": "work"}, reason="a test", start_after=0)
    under_way = await take_steps(scheduler, operation, most=2)
    assert counts(under_way) == ("running", 500, 0, 0)
    cancelled = await operation.cancel()
    assert cancelled.finished_at is not None and counts(cancelled) == ("cancelled", 500, 0, 0)
    assert counts(await take_steps(scheduler, operation)) == ("cancelled", 500, 0, 0)
    assert await states(db) == {"cancelled": 500, "pending": 700}
    assert await operation.cancel() == cancelled


async def test_a_batch_that_was_in_hand_when_it_was_cancelled_is_counted(scheduler: Scheduler, db: Database) -> None:
    await fill(scheduler, db, *jobs(10))
    operation = await scheduler.operations.create("cancel", {"name": "work"}, reason="a test", start_after=0)
    operations = inside(scheduler).open_store.operations
    taken = await operations.take_batch(await operations.start(await operations.get(operation.id)))
    await operations.carry_out(taken, inside(scheduler).open_store.removal.remove)
    await operation.cancel()
    assert counts(await take_steps(scheduler, operation)) == ("cancelled", 10, 0, 0)


# -- crashes and company -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["carry_out", "_account", "_change"])
@pytest.mark.parametrize("verb", ["cancel", "retry", "run", "delete", "set_priority", "move"])
@pytest.mark.slow
async def test_a_step_that_breaks_off_is_made_up_for_by_the_next_and_no_job_is_changed_twice(
    scheduler: Scheduler, db: Database, verb: Any, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(scheduler, db, *jobs(700, "failed" if verb == "retry" else "pending"))
    new: dict[str, Any] = {"priority": 2} if verb == "set_priority" else {"queue": "other"} if verb == "move" else {}
    operation = await scheduler.operations.create(verb, {"name": "work"}, reason="a test", start_after=0, **new)
    await take_steps(scheduler, operation, most=2)
    operations = inside(scheduler).open_store.operations
    whole, calls = getattr(operations, place), 0

    async def breaking_off(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        outcome = await whole(*arguments, **options) if place == "carry_out" or calls == 1 else None
        if place != "_change" or calls > 1:
            raise Unavailable("the process dies here")
        return outcome

    monkeypatch.setattr(operations, place, breaking_off)
    with pytest.raises(Unavailable):
        await take_steps(scheduler, operation)
    stored = await operations.get(operation.id)
    assert stored["state"] == "running" and stored["changed"] in (500, 700)
    monkeypatch.undo()
    assert counts(await take_steps(scheduler, operation)) == ("completed", 700, 0, 0)
    first = 2 if verb == "retry" else 0
    assert {one["rev"] async for one in db.jobs.find({}, {"rev": 1}, hint="_id_")} <= {first + 1}


async def test_a_job_that_was_changed_and_matches_again_is_not_changed_again(
    scheduler: Scheduler, db: Database
) -> None:
    ids = await fill(scheduler, db, *jobs(3))
    operation = await scheduler.operations.create("cancel", {"state": "pending"}, reason="a test", start_after=0)
    operations = inside(scheduler).open_store.operations
    taken = await operations.take_batch(await operations.start(await operations.get(operation.id)))
    await operations.carry_out(taken, inside(scheduler).open_store.removal.remove)
    await scheduler.retry(ids[0])
    assert counts(await take_steps(scheduler, operation)) == ("completed", 3, 0, 0)
    assert await states(db) == {"pending": 1, "cancelled": 2}


async def test_two_operations_over_the_same_jobs_do_each_their_own(scheduler: Scheduler, db: Database) -> None:
    await fill(scheduler, db, *jobs(30))
    first = await scheduler.operations.create(
        "set_priority", {"state": "pending"}, priority=2, reason="a test", start_after=0
    )
    second = await scheduler.operations.create("move", {"state": "pending"}, queue="q", reason="a test", start_after=0)
    ended = await asyncio.gather(take_steps(scheduler, first), take_steps(scheduler, second))
    assert [counts(one) for one in ended] == [("completed", 30, 0, 0)] * 2
    found = [one async for one in db.jobs.find({}, hint="_id_")]
    assert {(one["priority"], one["queue"], one["rev"]) for one in found} == {(2, "q", 2)}


@pytest.mark.slow
async def test_several_processes_at_one_operation_change_each_job_once_and_count_it_once(
    make_scheduler: Make, db: Database
) -> None:
    schedulers = [make_scheduler() for _ in range(3)]
    await fill(schedulers[0], db, *jobs(2300))
    operation = await schedulers[0].operations.create("run", {"name": "work"}, reason="a test", start_after=0)
    for one in schedulers:
        await one.connect()
    others = [await one.operations.get(operation.id) for one in schedulers]
    await asyncio.gather(*(take_steps(one, other) for one, other in zip(schedulers, others, strict=True)))
    assert counts(await operation.refresh()) == ("completed", 2300, 0, 0)
    assert {one["rev"] async for one in db.jobs.find({}, {"rev": 1}, hint="_id_")} == {1}


@pytest.mark.slow
async def test_workers_carry_an_operation_out_and_tell_how_far_it_is(make_scheduler: Make, db: Database) -> None:
    scheduler, other = make_scheduler(), make_scheduler()
    await fill(scheduler, db, *jobs(1200, queue="parked"))
    await scheduler.start()
    await other.start()
    told: list[str] = []
    scheduler.on("job:cancel", lambda job: told.append(job.id))
    other.on("job:cancel", lambda job: told.append(job.id))
    operation = await scheduler.operations.create("cancel", {"queue": "parked"}, reason="a test", start_after=0)
    done = await operation.wait(60)
    assert counts(done) == ("completed", 1200, 0, 0) and done.updated_at is not None
    assert len(told) == len(set(told)) == 1200
    assert await states(db) == {"cancelled": 1200}


async def test_jobs_that_are_made_due_run_at_once_in_the_worker_that_made_them_so(
    make_scheduler: Make, db: Database
) -> None:
    scheduler = make_scheduler(poll_interval=3600)
    ran: list[int] = []

    @scheduler.job("work")
    async def work(number: int) -> None:
        ran.append(number)

    await fill(scheduler, db, *jobs(3))
    async with scheduler:
        await scheduler.operations.create("run", {"name": "work"}, reason="a test", start_after=0)
        await eventually(lambda: sorted(ran) == [0, 1, 2])


# -- scopes and keys -----------------------------------------------------------------------------------------------


async def test_no_job_out_of_the_scope_is_counted_shown_or_touched(scheduler: Scheduler, db: Database) -> None:
    own, *others = await fill(
        scheduler, db, job(name="acme.x", queue="a"), job(name="acme.x", queue="b"), job(name="other", queue="a")
    )
    scope = Scope(("a",), ("acme.",))
    by_filter = await operate(scheduler, "cancel", {"state": "pending"}, scope=scope)
    assert (by_filter.count, by_filter.scope, counts(by_filter)) == (1, scope, ("completed", 1, 0, 0))
    by_ids = await operate(scheduler, "delete", ids=[own, *others], scope=scope)
    assert by_ids.count == 1 and counts(by_ids) == ("completed", 1, 2, 0)
    assert {one.reason for one in by_ids.progress.reasons} == {"it does not exist"}
    assert [(await scheduler.get_job(one)).state for one in others] == ["pending", "pending"]


async def test_a_job_that_was_moved_out_of_the_scope_meanwhile_is_skipped(scheduler: Scheduler, db: Database) -> None:
    (one,) = await fill(scheduler, db, job(queue="a"))
    made = await scheduler.operations.create("cancel", ids=one, scope=Scope(("a",)), reason="a test", start_after=0)
    operations = inside(scheduler).open_store.operations
    await operations.take_batch(await operations.start(await operations.get(made.id)))
    await scheduler.update(one, queue="b")
    assert counts(await take_steps(scheduler, made)) == ("completed", 0, 1, 0)
    assert (await scheduler.get_job(one)).state == "pending"


async def test_webhooks_are_not_moved_by_a_scope_since_their_secrets_may_be_for_one_queue(
    scheduler: Scheduler, db: Database
) -> None:
    await fill(scheduler, db, job(name="mainspring:http", queue="a"), job(queue="a"))
    done = await operate(scheduler, "move", {"state": "pending"}, queue="b", scope=Scope(("a", "b")))
    assert counts(done) == ("completed", 1, 0, 1) and "secrets" in done.progress.reasons[0].reason
    assert counts(await operate(scheduler, "move", {"queue": "a"}, queue="b")) == ("completed", 1, 0, 0)


async def test_an_operation_of_a_key_that_was_revoked_stops(scheduler: Scheduler, db: Database) -> None:
    await fill(scheduler, db, *jobs(700))
    key = (await scheduler.api_keys.create("k", "operator")).key
    operation = await scheduler.operations.create(
        "cancel", {"name": "work"}, reason="a test", start_after=0, actor=f"key:{key.id}"
    )
    await take_steps(scheduler, operation, most=2)
    await scheduler.api_keys.revoke(key.id)
    stopped = await take_steps(scheduler, operation)
    assert counts(stopped) == ("failed", 500, 0, 0) and "revoked" in str(stopped.error)
    assert await states(db) == {"cancelled": 500, "pending": 200}


# -- the audit log -------------------------------------------------------------------------------------------------


async def test_the_end_is_in_the_audit_log_once_with_its_counts(make_scheduler: Make, db: Database) -> None:
    scheduler = make_scheduler()
    await fill(scheduler, db, *jobs(3))
    done = await operate(scheduler, "cancel", {"name": "work"}, actor="ada")
    document = await inside(scheduler).open_store.operations.get(done.id)
    assert "open" not in document
    (row,) = await scheduler.audit.find(target=done.id)
    told = row.value_after()
    assert (row.action, row.actor) == ("operation.end", "worker:by-hand")
    assert {name: told[name] for name in ("verb", "state", "changed", "skipped", "refused", "reason", "actor")} == {
        "verb": "cancel",
        "state": "completed",
        "changed": 3,
        "skipped": 0,
        "refused": 0,
        "reason": "a test",
        "actor": "ada",
    }
    assert told["filter"] == {"name": "work"}


async def test_an_end_whose_row_was_written_before_a_crash_is_not_written_again(
    scheduler: Scheduler, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(scheduler, db, *jobs(1))
    operation = await scheduler.operations.create("cancel", {"name": "work"}, reason="a test", start_after=0)
    operations = inside(scheduler).open_store.operations

    async def dying(document: Any) -> None:
        raise Unavailable("the process dies here")

    monkeypatch.setattr(operations, "close", dying)
    with pytest.raises(Unavailable):
        await take_steps(scheduler, operation)
    monkeypatch.undo()
    assert [one["_id"] for one in await operations.find_due()] == [operation.id]
    await take_steps(scheduler, operation)
    assert len(await scheduler.audit.find(target=operation.id)) == 1 and await operations.find_due() == []


@pytest.mark.slow
async def test_an_operation_ends_although_its_worker_cannot_write_the_audit_log(
    make_scheduler: Make, db: Database
) -> None:
    signer, worker = make_scheduler(audit_keys={"a": "A" * 43 + "="}), make_scheduler()
    await signer.connect()
    await ServiceBackend(signer).note_change(AuditEntry("ada", "job.create", "x"))
    await fill(worker, db, *jobs(2))
    await worker.start()
    operation = await worker.operations.create("cancel", {"name": "work"}, reason="a test", start_after=0)
    assert counts(await operation.wait(60)) == ("completed", 2, 0, 0)
    await worker.stop()
    await take_steps(signer, await signer.operations.get(operation.id))
    assert [row.action for row in await signer.audit.find(target=operation.id)] == ["operation.end"]


# -- looking -------------------------------------------------------------------------------------------------------


async def test_operations_can_be_listed_page_by_page_and_read(timed: Scheduler, clock: ManualClock) -> None:
    made = []
    for number in range(5):
        made.append(await timed.operations.create("cancel", {"name": "x"}, reason=f"number {number}"))
        clock.advance(1 if number % 2 else 0)
    first = await timed.operations.all(2)
    second = await timed.operations.all(2, after=first[-1])
    third = await timed.operations.all(2, after=second[-1])
    listed = [one.id for one in (*first, *second, *third)]
    assert len(listed) == 5 and set(listed) == {one.id for one in made} and listed[0] == made[-1].id
    assert await timed.operations.get(made[0].id) == await made[0].refresh()
    for verb in (timed.operations.get, timed.operations.cancel):
        with pytest.raises(OperationNotFound, match="No operation has the id 'none'"):
            await verb("none")
    with pytest.raises(ConfigurationError, match="An operation's id is"):
        await timed.operations.get("")


async def test_operations_that_ended_long_ago_are_forgotten_and_those_under_way_are_not(scheduler: Scheduler) -> None:
    await scheduler.connect()
    ended = await operate(scheduler, "cancel", {"name": "x"})
    waiting = await scheduler.operations.create("cancel", {"name": "x"}, reason="a test")
    operations = inside(scheduler).open_store.operations
    assert await operations.prune(ended.created_at, 10) == 0
    assert await operations.prune(datetime.now(UTC) + timedelta(minutes=1), 10) == 1
    assert [one.id for one in await scheduler.operations.all()] == [waiting.id]


async def test_asked_again_with_the_same_id_it_is_created_once(scheduler: Scheduler) -> None:
    first = await scheduler.operations.create("cancel", {"name": "x"}, reason="why", operation_id="mine")
    again = await scheduler.operations.create("cancel", {"name": "x"}, reason="why", operation_id="mine")
    assert first.id == again.id == "mine" and first.starts_at == again.starts_at
    with pytest.raises(ConfigurationError, match="is for something else"):
        await scheduler.operations.create("cancel", {"name": "y"}, reason="why", operation_id="mine")


async def test_waiting_for_one_ends_in_time_without_a_worker(scheduler: Scheduler) -> None:
    operation = await scheduler.operations.create("cancel", {"name": "x"}, reason="a test")
    with pytest.raises(WaitTimeout, match="has not ended within"):
        await operation.wait(0.05)


async def test_a_malformed_operation_holds_up_no_other(make_scheduler: Make, db: Database) -> None:
    scheduler = make_scheduler()
    await fill(scheduler, db, *jobs(1))
    await db["jobs.operations"].insert_one({"_id": "odd", "open": True, "starts_at": NOW, "state": 7, "verb": []})
    await scheduler.start()
    operation = await scheduler.operations.create("cancel", {"name": "work"}, reason="a test", start_after=0)
    assert counts(await operation.wait(60)) == ("completed", 1, 0, 0)
    assert [one.id for one in (await scheduler.operations.all()).unreadable] == ["odd"]


@pytest.mark.slow
async def test_the_blocking_face_has_operations_too(uri: str, db: Database, scheduler: Scheduler) -> None:
    await fill(scheduler, db, *jobs(3))
    await scheduler.start()

    def drive() -> tuple[Any, ...]:
        face = sync.Scheduler(uri)
        try:
            preview = face.operations.preview("cancel", {"name": "work"})
            made = face.operations.create("cancel", {"name": "work"}, reason="a test", start_after=0)
            ended = made.wait(60)
            same = (face.operations.get(made.id), face.operations.all()[0], ended.refresh(), ended.cancel())
            samples = all(isinstance(one, sync.Job) for one in (*preview.sample, *made.sample))
            return (*counts(ended), preview.count, samples, all(one == ended for one in same), type(ended).__module__)
        finally:
            face.stop()

    assert await asyncio.to_thread(drive) == ("completed", 3, 0, 0, 3, True, True, "mainspring.client.blocking")
