"""The history checker itself: it must find what it is there to find."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.changes import Change
from harness.checker import Reasons, check
from harness.history import History, Recorder

pytestmark = pytest.mark.core

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


class Case:
    """One job's history, in which the worker A lost its claim and B completed the job."""

    def __init__(self, folder: Path) -> None:
        self.history = History(folder / "history.jsonl")
        self.record = Recorder(self.history.path)
        self.document: dict[str, Any] = {
            "state": "completed",
            "token": 2,
            "tries": 2,
            "result": 2,
            "attempts": [
                {"n": 1, "token": 1, "outcome": "lost", "worker": "A"},
                {"n": 2, "token": 2, "outcome": "completed", "worker": "B"},
            ],
        }
        lease = timedelta(seconds=10)
        self.changes = [
            self.change(0, kind="insert", state="pending", token=0),
            self.change(1, state="running", token=1, lease_until=NOON + lease),
            self.change(11, state="pending"),
            self.change(12, state="running", token=2, lease_until=NOON + 2 * lease),
            self.change(13, state="completed"),
        ]

    def run(self, worker: str, token: int, start: float, end: float | None) -> None:
        facts = {"job": "j", "token": token, "attempt": token, "worker": worker}
        self.record("start", **facts, at=start)
        if end is not None:
            self.record("end", **facts, at=end, how="returned" if worker == "B" else "cancelled")

    @staticmethod
    def change(second: float, kind: str = "update", **fields: Any) -> Change:
        return Change("j", kind, NOON + timedelta(seconds=second), fields)

    def check(self, **killed: float) -> list[str]:
        documents = {"j": self.document} if self.document else {}
        reasons = Reasons(killed=killed)
        return check(self.history, documents, {"j": self.changes}, acknowledged=["j"], reasons=reasons)


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    case = Case(tmp_path)
    yield case
    case.record.close()


def test_a_rescue_from_a_killed_worker_is_in_order(case: Case) -> None:
    case.run("A", 1, 1, None)
    case.run("B", 2, 12, 13)
    assert case.check(A=5) == []


def test_the_same_rescue_without_a_reason_is_found(case: Case) -> None:
    case.run("A", 1, 1, 5)
    case.run("B", 2, 12, 13)
    assert case.check() == ["j: attempt 1 in A was lost for no reason"]


def test_two_runs_at_once_are_found(case: Case) -> None:
    case.run("A", 1, 1, None)
    case.run("B", 2, 12, 13)
    assert case.check(A=12.5) == ["j: tokens 1 and 2 ran at once for 0.500 s"]


def test_a_token_that_ran_twice_is_found(case: Case) -> None:
    case.run("A", 1, 1, None)
    case.run("B", 2, 12, 13)
    case.run("C", 2, 14, 15)
    assert case.check(A=5) == ["j: token 2 (C) ran after token 2 (B)"]


def test_a_lost_job_is_found(case: Case) -> None:
    case.document = {}
    assert case.check() == ["j was acknowledged and is lost"]


def test_a_job_left_running_is_found(case: Case) -> None:
    case.document["state"] = "running"
    case.changes.pop()
    case.run("A", 1, 1, None)
    case.run("B", 2, 12, 13)
    assert case.check(A=5) == ["j is still running (token 2)"]


def test_a_result_of_a_stale_holder_is_found(case: Case) -> None:
    case.document["result"] = 1
    case.run("A", 1, 1, None)
    case.run("B", 2, 12, 13)
    assert case.check(A=5) == ["j has the result of token 1, and its last claim was 2"]


def test_life_after_the_end_is_found(case: Case) -> None:
    case.run("A", 1, 1, None)
    case.run("B", 2, 12, 13)
    case.changes.append(case.change(14, state="pending"))
    found = case.check(A=5)
    assert "j went from completed to pending" in found


def test_a_lease_cut_short_is_found(case: Case) -> None:
    case.run("A", 1, 1, None)
    case.run("B", 2, 12, 13)
    case.changes[2] = case.change(9, state="pending")
    assert case.check(A=5) == ["j was taken from token 1 0:00:01 before its lease ended"]


def test_a_token_that_was_skipped_is_found(case: Case) -> None:
    case.run("A", 1, 1, None)
    case.run("B", 2, 12, 13)
    case.changes[3] = case.change(12, state="running", token=3)
    assert "j: the token went from 1 to 3 as it became running" in case.check(A=5)


def test_a_run_whose_worker_has_lost_an_older_claim_of_the_job_ends_when_it_says_so(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl")
    record = Recorder(history.path)
    facts = {"job": "j", "attempt": 1, "worker": "A"}
    record("start", **facts, token=1, pid=10, at=1)
    record("end", **facts, token=1, pid=10, at=2, how="returned")
    record("start", **facts, token=2, pid=11, at=3)  # in a process of its own
    record("start", **facts, token=3, pid=12, at=3)
    record("lost", job="j", worker="A", pid=10, at=4)
    record("end", **facts, token=2, pid=11, at=5, how="returned")
    record.close()
    assert [(run.token, run.ended, run.how) for run in history.runs()] == [
        (1, 2, "returned"),
        (2, 5, "returned"),
        (3, 4, "killed"),
    ]
