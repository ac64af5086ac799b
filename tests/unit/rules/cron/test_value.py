"""A Cron as a value: compared by meaning, kept as plain data, bound to a schedule, never changed."""

from __future__ import annotations

import copy
import json
import pickle
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.errors import InvalidCron, InvalidSchedule
from mainspring.rules.cron import Cron
from unit.rules.cron import writing
from unit.rules.cron.comparing import make

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_equal_means_the_same_but_for_spaces_and_capitals() -> None:
    assert Cron("0  9 * * mon-fri", "Europe/Berlin") == Cron("0 9 * * MON-FRI", ZoneInfo("Europe/Berlin"))
    assert hash(Cron("0  9 * * mon-fri")) == hash(Cron("0 9 * * MON-FRI"))
    assert Cron("@DAILY") == Cron("@daily")
    assert Cron("0 9 * * *", UTC) == Cron("0 9 * * *")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "other",
    [
        Cron("1 9 * * *"),
        Cron("0 9 * * *", "Europe/London"),
        Cron("0 9 * * *", gap="skip"),
        Cron("0 9 * * *", fold="last"),
        Cron("0 9 * * *", seed="x"),
        "0 9 * * *",
        None,
    ],
)
def test_what_differs_is_not_equal(other: object) -> None:
    assert Cron("0 9 * * *") != other


def test_its_parts_can_be_read() -> None:
    cron = Cron(" 0 9 * * mon ", "Europe/Berlin", gap="skip", fold="last", seed="x")
    assert cron.expression == "0 9 * * MON"
    assert (cron.timezone, cron.gap, cron.fold, cron.seed) == ("Europe/Berlin", "skip", "last", "x")
    assert (cron.zones, cron.calendars) == (("Europe/Berlin",), ())
    assert list(cron.skipped(NOW, NOW)) == []


def test_it_never_changes() -> None:
    cron = Cron("0 9 * * *")
    for name in ("expression", "timezone", "_key", "other"):
        with pytest.raises(AttributeError):
            setattr(cron, name, "x")
    with pytest.raises(AttributeError):
        del cron._key


@settings(max_examples=100, deadline=None)
@given(writing.expressions, writing.GAPS, writing.FOLDS, st.one_of(st.none(), st.text(max_size=20)))
def test_it_survives_being_shown_stored_copied_and_pickled(
    expression: str, gap: Any, fold: Any, seed: str | None
) -> None:
    make(expression, "UTC", gap, fold)
    cron = Cron(expression, "Europe/Berlin", gap=gap, fold=fold, seed=seed)
    assert eval(repr(cron), {"Cron": Cron}) == cron
    assert Cron.from_document(json.loads(json.dumps(cron.to_document()))) == cron
    assert pickle.loads(pickle.dumps(cron)) == cron
    assert copy.deepcopy(cron) == cron
    assert copy.copy(cron).next(NOW) == cron.next(NOW)


def test_as_plain_data_it_is_complete() -> None:
    assert Cron("0 9 * * mon", "Europe/Berlin").to_document() == {
        "kind": "cron",
        "expression": "0 9 * * MON",
        "timezone": "Europe/Berlin",
        "gap": "after",
        "fold": "first",
    }
    assert Cron("H * * * *", seed="a").to_document()["seed"] == "a"


def test_plain_data_may_lack_what_has_a_default() -> None:
    assert Cron.from_document({"kind": "cron", "expression": "0 9 * * *", "colour": "red"}) == Cron("0 9 * * *")


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"expression": None},
        {"expression": 5},
        {"expression": "0 25 * * *"},
        {"expression": "* * * * *", "timezone": 5},
        {"expression": "* * * * *", "timezone": "Nowhere/Land"},
        {"expression": "* * * * *", "gap": "?"},
        {"expression": "* * * * *", "fold": []},
        {"expression": "* * * * *", "seed": {}},
    ],
)
def test_plain_data_that_is_none_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchedule):
        Cron.from_document({"kind": "cron", **document})


def test_a_rule_is_shown_as_it_would_be_written() -> None:
    assert repr(Cron("0 9 * * mon")) == "Cron('0 9 * * MON')"
    assert repr(Cron("H * * * *", "Asia/Tokyo", gap="skip", fold="both", seed="a'b")) == (
        "Cron('H * * * *', 'Asia/Tokyo', gap='skip', fold='both', seed=\"a'b\")"
    )


def test_binding_gives_h_the_schedules_id() -> None:
    cron = Cron("H H * * *", "Asia/Tokyo", fold="last")
    bound = cron.bind("daily-report", {})
    assert bound == Cron("H H * * *", "Asia/Tokyo", fold="last", seed="daily-report")
    assert bound.bind("other", {}) is bound
    assert bound.next(NOW) != cron.bind("other", {}).next(NOW)


def test_binding_changes_nothing_where_there_is_no_h() -> None:
    cron = Cron("0 9 * * THU")
    assert cron.bind("daily-report", {}) is cron


def test_a_rule_of_a_kind_of_its_own_stays_of_that_kind() -> None:
    class Special(Cron):
        __slots__ = ()

    cron = Special("H * * * *")
    assert type(cron.bind("x", {})) is Special
    assert type(Special.from_document(cron.to_document())) is Special
    assert type(copy.copy(cron)) is Special
    assert repr(cron) == "Special('H * * * *')"


def test_a_refusal_tells_the_text_as_it_was_given() -> None:
    with pytest.raises(InvalidCron) as caught:
        Cron("  0 24 * * *")
    assert (caught.value.expression, caught.value.position) == ("  0 24 * * *", 4)
