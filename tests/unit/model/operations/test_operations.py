"""What may be asked of an operation, what is frozen of it, and in which words a job is left alone."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import bson
import pytest

from mainspring import InvalidOperation
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.jobs.job import BLOCKED, FINISHED, STATES
from mainspring.model.operations.operations import (
    MOST_IDS,
    VERBS,
    WORKS_ON,
    OperationProgress,
    Order,
    check_start_after,
    check_why,
    left_in_state,
    make_order,
)
from mainspring.store.connection import CODEC

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NEW: dict[str, dict[str, Any]] = {"set_priority": {"priority": 2}, "move": {"queue": "slow"}}


def order(
    verb: str = "cancel",
    filter: Any = None,
    ids: Any = None,
    priority: Any = None,
    queue: Any = None,
    scope: Scope = EVERYTHING,
) -> Order:
    return make_order(verb, filter, ids, priority, queue, scope)


@pytest.mark.parametrize(
    ("asked", "field", "words"),
    [
        ({"verb": "cancle", "filter": {"name": "x"}}, "verb", "Did you mean 'cancel'?"),
        ({"verb": "explode", "filter": {"name": "x"}}, "verb", "Known are: retry, cancel, run, delete"),
        ({"verb": None, "filter": {"name": "x"}}, "verb", "There is no verb None"),
        ({"filter": {}}, "filter", "An empty filter would mean all jobs"),
        ({"filter": {"name": None, "data": {}}}, "filter", "An empty filter would mean all jobs"),
        ({}, "filter", "by a filter or by ids"),
        ({"filter": {"name": "x"}, "ids": ["a"]}, "filter", "by a filter or by ids"),
        ({"filter": {"nmae": "x"}}, "filter", "Did you mean 'name'?"),
        ({"filter": {"name": 7}}, "filter", "name must be printable text"),
        ({"filter": {"since": "today"}}, "filter", "since must be an aware datetime"),
        ({"filter": {"state": "gone"}}, "filter", "There is no state 'gone'"),
        ({"filter": {"state": "completed"}}, "filter.state", "cancel works on pending, blocked and running jobs"),
        ({"verb": "run", "filter": {"state": "failed"}}, "filter.state", "run works on pending jobs"),
        ({"ids": []}, "ids", "not an empty one"),
        ({"ids": [7]}, "ids", "a list of such"),
        ({"ids": ["x"] * (MOST_IDS + 1)}, "ids", "At most 1,000 jobs"),
        ({"verb": "set_priority", "ids": "x"}, "priority", "set_priority needs the priority"),
        ({"verb": "set_priority", "ids": "x", "priority": 0}, "priority", "from 1 (first) to 10 (last)"),
        ({"ids": "x", "priority": 3}, "priority", "leave it out for cancel"),
        ({"verb": "move", "ids": "x"}, "queue", "move needs the queue"),
        ({"verb": "move", "ids": "x", "queue": ""}, "queue", "queue must be printable text"),
        ({"ids": "x", "queue": "q"}, "queue", "queue is for move"),
        ({"verb": "move", "ids": "x", "queue": "b", "scope": Scope(("a",))}, "queue", "out of the scope"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_field_and_the_cure(
    asked: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(InvalidOperation) as refused:
        order(**asked)
    assert refused.value.field == field and words in str(refused.value)
    again = pickle.loads(pickle.dumps(refused.value))
    assert (str(again), again.field) == (str(refused.value), field)


def test_a_reason_has_to_be_given_and_a_start_is_within_an_hour() -> None:
    assert check_why(" the bank is back ") == " the bank is back "
    for wrong in ("", "  \n", 7, "x" * 1001):
        with pytest.raises(InvalidOperation) as refused:
            check_why(wrong)
        assert refused.value.field == "reason"
    assert [check_start_after(one) for one in (0, "10s", "1h", timedelta(seconds=2))] == [0, 10_000, 3_600_000, 2_000]
    for late in ("61m", -1, "soon", None):
        with pytest.raises(InvalidOperation) as refused:
            check_start_after(late)
        assert refused.value.field == "start_after"


@pytest.mark.parametrize("verb", VERBS)
def test_an_order_is_the_same_after_it_was_stored(verb: str) -> None:
    whole = {
        "state": WORKS_ON[verb][0],
        "name": "n",
        "queue": "q",
        "tag": "t",
        "schedule_id": "s",
        "parent_id": "p",
        "since": AT,
        "until": AT + timedelta(days=1),
        "data": {"a.b": 7, "c": ("7", 7)},
    }
    for asked in ({"filter": whole}, {"filter": {"name": "n"}}, {"ids": ["a", "b", "a"]}):
        for scope in (EVERYTHING, Scope(("q", "slow"), ("n",))):
            made = order(verb, **asked, **NEW.get(verb, {}), scope=scope)
            stored = bson.decode(bson.encode(made.to_document(), codec_options=CODEC), CODEC)
            assert Order.from_document(stored) == made
    assert order(verb, whole, **NEW.get(verb, {})).filter == {**whole, "data": {"a.b": 7, "c": "7"}}
    assert order(verb, ids=["a", "b", "a"], **NEW.get(verb, {})).ids == ("a", "b")


def test_without_a_state_jobs_are_looked_for_where_the_verb_works() -> None:
    for verb in VERBS:
        made = order(verb, {"name": "x"}, **NEW.get(verb, {}))
        assert set(made.states) == set(WORKS_ON[verb]) - {BLOCKED}
    assert order("cancel", {"state": "blocked"}).states == ("blocked",)
    assert {state for verb in VERBS for state in WORKS_ON[verb]} == set(STATES)


def test_a_search_of_an_order_has_its_scope_and_what_was_frozen() -> None:
    made = order("retry", {"name": "x"}, scope=Scope(("q",)))
    search = made.search_in("failed", AT, "me")
    assert (search.state, search.name, search.scope) == ("failed", "x", Scope(("q",)))
    assert (search.cutoff, search.not_by) == (AT, "me")


def test_a_job_is_left_alone_in_words_that_name_its_state() -> None:
    by_filter, by_ids = order("run", {"state": "pending"}), order("run", ids="x")
    for state in FINISHED:
        assert left_in_state(by_filter, state) == (f"its state is {state} now", False)
        assert left_in_state(by_ids, state) == (f"its state is {state}; run works on pending jobs only", True)
        assert left_in_state(order("cancel", ids="x"), state) == (f"its state is {state} now", False)
    assert left_in_state(by_filter, "pending") == ("it does not match the filter any more", False)
    assert left_in_state(by_ids, "pending") == ("another program has changed it meanwhile", False)


def test_what_was_examined_is_the_sum_of_what_became_of_it() -> None:
    assert OperationProgress(3, 2, 1).examined == 6
