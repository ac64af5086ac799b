"""Pauses and overrides, pure: what they are for, whom they concern, and the gates that they are."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from mainspring import Breaker, ConfigurationError, Limit, Rate
from mainspring.engine.handlers import Handlers
from mainspring.engine.limits.controls import line_forms, read_view
from mainspring.engine.limits.job_gates import Limits, combined
from mainspring.model.limits.breaker import BreakerStatus
from mainspring.model.limits.controls import Paused, Probe, Target, breaker_closure, make_target, pause_closure
from mainspring.model.limits.limits import Closed, JobLimits, fair_gate, gate_name, sequence_name
from mainspring.store.jobs.stored_job import StoredJob

AT = datetime(2030, 1, 1, tzinfo=UTC)
EACH = Limit(1, "k", each_queue=True)


def paused(scope: str, target: str, key: str | None = None, value: Any = None) -> Paused:
    return Paused(scope, target, key, value, AT)


def test_a_target_has_a_path_words_and_what_its_jobs_have_in_common() -> None:
    plain, keyed = make_target(None, "mail"), make_target("report", None, {"user.id": 5})
    assert (plain.path, plain.words, plain.where) == ("queue:mail", "queue 'mail'", {"queue": "mail"})
    assert (keyed.path, keyed.words) == ("name:report:user.id=5", "job 'report' with user.id '5'")
    assert keyed.where == {"name": "report", "data.user.id": 5}


@pytest.mark.parametrize("value", ["5", 5, None, True, 1.5])
def test_a_keys_value_is_told_from_others_like_those_of_limits(value: Any) -> None:
    target = Target("name", "report", "tenant", value)
    assert target.applies("q", {"tenant": value})
    assert not target.applies("q", {"tenant": "other"})
    assert target.applies("q", {}) == (value is None)


def test_a_very_long_value_has_a_short_path() -> None:
    target = make_target("report", None, {"tenant": "x" * 10_000})
    assert len(target.path) < 200
    assert target.applies("q", {"tenant": "x" * 10_000}) and not target.applies("q", {"tenant": "x" * 9_999})


@pytest.mark.parametrize(
    "key", ["tenant", {}, {"a": 1, "b": 2}, {"a": {}}, {"a": b"x"}, {"a..b": 1}, {5: 1}, {None: 1}]
)
def test_a_key_must_be_one_path_and_a_plain_value(key: Any) -> None:
    with pytest.raises(ConfigurationError):
        make_target("report", None, key)


def test_a_pause_is_a_gate_that_says_by_whom_and_why() -> None:
    gate = pause_closure(Paused("queue", "mail", None, None, AT, "provider is down", "anna")).gate
    assert gate.name == "p:queue:mail"
    assert gate.rule == Closed("The queue 'mail' is paused by anna: provider is down")
    assert pause_closure(paused("name", "x", "k", "v")).gate.rule == Closed("The job 'x' with k 'v' is paused.")


def test_a_breaker_is_a_gate_while_it_is_not_closed() -> None:
    assert breaker_closure(BreakerStatus("name", "x", "closed")) is None
    opened, half = (
        breaker_closure(BreakerStatus("name", "x", "open")),
        breaker_closure(BreakerStatus("name", "x", "half_open")),
    )
    assert opened is not None and opened.shut and opened.gate.name == "b:name:x"
    assert half is not None and not half.shut and half.gate.rule == Probe() and half.gate.name == "b:name:x"


def make_limits(**queues: JobLimits) -> Limits:
    return Limits(Handlers(), queues)


def test_what_is_shut_comes_before_limits_and_rates() -> None:
    limits = make_limits(mail=JobLimits(Limit(2), Rate("5/s")))
    half = breaker_closure(BreakerStatus("name", "x", "half_open"))
    assert half is not None
    limits.close([half, pause_closure(paused("queue", "mail")), pause_closure(paused("name", "y"))])
    job = StoredJob({"name": "x", "queue": "mail", "data": {}})
    assert [gate.name for gate in limits.gates_of(job)] == [
        "p:queue:mail",
        "c:queue:mail",
        "b:name:x",
        "r:queue:mail",
    ]
    assert limits
    limits.close([])
    assert [gate.name for gate in limits.gates_of(job)] == ["c:queue:mail", "r:queue:mail"]


def test_a_job_waits_at_what_is_shut_and_rather_where_it_is() -> None:
    limits = make_limits()
    half = breaker_closure(BreakerStatus("name", "x", "half_open"))
    assert half is not None
    limits.close([half, pause_closure(paused("queue", "mail")), pause_closure(paused("name", "x", "tenant", "acme"))])
    job = {"name": "x", "queue": "mail", "data": {"tenant": "acme"}}

    def closed_to(**more: Any) -> str | None:
        closure = limits.closed_to(StoredJob({**job, **more}))
        return None if closure is None else closure.gate.name

    assert closed_to() == "p:queue:mail"
    assert closed_to(line="p:name:x:tenant=acme") == "p:name:x:tenant=acme"
    assert closed_to(line="b:name:x") == "p:queue:mail"
    assert closed_to(queue="other", data={}) == "b:name:x"
    assert closed_to(queue="other", name="y") is None


def test_an_override_wins_field_by_field() -> None:
    declared = JobLimits(Limit(2), Rate("5/s"), fair="tenant", breaker=Breaker())
    assert combined(declared, JobLimits(Limit(9))) == JobLimits(Limit(9), Rate("5/s"), fair="tenant", breaker=Breaker())
    limits = make_limits(mail=declared)
    limits.override({("queue", "mail"): JobLimits(rate=Rate("1/s")), ("name", "x"): JobLimits(Limit(1))})
    assert limits.allowance("queue", "mail").rate == Rate("1/s")
    assert limits.allowance("queue", "mail").concurrency == Limit(2)
    assert limits.allowance("name", "x").concurrency == Limit(1)
    assert limits.places == {("queue", "mail"), ("name", "x")}


def test_the_lines_of_a_limit_are_known_by_their_names() -> None:
    allowance = JobLimits(Limit(2, key="tenant"), Rate("5/s"))
    assert line_forms("name", "x", allowance) == {"c:name:x:tenant=", "r:name:x"}
    assert line_forms("name", "x", JobLimits()) == set()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (sequence_name("a", "b:c"), sequence_name("a:b", "c")),
        (fair_gate("a", "b:c").name, fair_gate("a:b", "c").name),
        (
            gate_name("c", "name", "a:k=v", Limit(1), "q", {}),
            gate_name("c", "name", "a", Limit(1, "k"), "q", {"k": "v"}),
        ),
        (
            gate_name("c", "name", "a", Limit(1, "k"), "q", {"k": "l=v"}),
            gate_name("c", "name", "a", Limit(1, "k=l"), "q", {"k=l": "v"}),
        ),
        (gate_name("c", "name", "a", EACH, "q:v", {"k": "w"}), gate_name("c", "name", "a", EACH, "q", {"k": "v:w"})),
        (
            gate_name("c", "name", "a", EACH, "q", {"k": "v"}),
            gate_name("c", "name", "a", Limit(1, ":k"), "", {":k": "v"}),
        ),
        (Target("name", "a:k=v").path, Target("name", "a", "k", "v").path),
        (Target("name", "a", "k", "v", "q").path, Target("name", "a", "q:k", "v").path),
        (Target("name", "a", queue="q").path, Target("name", "a::q").path),
        (sequence_name("a%3Ab", "c"), sequence_name("a:b", "c")),
    ],
)
def test_names_with_colons_never_make_two_gates_one(one: str, other: str) -> None:
    assert one != other


def test_only_a_queue_that_is_paused_as_a_whole_is_not_looked_into() -> None:
    documents: list[dict[str, Any]] = [
        {"_id": "1", "kind": "pause", "scope": "queue", "target": "mail", "at": AT},
        {"_id": "2", "kind": "pause", "scope": "queue", "target": "web", "key": "tenant", "value": "acme", "at": AT},
        {"_id": "3", "kind": "pause", "scope": "name", "target": "x", "at": AT},
        {"_id": "4", "kind": "breaker", "scope": "queue", "target": "broken", "state": "open"},
        {"_id": "5", "kind": "pause", "scope": "queue"},
    ]
    view = read_view(documents)
    assert view.paused_queues == {"mail"}
    assert len(view.closures) == 4
