"""The output of commands: safe, plain in a pipe, and with times that a person reads."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from rich.text import Text

from mainspring.cli import doctor
from mainspring.cli.operate import tail
from mainspring.cli.operate.job_view import note_of
from mainspring.cli.terminal import output, times
from mainspring.cli.terminal.output import (
    cell,
    fitting,
    print_fields,
    print_items,
    print_json,
    print_sentence,
    table_lines,
)
from mainspring.cli.terminal.progress import progress_text
from mainspring.errors import ConfigurationError
from mainspring.model.doctor.findings import DoctorReport, Finding

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(times, "now", lambda: NOW)


def test_texts_of_jobs_cannot_reach_the_terminal_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b[2J\u202e\x07\r\n"
    print_items([hostile], {"A": lambda one: one, "B": lambda one: [one], "C": lambda one: {"x": one}})
    print_fields([("a", hostile), ("b", {"x": hostile})])
    print_json({"x": hostile})
    printed = capsys.readouterr().out
    assert all(character.isprintable() or character == "\n" for character in printed)
    assert printed.count("\n") == 6  # two lines of the table, three of the fields, and the JSON


def test_a_table_is_as_wide_as_it_must_be_in_a_pipe_and_fits_a_terminal() -> None:
    rows = [["1", "éé " * 10], ["22", "文字 " * 3]]
    assert [line.plain for line in table_lines(["A", "B"], rows, None)] == [
        "A   B",
        "1   éé éé éé éé éé éé éé éé éé éé",
        "22  文字 文字 文字",
    ]
    assert [line.plain for line in table_lines(["A", "B"], rows, 14)] == ["A   B", "1   éé éé éé…", "22  文字 文字…"]


def test_cells_say_what_is_missing() -> None:
    assert [cell(value) for value in (None, "", True, 12345, ["a", "b"], [])] == [
        "-",
        "-",
        "yes",
        "12,345",
        "a, b",
        "-",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "now"), (-5, "5.0s ago"), (-75, "1m15s ago"), (3600 * 3 + 61, "in 3h1m"), (-86400 * 3, "3d ago")],
)
def test_an_instant_is_told_by_its_distance(seconds: float, text: str) -> None:
    assert times.ago((NOW + timedelta(seconds=seconds)).isoformat()) == text


def test_an_instant_is_given_with_its_zone_or_as_a_time_ago() -> None:
    assert times.past_instant("90m", "--since") == "2030-01-01T10:30:00.000Z"
    assert times.past_instant("2030-01-01T00:00+02:00", "--since") == "2029-12-31T22:00:00.000Z"
    assert times.past_instant(None, "--since") is None
    for wrong in ("2030-01-01", "yesterday", "5x", ""):
        with pytest.raises(ConfigurationError, match="--since"):
            times.past_instant(wrong, "--since")
    with pytest.raises(ConfigurationError, match="or a time ago such as 1h, not 'yesterday'"):
        times.past_instant("yesterday", "--since")


def test_the_time_that_is_left_is_estimated() -> None:
    assert progress_text(25, 100, 10) == "25 of 100 (25 %), about 30s left"
    assert progress_text(0, 100, 10) == "0 of 100 (0 %)"
    assert progress_text(7, None, 10) == "7 so far"


def test_a_table_leaves_its_spare_columns_out_where_the_terminal_is_too_narrow_for_a_row() -> None:
    columns = dict.fromkeys(("QUEUE", "DUE", "SLOTS", "PER MINUTE", "STATE"), str)
    spare = ("SLOTS", "PER MINUTE")
    assert list(fitting(["mail"], columns, spare, None)) == list(columns), "in a pipe"
    assert list(fitting(["mail"], columns, spare, 80)) == list(columns)
    assert list(fitting(["mail"], columns, spare, 30)) == ["QUEUE", "DUE", "SLOTS", "STATE"]
    assert list(fitting(["mail"], columns, spare, 10)) == ["QUEUE", "DUE", "STATE"]


def test_the_last_column_has_room_for_a_few_words_before_the_spare_ones_have_any() -> None:
    columns = {"ID": lambda one: "a" * 24, "QUEUE": lambda one: "default", "NOTE": lambda one: "some words " * 9}
    assert list(fitting([1], columns, ["QUEUE"], 47)) == ["ID", "QUEUE", "NOTE"]
    assert list(fitting([1], columns, ["QUEUE"], 46)) == ["ID", "NOTE"]


def test_columns_that_are_empty_in_every_row_are_left_out_before_the_spare_ones() -> None:
    columns = {"ID": lambda one: one, "LATE": lambda one: "38s", "REASON": lambda one: None}
    ids = ["a" * 20, "b" * 20]
    assert list(fitting(ids, columns, ["LATE"], 34)) == list(columns)
    assert list(fitting(ids, columns, ["LATE"], 33)) == ["ID", "LATE"]
    assert list(fitting(ids, columns, ["LATE"], 25)) == ["ID"]


def test_rows_that_do_not_fit_are_broken_between_columns_and_never_within_an_id() -> None:
    long = "6afe0e8acd437a1b4211cefe.~1c83f2655af6402c.items.00000032"
    rows = [
        [long, "render-page", "completed", "a note " * 20],
        ["6afe0e89cd437a1b4211ce76", "send-email", "pending", "-"],
    ]
    lines = [line.plain for line in table_lines(["ID", "NAME", "STATE", "NOTE"], rows, 80)]
    assert lines[0].split() == ["ID", "NAME"] and lines[1].split() == ["STATE", "NOTE"]
    assert lines[2] == f"{long}  render-page"
    assert lines[3].startswith("  completed  a note a note") and lines[3].endswith("…")
    assert lines[5] == "  pending    -"
    assert max(map(len, lines)) <= 80
    assert lines[0].index("NAME") == lines[2].index("render") and lines[1].index("NOTE") == lines[3].index("a note")


def test_an_id_in_the_last_column_is_not_cut() -> None:
    row = ["2026-11-18T20:48:14.466Z", "schedule.trigger", "6afe0f0e58b2849cc5556484"]
    wide, narrow = (table_lines(["AT", "ACTION", "TARGET"], [row], width) for width in (68, 67))
    assert [line.plain for line in wide][1].split() == row
    assert [line.plain.split() for line in narrow][2:] == [row[:2], row[2:]]


def test_sentences_are_broken_between_words_at_a_terminal_and_json_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = "https://example.com/" + "a" * 40
    fields = [("error", f"{'word ' * 12}{url}\n  second"), ("data", {"to": "word " * 12})]
    monkeypatch.setattr(output, "terminal_width", lambda: 50)
    print_fields(fields)
    print_sentence(Text("! " + "word " * 12))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"error  {'word ' * 8}".rstrip() and lines[1] == f"       {'word ' * 4}".rstrip()
    assert lines[2].strip() == url and lines[3] == "         second"
    assert lines[4].startswith('data   {"to"') and lines[4].endswith('"}')
    assert lines[5:] == [f"! {'word ' * 9}".rstrip(), "word word word"]
    monkeypatch.setattr(output, "terminal_width", lambda: None)
    print_fields(fields)
    print_sentence(Text("! " + "word " * 12))
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_a_completed_job_has_no_progress_in_lists_and_in_tail() -> None:
    job = {"progress": {"percent": 75, "note": "drawing"}, "error": None, "waitingFor": None}
    assert note_of({**job, "state": "running"}) == "75 % drawing"
    assert note_of({**job, "state": "completed"}) is None
    assert tail._line("job", {"change": "progress", "progress": 75.0}).plain.endswith("75 %")
    assert "%" not in tail._line("job", {"change": "completed", "progress": 75.0}).plain


def test_a_line_of_tail_leaves_the_day_out_where_it_would_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    event = {"at": "2026-11-18T21:08:16.954Z", "change": "completed", "name": "send-email", "id": "a" * 24}
    event["queue"] = "default"
    for width, start in ((80, "21:08:16  completed"), (120, event["at"]), (None, event["at"])):
        monkeypatch.setattr(tail, "terminal_width", lambda width=width: width)
        line = tail._line("job", event).plain
        assert line.startswith(start) and line.endswith("default") and event["id"] in line
        assert len(line) <= (width or 120)


def test_the_doctor_breaks_its_lines_at_the_width_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = DoctorReport(NOW, (Finding("oplog", "warning", "word " * 60, "cure " * 60),))
    for width, longest in ((80, 80), (None, 122), (20, 52)):
        monkeypatch.setattr(doctor, "terminal_width", lambda width=width: width)
        doctor._print(report)
        lines = capsys.readouterr().out.splitlines()
        assert longest - 8 <= max(map(len, lines)) <= longest


def test_a_sentence_is_behind_the_table_in_a_pipe_that_gets_both() -> None:
    program = "from mainspring.cli.support.exit_codes import say; print('table'); say('There may be more.')"
    buffered = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=buffered, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True
    )
    assert done.stdout.decode().split("\n") == ["table", "mainspring: There may be more.", ""]
