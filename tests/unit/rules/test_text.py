"""A rule as a short text, and its zone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mainspring import At, Cron, Every, Except, RRule, Rule
from mainspring.rules.text import rule_text, rule_zone
from mainspring.rules.unreadable import UnreadableRule

T0 = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("rule", "text", "zone"),
    [
        (Cron("0 9 * * mon-fri", "Europe/Paris"), "0 9 * * MON-FRI", "Europe/Paris"),
        (RRule("FREQ=DAILY;BYHOUR=9", "Asia/Tokyo", start=T0), "FREQ=DAILY;BYHOUR=9", "Asia/Tokyo"),
        (Every("90s"), "every 1m30s", None),
        (Every("5m", after="end"), "5m after the end", None),
        (At([T0]), "at 2030-01-01T00:00:00Z", None),
        (At([T0, T0.replace(day=2), T0.replace(day=3)]), "at 2030-01-01T00:00:00Z and 2 more", None),
        (Cron("0 9 * * *") | Every("1h", anchor=T0), "0 9 * * * or every 1h", "UTC"),
        (Except(Cron("0 9 * * *"), "holidays"), "0 9 * * * except holidays", "UTC"),
        (UnreadableRule("?", "why"), "", None),
    ],
    ids=str,
)
def test_a_rule_is_shown_as_its_author_wrote_it(rule: Rule, text: str, zone: str | None) -> None:
    assert (rule_text(rule), rule_zone(rule)) == (text, zone)
