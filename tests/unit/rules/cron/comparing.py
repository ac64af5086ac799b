"""A rule beside the oracle: all that it says about a window must be what the oracle found there."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import timedelta

from hypothesis import assume

from harness.fuzzing import FULL
from mainspring.errors import InvalidCron
from mainspring.rules.cron import Cron
from unit.rules.cron.oracle import Meaning, Window

EXAMPLES = 100 if FULL else 3
"""How many rules are tried at each change."""
_NEAR = 60
_MINUTES = (-125, -65, -35, -1, 0, 1, 35, 65, 125)


def make(expression: str, zone: str, gap: str, fold: str) -> Cron:
    """A rule; what can never fire is not of interest here."""
    try:
        return Cron(expression, zone, gap=gap, fold=fold)  # type: ignore[arg-type]
    except InvalidCron as error:
        assume("would never fire" not in str(error))
        raise


def compare(window: Window, cron: Cron, meaning: Meaning) -> None:
    """Count, the firings near the middle, and the next and previous ones from several instants."""
    expected = window.firings(meaning, cron.gap, cron.fold)
    assert cron.count(window.start, window.end) == len(expected), (cron, window.middle)
    middle = bisect_left(expected, window.middle)
    near = expected[max(0, middle - _NEAR) : middle + _NEAR]
    start = near[0] if middle > _NEAR else window.start
    end = near[-1] + timedelta(seconds=1) if len(expected) > middle + _NEAR else window.end
    assert list(cron.between(start, end)) == near, (cron, window.middle)
    for minutes in _MINUTES:
        moment = window.middle + timedelta(minutes=minutes)
        later, earlier = bisect_right(expected, moment), bisect_left(expected, moment) - 1
        assert cron.count(moment, window.end) == len(expected) - earlier - 1, (cron, moment)
        if later < len(expected):
            assert cron.next(moment) == expected[later], (cron, moment)
        if earlier >= 0:
            assert cron.previous(moment) == expected[earlier], (cron, moment)
