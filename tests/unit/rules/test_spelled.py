"""Rules spelled out as mappings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mainspring import Cron, Every, InvalidSchedule, RRule, Rule
from mainspring.rules.spelled import spelled


@pytest.mark.parametrize(
    ("mapping", "rule"),
    [
        ({"cron": "0 9 * * *"}, Cron("0 9 * * *")),
        ({"cron": "0 9 * * *", "timezone": "Asia/Kolkata"}, Cron("0 9 * * *", timezone="Asia/Kolkata")),
        ({"every": "5m"}, Every("5m")),
        ({"every": 300}, Every("5m")),
        ({"every": "5m", "after": "end"}, Every("5m", after="end")),
        ({"rrule": "FREQ=DAILY", "timezone": "UTC"}, RRule("FREQ=DAILY", timezone="UTC")),
    ],
)
def test_a_mapping_says_the_same_as_a_rule(mapping: Mapping[str, Any], rule: Rule) -> None:
    assert spelled(mapping) == rule
    assert spelled(rule) is rule


@pytest.mark.parametrize(
    ("mapping", "said"),
    [
        ({}, "has one of cron, every, rrule"),
        ({"cron": "* * * * *", "every": 5}, "has one of cron, every, rrule"),
        ({"cron": "* * * * *", "timezon": "UTC"}, "Did you mean 'timezone'"),
        ({"every": "5m", "timezone": "UTC"}, "repeat with every has no 'timezone'"),
        ({"cron": "not a cron"}, "not"),
    ],
)
def test_what_a_mapping_cannot_say_is_refused(mapping: Mapping[str, Any], said: str) -> None:
    with pytest.raises(InvalidSchedule, match=said):
        spelled(mapping)
