"""The options of `jobs add` and `schedules add` say all that `POST /api/jobs` takes."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from mainspring.api.wire.job_requests import Creation, Repeat
from mainspring.cli.operate.body import ONE_JOB, POLICIES, RULE, WORK, make_body, read_json

FIELDS = (*WORK, *ONE_JOB, *RULE, *POLICIES)
SAID_OTHERWISE = {
    *("name", "id"),  # an argument, and --id
    *("schedule", "every", "timezone"),  # the rule is always in `repeat`
    *("repeat", "enabled"),  # --paused
}


def test_every_field_has_an_option() -> None:
    named = {field.name for field in FIELDS}
    fields = {field.alias or name for name, field in Creation.model_fields.items()}
    assert fields - named - SAID_OTHERWISE == set()
    assert {f"repeat.{field.alias or name}" for name, field in Repeat.model_fields.items()} - named == set()


def test_no_option_is_there_twice_and_none_has_no_field() -> None:
    options = [option for field in FIELDS for option in field.options]
    assert len(options) == len(set(options))
    fields = {field.alias or name for name, field in Creation.model_fields.items()}
    assert {field.name.partition(".")[0] for field in FIELDS} - fields == {""}


def test_a_body_is_made_of_the_options_that_are_given() -> None:
    given = dict.fromkeys(FIELDS) | {
        field: {"--cron": "0 9 * * *", "--tag": ["a"], "--set": ["repeat.after=end", "x=[1]", "y=text"]}[option]
        for field in FIELDS
        for option in field.options
        if option in ("--cron", "--tag", "--set")
    }
    assert make_body(given) == {
        "repeat": {"cron": "0 9 * * *", "after": "end"},
        "tags": ["a"],
        "x": [1],
        "y": "text",
    }


def test_json_is_read_from_a_file_and_from_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data.json").write_text('{"a": 1}')
    assert read_json(f"@{tmp_path / 'data.json'}", "--data") == {"a": 1}
    monkeypatch.setattr(sys, "stdin", io.StringIO("[2]"))
    assert read_json("-", "--data") == [2]
