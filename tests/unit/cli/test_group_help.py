"""The help of a group of commands at a terminal is broken where the terminal ends, not where the code is broken."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from mainspring.cli.app import app


@pytest.fixture(autouse=True)
def at_a_terminal() -> Iterator[None]:
    before = app.rich_markup_mode
    app.rich_markup_mode = "rich"
    yield
    app.rich_markup_mode = before


@pytest.mark.parametrize("group", [[], ["alerts"], ["audit"], ["secrets"]])
def test_the_sentences_about_commands_have_no_line_breaks_of_their_own(group: list[str]) -> None:
    told = CliRunner().invoke(app, [*group, "--help"], env={"COLUMNS": "400", "TERMINAL_WIDTH": "400"}).output
    panel = told[told.index("Commands") :].splitlines()[1:]
    lines = [line.strip("│ ") for line in panel if line.startswith("│")]
    names = [line.split()[0] for line in lines]
    assert len(lines) > 2 and "─ Commands" in told
    assert all(name.islower() and name.replace("-", "").isalpha() for name in names), lines
    assert all(line.endswith(".") for line in lines), lines
