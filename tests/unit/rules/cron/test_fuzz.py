"""Expressions, right, nearly right and wrong: none does harm, each is answered in a bounded number of steps.

Two hundred thousand by default, a million with MAINSPRING_FUZZ=full. Steps are counted, not timed: years looked at,
and searches begun.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from harness.fuzzing import FULL, LONG
from mainspring.errors import InvalidCron
from mainspring.rules.cron import Cron
from mainspring.rules.cron.pattern import compile_pattern
from mainspring.rules.wall_times import DailyTimes
from mainspring.rules.year_days import YearDays

pytestmark = [LONG, pytest.mark.slow]
NUMBER = 1_000_000 if FULL else 60_000
CHUNKS = 8
NOW = datetime(2026, 11, 16, 12, 34, 56, tzinfo=UTC)
MOST_YEARS = 2 * (40 + 1)
"""Of one search: for the day itself, and once more when its time is over; the rarest day comes within forty years."""
MOST_SEARCHES = 4
VALID = (
    "*/5 * * * *",
    "0 9 * * MON-FRI",
    "*/30 * * * * *",
    "0 0 29 2 *",
    "0 0 L * *",
    "15,45 */10 8-18 L-3,LW NOV-FEB ?",
    "H H(0-7) 1,15W * ?",
    "H/15 * ? * 5L,1#2",
    "50-10/5 22-2 28-3 */3 FRI-MON",
    "0 0 30 2 1",
    "@daily",
    "0 0 * 2 MON#5",
    "5/15 0 */2 jan,jul sun",
)
SIGNS = "0123456789*/,-?#LWH()@ \tabcMONFRIJAN"
STRANGE = "٣३７²½\x00\x01\x7f\x85\u2028\u3000é‚😀ıſK\ud800\n\r\v"


def expressions(rng: random.Random, number: int) -> Any:
    """Valid ones with a few changes, and garbage."""
    for _ in range(number):
        kind = rng.random()
        if kind < 0.08:
            yield "".join(rng.choices(SIGNS + STRANGE, k=rng.randrange(1, 40)))
        elif kind < 0.10:
            yield rng.choice(VALID) * rng.randrange(2, 60)
        elif kind < 0.35:
            yield " ".join(field(rng) for _ in range(rng.choice((5, 5, 5, 6, 6, 4))))
        else:
            yield changed(rng, rng.choice(VALID))


def field(rng: random.Random) -> str:
    number = rng.randrange(70) if rng.random() < 0.3 else rng.randrange(1, 8)
    other = rng.randrange(0, 32)
    shapes = ("*", f"{number}", f"{number}-{other}", f"*/{number}", f"{number}/{other}", f"{number},{other}", "?", "L")
    return rng.choice(
        (*shapes, f"{number}W", f"{number}L", f"{number}#{other}", "H", f"H({number}-{other})", f"L-{number}")
    )


def changed(rng: random.Random, text: str) -> str:
    for _ in range(rng.randrange(1, 4)):
        place = rng.randrange(len(text) + 1)
        sign = rng.choice(SIGNS if rng.random() < 0.85 else STRANGE)
        text = text[:place] + sign * (rng.random() < 0.7) + text[place + rng.randrange(2) :]
    return text


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many years were looked at, and how many searches were begun."""
    counted: Counter[str] = Counter()

    def counting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            counted[name] += 1
            return function(*arguments)

        return call

    monkeypatch.setattr(YearDays, "year", counting("years", YearDays.year))
    monkeypatch.setattr(DailyTimes, "first", counting("searches", DailyTimes.first))
    monkeypatch.setattr(DailyTimes, "last", counting("searches", DailyTimes.last))
    return counted


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_expression_does_harm_and_each_is_answered_in_few_steps(chunk: int, steps: Counter[str]) -> None:
    rng = random.Random(chunk)
    valid = 0
    for text in expressions(rng, NUMBER // CHUNKS):
        try:
            cron = Cron(text)
        except InvalidCron as error:
            assert 0 <= error.position <= len(text)
            assert error.expression == text
            continue
        valid += 1
        steps.clear()
        found = cron.next(NOW)
        assert found is not None
        assert found > NOW
        assert steps["searches"] <= MOST_SEARCHES
        assert steps["years"] <= steps["searches"] * MOST_YEARS
        if valid % 4 == 0:
            assert cron.previous(found) != found
            assert cron.describe()
            assert Cron(cron.expression, seed=cron.seed) == cron
    assert valid > NUMBER // CHUNKS // 50
    compile_pattern.cache_clear()


@pytest.mark.parametrize(
    ("expression", "zone"),
    [
        ("30 2 * 3 SUNL", "Europe/Berlin"),
        ("30 2 8-14 3 */7", "America/New_York"),
        ("15 2 1-7 10 */7", "Australia/Lord_Howe"),
    ],
)
def test_a_rule_whose_every_time_is_skipped_ends_in_a_bounded_number_of_steps(
    expression: str, zone: str, steps: Counter[str]
) -> None:
    cron = Cron(expression, zone, gap="skip")
    assert cron.next(NOW) is None
    assert steps["searches"] <= 401 * MOST_SEARCHES
    assert Cron(expression, zone).next(NOW) is not None


@pytest.mark.parametrize(
    "expression", ["0 0 29 2 *", "0 0 29 2 */7", "0 0 * 2 MON#5", "0 0 31 12 *", "59 59 23 31 12 ?"]
)
def test_the_rarest_rules_take_no_more_steps_than_there_are_years(expression: str, steps: Counter[str]) -> None:
    for year in range(1800, 2200):
        steps.clear()
        assert Cron(expression).next(datetime(year, 3, 1, tzinfo=UTC)) is not None
        assert steps["years"] <= 50
        steps.clear()
        assert Cron(expression).previous(datetime(year, 2, 1, tzinfo=UTC)) is not None
        assert steps["years"] <= 50


def test_the_rarest_day_of_all_comes_within_forty_years() -> None:
    """The fifth of a weekday in February, a 29th: what bounds every search."""
    start, end = datetime(1600, 1, 1, tzinfo=UTC), datetime(2400, 1, 1, tzinfo=UTC)
    for weekday in range(7):
        years = [moment.year for moment in Cron(f"0 0 * 2 {weekday}#5").between(start, end)]
        assert max(later - earlier for earlier, later in pairwise(years)) == 40
