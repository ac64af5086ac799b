"""What a status means, and both forms of Retry-After."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.jobtypes.http.statuses import DEFAULT_RETRY_ON, DEFAULT_SUCCESS, check_statuses, is_among, retry_after

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


def test_the_defaults_try_again_where_that_may_help() -> None:
    assert [status for status in range(100, 600) if is_among(status, DEFAULT_SUCCESS)] == list(range(200, 300))
    retried = [status for status in range(100, 600) if is_among(status, DEFAULT_RETRY_ON)]
    assert retried == [408, 425, 429, *range(500, 600)]


def test_gone_is_final_unless_it_is_named() -> None:
    assert not is_among(410, ("4xx",))
    assert is_among(409, ("4xx",))
    assert is_among(410, (410,))


@pytest.mark.parametrize("status", [0, 99, 600, "6xx", "2XX", "20x", "x", "", "200"])
def test_what_is_no_status_is_refused(status: int | str) -> None:
    with pytest.raises(ValueError, match="from 100 to 599"):
        check_statuses((status,))


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        (" 120 ", 120.0),
        ("9999999", 86400.0),
        ("Sun, 15 Nov 2026 12:02:00 GMT", 120.0),
        ("Sunday, 15-Nov-26 12:02:00 GMT", 120.0),
        ("Sun Nov 15 12:02:00 2026", 120.0),
        ("Sun, 15 Nov 2026 11:00:00 GMT", 0.0),
        ("Sun, 15 Nov 2099 11:00:00 GMT", 86400.0),
        (None, None),
        *(
            (text, None)
            for text in ("", "soon", "-5", "1.5", "1e9", "٣", "99999999999999999999", "2026-11-15", "Sun, 99")
        ),
    ],
)
def test_retry_after_is_read_in_both_forms_within_a_day(value: str | None, seconds: float | None) -> None:
    assert retry_after(value, NOW) == seconds


@given(st.text() | st.integers().map(str), st.timedeltas(timedelta(days=-9), timedelta(days=9)))
def test_no_retry_after_can_do_harm(value: str, shift: timedelta) -> None:
    wait = retry_after(value, NOW + shift)
    assert wait is None or 0 <= wait <= 86400
