"""The field map as users give it."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from mainspring import FieldMap, Scheduler
from mainspring.config.field_map import _MAINSPRINGS, make_field_map
from mainspring.errors import ConfigurationError
from mainspring.store import schema


def test_the_named_map_is_the_one_without_arguments() -> None:
    assert make_field_map("status-lock") == FieldMap()
    assert make_field_map(None) is None


def test_a_mapping_or_json_says_what_differs() -> None:
    wanted = FieldMap(name="type", running="busy", takeover=300.0)
    assert make_field_map({"name": "type", "running": "busy", "takeover": timedelta(minutes=5)}) == wanted
    assert make_field_map('{"name": "type", "running": "busy", "takeover": "5m"}') == wanted
    assert make_field_map(wanted) is wanted


def test_a_field_may_have_the_name_that_it_has_here_if_it_means_the_same() -> None:
    assert FieldMap(name="name", data="data", run_at="run_at").name == "name"


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("no-such-map", "no field map named 'no-such-map'"),
        (7, "must be 'status-lock', a mapping or a FieldMap"),
        ({"job": "x"}, "A field map has no 'job'."),
        ({"status": "state"}, "Mainspring uses that field itself"),
        ({"name": "data"}, "Mainspring uses that field itself"),
        ({"status": "a.b"}, "the name of a top-level field"),
        ({"status": "$x"}, "the name of a top-level field"),
        ({"status": None}, "the name of a top-level field"),
        ({"name": "status"}, "a different field for each role"),
        ({"running": "pending"}, "a different word for each state"),
        ({"running": ""}, "must be a text"),
        ({"tags": "scheduler_id"}, "tags of a field map"),
        ({"takeover": 0}, "takeover of a field map"),
    ],
)
def test_what_is_wrong_is_refused_saying_what(wrong: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(why)):
        make_field_map(wrong)


def test_configure_keeps_the_map_and_can_set_it() -> None:
    scheduler = Scheduler(field_map={"name": "type"})
    assert scheduler.configure(concurrency=2).settings.field_map == FieldMap(name="type")
    assert Scheduler().configure(field_map="status-lock").settings.field_map == FieldMap()


def test_the_fields_that_no_map_may_use_are_those_of_a_job() -> None:
    dictionary = (schema.__doc__ or "").partition("## jobs.signals")[0]
    rows = re.findall(r"^\| ([a-z_, ]+?) +\|", dictionary, re.M)
    assert {name for row in rows for name in row.split(", ")} - {"field", ""} == set(_MAINSPRINGS)
