"""Contention at the head of a queue: how long a worker takes turns, and how long it gathers the ends of its jobs."""

from __future__ import annotations

from typing import cast

import pytest

from mainspring.engine.claim import queues
from mainspring.engine.claim.queues import ContendedHeads
from mainspring.store import Store


class Seconds:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> Seconds:
    clock = Seconds()
    monkeypatch.setattr(queues, "monotonic", clock)
    return clock


@pytest.fixture
def heads(seconds: Seconds) -> ContendedHeads:
    return ContendedHeads(cast(Store, None), "worker")


def test_a_worker_that_loses_a_tenth_of_its_candidates_takes_turns_for_a_while(
    heads: ContendedHeads, seconds: Seconds
) -> None:
    heads.note(lost=1, asked=5)
    assert not heads.contended
    heads.note(lost=2, asked=20)
    assert not heads.contended
    heads.note(lost=3, asked=20)
    assert heads.contended
    seconds.now += 60
    assert not heads.contended


def test_the_ends_of_jobs_that_were_claimed_among_many_workers_are_gathered_until_the_next_claim(
    heads: ContendedHeads, seconds: Seconds
) -> None:
    heads.note(lost=10, asked=20)
    seconds.now += 60  # the jobs of that claim still run
    assert heads.contended_at_last_claim
    heads.note(lost=0, asked=20)
    assert not heads.contended_at_last_claim
