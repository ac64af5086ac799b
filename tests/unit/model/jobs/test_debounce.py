"""What `debounce`, `throttle` and `max_pending` mean and refuse before anything is stored."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harness.inside import inside
from mainspring import ConfigurationError, InvalidJob, QueueFull, Scheduler
from mainspring.model.jobs.draft import Debounce, check_in_transaction, make_draft
from mainspring.model.limits.queue_bound import Bound, check_bound

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"debounce": 0}, "debounce must be more than 0 seconds"),
        ({"debounce": -1}, "debounce must be between 0 seconds"),
        ({"debounce": "5x"}, "debounce='5x': 'x' is not a unit"),
        ({"debounce": 5, "delay": 1}, "debounce decides when the job runs; leave out run_at and delay"),
        ({"debounce": 5, "run_at": NOON}, "debounce decides when the job runs; leave out run_at and delay"),
        (
            {"debounce": 5, "dedupe_key": "k", "dedupe_window": 5},
            r"Give debounce \(the last .*\) or throttle .*, not both",
        ),
        ({"debounce": 5, "throttle": 5}, "Give debounce .* or throttle .*, not both"),
        ({"debounce": 5, "debounce_max": 4}, r"debounce_max \(4 s\) must not be shorter than debounce \(5 s\)"),
        ({"debounce_max": 4}, "debounce_max needs debounce"),
        ({"throttle": 0}, "throttle must be more than 0 seconds"),
        ({"throttle": True}, 'throttle must be seconds, a timedelta or text such as "5m", not True'),
        ({"throttle": 5, "dedupe_key": "k", "dedupe_window": 5}, "Give throttle or dedupe_window, not both"),
        ({"debounce": 5, "dedupe_key": ""}, "dedupe_key must be printable text"),
    ],
)
def test_a_wrong_debounce_or_throttle_is_refused_with_its_cure(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make_draft("x", None, **options)


def test_debounce_and_throttle_go_by_the_jobs_name_where_no_key_is_given() -> None:
    assert make_draft("x", None, debounce=5).dedupe_key == "x"
    assert make_draft("x", None, throttle=5).dedupe_key == "x"
    assert make_draft("x", None, debounce=5, dedupe_key="k").dedupe_key == "k"
    assert make_draft("x", None, throttle=5, dedupe_key="k").dedupe_key == "k"


def test_throttle_is_a_dedupe_window_under_its_own_name() -> None:
    draft = make_draft("x", None, throttle=timedelta(minutes=1))
    assert (draft.dedupe_window, draft.debounce) == (60.0, None)
    assert draft == make_draft("x", None, dedupe_key="x", dedupe_window=60)


def test_a_debounced_job_is_delayed_and_knows_which_options_its_call_has_given() -> None:
    draft = make_draft("x", {"n": 1}, debounce=5, debounce_max=timedelta(minutes=1), priority=2, tags=[])
    assert draft.delay == 5.0
    assert draft.debounce == Debounce(5.0, 60.0, frozenset({"priority", "tags"}))


def test_a_debounced_job_cannot_be_part_of_a_transaction_but_a_throttled_one_can() -> None:
    with pytest.raises(InvalidJob, match="once the transaction has committed"):
        check_in_transaction(make_draft("x", None, debounce=5))
    check_in_transaction(make_draft("x", None, throttle=5))


# -- bounds --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bound", "message"),
    [
        ((0, None), "max_pending must be a whole number of at least 1, not 0"),
        ((True, None), "max_pending must be a whole number of at least 1, not True"),
        (("many", None), "max_pending must be a whole number of at least 1, not 'many'"),
        ((5, "block"), 'when_full must be "refuse" or "wait", not \'block\''),
        ((None, "wait"), "when_full needs max_pending"),
    ],
)
def test_a_wrong_bound_is_refused_with_its_cure(bound: tuple[Any, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        check_bound(*bound)


def test_a_full_queue_refuses_unless_it_is_told_to_let_producers_wait() -> None:
    assert check_bound(5, None) == Bound(5, "refuse")
    assert check_bound(5, "wait") == Bound(5, "wait")
    assert check_bound(None, None) is None


def test_a_bound_makes_no_limit_for_workers_and_can_be_taken_back() -> None:
    scheduler = Scheduler("mongodb://127.0.0.1:1/x")
    scheduler.queues.limit("mail", max_pending=5)
    assert inside(scheduler).core.registry.bounds == {"mail": Bound(5)} and not inside(scheduler).limits
    scheduler.queues.limit("mail", concurrency=2)
    assert inside(scheduler).core.registry.bounds == {} and inside(scheduler).limits
    with pytest.raises(ConfigurationError, match="a queue's name must be printable"):
        scheduler.queues.limit("", max_pending=5)


def test_a_full_queue_says_what_to_do_and_survives_the_way_out_of_a_process() -> None:
    error = QueueFull("mail", 10_000)
    assert "The queue 'mail' has 10,000 pending jobs" in str(error) and 'when_full="wait"' in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (again.queue, again.max_pending, str(again)) == ("mail", 10_000, str(error))
