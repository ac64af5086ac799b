"""What all rules have in common: documents, pickles, comparison, and that they never change."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from typing import Any

import bson
import pytest

from mainspring import AnyOf, At, Calendar, Cron, Every, Except, InvalidSchedule, RRule, Rule
from mainspring.rules import rule_from_document
from unit.rules.agreement import utc

START = utc("2026-01-01T09:30")
RULES: list[tuple[Rule, dict[str, Any]]] = [
    (
        Cron("0 9 * * MON-FRI", "Asia/Kolkata"),
        {"kind": "cron", "expression": "0 9 * * MON-FRI", "timezone": "Asia/Kolkata", "gap": "after", "fold": "first"},
    ),
    (Every("1h30m"), {"kind": "every", "period": "1h30m"}),
    (Every(90, after="end"), {"kind": "every", "period": "1m30s", "after": "end"}),
    (
        Every("250ms", anchor=START.replace(microsecond=5000)),
        {"kind": "every", "period": "250ms", "anchor": "2026-01-01T09:30:00.005Z"},
    ),
    (At([START]), {"kind": "at", "instants": ["2026-01-01T09:30:00Z"]}),
    (
        RRule("FREQ=DAILY;COUNT=5", "Europe/Berlin", start=START, gap="skip", fold="both"),
        {
            "kind": "rrule",
            "rule": "FREQ=DAILY;COUNT=5",
            "timezone": "Europe/Berlin",
            "gap": "skip",
            "fold": "both",
            "start": "2026-01-01T09:30:00Z",
        },
    ),
    (
        RRule("FREQ=DAILY"),
        {"kind": "rrule", "rule": "FREQ=DAILY", "timezone": "UTC", "gap": "after", "fold": "first"},
    ),
    (
        AnyOf(Every("5m"), Every("7m")),
        {"kind": "any", "rules": [{"kind": "every", "period": "5m"}, {"kind": "every", "period": "7m"}]},
    ),
    (
        Except(Every("5m"), "holidays", "weekend", then="next", timezone="Asia/Kolkata"),
        {
            "kind": "except",
            "rule": {"kind": "every", "period": "5m"},
            "calendars": ["holidays", "weekend"],
            "then": "next",
            "timezone": "Asia/Kolkata",
        },
    ),
]
IDS = [repr(rule) for rule, _ in RULES]


@pytest.mark.parametrize(("rule", "document"), RULES, ids=IDS)
def test_a_rule_is_stored_as_plain_data_and_comes_back_the_same(rule: Rule, document: dict[str, Any]) -> None:
    assert rule.to_document() == document
    assert rule_from_document(document) == rule
    assert rule_from_document(json.loads(json.dumps(document))) == rule
    assert rule_from_document(bson.decode(bson.encode(document))) == rule


@pytest.mark.parametrize(("rule", "document"), RULES, ids=IDS)
def test_a_rule_can_be_hashed_compared_pickled_and_shown(rule: Rule, document: dict[str, Any]) -> None:
    again = rule_from_document(document)
    assert hash(again) == hash(rule)
    assert {rule: 1}[again] == 1
    assert pickle.loads(pickle.dumps(rule)) == rule
    assert all(rule != other for other, _ in RULES if other is not rule)
    assert type(rule).__name__ in repr(rule)
    assert rule.describe()


@pytest.mark.parametrize(("rule", "document"), RULES, ids=IDS)
def test_a_rule_never_changes(rule: Rule, document: dict[str, Any]) -> None:
    for name in ("rule", "anchor", "_key", "anything"):
        with pytest.raises(AttributeError):
            setattr(rule, name, 5)


@pytest.mark.parametrize(("rule", "document"), RULES, ids=IDS)
def test_every_rule_has_the_whole_interface(rule: Rule, document: dict[str, Any]) -> None:
    assert isinstance(rule, Rule)
    bound = rule.bind("x", {name: Calendar() for name in rule.calendars})
    assert bound.notes(START) == ()
    assert list(bound.skipped(START, START)) == []
    assert list(bound.between(START, START)) == []
    assert bound.count(START, START) == 0
    assert bound.count(START, utc("2025-01-01")) == 0
    assert all(isinstance(zone, str) for zone in rule.zones)


def test_a_bound_rule_is_stored_as_the_one_it_was_made_of() -> None:
    rule = Except(Every("5m"), "holidays")
    bound = rule.bind("x", {"holidays": Calendar(["2026-01-01"])})
    assert bound.to_document() == rule.to_document()
    assert bound != rule
    assert pickle.loads(pickle.dumps(bound)) == bound
    assert Every("5m").bind("x", {}) == Every("5m")


def test_an_instant_may_also_be_a_date_of_the_database() -> None:
    stored: dict[str, Any] = bson.decode(
        bson.encode({"kind": "every", "period": "5m", "anchor": START}), bson.CodecOptions(tz_aware=True, tzinfo=UTC)
    )
    assert rule_from_document(stored) == Every("5m", anchor=START)


def deep(levels: int) -> dict[str, Any]:
    document: dict[str, Any] = {"kind": "cron", "expression": "0 9 * * *"}
    for _ in range(levels):
        document = {"kind": "except", "rule": document, "calendars": ["a"]}
    return document


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        (None, 'a document with a "kind"'),
        ("0 9 * * *", 'a document with a "kind"'),
        ({}, "None is not a kind of rule; known are cron, every, at, rrule, any, except"),
        ({"kind": "lunar"}, "'lunar' is not a kind of rule.*upgrade this one"),
        ({"kind": ["cron"]}, "is not a kind of rule"),
        ({"kind": "cron"}, 'needs an "expression"'),
        ({"kind": "every"}, "period must be a duration"),
        ({"kind": "every", "period": "5m", "anchor": "soon"}, "anchor must be an instant such as"),
        ({"kind": "every", "period": "5m", "anchor": datetime(2026, 1, 1)}, "has no time zone"),
        ({"kind": "every", "period": "5m", "after": ["end"]}, '"start" or "end"'),
        ({"kind": "at"}, 'needs a list of at most 10,000 "instants"'),
        ({"kind": "at", "instants": "soon"}, 'needs a list of at most 10,000 "instants"'),
        ({"kind": "at", "instants": [5]}, "instant 0 must be an aware datetime"),
        ({"kind": "rrule"}, "takes a text such as"),
        ({"kind": "rrule", "rule": "FREQ=DAILY", "timezone": 5}, "timezone must be an IANA name"),
        ({"kind": "any"}, 'needs a list of at most 32 "rules"'),
        ({"kind": "any", "rules": [5]}, 'a document with a "kind"'),
        ({"kind": "except", "calendars": ["a"]}, 'needs a "rule" and a list of "calendars"'),
        ({"kind": "except", "rule": {"kind": "every", "period": "5m"}}, 'needs a "rule" and a list'),
        ({"kind": "except", "rule": {"kind": "every", "period": "5m"}, "calendars": [5]}, "a calendar's name must be"),
        (deep(5), "4 levels deep"),
        (deep(5000), "4 levels deep"),
    ],
)
def test_what_is_no_rule_is_refused(document: Any, complaint: str) -> None:
    with pytest.raises(InvalidSchedule, match=complaint):
        rule_from_document(document)


def test_four_levels_are_read() -> None:
    assert rule_from_document(deep(4)).calendars == ("a",)
