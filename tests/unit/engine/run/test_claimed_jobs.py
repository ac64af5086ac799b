"""A claimed job: its transitions, how it is told to stop, and its lease where two threads meet."""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any

import pytest

from mainspring.clock import monotonic
from mainspring.engine.handler import Handler
from mainspring.engine.limits.slot_shares import Passed, Term
from mainspring.engine.run.claimed_jobs import ClaimedJob, ClaimedJobs, ClaimState, IllegalTransition, StopReason
from mainspring.model.jobs.outcome import Outcome
from mainspring.model.limits.limits import Limit
from mainspring.store.jobs.stored_job import StoredJob


class Silent:
    """A process whose end is not heard of."""

    killed = False

    def stack(self) -> str:
        return ""

    def kill(self) -> None:
        self.killed = True


async def forever() -> Any:
    await asyncio.Event().wait()


def claimed_job(token: int = 1, **fields: object) -> ClaimedJob:
    job = StoredJob({"_id": "1", "token": token, "name": "x", **fields})
    return ClaimedJob(job, f"claim-{token}", Handler("x", forever), 0.0, 1e18)


def running(token: int = 1) -> tuple[ClaimedJob, asyncio.Task[Outcome]]:
    claimed, task = claimed_job(token), asyncio.create_task(forever())
    claimed.wait()
    claimed.run(task)
    return claimed, task


async def test_an_interrupted_job_ends_also_where_the_end_of_its_process_is_not_heard_of() -> None:
    claimed, task = running()
    process = Silent()
    claimed.use_process(process)
    claimed.interrupt()
    assert process.killed
    await asyncio.wait({task}, timeout=60)
    assert task.cancelled()


async def test_a_newer_claim_of_a_job_tells_the_handler_of_the_older_one_to_stop() -> None:
    claimed_jobs, newer = ClaimedJobs(), claimed_job(2)
    older, task = running()
    claimed_jobs.add(older)
    claimed_jobs.add(newer)
    await asyncio.wait({task})
    assert (older.lost, task.cancelled(), newer.lost) == (True, True, False)
    claimed_jobs.remove(older)
    assert claimed_jobs.get("1") is newer


async def test_a_claim_that_is_kept_twice_is_not_lost() -> None:
    claimed_jobs, one = ClaimedJobs(), claimed_job()
    claimed_jobs.add(one)
    claimed_jobs.add(one)
    assert not one.lost


async def test_claimed_jobs_know_which_waits_they_hold_back() -> None:
    claimed_jobs, one = ClaimedJobs(), claimed_job(before=["a#b", "a#all"])
    other = claimed_job(_id="2", before=["a#all"])
    for claimed in (one, one, other):
        claimed_jobs.add(claimed)
    assert (claimed_jobs.holds_back("a#b"), claimed_jobs.holds_back("a#all")) == (True, True)
    claimed_jobs.remove(one)
    claimed_jobs.remove(one)
    assert (claimed_jobs.holds_back("a#b"), claimed_jobs.holds_back("a#all")) == (False, True)
    newer = claimed_job(2, _id="2", before=["a#all"])
    claimed_jobs.add(newer)
    claimed_jobs.remove(other)
    assert claimed_jobs.holds_back("a#all")
    claimed_jobs.remove(newer)
    assert not claimed_jobs.holds_back("a#all")


@pytest.mark.parametrize("before", [5, "a#b", {"a": 1}, [5, {}, None], None])
async def test_waits_that_another_program_has_stored_in_any_form_disturb_no_claim(before: object) -> None:
    claimed_jobs, one = ClaimedJobs(), claimed_job(before=before)
    claimed_jobs.add(one)
    claimed_jobs.remove(one)
    assert not claimed_jobs.holds_back("a#b") and len(claimed_jobs) == 0


async def test_a_job_goes_through_its_states_in_order() -> None:
    claimed = claimed_job()
    states = [claimed.state]
    claimed.park([])
    states.append(claimed.state)
    claimed.unpark([])
    states.append(claimed.state)
    claimed.wait()
    states.append(claimed.state)
    task = asyncio.create_task(forever())
    claimed.run(task)
    states.append(claimed.state)
    claimed.end()
    states.append(claimed.state)
    claimed.ended()
    states.append(claimed.state)
    task.cancel()
    assert states == [
        *(ClaimState.CLAIMED, ClaimState.PARKED, ClaimState.CLAIMED, ClaimState.WAITING),
        *(ClaimState.RUNNING, ClaimState.ENDING, ClaimState.ENDED),
    ]


def test_a_job_ends_once() -> None:
    claimed = claimed_job()
    claimed.end()
    with pytest.raises(IllegalTransition, match="Job 1 is ending and cannot become ending"):
        claimed.end()
    claimed.ended()
    with pytest.raises(IllegalTransition, match="is ended"):
        claimed.ended()


def test_a_parked_job_is_not_started_without_its_slots() -> None:
    claimed = claimed_job()
    claimed.park([])
    with pytest.raises(IllegalTransition, match="is parked and cannot become waiting"):
        claimed.wait()


def test_reasons_to_stop_add_up_and_the_note_is_that_of_the_cancellation() -> None:
    claimed, process = claimed_job(), Silent()
    claimed.use_process(process)
    claimed.ask_to_stop(StopReason.CANCELLED, "not needed")
    claimed.ask_to_stop(StopReason.RELEASED)
    assert (claimed.cancelled, claimed.released, claimed.lost, claimed.timed_out) == (True, True, False, False)
    assert (claimed.stopping, claimed.cancel_reason, process.killed) == (True, "not needed", True)


def test_a_claim_holds_no_longer_than_the_slots_that_a_parked_job_has_got() -> None:
    claimed, until = claimed_job(), monotonic() + 60
    claimed.park([])
    claimed.unpark([Passed("c:name:x", Limit(1), 1, Term(until))])
    assert claimed.valid_until == until
    claimed.renewed(monotonic(), monotonic() + 600)
    assert claimed.valid_until == until


def test_a_claim_that_is_over_is_not_extended_with_its_slots() -> None:
    claimed = claimed_job()
    claimed.renewed(0.0, -1.0)
    claimed.slots_renewed(lambda asked: asked + 1e9)
    assert claimed.valid_until == -1.0


def test_a_commit_that_is_heard_of_after_the_transaction_leaves_the_claim_fenced() -> None:
    claimed = claimed_job()
    claimed.freeze()
    assert (claimed.frozen, claimed.committing) == (True, False)
    claimed.thaw(committed=False)
    claimed.commit()
    assert (claimed.frozen, claimed.committing) == (False, False)


def test_a_job_that_has_committed_its_end_has_no_lease_that_could_run_out() -> None:
    claimed = claimed_job()
    claimed.renewed(0.0, 5.0)
    claimed.freeze()
    claimed.commit()
    claimed.thaw(committed=True)
    assert (claimed.frozen, claimed.in_transaction, claimed.ends_itself) == (True, False, True)
    assert claimed.valid_until == inf
    claimed.renewed(0.0, 5.0)  # a renewal from before the transaction that is heard of late
    assert claimed.valid_until == inf


def test_a_job_that_has_committed_its_end_goes_on_no_longer_than_it_has_its_slots() -> None:
    term = Term(monotonic() + 60)
    claimed = claimed_job()
    claimed.park([])
    claimed.unpark([Passed("c:name:x", Limit(1), 1, term)])
    claimed.freeze()
    claimed.thaw(committed=True)
    assert claimed.valid_until == term.until
    term.until += 60
    claimed.slots_renewed(lambda asked: asked)
    assert claimed.valid_until == term.until


def test_progress_is_new_until_it_is_stored_and_announced_once() -> None:
    notes = claimed_job().notes
    first, second = {"percent": 1.0}, {"percent": 2.0}
    notes.set_progress(first)
    assert notes.any_new and notes.new_progress is first
    notes.set_progress(second)
    notes.progress_stored(first)
    assert notes.new_progress is second
    notes.progress_stored(second)
    assert not notes.any_new and notes.new_progress is None
    assert [notes.first_told(one) for one in (None, second, second)] == [False, True, False]
