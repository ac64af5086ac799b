"""Rules of retention: what they are about, which one counts, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mainspring import ConfigurationError, Keep, Scheduler
from mainspring.model.jobs.job import FINISHED
from mainspring.model.jobs.retention import Retention, check_retention

LOCAL = "mongodb://127.0.0.1:1/x"


def age_of(retention: Retention, name: str = "work", queue: str = "default", state: str = "completed") -> float | None:
    share = retention.share_of({"name": name, "queue": queue, "state": state})
    assert share is not None
    return share.age


def test_without_rules_the_settings_count() -> None:
    retention = Retention((), 100.0, None)
    assert {state: age_of(retention, state=state) for state in FINISHED} == {
        "completed": 100.0,
        "cancelled": 100.0,
        "expired": 100.0,
        "failed": None,
    }
    assert sorted(share.state for share in retention.ending) == ["cancelled", "completed", "expired"]


def test_a_name_counts_more_than_a_queue_and_a_queue_more_than_a_state() -> None:
    rules = [
        Keep(age=1),
        Keep(state="completed", age=2),
        Keep(queue="slow", age=3),
        Keep(queue="slow", state="completed", age=4),
        Keep(name="report", age=5),
        Keep(name="report", state="completed", age=6),
        Keep(name="report", queue="slow", age=7),
        Keep(name="report", queue="slow", state="completed", age=8),
    ]
    for order in (rules, rules[::-1]):
        retention = Retention(order, 100.0, 200.0)
        completed = [age_of(retention, name, queue) for name in ("work", "report") for queue in ("default", "slow")]
        assert completed == [2, 4, 6, 8]
        cancelled = [
            age_of(retention, name, queue, "cancelled") for name in ("work", "report") for queue in ("default", "slow")
        ]
        assert cancelled == [1, 3, 5, 7]


def test_a_rule_without_a_state_leaves_failed_jobs_alone() -> None:
    retention = Retention([Keep(age=1), Keep(name="report", age=2)], 100.0, None)
    assert age_of(retention, state="failed") is None
    assert age_of(retention, "report", state="failed") is None
    assert age_of(Retention([Keep(state="all", age=1)]), state="failed") == 1
    assert age_of(Retention([Keep(state=["failed", "expired"], age=1)]), state="failed") == 1


def test_a_rule_with_neither_age_nor_count_keeps_for_ever() -> None:
    retention = Retention([Keep(name="audit"), Keep(name="log", age=None)], 100.0)
    assert age_of(retention, "audit") is None and age_of(retention, "log") is None
    assert {share.name for share in retention.ending} == {None}


def test_what_a_more_specific_rule_takes_away_is_known() -> None:
    rules = [
        Keep(age=1),
        Keep(queue="slow", count=2),
        Keep(name="report", count=2),
        Keep(name="report", queue="slow", count=2),
        Keep(name="report", queue="fast", count=2),
    ]
    retention = Retention(rules)
    shares = {(share.name, share.queue): share for share in retention.ending if share.state == "completed"}

    def others(name: str | None, queue: str | None) -> list[dict[str, str]]:
        found = retention.others_within(shares[name, queue])
        return sorted(found, key=lambda scope: (len(scope), sorted(scope.items())))

    pairs = [{"name": "report", "queue": "fast"}, {"name": "report", "queue": "slow"}]
    assert others("report", "slow") == []
    assert others("report", None) == pairs
    assert others(None, "slow") == [{"name": "report"}, {"name": "report", "queue": "slow"}]
    assert others(None, None) == [{"name": "report"}, {"queue": "slow"}, *pairs]


@pytest.mark.parametrize(
    ("age", "seconds"), [("1h", 3600.0), (timedelta(minutes=1), 60.0), (90, 90.0), (0.5, 0.5), ("2d", 172800.0)]
)
def test_an_age_is_a_text_a_timedelta_or_seconds(age: Any, seconds: float) -> None:
    assert Keep(age=age).seconds == seconds


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"state": "pending"}, "Keep applies to finished jobs, but 'pending' is not a finished state"),
        ({"state": "complete"}, "Did you mean 'completed'"),
        ({"state": []}, "state in Keep must be a finished state, a list of them or 'all'"),
        ({"state": 5}, "state in Keep must be a finished state"),
        ({"state": ["completed", None]}, "None is not a finished state"),
        ({"name": ""}, "the name in Keep must be printable text"),
        ({"queue": 5}, "the queue in Keep must be printable text"),
        ({"age": "soon"}, "In Keep: age='soon' is not a duration"),
        ({"age": -1}, "age in Keep must be between 0 seconds and ten years"),
        ({"age": True}, "In Keep: age must be a duration"),
        ({"count": -1}, "count in Keep must be a whole number from 0 to 1,000,000, not -1"),
        ({"count": True}, "count in Keep must be a whole number"),
        ({"count": 1.5}, "count in Keep must be a whole number"),
        ({"count": 2_000_000}, "count in Keep must be a whole number"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_when_it_is_made(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Keep(**options)


@pytest.mark.parametrize(
    "rules",
    [
        [Keep(age=1), Keep(age=2)],
        [Keep(age=1), Keep(state="all", count=2)],
        [Keep(name="a", age=1), Keep(name="a", age=1)],
        [Keep(state="completed", age=1), Keep(state=["failed", "completed"], age=1)],
        [Keep(name="a", queue="q"), Keep(name="a", queue="q", age=1)],
    ],
)
def test_two_rules_of_which_neither_is_more_specific_are_refused(rules: list[Keep]) -> None:
    with pytest.raises(ConfigurationError, match="neither is more specific: Keep"):
        Scheduler(LOCAL, retention=rules)


@pytest.mark.parametrize(
    "rules",
    [
        [Keep(name="a", age=1), Keep(queue="q", age=2)],
        [Keep(state="completed", age=1), Keep(state="failed", age=2), Keep(age=3)],
        [Keep(name="a", age=1), Keep(name="b", age=1)],
    ],
)
def test_rules_of_which_one_is_more_specific_or_which_never_meet_are_taken(rules: list[Keep]) -> None:
    assert check_retention(rules) == tuple(rules)


@pytest.mark.parametrize("given", ["1h", Keep(age=1), [{"age": 1}], {"completed": 5}])
def test_retention_is_a_list_of_rules_and_nothing_else(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"retention must be a list of Keep\(…\)"):
        Scheduler(LOCAL, retention=given)
