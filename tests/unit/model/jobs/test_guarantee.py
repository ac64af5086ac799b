"""What `guarantee` chooses and rules out, and the key by which the outside knows a job."""

from __future__ import annotations

import pytest
from bson import ObjectId

from mainspring import ConfigurationError, Retry
from mainspring.model.jobs.guarantee import (
    GUARANTEES,
    check_guarantee,
    check_one_attempt,
    idempotency_key,
    may_have_run,
    most_attempts,
    not_committed,
)
from mainspring.store.jobs.transactions import Reruns


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_guarantee_is_one_of_three(guarantee: str) -> None:
    assert check_guarantee(guarantee) == guarantee


@pytest.mark.parametrize("wrong", ["once", "", 1, None, True, ["at_most_once"]])
def test_anything_else_is_refused(wrong: object) -> None:
    with pytest.raises(ConfigurationError, match="guarantee"):
        check_guarantee(wrong)


def test_one_attempt_is_all_that_at_most_once_allows() -> None:
    for guarantee in (None, "at_least_once", "exactly_once"):
        check_one_attempt(guarantee, 9)
    check_one_attempt("at_most_once", 1)
    with pytest.raises(ConfigurationError, match="asks for 2"):
        check_one_attempt("at_most_once", 2)


def test_the_attempts_of_a_policy_are_those_of_its_most_patient_rule() -> None:
    assert most_attempts(Retry(attempts=1)) == 1
    assert most_attempts(Retry(attempts=2, rules={OSError: Retry(attempts=7), ValueError: Retry(attempts=1)})) == 7


def test_the_errors_say_what_happened_and_what_to_do() -> None:
    error = may_have_run("The worker died.", ObjectId("0" * 24))
    assert error.message.startswith("The worker died. ") and f"retry('{'0' * 24}') runs it again" in error.message
    assert "ctx.transaction()" in not_committed().message


def test_an_idempotency_key_is_short_and_of_plain_characters() -> None:
    keys = [idempotency_key(job, "db.jobs") for job in (ObjectId(), "x", "x" * 1000, "ümlaut", "\ud800", "")]
    assert len(set(keys)) == len(keys)
    assert all(len(key) <= 35 and key.isascii() and key.startswith("ms-") for key in keys)


def test_a_text_is_another_key_in_another_place_and_an_object_id_is_its_own() -> None:
    assert idempotency_key("x", "a.jobs") != idempotency_key("x", "b.jobs")
    assert idempotency_key("x", "a.jobs") == idempotency_key("x", "a.jobs")
    assert idempotency_key("b.jobs", "a") != idempotency_key("jobs", "a.b")
    job = ObjectId()
    assert idempotency_key(job, "a.jobs") == idempotency_key(job, "b.jobs") == f"ms-{job}"


def test_what_is_not_transient_is_raised_as_it_is() -> None:
    error = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as raised:
        Reruns(10).pause_after(error)
    assert raised.value is error
