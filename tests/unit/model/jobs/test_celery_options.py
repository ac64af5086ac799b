"""The options of Celery's apply_async as options of a job."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from mainspring import ConfigurationError
from mainspring.model.jobs.celery_options import celery_options

NOON = datetime(2026, 12, 24, 12, tzinfo=UTC)


def options(**given: Any) -> Any:
    return celery_options(*(given.get(name) for name in ("countdown", "eta", "expires", "priority", "queue")))


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({}, {}),
        ({"countdown": 60}, {"delay": 60}),
        ({"eta": NOON, "expires": NOON}, {"run_at": NOON, "expires_at": NOON}),
        ({"expires": 90}, {"start_within": 90.0}),
        ({"countdown": 60, "expires": "2m"}, {"delay": 60, "start_within": 60.0}),
        ({"priority": 9, "queue": "mail"}, {"priority": 1, "queue": "mail"}),
        ({"priority": 5}, {"priority": 5}),
        ({"priority": 0}, {"priority": 10}),
    ],
)
def test_the_options_of_celery_become_those_of_a_job(given: dict[str, Any], made: dict[str, Any]) -> None:
    assert options(**given) == made


@pytest.mark.parametrize(
    ("given", "cure"),
    [
        ({"countdown": 60, "eta": NOON}, "not both"),
        ({"eta": NOON, "expires": 90}, "as an instant"),
        ({"countdown": 60, "expires": 60}, "raise expires"),
        ({"priority": 10}, "from 0 to 9"),
        ({"priority": True}, "from 0 to 9"),
    ],
)
def test_options_that_say_nothing_sensible_are_refused_with_a_cure(given: dict[str, Any], cure: str) -> None:
    with pytest.raises(ConfigurationError, match=cure):
        options(**given)
