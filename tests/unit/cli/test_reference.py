"""The reference of the commands is that of the code, and the documentation names no command that does not exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

from harness.pages import ROOT, blocks, inline_code, pages
from mainspring.cli.app import app
from mainspring.cli.generate_reference import page

REFERENCE = ROOT / "docs" / "reference" / "cli.md"
LONG_RUNNING = {"up", "serve", "worker", "mcp"}
TELLS_BY_ITS_EXIT_CODE = {"probe"}
ROOTS: Any = typer.main.get_command(app)


def all_commands() -> dict[str, Any]:
    """Every command by its words."""
    found: dict[str, Any] = {}
    for name, command in ROOTS.commands.items():
        below = getattr(command, "commands", None)
        found |= {name: command} if not below else {f"{name} {verb}": one for verb, one in below.items()}
    return found


def test_the_reference_is_that_of_the_code() -> None:
    assert REFERENCE.read_text("utf-8") == page(), "run: make docs"


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_rows_of_a_table_are_lines_of_their_own(path: Path) -> None:
    joined = [line for line in path.read_text("utf-8").splitlines() if re.search(r"\S +\|---\|", line)]
    assert joined == []


def test_every_command_that_ends_by_itself_prints_json() -> None:
    lacking = {
        name
        for name, command in all_commands().items()
        if name not in LONG_RUNNING | TELLS_BY_ITS_EXIT_CODE
        and "--json" not in {option for one in command.params for option in one.opts}
    }
    assert lacking == set()


def test_every_command_and_every_option_has_a_help_text() -> None:
    for name, command in all_commands().items():
        assert command.help, name
        assert [one.name for one in command.params if not one.help and one.name != "help"] == [], name


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_commands_that_a_page_names_exist(path: Path) -> None:
    code = [*inline_code(path), *(block.text for block in blocks(path) if block.language in ("", "sh", "console"))]
    groups = {name for name, command in ROOTS.commands.items() if getattr(command, "commands", None)}
    for text in code:
        for name, verb in re.findall(r"(?:^|[ \n$(])mainspring ([a-z][a-z-]+)(?: ([a-z][a-z-]+))?", text):
            assert name in ROOTS.commands, text
            if name in groups and verb:
                assert verb in ROOTS.commands[name].commands, text
