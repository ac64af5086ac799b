"""Durations as people write them, read exactly or refused with what to write instead."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.durations import duration_ms, duration_text, duration_words


@pytest.mark.parametrize(
    ("written", "milliseconds"),
    [
        ("5m", 300_000),
        ("1h30m", 5_400_000),
        ("90s", 90_000),
        ("2d", 172_800_000),
        ("1w", 604_800_000),
        ("250ms", 250),
        ("1h 30m", 5_400_000),
        (" 10 min ", 600_000),
        ("1 hour 5 seconds", 3_605_000),
        ("1.5h", 5_400_000),
        ("0.25s", 250),
        ("2Days", 172_800_000),
        (timedelta(minutes=5), 300_000),
        (300, 300_000),
        (0.1, 100),
        (1.1, 1100),
    ],
)
def test_a_duration_is_read_to_the_millisecond(written: Any, milliseconds: int) -> None:
    assert duration_ms(written, "period") == milliseconds


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("", "is empty"),
        ("5", "lacks a unit; write 5s for seconds or 5m for minutes"),
        ("5M", "'M' is not a unit; did you mean 'm'"),
        ("5 mintues", "did you mean 'minutes'"),
        ("5x", "'x' is not a unit; the units are w, d, h, m, s, ms"),
        ("1 month", "months and years differ in length; use Cron or RRule"),
        ("30m1h", "units out of order"),
        ("5m5m", "units out of order"),
        ("-5m", "is not a duration"),
        ("5m!", "is not a duration"),
        ("٥m", "is not a duration"),
        ("PT5M", "is not a duration"),
        ("every 5 minutes", 'is not a duration such as "5m", "1h30m", "90s", "2d" or "250ms". Did you mean "5m"?'),
        ("0.5ms", "counted in whole milliseconds"),
        (0.0001, "counted in whole milliseconds"),
        (timedelta(microseconds=1500), "counted in whole milliseconds"),
        (float("nan"), "finite"),
        (float("inf"), "finite"),
        (True, "must be a duration"),
        (None, "must be a duration"),
        ([5], "must be a duration"),
        ("9" * 100, "too long"),
    ],
)
def test_what_is_no_duration_is_refused_with_its_cure(written: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        duration_ms(written, "period")


@settings(deadline=None)
@given(st.integers(1, 10**12))
def test_a_duration_that_is_written_reads_as_the_same(milliseconds: int) -> None:
    assert duration_ms(duration_text(milliseconds), "period") == milliseconds
    assert duration_ms(duration_words(milliseconds), "period") == milliseconds


@settings(deadline=None)
@given(st.text(max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert duration_ms(text, "period") >= 0
    except ValueError:
        pass
