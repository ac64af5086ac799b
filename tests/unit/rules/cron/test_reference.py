"""The page about cron expressions says what is so."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from harness.pages import ROOT, blocks
from mainspring.errors import InvalidCron
from mainspring.rules.cron import Cron

PAGE = ROOT / "docs" / "reference" / "cron.md"
TEXT = PAGE.read_text("utf-8")


def section(title: str) -> str:
    return TEXT.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_each_example_is_described_as_the_page_says() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| (.+) \|$", section("Examples"), re.M)
    assert len(rows) > 10
    for expression, described in rows:
        assert Cron(expression).describe() == f"{described}, in UTC"


def test_each_expression_on_the_page_is_one() -> None:
    field = r"[\w*/,\-?#()]+"
    found = re.findall(rf"`({field}(?: {field}){{4,5}})`", TEXT)
    assert len(found) > 50
    refused = []
    for expression in found:
        try:
            Cron(expression)
        except InvalidCron:
            refused.append(expression)
    assert refused == ["0 0 30 2 *"]


def test_each_macro_of_the_page_stands_for_what_it_says() -> None:
    rows = re.findall(r"^\| (`@.+`) \| `([^`]+)` \|$", TEXT, re.M)
    assert len(rows) == 5
    now = datetime(2026, 5, 5, 5, 5, tzinfo=UTC)
    for macros, expression in rows:
        for macro in re.findall(r"@\w+", macros):
            assert Cron(macro).next(now) == Cron(expression).next(now)


def test_the_error_on_the_page_is_the_one_that_is_raised() -> None:
    shown = next(block.text for block in blocks(PAGE) if block.language == "text")
    with pytest.raises(InvalidCron) as caught:
        Cron("0 24 * * *")
    assert str(caught.value) == shown.rstrip("\n")


@pytest.mark.parametrize(
    ("expression", "options", "march", "october"),
    [
        ("30 2 * * *", {}, "03:00+02", "02:30+02"),
        ("30 2 * * *", {"gap": "skip"}, "", "02:30+02"),
        ("30 2 * * *", {"fold": "last"}, "03:00+02", "02:30+01"),
        ("30 2 * * *", {"fold": "both"}, "03:00+02", "02:30+02 02:30+01"),
        ("0,30 2,3 * * *", {}, "03:00+02 03:30+02", "02:00+02 02:30+02 03:00+01 03:30+01"),
        ("0 */2 * * *", {}, "00:00+01 04:00+02", "00:00+02 02:00+02 02:00+01 04:00+01"),
        ("*/30 2 * * *", {}, "", "02:00+02 02:30+02 02:00+01 02:30+01"),
    ],
)
def test_the_table_of_the_two_nights_is_right(
    expression: str, options: dict[str, str], march: str, october: str
) -> None:
    cron = Cron(expression, "Europe/Berlin", **options)  # type: ignore[arg-type]
    nights = (
        (datetime(2026, 3, 28, 23, tzinfo=UTC), datetime(2026, 3, 29, 3, tzinfo=UTC), march),
        (datetime(2026, 10, 24, 22, tzinfo=UTC), datetime(2026, 10, 25, 4, tzinfo=UTC), october),
    )
    for start, end, expected in nights:
        shown = [found.isoformat() for found in cron.between(start, end)]
        assert [text[11:16] + text[19:22] for text in shown] == expected.split()
    row = f"| `{expression}` |"
    assert row in section("When clocks change")
