"""Breakers as users write them: what is refused, and that nothing is lost on the way into a document and back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mainspring import Breaker, ConfigurationError, Scheduler


def test_a_breaker_has_sensible_defaults_and_takes_durations() -> None:
    assert Breaker() == Breaker(errors=0.5, window=60, minimum=10, open_for=30)
    assert Breaker(window=timedelta(minutes=1), open_for=timedelta(seconds=30)) == Breaker()
    assert Breaker(0.25, 120, 4, 5).to_document() == {"errors": 0.25, "window": 120.0, "minimum": 4, "open_for": 5.0}


def test_a_breaker_comes_back_from_its_document() -> None:
    breaker = Breaker(errors=1, window=1.5, minimum=1, open_for=0.1)
    assert Breaker.from_document(breaker.to_document()) == breaker


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"errors": 0}, "Breaker.errors is a share above 0 and at most 1, not 0"),
        ({"errors": 1.1}, "Breaker.errors is a share above 0 and at most 1, not 1.1"),
        ({"errors": float("nan")}, "Breaker.errors is a share"),
        ({"errors": "half"}, "Breaker.errors is a share"),
        ({"errors": True}, "Breaker.errors is a share"),
        ({"minimum": 0}, "Breaker.minimum must be a whole number from 1 to 1,000,000, not 0"),
        ({"minimum": 2.5}, "Breaker.minimum must be a whole number"),
        ({"minimum": True}, "Breaker.minimum must be a whole number"),
        ({"window": 0.5}, "Breaker.window must be from 1 seconds to 7 days, not 0.5"),
        ({"window": timedelta(days=8)}, "Breaker.window must be from 1 seconds to 7 days"),
        ({"window": "1x"}, "Breaker.window='1x'"),
        ({"open_for": 0}, "Breaker.open_for must be from 0.1 seconds to 7 days, not 0"),
        ({"open_for": -1}, "Breaker.open_for must be between 0 seconds and ten years"),
    ],
    ids=str,
)
def test_a_breaker_that_makes_no_sense_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Breaker(**arguments)


def test_a_handler_and_a_queue_take_breakers_and_nothing_else() -> None:
    scheduler = Scheduler("mongodb://127.0.0.1:1/x")
    with pytest.raises(ConfigurationError, match="breaker must be a Breaker, such as"):
        scheduler.job("x", breaker=0.5)(lambda: None)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="breaker must be a Breaker, such as"):
        scheduler.queues.limit("mail", breaker={})  # type: ignore[arg-type]
    assert scheduler.workers.handler_names == []
