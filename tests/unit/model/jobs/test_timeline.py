"""The life of a job as spans: in order, without gaps, never of negative length, whatever is stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mainspring.model.jobs.job import Attempt, Job, Snoozing, WaitingFor
from mainspring.model.jobs.timeline import Span, timeline

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def job(**fields: Any) -> Job:
    first: dict[str, Any] = {"id": "1", "name": "n", "data": {}, "queue": "q", "priority": 5}
    return Job(**{**first, "state": "pending", "run_at": at(0), "created_at": at(0), **fields})


def attempt(number: int, start: float, end: float, outcome: str, due: float | None = None, **fields: Any) -> Attempt:
    run_at = None if due is None else at(due)
    return Attempt(number, fields.get("token", number), outcome, "w", at(start), at(end), run_at=run_at)


def brief(spans: list[Span]) -> list[tuple[str, float, float | None]]:
    return [
        (one.kind, (one.start - T0).total_seconds(), None if one.end is None else (one.end - T0).total_seconds())
        for one in spans
    ]


def test_a_job_that_waits_for_its_time_and_then_for_a_gate() -> None:
    assert brief(timeline(job(run_at=at(60)), at(10))) == [("scheduled", 0, 60)]
    held = job(run_at=at(60), waiting_for=WaitingFor("limit", "It waits.", at(61)))
    spans = timeline(held, at(100))
    assert brief(spans) == [("scheduled", 0, 60), ("waiting", 60, None)] and spans[-1].note == "It waits."


def test_a_retried_job_has_its_waits_and_its_runs() -> None:
    attempts = (attempt(1, 61, 62, "retried", 60), attempt(2, 75, 80, "lost", 72), attempt(3, 85, 90, "completed"))
    ended = job(state="completed", attempts=attempts, token=3, tries=3, run_at=at(72), finished_at=at(90))
    spans = timeline(ended, at(1000))
    assert brief(spans) == [
        ("scheduled", 0, 60),
        ("waiting", 60, 61),
        ("running", 61, 62),
        ("retry_wait", 62, 72),
        ("waiting", 72, 75),
        ("running", 75, 80),
        ("waiting", 80, 85),
        ("running", 85, 90),
    ]
    assert [one.outcome for one in spans if one.kind == "running"] == ["retried", "lost", "completed"]


def test_a_snooze_is_a_run_without_an_attempt_and_its_wait_has_its_name() -> None:
    snoozes = (Snoozing(1, at(1), at(2), at(50), "not yet"),)
    runs = job(state="running", snoozes=snoozes, token=2, tries=1, run_at=at(50), started_at=at(51))
    spans = timeline(runs, at(60))
    assert brief(spans) == [("waiting", 0, 1), ("running", 1, 2), ("snoozed", 2, 50), ("waiting", 50, 51),
                            ("running", 51, None)]  # fmt: skip
    assert (spans[1].outcome, spans[1].note, spans[1].attempt, spans[-1].attempt) == ("snoozed", "not yet", None, 1)


def test_a_second_round_a_cancelled_wait_and_cut_attempts_are_told() -> None:
    again = job(attempts=(attempt(1, 1, 2, "failed", 0),), token=1, run_at=at(500))
    assert brief(timeline(again, at(600)))[1:] == [
        ("running", 1, 2),
        ("between_rounds", 2, 500),
        ("waiting", 500, None),
    ]
    cancelled = timeline(job(state="cancelled", finished_at=at(30)), at(99))
    assert brief(cancelled) == [("waiting", 0, 30)] and cancelled[0].outcome == "cancelled"
    cut = job(state="failed", attempts_cut=7, attempts=(attempt(8, 100, 101, "failed", token=8),), token=8)
    assert timeline(cut, at(200))[0].kind == "unknown"
    assert brief(timeline(job(state="blocked"), at(5))) == [("blocked", 0, None)]


MOMENT = st.floats(-100, 1000).map(at)


@given(
    attempts=st.lists(
        st.builds(Attempt, st.integers(0, 5), st.integers(0, 9), st.sampled_from(["retried", "lost", "failed", "odd"]),
                  st.none(), st.none() | MOMENT, st.none() | MOMENT, run_at=st.none() | MOMENT), max_size=4),
    snoozes=st.lists(
        st.builds(Snoozing, st.integers(0, 9), st.none() | MOMENT, st.none() | MOMENT, st.none() | MOMENT), max_size=3),
    state=st.sampled_from(["pending", "running", "completed", "failed", "cancelled", "expired", "blocked", ""]),
    times=st.tuples(st.none() | MOMENT, st.none() | MOMENT, st.none() | MOMENT, st.none() | MOMENT, MOMENT),
)  # fmt: skip
def test_spans_follow_each_other_whatever_is_stored(
    attempts: list[Attempt], snoozes: list[Snoozing], state: str, times: tuple[Any, ...]
) -> None:
    run_at, created_at, started_at, finished_at, now = times
    one = job(attempts=tuple(attempts), snoozes=tuple(snoozes), state=state, run_at=run_at, created_at=created_at,
              started_at=started_at, finished_at=finished_at, token=9)  # fmt: skip
    spans = timeline(one, now)
    for before, after in pairwise(spans):
        assert before.end is None or before.end <= after.start
    assert all(one.end is None or one.start <= one.end for one in spans)
