"""Expressions in English."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from mainspring.rules.cron import Cron
from unit.rules.cron import writing
from unit.rules.cron.comparing import make


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("*/7 * * * *", "every 7 minutes from the start of each hour"),
        ("* * * * * *", "every second"),
        ("*/30 * * * * *", "every 30 seconds"),
        ("0 9 * * *", "at 09:00, every day"),
        ("0 0 9 * * *", "at 09:00, every day"),
        ("30 0 9 * * *", "at 09:00:30, every day"),
        ("0,30 9 * * *", "at 09:00 and 09:30, every day"),
        ("0 9,12,17 * * *", "at 09:00, 12:00 and 17:00, every day"),
        ("0 */12 * * *", "at 00:00 and 12:00, every day"),
        ("0 9 * * MON-FRI", "at 09:00, Monday to Friday"),
        ("0 9 * * 1,3,5", "at 09:00, on Monday, Wednesday and Friday"),
        ("0 9 * * FRI-MON", "at 09:00, Friday to Monday"),
        ("0 9 * * */2", "at 09:00, on Sunday, Tuesday, Thursday and Saturday"),
        ("0 9 * * L", "at 09:00, on Saturday"),
        ("0 9 1,15 * *", "at 09:00, on days 1 and 15 of the month"),
        ("0 9 1-7 * *", "at 09:00, on days 1 to 7 of the month"),
        ("0 9 */2 * *", "at 09:00, on every 2nd day of the month"),
        ("0 9 L * *", "at 09:00, on the last day of the month"),
        ("0 9 L-3 * *", "at 09:00, on the 3rd day before the last of the month"),
        ("0 9 LW * ?", "at 09:00, on the last workday (Monday to Friday) of the month"),
        ("0 9 15W * ?", "at 09:00, on the workday (Monday to Friday) nearest to day 15 of the month"),
        ("0 9 1,L * ?", "at 09:00, on day 1 and the last day of the month"),
        ("0 9 ? * FRIL", "at 09:00, on the last Friday of the month"),
        ("0 9 ? * MON#2", "at 09:00, on the 2nd Monday of the month"),
        ("0 9 ? * 3,5L", "at 09:00, on Wednesday and the last Friday of the month"),
        ("0 9 13 * FRI", "at 09:00, on day 13 of the month or on Friday"),
        ("0 9 */2 * MON", "at 09:00, on every 2nd day of the month if it is Monday"),
        ("0 9 13 * */5", "at 09:00, on day 13 of the month if it is Sunday or Friday"),
        ("0 9 1 JAN *", "at 09:00, on day 1 of the month, in January"),
        ("0 9 * NOV-FEB *", "at 09:00, every day, in November to February"),
        ("0 9 ? */3 ?", "at 09:00, every day, in January, April, July and October"),
        ("5 * * * *", "at minute 5 of every hour"),
        ("5/15 * * * *", "at minutes 5, 20, 35 and 50 of every hour"),
        ("0-30/2 * * * *", "every 2 minutes from minute 0 to 30"),
        ("1,10-20 * * * *", "at minutes 1 and 10 to 20 of every hour"),
        ("0 */2 * * *", "at minute 0 of every 2nd hour"),
        ("*/15 9-17 * * *", "every 15 minutes of hours 9 to 17"),
        ("* 9 * * *", "every minute of hour 9"),
        ("*/10 5 * * * *", "every 10 seconds of minute 5 of every hour"),
        ("5 */10 8-18 * * *", "at second 5 of every 10th minute of hours 8 to 18"),
        ("15 * * * * *", "at second 15 of every minute"),
        ("* * 9 * * *", "every second of hour 9"),
        ("@daily", "at 00:00, every day"),
        ("@hourly", "at minute 0 of every hour"),
        ("@weekly", "at 00:00, on Sunday"),
    ],
)
def test_an_expression_reads_as(expression: str, expected: str) -> None:
    assert Cron(expression).describe() == f"{expected}, in UTC"


def test_the_zone_is_named() -> None:
    assert Cron("0 9 * * 1-5", "Asia/Kolkata").describe() == "at 09:00, Monday to Friday, in Asia/Kolkata"


def test_h_is_explained_until_it_is_known() -> None:
    assert Cron("H H * * *").describe() == "at minute H of hour H, in UTC (H is chosen by the schedule's id)"
    assert Cron("H H * * *", seed="daily-report").describe() == "at 21:55, every day, in UTC"
    assert Cron("H/15 * * * *").describe().startswith("every 15 minutes from minute H, in UTC")
    assert (
        Cron("H(0-29) H(8-17)/3 * * *")
        .describe()
        .startswith("at minute H (within 0 to 29) of every 3rd hour from H (within 8 to 17), in UTC")
    )
    assert Cron("0 0 H * *").describe().startswith("at 00:00, on day H of the month, in UTC")
    assert "(H is" not in Cron("H/15 * * * *", seed="x").describe()


@settings(max_examples=300, deadline=None)
@given(writing.expressions)
@pytest.mark.slow
def test_everything_can_be_described(expression: str) -> None:
    text = make(expression, "UTC", "after", "first").describe()
    assert text.endswith(", in UTC")
    assert "  " not in text
    assert ",," not in text
    assert len(text) < 1500
