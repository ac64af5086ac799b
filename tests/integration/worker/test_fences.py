"""The fences one by one: a worker or caller that acts on an outdated reading changes nothing, and is told so.

The store's verbs on a real server, with a clock that is moved by hand.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from harness.inside import documents_of
from mainspring import ClaimLost
from mainspring.clock import ManualClock
from mainspring.config.settings import Settings
from mainspring.model.jobs.draft import make_draft
from mainspring.model.jobs.job import JobError
from mainspring.model.jobs.outcome import (
    Cancelled,
    Committed,
    Completed,
    Failed,
    Lost,
    Outcome,
    Released,
    Retried,
    Snoozed,
)
from mainspring.store import Store
from mainspring.store.connection import Connection, Document
from mainspring.store.jobs.end_fields import Finish
from mainspring.store.jobs.leases import ProgressUpdate

LEASE = 60.0
ERROR = JobError("ValueError", "no")
ENDINGS: list[Outcome] = [
    Completed("late"),
    Failed(ERROR),
    Retried(1.0, ERROR),
    Snoozed(1.0),
    Cancelled("late"),
    Released(),
]


def by_outcome(ending: Outcome) -> str:
    return ending.outcome


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(uri: str, clock: ManualClock) -> AsyncIterator[Store]:
    connection = await Connection.open(Settings(lease=LEASE), clock, uri=uri)
    yield Store(connection)
    await connection.close()


async def inserted(store: Store, **options: Any) -> Document:
    document, _ = await store.inserts.insert(make_draft("x", None, **options))
    return document


async def claimed(store: Store, worker: str = "A") -> Document:
    """The first due job, held by a worker."""
    candidates = await store.claims.candidates("default", 1)
    (document,) = documents_of(await store.claims.claim(candidates, worker, LEASE, lambda job: 3))
    return document


def end(document: Document, ending: Outcome, clock: ManualClock) -> Finish:
    now = clock.now()
    return Finish(document["_id"], document["token"], document["tries"], document["worker"], now, now, ending)


async def stored(store: Store, document: Document) -> Document:
    return await store.jobs.get(document["_id"])


# -- claiming ------------------------------------------------------------------------------------------------------


async def test_what_was_changed_after_it_was_seen_is_not_claimed_unseen(store: Store) -> None:
    job = await inserted(store)
    seen = await store.claims.candidates("default", 10)
    await store.jobs.edit(job["_id"], {"priority": 9})
    batch = await store.claims.claim(seen, "A", LEASE, lambda document: 3)
    assert (batch.jobs, batch.lost) == ([], 1)
    after = await stored(store, job)
    assert (after["state"], after["token"], after["priority"]) == ("pending", 0, 9)


async def test_what_another_has_claimed_and_given_back_meanwhile_is_not_claimed_as_it_was_seen(
    store: Store, clock: ManualClock
) -> None:
    job = await inserted(store)
    seen = await store.claims.candidates("default", 10)
    other = await claimed(store, "B")
    await store.finishing.finish([end(other, Released(), clock)])
    batch = await store.claims.claim(seen, "A", LEASE, lambda document: 3)
    assert (batch.jobs, batch.lost) == ([], 1)
    again = await claimed(store, "A")
    assert (again["_id"], again["token"], again["tries"]) == (job["_id"], 2, 1)


async def test_two_that_see_the_same_share_it_out_without_doubles(store: Store) -> None:
    for _ in range(10):
        await inserted(store)
    mine = await store.claims.candidates("default", 6)
    theirs = await store.claims.candidates("default", 10)
    first = await store.claims.claim(mine, "A", LEASE, lambda document: 3)
    second = await store.claims.claim(theirs, "B", LEASE, lambda document: 3)
    assert (len(first.jobs), first.lost, len(second.jobs), second.lost) == (6, 0, 4, 6)
    ids = {document["_id"] for document in [*documents_of(first), *documents_of(second)]}
    assert len(ids) == 10 and first.claim != second.claim


async def test_a_claim_can_be_read_back_by_its_id(store: Store) -> None:
    """As after a lost reply."""
    await inserted(store)
    await inserted(store)
    seen = await store.claims.candidates("default", 2)
    batch = await store.claims.claim(seen, "A", LEASE, lambda document: 3)
    again = await store.claims.resolve(batch)
    assert [(d["_id"], d["token"]) for d in documents_of(again)] == [(d["_id"], 1) for d in documents_of(batch)]


async def test_a_job_for_later_is_no_candidate_until_its_time_comes(store: Store, clock: ManualClock) -> None:
    job = await inserted(store, delay=10)
    clock.advance(9.999)
    assert await store.claims.candidates("default", 10) == []
    clock.advance(0.001)
    assert [found.id for found in await store.claims.candidates("default", 10)] == [job["_id"]]


# -- ending --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ENDINGS, ids=by_outcome)
async def test_a_holder_whose_job_was_given_to_another_changes_nothing(
    store: Store, clock: ManualClock, ending: Outcome
) -> None:
    await inserted(store)
    zombie = await claimed(store, "A")
    clock.advance(LEASE + 5)
    await store.rescues.rescue()
    holder = await claimed(store, "B")
    before = await stored(store, holder)
    assert await store.finishing.finish([end(zombie, ending, clock)]) == [Lost()]
    assert await stored(store, holder) == before
    assert (before["token"], before["worker"]) == (2, "B")
    assert await store.finishing.finish([end(holder, Completed("right"), clock)]) == [Completed("right")]


@pytest.mark.parametrize("ending", ENDINGS, ids=by_outcome)
async def test_a_holder_whose_job_was_rescued_changes_nothing_and_learns_it(
    store: Store, clock: ManualClock, ending: Outcome
) -> None:
    await inserted(store)
    zombie = await claimed(store)
    clock.advance(LEASE + 5)
    await store.rescues.rescue()
    before = await stored(store, zombie)
    assert await store.finishing.finish([end(zombie, ending, clock)]) == [Lost()]
    assert await stored(store, zombie) == before
    assert (before["state"], before["token"], before["tries"]) == ("pending", 1, 1)


@pytest.mark.parametrize("ending", ENDINGS, ids=by_outcome)
async def test_an_end_that_is_written_twice_counts_once(store: Store, clock: ManualClock, ending: Outcome) -> None:
    """As after a lost reply."""
    await inserted(store)
    holder = await claimed(store)
    finish = end(holder, ending, clock)
    assert await store.finishing.finish([finish]) == [ending]
    before = await stored(store, holder)
    assert await store.finishing.finish([finish]) == [ending]
    assert await stored(store, holder) == before


async def test_among_many_ends_only_the_lost_ones_are_lost(store: Store, clock: ManualClock) -> None:
    for _ in range(6):
        await inserted(store)
    seen = await store.claims.candidates("default", 6)
    held = documents_of(await store.claims.claim(seen, "A", LEASE, lambda document: 3))
    clock.advance(LEASE + 5)
    renewed = held[::2]
    for document in renewed:
        assert await store.claims.renew_one(document["_id"], 1, LEASE)
    await store.rescues.rescue()
    endings = await store.finishing.finish([end(document, Completed("same"), clock) for document in held])
    assert endings == [Completed("same"), Lost()] * 3


@pytest.mark.parametrize("ending", [Retried(1.0, ERROR), Snoozed(1.0), Released()], ids=by_outcome)
async def test_a_cancellation_wins_over_going_back_to_the_queue(
    store: Store, clock: ManualClock, ending: Outcome
) -> None:
    await inserted(store)
    holder = await claimed(store)
    await store.jobs.cancel(holder["_id"], "enough")
    assert await store.finishing.finish([end(holder, ending, clock)]) == [Cancelled("enough")]
    after = await stored(store, holder)
    assert (after["state"], after["error"]["message"]) == ("cancelled", "enough")
    assert "cancel" not in after and "ready" not in after


async def test_a_completion_in_a_transaction_is_fenced(store: Store, clock: ManualClock) -> None:
    await inserted(store)
    holder = await claimed(store)
    stale = replace(end(holder, Completed("late"), clock), token=0)
    with pytest.raises(ClaimLost):
        async with store.transactions.open() as transaction:
            await store.transactions.complete_in(transaction, stale)
    assert (await stored(store, holder))["state"] == "running"


@pytest.mark.parametrize("ending", ENDINGS[1:], ids=by_outcome)
async def test_a_commit_that_nobody_saw_is_found_when_the_attempt_ends(
    store: Store, clock: ManualClock, ending: Outcome
) -> None:
    """As when the handler was cancelled, or its process died, before the reply to the commit came."""
    await inserted(store)
    holder = await claimed(store)
    async with store.transactions.open() as transaction:
        await store.transactions.complete_in(transaction, end(holder, Completed("kept"), clock))
    before = await stored(store, holder)
    assert await store.finishing.finish([end(holder, ending, clock)]) == [Committed("kept")]
    assert await stored(store, holder) == before


# -- keeping -------------------------------------------------------------------------------------------------------


async def test_a_heartbeat_renews_what_is_held_and_tells_what_is_not(store: Store, clock: ManualClock) -> None:
    await inserted(store)
    await inserted(store)
    seen = await store.claims.candidates("default", 2)
    batch = await store.claims.claim(seen, "A", LEASE, lambda document: 3)
    kept, lost = documents_of(batch)
    await store.finishing.finish([end(lost, Released(), clock)])
    again = await claimed(store, "B")
    assert again["_id"] == lost["_id"]
    clock.advance(30)
    renewals = store.renewals()
    assert renewals.renew([batch.claim], [kept["_id"], lost["_id"]]) == {lost["_id"]}
    assert (await stored(store, kept))["lease_until"] == clock.now() + timedelta(seconds=LEASE)
    assert (await stored(store, lost))["lease_until"] == clock.now() + timedelta(seconds=LEASE - 30)
    assert not await store.claims.renew_one(lost["_id"], 1, LEASE)


async def test_notes_of_a_holder_that_has_lost_its_job_are_passed_over(store: Store, clock: ManualClock) -> None:
    await inserted(store)
    zombie = await claimed(store)
    await store.finishing.finish([end(zombie, Released(), clock)])
    await claimed(store, "B")
    before = await stored(store, zombie)
    await store.progress_updates.write([ProgressUpdate(zombie["_id"], 1, {"percent": 50.0}, ["line"])], 200)
    assert await stored(store, zombie) == before


# -- rescuing ------------------------------------------------------------------------------------------------------


async def test_a_lease_that_has_not_run_out_is_left_alone(store: Store, clock: ManualClock) -> None:
    await inserted(store)
    await claimed(store)
    clock.advance(LEASE + 1)
    assert await store.rescues.rescue() == []
    clock.advance(2)
    assert len(await store.rescues.rescue()) == 1
    assert await store.rescues.rescue() == []


@pytest.mark.parametrize("meanwhile", ["renewed", "completed", "given to another", "deleted"])
async def test_a_rescuer_that_was_held_up_takes_nothing_back_that_has_moved_on(
    store: Store, clock: ManualClock, meanwhile: str
) -> None:
    await inserted(store)
    holder = await claimed(store)
    seen = await stored(store, holder)
    clock.advance(LEASE + 5)
    if meanwhile == "renewed":
        await store.claims.renew_one(holder["_id"], 1, LEASE)
    elif meanwhile == "given to another":
        await store.rescues.rescue()
        await claimed(store, "B")
    else:
        await store.finishing.finish([end(holder, Completed("in time"), clock)])
        if meanwhile == "deleted":
            await store.jobs.delete(holder["_id"])
    before = await store.connection.jobs.find_one({"_id": holder["_id"]})
    assert await store.rescues.give_back([seen]) == []
    assert await store.connection.jobs.find_one({"_id": holder["_id"]}) == before


async def test_a_rescue_counts_as_an_attempt_and_the_last_one_makes_a_dead_letter(
    store: Store, clock: ManualClock
) -> None:
    job = await inserted(store)
    for attempt in (1, 2, 3):
        assert (await claimed(store))["tries"] == attempt
        clock.advance(LEASE + 5)
        (rescued,) = await store.rescues.rescue()
        assert rescued.state == ("pending" if attempt < 3 else "failed")
    after = await stored(store, job)
    assert [entry["outcome"] for entry in after["attempts"]] == ["lost"] * 3
    assert after["state"] == "failed" and "could not renew its lease, during attempt 3" in after["error"]["message"]


async def test_a_rescued_job_is_a_suspect_until_an_attempt_of_it_ends(store: Store, clock: ManualClock) -> None:
    job = await inserted(store)
    await claimed(store)
    clock.advance(LEASE + 5)
    await store.rescues.rescue()
    suspect = await claimed(store)
    assert suspect["suspect"] is True
    await store.finishing.finish([end(suspect, Released(), clock)])
    assert (await stored(store, job))["suspect"] is True
    await store.finishing.finish([end(await claimed(store), Retried(0.0, ERROR), clock)])
    assert "suspect" not in await stored(store, job)


async def test_a_job_that_somebody_wanted_cancelled_is_rescued_into_its_end(store: Store, clock: ManualClock) -> None:
    await inserted(store)
    holder = await claimed(store)
    await store.jobs.cancel(holder["_id"], "enough")
    clock.advance(LEASE + 5)
    (rescued,) = await store.rescues.rescue()
    after = await stored(store, holder)
    assert (rescued.state, after["state"], after["error"]["message"]) == ("cancelled", "cancelled", "enough")


@pytest.mark.parametrize("by", ["its lease", "its worker"])
async def test_a_cancellation_that_comes_while_a_rescue_is_under_way_ends_the_job(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    await inserted(store)
    holder = await claimed(store)
    clock.advance(LEASE + 5)
    give_back = store.rescues.give_back

    async def held_up(found: list[Document]) -> Any:
        await store.jobs.cancel(holder["_id"], "enough")
        return await give_back(found)

    monkeypatch.setattr(store.rescues, "give_back", held_up)
    (rescued,) = await (store.rescues.rescue() if by == "its lease" else store.rescues.rescue_from("A"))
    after = await stored(store, holder)
    assert (rescued.state, after["state"], after["error"]["message"]) == ("cancelled", "cancelled", "enough")


async def test_a_start_that_is_noted_while_a_rescue_is_under_way_counts_as_an_attempt(
    store: Store, clock: ManualClock
) -> None:
    await inserted(store)
    candidates = await store.claims.candidates("default", 1)
    batch = await store.claims.claim(candidates, "A", LEASE, lambda job: 3, free=0)
    seen = await stored(store, documents_of(batch)[0])
    store.renewals().started([seen["_id"]], [batch.claim])
    clock.advance(LEASE + 5)
    assert len(await store.rescues.give_back([seen])) == 1
    after = await stored(store, seen)
    assert (after["tries"], [entry["outcome"] for entry in after["attempts"]]) == (1, ["lost"])


@pytest.mark.parametrize("last", ["running", "pending"])
async def test_a_cancellation_finds_its_job_however_it_moves_meanwhile(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    """It goes to and fro between the queue and workers, before every statement."""
    job = await inserted(store)

    async def move() -> None:
        if (await stored(store, job))["state"] == "pending":
            await claimed(store)
        else:
            await released(store, job, clock)

    for verb in ("update_one", "find_one_and_update"):
        monkeypatch.setattr(store.connection.jobs, verb, after(move, getattr(store.connection.jobs, verb)))
    if last == "running":
        await move()
    await store.jobs.cancel(job["_id"], "enough")
    monkeypatch.undo()
    told = await stored(store, job)
    assert told["state"] == "cancelled" or told["cancel"]["reason"] == "enough"


def after(first: Callable[[], Awaitable[None]], verb: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """The verb, with something that happens right before it."""

    async def call(*args: Any, **kwargs: Any) -> Any:
        await first()
        return await verb(*args, **kwargs)

    return call


async def released(store: Store, job: Document, clock: ManualClock) -> None:
    """Back in the queue, unused."""
    await store.finishing.finish([end(await stored(store, job), Released(), clock)])


# -- tending -------------------------------------------------------------------------------------------------------


async def test_a_job_that_was_moved_after_it_was_seen_late_does_not_expire(store: Store, clock: ManualClock) -> None:
    job = await inserted(store, start_within=10)
    clock.advance(11)
    await store.jobs.run_now(job["_id"])
    assert await store.upkeep.expire_these([job]) == []
    assert (await stored(store, job))["state"] == "pending"


async def test_of_two_that_expire_a_job_at_once_one_tells_of_it(store: Store, clock: ManualClock) -> None:
    job = await inserted(store, start_within=10)
    clock.advance(11)
    assert await store.upkeep.expire_these([job]) == [job["_id"]]
    assert await store.upkeep.expire_these([job]) == []


async def test_a_running_job_neither_expires_nor_is_held(store: Store, clock: ManualClock) -> None:
    job = await inserted(store, start_within=10)
    await claimed(store)
    clock.advance(11)
    assert await store.upkeep.expire() == []
    assert await store.upkeep.hold([job["_id"]], "pause", "not now") == 0
    assert (await stored(store, job))["state"] == "running"


async def test_a_lock_is_one_owners_until_its_time_is_over(store: Store, clock: ManualClock) -> None:
    assert await store.workers.lock("sweep", "A", 10)
    assert not await store.workers.lock("sweep", "B", 10)
    assert await store.workers.lock("sweep", "A", 10)
    clock.advance(11)
    assert await store.workers.lock("sweep", "B", 10)
    assert not await store.workers.lock("sweep", "A", 10)
