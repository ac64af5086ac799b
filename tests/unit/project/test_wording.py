"""The wording of documentation and code: sentences name their actors, in the terms of docs/explain/glossary.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.pages import ROOT, pages

SOURCE = ROOT / "src" / "mainspring"
# A capital Who begins a sentence, and stands for the worker, the job, the caller or the request that it should name.
VAGUE = re.compile(r"\b(?:(?i:whoever|somebody|nobody)|Who)\b")
# Generated from texts in src.
NOT_EDITED = ("docs/reference/api.md", "docs/reference/modules.md")


def vague(page: Path) -> list[str]:
    """The lines of a page that have a vague subject."""
    lines = page.read_text("utf-8").splitlines()
    return [f"{number}: {line.strip()}" for number, line in enumerate(lines, start=1) if VAGUE.search(line)]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_the_actors(page: Path) -> None:
    assert str(page.relative_to(ROOT)) in NOT_EDITED or vague(page) == []


def test_the_code_names_the_actors() -> None:
    modules = {str(module.relative_to(SOURCE)): vague(module) for module in sorted(SOURCE.rglob("*.py"))}
    assert {name: lines for name, lines in modules.items() if lines} == {}
