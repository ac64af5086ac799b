"""What a blocked job waits for, in words."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from mainspring.model.explain.facts import Count, ExplainFacts, WaitFacts, WaitingFacts
from mainspring.model.explain.reasons.of_flows import dependency_gate
from mainspring.model.jobs.job import Job

NOW = datetime(2027, 1, 1, 12, tzinfo=UTC)
JOB = Job("1", "load", {}, "blocked", "default", 5, NOW, NOW)
TRANSFORM = WaitFacts("transform", 100_000, Count(312), Count(2), 8, NOW - timedelta(minutes=4))


def told(waits: WaitingFacts) -> str:
    gate = dependency_gate(ExplainFacts(JOB, NOW, waits=waits))
    assert gate is not None and not gate.open and gate.kind == "dependency"
    return gate.text


def test_a_wait_for_jobs_says_how_many_are_left_and_how_many_failed() -> None:
    assert told(WaitingFacts((TRANSFORM,))) == (
        "It waits for transform: 312 of 100,000 left, oldest running for 4 min, 2 failed."
    )
    bounded = replace(TRANSFORM, left=Count(10_000, over=True), bad=Count(0), running=0, oldest=None)
    assert told(WaitingFacts((bounded,))) == "It waits for transform: over 10,000 of 100,000 left, none running."


def test_waits_for_several_things_are_all_told() -> None:
    text = told(WaitingFacts((TRANSFORM, replace(TRANSFORM, name="clean")), ("approved",), others=3))
    assert (
        "transform: 312" in text and "; and for clean: 312" in text and "; and for 3 more; and for the signal" in text
    )


def test_signals_and_times_are_told() -> None:
    assert told(WaitingFacts(signals=("approved",))) == "It waits for the signal 'approved'."
    until = NOW + timedelta(hours=1)
    assert told(WaitingFacts(signals=("approved",), until=until)).startswith(
        "It waits for the signal 'approved', at the longest until 2027-01-01T13:00:00"
    )
    assert told(WaitingFacts(until=until)).startswith("It waits until 2027-01-01T13:00:00")


def test_a_job_whose_predecessors_have_ended_is_about_to_start() -> None:
    ended = replace(TRANSFORM, left=Count(0))
    assert told(WaitingFacts((ended,))).startswith("All jobs that it waits for have ended")


def test_a_batch_whose_jobs_are_being_stored_says_so() -> None:
    ended = replace(TRANSFORM, left=Count(0))
    assert told(WaitingFacts((ended,), sealed=False)) == "Its jobs are still being stored."


def test_only_a_blocked_job_has_this_gate() -> None:
    assert dependency_gate(ExplainFacts(replace(JOB, state="pending"), NOW)) is None
