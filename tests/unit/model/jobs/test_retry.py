"""The arithmetic of retrying: backoffs, jitter, functions, rules by exception type, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import ConfigurationError, Retry
from mainspring.engine.handler import Handler
from mainspring.engine.handlers import Handlers
from mainspring.engine.run.judge import Policies
from mainspring.model.jobs.retry import Backoff, seconds
from mainspring.store.jobs.stored_job import StoredJob


def _delays(policy: Retry, count: int = 5) -> list[float]:
    return [policy.delay_before(attempt) for attempt in range(1, count + 1)]


def test_the_default_is_three_tries_with_five_seconds_exponential() -> None:
    policy = Retry()
    assert (policy.attempts, policy.delay, policy.backoff) == (3, 5.0, "exponential")
    assert _delays(policy, 3) == [5.0, 10.0, 20.0]


def test_fixed_backoff_stays_as_it_is() -> None:
    assert _delays(Retry(delay=3, backoff="fixed")) == [3.0] * 5


def test_linear_backoff_grows_by_the_delay() -> None:
    assert _delays(Retry(delay=3, backoff="linear")) == [3.0, 6.0, 9.0, 12.0, 15.0]


def test_exponential_backoff_doubles() -> None:
    assert _delays(Retry(delay=3, backoff="exponential")) == [3.0, 6.0, 12.0, 24.0, 48.0]


def test_no_backoff_goes_beyond_max_delay() -> None:
    assert _delays(Retry(delay=3, max_delay=timedelta(seconds=10))) == [3.0, 6.0, 10.0, 10.0, 10.0]
    assert Retry(delay=1, max_delay=60).delay_before(10_000) == 60.0


def test_a_timedelta_is_as_good_as_seconds() -> None:
    assert Retry(delay=timedelta(minutes=1), backoff="fixed").delay_before(1) == 60.0


def test_a_function_of_the_attempt_gives_the_delay() -> None:
    assert _delays(Retry(delay=lambda attempt: attempt**2, max_delay=20)) == [1.0, 4.0, 9.0, 16.0, 20.0]
    assert Retry(delay=lambda attempt: timedelta(minutes=attempt)).delay_before(2) == 120.0


def test_a_function_that_returns_no_duration_is_refused_when_it_is_asked() -> None:
    with pytest.raises(ConfigurationError, match=r"the delay returned by Retry\.delay\(\) must be seconds"):
        Retry(delay=lambda attempt: None).delay_before(1)  # type: ignore[arg-type,return-value]
    with pytest.raises(ConfigurationError, match="between 0 seconds and ten years"):
        Retry(delay=lambda attempt: -1.0).delay_before(1)


@given(
    st.floats(0, 1e6),
    st.floats(0, 1),
    st.integers(1, 200),
    st.floats(0, 1, exclude_max=True),
    st.sampled_from(("fixed", "linear", "exponential")),
)
def test_jitter_stays_within_its_share(
    delay: float, jitter: float, attempt: int, spread: float, backoff: Backoff
) -> None:
    base = Retry(delay=delay, jitter=0, backoff=backoff).delay_before(attempt)
    spreaded = Retry(delay=delay, jitter=jitter, backoff=backoff).delay_before(attempt, spread)
    assert base * (1 - jitter) * (1 - 1e-9) <= spreaded <= base * (1 + jitter) * (1 + 1e-9)


def test_jitter_reaches_both_of_its_ends() -> None:
    policy = Retry(delay=100, backoff="fixed", jitter=0.2)
    assert policy.delay_before(1, 0.0) == pytest.approx(80)
    assert policy.delay_before(1, 0.5) == pytest.approx(100)
    assert policy.delay_before(1, 0.999999) == pytest.approx(120, rel=1e-4)


def test_the_first_rule_whose_type_matches_counts() -> None:
    never, often = Retry(attempts=1), Retry(attempts=9)
    policy = Retry(rules={KeyError: never, LookupError: often})
    assert policy.rule_for(KeyError("x")) is never
    assert policy.rule_for(IndexError("x")) is often
    assert policy.rule_for(ValueError("x")) is policy
    assert policy.rule_for(None) is policy


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"attempts": 0}, "includes the first one, must be a whole number of at least 1, not 0"),
        ({"attempts": True}, "includes the first one, must be a whole number of at least 1, not True"),
        ({"attempts": 2.0}, "includes the first one, must be a whole number of at least 1"),
        ({"backoff": "fibonacci"}, "must be one of fixed, linear, exponential, not 'fibonacci'"),
        ({"delay": -1}, r"Retry\.delay must be between 0 seconds and ten years, not -1"),
        ({"delay": "5"}, r"Retry\.delay='5' lacks a unit"),
        ({"delay": float("nan")}, r"Retry\.delay must be between"),
        ({"max_delay": timedelta(days=-1)}, r"Retry\.max_delay must be between"),
        ({"jitter": 1.5}, "a share between 0 and 1, not 1.5"),
        ({"jitter": -0.1}, "a share between 0 and 1"),
        (
            {"rules": {"ValueError": Retry()}},
            "maps exception types to Retry policies; 'ValueError' is not an exception type",
        ),
    ],
)
def test_a_wrong_policy_is_refused_and_says_what_is_wrong(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Retry(**arguments)


def test_a_rule_that_is_no_policy_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="maps exception types to Retry policies"):
        Retry(rules={ValueError: 1})  # type: ignore[dict-item]


@pytest.mark.parametrize("jitter", ["0.1", None, True])
def test_a_jitter_that_is_no_number_is_refused(jitter: Any) -> None:
    with pytest.raises(ConfigurationError, match="a share between 0 and 1"):
        Retry(jitter=jitter)


@given(
    st.integers(1, 50),
    st.floats(0, 1e5),
    st.sampled_from(("fixed", "linear", "exponential")),
    st.floats(0, 1e6),
    st.floats(0, 1),
)
def test_a_policy_survives_being_stored(
    attempts: int, delay: float, backoff: Backoff, max_delay: float, jitter: float
) -> None:
    policy = Retry(attempts, delay, backoff, max_delay, jitter)
    assert Retry.from_document(policy.to_document()) == policy


def test_a_stored_policy_may_lack_fields_and_have_foreign_ones() -> None:
    assert Retry.from_document({"attempts": 7, "colour": "red"}) == Retry(attempts=7)


@pytest.mark.parametrize("policy", [Retry(delay=lambda attempt: 1.0), Retry(rules={ValueError: Retry()})])
def test_a_policy_with_code_in_it_cannot_be_stored_on_a_job(policy: Retry) -> None:
    with pytest.raises(ConfigurationError, match="give it to the handler's decorator instead"):
        policy.to_document()


@pytest.mark.parametrize("value", [None, True, [], float("inf"), -0.001])
def test_what_is_no_duration_is_refused_by_name(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^the pause must be"):
        seconds(value, "the pause")


def _policies(handler_retry: Retry | None, default: Retry, timeout: float | None = None) -> tuple[Policies, Handler]:
    handlers = Handlers()
    handler = Handler("x", lambda: None, retry=handler_retry)
    handlers.add(handler)
    return Policies(handlers, default, timeout), handler


def test_the_jobs_own_policy_comes_before_the_handlers_and_that_before_the_default() -> None:
    policies, handler = _policies(Retry(attempts=5), Retry(attempts=7))
    assert policies.retry(StoredJob({"name": "x", "retry": {"attempts": 9}}), handler).attempts == 9
    assert policies.retry(StoredJob({"name": "x"}), handler).attempts == 5
    assert (
        _policies(None, Retry(attempts=7))[0]
        .retry(StoredJob({"name": "x"}), handler := Handler("x", lambda: None))
        .attempts
        == 7
    )
    assert handler.retry is None


def test_the_handlers_rules_come_before_the_jobs_numbers() -> None:
    policies, handler = _policies(Retry(attempts=5, rules={ValueError: Retry(attempts=1)}), Retry())
    document = {"name": "x", "retry": {"attempts": 9}}
    assert policies.retry(StoredJob(document), handler, ValueError()).attempts == 1
    assert policies.retry(StoredJob(document), handler, KeyError()).attempts == 9
    assert policies.attempts(StoredJob(document)) == 9


@pytest.mark.parametrize("stored", [{"attempts": 0}, {"attempts": "many"}, {"backoff": 7}, {"jitter": "a lot"}])
def test_a_stored_policy_that_is_none_gives_way_to_the_handlers(stored: dict[str, Any]) -> None:
    policies, handler = _policies(Retry(attempts=5), Retry())
    assert policies.retry(StoredJob({"name": "x", "retry": stored}), handler).attempts == 5


def test_the_jobs_timeout_comes_before_the_handlers_and_that_before_the_default() -> None:
    policies, _ = _policies(None, Retry(), timeout=3.0)
    assert policies.timeout(StoredJob({"timeout": 1.5}), Handler("x", lambda: None, timeout=2.0)) == 1.5
    assert policies.timeout(StoredJob({}), Handler("x", lambda: None, timeout=2.0)) == 2.0
    assert policies.timeout(StoredJob({"timeout": "long"}), Handler("x", lambda: None)) == 3.0
