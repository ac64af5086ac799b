"""The names of gates are told in words, whatever is in the names, queues, keys and values."""

from __future__ import annotations

import pytest

from mainspring.model.limits.controls import Target
from mainspring.model.limits.gate_words import jobs_at
from mainspring.model.limits.limits import CONCURRENCY, Limit, fair_gate, gate_name, sequence_name


@pytest.mark.parametrize(
    ("scope", "target", "rule", "words"),
    [
        ("name", "report", Limit(1), "jobs of 'report'"),
        ("queue", "mail", Limit(1), "jobs of the queue 'mail'"),
        ("name", "resize-image", Limit(1, key="customer"), "jobs of 'resize-image' with customer=a:b=c%3A"),
        ("name", "report", Limit(1, each_queue=True), "jobs of 'report' in the queue 'q:1=%3A'"),
        (
            "name",
            "a:b=c%25",
            Limit(1, key="x=y:z", each_queue=True),
            "jobs of 'a:b=c%25' in the queue 'q:1=%3A' with x=y:z=null",
        ),
    ],
)
def test_the_gate_of_a_limit_is_told_by_its_jobs(scope: str, target: str, rule: Limit, words: str) -> None:
    name = gate_name(CONCURRENCY, scope, target, rule, "q:1=%3A", {"customer": "a:b=c%3A"})
    assert jobs_at(name) == words


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (Target("queue", "mail"), "jobs of the queue 'mail'"),
        (Target("name", "a:b", "tenant", "x=y"), "jobs of 'a:b' with tenant=x=y"),
        (Target("name", "report", queue="q:1"), "jobs of 'report' in the queue 'q:1'"),
        (Target("name", "report", "tenant", 7, "mail"), "jobs of 'report' in the queue 'mail' with tenant=7"),
    ],
)
def test_the_gate_of_a_control_is_told_by_its_jobs(target: Target, words: str) -> None:
    assert {jobs_at(f"{kind}:{target.path}") for kind in "pb"} == {words}


def test_the_gates_of_order_are_told_by_their_jobs() -> None:
    assert jobs_at(fair_gate("mail:1", "acme").name) == "jobs of the queue 'mail:1' with the key 'acme'"
    assert jobs_at(f"s:{sequence_name('ship', '7')}") == "jobs of the sequence 'ship:7'"
