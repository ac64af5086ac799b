"""Checks of waits: a waiting job is released once, never early, and by any check or sweep; whatever happens between
the reads and the write of a check."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from harness.inside import inside
from harness.looking import Database
from harness.refusing import refusing
from harness.waiters import LONG_AGO, Waiters
from mainspring import JobStateError, Scheduler
from mainspring.clock import truncate
from mainspring.errors import ClaimLost, Unavailable
from mainspring.model.flows.waits import Predecessors
from mainspring.store import Store
from mainspring.store.codec import DocumentId
from mainspring.store.collection import Collection
from mainspring.store.flows.checks import Checks
from mainspring.store.flows.spawners import Spawner
from mainspring.store.jobs.hints import Hint


@pytest.fixture
async def store(scheduler: Scheduler) -> Store:
    return await inside(scheduler).store()


@pytest.fixture
def waiters(db: Database, store: Store) -> Waiters:
    return Waiters(db)


def after(patch: pytest.MonkeyPatch, owner: type, verb: str, act: Callable[[], Any]) -> None:
    """Do something once, right after a verb."""
    real, left = getattr(owner, verb), [act]

    async def disturbed(*arguments: Any, **options: Any) -> Any:
        outcome = await real(*arguments, **options)
        if left:
            await left.pop()()
        return outcome

    patch.setattr(owner, verb, disturbed)


def before(patch: pytest.MonkeyPatch, owner: type, verb: str, act: Callable[[], Any]) -> None:
    """Do something once, right before a verb."""
    real, left = getattr(owner, verb), [act]

    async def disturbed(*arguments: Any, **options: Any) -> Any:
        if left:
            await left.pop()()
        return await real(*arguments, **options)

    patch.setattr(owner, verb, disturbed)


# -- C1: once ------------------------------------------------------------------------------------------------------


async def test_checks_at_the_same_time_release_a_job_once(store: Store, waiters: Waiters) -> None:
    wait = await waiters.waiter(total=2)
    for n in range(2):
        await waiters.child(f"c{n}", "completed", wait)
    await asyncio.gather(*(store.checks.check([wait]) for _ in range(8)))
    document = await waiters.get()
    assert (document["state"], document["rev"], document["ready"]) == ("pending", 2, True)
    assert "check_at" not in document


async def test_a_check_whose_reply_is_lost_may_be_repeated(
    store: Store, waiters: Waiters, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = await waiters.waiter()
    await waiters.child("c", "completed", wait)

    async def lost() -> None:
        raise Unavailable("the reply is lost")

    after(monkeypatch, Collection, "bulk_write", lost)
    with pytest.raises(Unavailable):
        await store.checks.check([wait])
    await store.checks.check([wait])
    assert (await waiters.get())["rev"] == 2


# -- C2: never early -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["blocked", "pending", "running"])
@pytest.mark.parametrize("others", [1, 70])
async def test_a_job_is_not_released_while_a_predecessor_is_live(
    store: Store, waiters: Waiters, state: str, others: int
) -> None:
    wait = await waiters.waiter(total=others + 1)
    await waiters.child("live", state, wait)
    for n in range(others):
        await waiters.child(f"c{n}", "failed", wait)
    await store.checks.check([wait])
    assert await waiters.state() == "blocked"
    await waiters.set("live", state="completed")
    await store.checks.check([wait])
    assert await waiters.state() == "pending"


async def test_a_job_is_not_released_before_it_is_sealed(store: Store, waiters: Waiters) -> None:
    wait = await waiters.waiter(sealed=False, when="success")
    await waiters.child("c", "completed", wait)
    await store.checks.check([wait])
    await waiters.due()
    await store.checks.sweep()
    assert await waiters.state() == "blocked"  # of a declared node, the sweep seals none
    assert (await waiters.get())["waits"]["sealed"] is False


async def test_a_predecessor_that_is_put_back_between_the_reads_is_seen_as_of_one_moment(
    store: Store, waiters: Waiters, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = await waiters.waiter(when="success")
    await waiters.child("c", "failed", wait)
    after(monkeypatch, Checks, "_live", lambda: waiters.set("c", state="pending"))
    await store.checks.check([wait])
    assert await waiters.state() == "cancelled"  # neither live nor failed would be: completed


async def _retry(scheduler: Scheduler) -> None:
    await scheduler.retry("c")


async def _redrive(scheduler: Scheduler) -> None:
    redrive = await scheduler.dead_letters.retry(name="job")
    await redrive.wait(60)


@pytest.mark.parametrize("again", [_retry, _redrive])
async def test_a_check_misses_that_has_read_the_failure_of_a_job_that_runs_again(
    scheduler: Scheduler, store: Store, waiters: Waiters, monkeypatch: pytest.MonkeyPatch, again: Callable[..., Any]
) -> None:
    wait = await waiters.waiter(when="success")
    await waiters.child("c", "failed", wait)
    before(monkeypatch, Checks, "_write", lambda: again(scheduler))
    checked = await store.checks.check([wait])
    assert (await waiters.state("c"), await waiters.state()) == ("pending", "blocked")
    assert checked.again == {wait}


# -- C3: a process checks ------------------------------------------------------------------------------------------


async def test_the_sweep_releases_a_job_that_no_process_has_checked(store: Store, waiters: Waiters) -> None:
    wait = await waiters.waiter()
    await waiters.child("c", "completed", wait)
    assert (await store.checks.sweep())[1] == 0  # not due
    await waiters.due()
    assert await store.checks.next_look() == LONG_AGO.replace(microsecond=LONG_AGO.microsecond // 1000 * 1000)
    checked, found = await store.checks.sweep()
    assert (checked.started, found, await waiters.state()) == (1, 1, "pending")


@pytest.mark.parametrize(
    ("waited", "pause", "grid"), [(0.0, 5, 5), (7.5, 7.5, 5), (40.0, 40, 5), (100.0, 100, 60), (3600.0, 3600, 60)]
)
async def test_the_sweep_looks_less_and_less_often_at_the_same_time_as_at_others(
    store: Store, waiters: Waiters, waited: float, pause: float, grid: float
) -> None:
    wait = await waiters.waiter(since=store.clock.now() - timedelta(seconds=waited))
    await waiters.child("c", "running", wait)
    await waiters.due()
    earliest = store.clock.now()
    await store.checks.sweep()
    latest = store.clock.now()
    document = await waiters.get()
    look = document["check_at"]
    assert look.timestamp() % grid == 0
    # The wait has lasted a little longer when it is looked at.
    assert timedelta(seconds=pause - 0.1) <= look - earliest
    assert look - latest <= timedelta(seconds=pause + grid) + (latest - earliest)
    assert document["rev"] == 1


@pytest.mark.parametrize("more", [{"cancel_tree": {"at": LONG_AGO}}, {"retry_tree": {"at": LONG_AGO}}])
async def test_a_job_with_more_to_be_done_than_a_check_is_looked_at_every_minute(
    store: Store, waiters: Waiters, more: dict[str, Any]
) -> None:
    wait = await waiters.waiter()
    await waiters.child("c", "running", wait)
    await waiters.set("waiter", **more)
    await waiters.due()
    await store.checks.sweep()
    assert (await waiters.get())["check_at"] <= store.clock.now() + timedelta(minutes=2)


async def test_a_wait_ends_at_its_time_although_the_next_look_would_be_later(store: Store, waiters: Waiters) -> None:
    until = truncate(store.clock.now() + timedelta(minutes=3))
    wait = await waiters.waiter(until=until)
    await waiters.child("c", "running", wait)
    await waiters.due()
    await store.checks.sweep()
    assert (await waiters.get())["check_at"] == until


# -- a lost check of a long wait -----------------------------------------------------------------------------------


async def _look_round(store: Store, size: int = 2) -> tuple[list[DocumentId], int]:
    """A round of the chore, in small batches; returns the jobs that it looked at, and how many it started."""
    seen: list[DocumentId] = []
    started = 0
    async for ids in store.checks.long_waiting(size):
        seen += ids
        started += (await store.checks.check_jobs(ids)).started
    return seen, started


async def test_a_round_starts_the_jobs_whose_next_look_is_far_and_whose_check_was_missed(
    store: Store, waiters: Waiters
) -> None:
    for n in range(5):
        wait = await waiters.waiter(f"w{n}")
        await waiters.child(f"c{n}", "completed" if n % 2 else "running", wait)
    before = await waiters.get("w0")
    seen, started = await _look_round(store)
    assert sorted(map(str, seen)) == [f"w{n}" for n in range(5)] and started == 2
    assert [await waiters.state(f"w{n}") for n in range(5)] == ["blocked", "pending", "blocked", "pending", "blocked"]
    assert await waiters.get("w0") == before  # nothing is written where nothing is over


async def test_a_round_hears_a_signal_whose_sender_died(
    scheduler: Scheduler, store: Store, waiters: Waiters, db: Database
) -> None:
    await waiters.put("p", "running")
    await scheduler.signal("p", "go", {"by": "ann"})
    waits = {"ids": [], "total": [], "tolerate": [], "fail_fast": [], "sealed": True, "signals": ["go"]}
    await waiters.set("p", state="blocked", waits=waits, check_at=store.clock.now() + timedelta(days=1))
    assert await _look_round(store) == (["p"], 1)
    assert await waiters.state("p") == "pending"


async def test_a_round_leaves_jobs_to_the_sweep_that_are_looked_at_within_a_minute(
    store: Store, waiters: Waiters
) -> None:
    await waiters.waiter()
    await waiters.set("waiter", check_at=store.clock.now() + timedelta(seconds=30))
    assert await _look_round(store) == ([], 0)


async def test_a_round_does_not_start_a_job_that_is_not_sealed_or_not_blocked(store: Store, waiters: Waiters) -> None:
    await waiters.waiter("open", sealed=False)
    await waiters.waiter("runs")
    await waiters.set("runs", state="running")
    seen, started = await _look_round(store)
    assert len(seen) == 2 and started == 0
    assert [await waiters.state(one) for one in ("open", "runs")] == ["blocked", "running"]


# -- C5: every end counts ------------------------------------------------------------------------------------------


async def test_a_deletion_is_noted_before_the_job_is_gone(
    scheduler: Scheduler, store: Store, waiters: Waiters, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = await waiters.waiter(when="success", total=2)
    await waiters.child("c", "pending", wait)
    await waiters.child("d", "completed", wait)

    async def died() -> None:
        raise Unavailable("the process has died")

    after(monkeypatch, Collection, "delete_one", died)
    with pytest.raises(Unavailable):
        await scheduler.delete("c")
    await waiters.due()
    await store.checks.sweep()
    document = await waiters.get()
    assert (document["state"], document["because"]) == ("cancelled", "c")


async def test_a_deletion_that_did_not_happen_counts_for_nothing(
    scheduler: Scheduler, store: Store, waiters: Waiters, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = await waiters.waiter(when="success")
    await waiters.child("c", "pending", wait)
    before(monkeypatch, Collection, "delete_one", lambda: waiters.set("c", state="running"))
    with pytest.raises(JobStateError):
        await scheduler.delete("c")
    await waiters.set("c", state="completed")
    await store.checks.check([wait])
    assert await waiters.state() == "pending"


async def test_a_job_that_waits_for_one_that_cannot_be_decoded_is_looked_at_soon(
    store: Store, waiters: Waiters
) -> None:
    wait = await waiters.waiter(when="success")
    await waiters.child("c", "pending", wait)
    assert await store.upkeep.fail_undecodable(await waiters.get("c"), "nonsense")
    await store.checks.sweep()
    assert await waiters.state() == "cancelled"


async def test_a_job_that_waits_for_an_expired_one_is_looked_at_soon(store: Store, waiters: Waiters) -> None:
    wait = await waiters.waiter(when="success")
    await waiters.child("c", "pending", wait, start_by=LONG_AGO)
    assert await store.upkeep.expire() == ["c"]
    await store.checks.sweep()
    assert await waiters.state() == "cancelled"


# -- fail_fast -----------------------------------------------------------------------------------------------------


async def test_with_fail_fast_the_others_are_cancelled_before_the_job_is_released(
    store: Store, waiters: Waiters, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = await waiters.waiter(total=3, fail_fast=[True])
    await waiters.child("bad", "failed", wait)
    await waiters.child("waits", "pending", wait)
    await waiters.child("runs", "running", wait)

    async def died() -> None:
        raise Unavailable("the process has died")

    before(monkeypatch, Checks, "_write", died)
    with pytest.raises(Unavailable):
        await store.checks.check([wait])
    cancelled, asked = await waiters.get("waits"), await waiters.get("runs")
    assert (cancelled["state"], cancelled["because"]) == ("cancelled", "bad")
    assert (asked["state"], asked["cancel"]["because"]) == ("running", "bad")
    assert await waiters.state() == "blocked"
    await store.checks.check([wait])
    assert await waiters.state() == "pending"


# -- a released job wakes the workers ------------------------------------------------------------------------------


async def test_a_released_job_gives_a_hint_to_every_worker(store: Store, waiters: Waiters) -> None:
    wait = await waiters.waiter()
    await waiters.child("c", "completed", wait)
    opened = asyncio.Event()

    async def first() -> Hint:
        async for one in store.hints.hints(opened.set):
            return one
        raise AssertionError

    heard = asyncio.ensure_future(first())
    await asyncio.wait_for(opened.wait(), 60)
    await store.checks.check([wait])
    hint = await asyncio.wait_for(heard, 60)
    assert (hint.id, hint.queue, hint.raw) == ("waiter", None, False)


async def test_the_ends_of_children_are_not_read_for_a_handler_that_lost_its_claim(
    store: Store, waiters: Waiters
) -> None:
    await waiters.put("p", "running", token=3)
    on = [Predecessors("p#all", 1)]
    assert not (await store.checks.ends("p", 3, on))["p#all"].live
    with pytest.raises(ClaimLost):
        await store.checks.ends("p", 2, on)
    with pytest.raises(Unavailable):  # a read that is older than the claim
        await store.checks.ends("p", 4, on)


# -- many predecessors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("when", "state"), [("success", "cancelled"), ("failure", "pending"), ("done", "pending")])
async def test_a_skipped_job_among_many_does_not_hide_one_that_failed(
    waiters: Waiters, store: Store, when: str, state: str
) -> None:
    wait = await waiters.waiter(total=100, when=when)
    await waiters.child("a", "cancelled", wait, error={"type": "Skipped", "message": "no failure"})
    await waiters.child("b", "failed", wait, error={"type": "ValueError", "message": "no"})
    await store.checks.check([wait])
    assert await waiters.state() == state
    if when == "success":
        assert (await waiters.get())["because"] == "b"


async def test_a_job_behind_many_of_which_one_was_skipped_is_skipped(waiters: Waiters, store: Store) -> None:
    wait = await waiters.waiter(total=100, when="success")
    await waiters.child("a", "cancelled", wait, error={"type": "Skipped", "message": "no failure"}, because="first")
    await store.checks.check([wait])
    ended = await waiters.get()
    assert (ended["state"], ended["error"]["type"], ended["because"]) == ("cancelled", "Skipped", "first")


# -- jobs that the server refuses to change ------------------------------------------------------------------------


async def test_a_waiting_job_that_cannot_be_changed_keeps_no_other_from_being_started(
    waiters: Waiters, store: Store, db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    waits = [await waiters.waiter(f"w{number}") for number in range(4)]
    for wait in waits:
        await waiters.child(f"{wait}-child", "completed", wait)
    async with refusing(db, "jobs", {"_id": "w1"}):
        assert (await store.checks.check(waits)).started == 3
    assert [await waiters.state(f"w{number}") for number in range(4)] == ["pending", "blocked", "pending", "pending"]
    assert "Job w1 waits and cannot be changed" in caplog.text


async def test_a_waiting_job_that_cannot_be_changed_keeps_no_other_from_being_swept(
    waiters: Waiters, store: Store, db: Database
) -> None:
    for number in range(3):
        wait = await waiters.waiter(f"w{number}")
        await waiters.child(f"child{number}", "completed", wait)
        await waiters.due(f"w{number}")
    async with refusing(db, "jobs", {"_id": "w0"}):
        assert (await store.checks.sweep(2))[0].started == 1
        assert (await store.checks.sweep(2))[0].started == 1
    assert await waiters.state("w0") == "blocked"


async def test_a_child_that_cannot_be_changed_keeps_no_other_from_being_cancelled(
    waiters: Waiters, store: Store, db: Database
) -> None:
    wait = await waiters.waiter(total=3)
    for number in range(3):
        await waiters.child(f"child{number}", "pending", wait)
    async with refusing(db, "jobs", {"_id": "child1"}):
        await store.trees.cancel_below(await waiters.get(), "because")
    assert [await waiters.state(f"child{number}") for number in range(3)] == ["cancelled", "pending", "cancelled"]


async def test_a_member_that_cannot_be_changed_keeps_no_other_from_being_retried_with_its_flow(
    waiters: Waiters, store: Store, db: Database
) -> None:
    wait = await waiters.waiter(total=3)
    for number in range(3):
        await waiters.child(f"child{number}", "failed", wait)
    async with refusing(db, "jobs", {"_id": "child1"}):
        await store.flow_retries.retry("waiter")
    assert [await waiters.state(f"child{number}") for number in range(3)] == ["pending", "failed", "pending"]


async def test_a_late_child_that_cannot_be_changed_keeps_no_other_from_being_cancelled(
    waiters: Waiters, store: Store, db: Database
) -> None:
    wait = await waiters.waiter(total=3)
    await waiters.set("waiter", state="running", token=1, cancel={"at": LONG_AGO, "reason": "no"})
    for number in range(3):
        await waiters.child(f"child{number}", "pending", wait)
    spawner = Spawner("waiter", 1, "waiter", noted=True)
    async with refusing(db, "jobs", {"_id": "child1"}):
        with pytest.raises(ClaimLost):
            await store.spawners.end(spawner, [f"child{number}" for number in range(3)])
    assert [await waiters.state(f"child{number}") for number in range(3)] == ["cancelled", "pending", "cancelled"]
