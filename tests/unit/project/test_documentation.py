"""Facts in the documentation that can be compared with the code, and links that must lead somewhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from supply import modules

import mainspring
from harness.pages import ROOT, blocks, inline_code, pages
from mainspring import errors
from mainspring.config.settings import Settings
from mainspring.engine.chores.all_chores import CHORES
from mainspring.model.jobs.event_names import EVENTS
from mainspring.store import index_definitions, schema

SOURCE = ROOT / "src" / "mainspring"
REFERENCE = ROOT / "docs" / "reference"
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def text(page: Path) -> str:
    return page.read_text("utf-8")


def anchors(page: Path) -> set[str]:
    """The fragments that a page's headings can be reached by."""
    headings = re.findall(r"^#+ (.+)$", text(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(text(page)):
        if link.startswith("https://"):
            continue
        place, _, fragment = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        assert target.is_file(), link
        assert not fragment or fragment in anchors(target), link


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_python_on_a_page_is_python(page: Path) -> None:
    for block in blocks(page):
        if block.language == "python":
            compile(block.text, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_every_page_of_the_documentation_can_be_reached() -> None:
    reached = {
        (page.parent / link.partition("#")[0]).resolve() for page in pages() for link in _LINK.findall(text(page))
    }
    assert [str(page) for page in ROOT.glob("docs/**/*.md") if page not in reached] == []


def test_the_reference_has_every_setting_with_its_default() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", text(REFERENCE / "settings.md").partition("## Options")[0], re.M)
    assert dict(rows) == {
        name: f'"{field.default}"' if isinstance(field.default, str) else str(field.default)
        for name, field in Settings.__dataclass_fields__.items()
    }


def test_the_reference_has_every_event() -> None:
    rows = re.findall(r"^\| `([a-z]+:[a-z]+)` \|", text(REFERENCE / "events.md"), re.M)
    assert sorted(rows) == sorted(EVENTS)


def test_the_reference_has_every_error_and_signal() -> None:
    rows = re.findall(r"^\| `(\w+)(?:\([^`]*\))?` \|", text(REFERENCE / "errors.md").partition("## When")[0], re.M)
    roots = ("MainspringError", "Signal")
    public = [name for name in mainspring.__all__ if hasattr(errors, name) and name not in roots]
    assert sorted(rows) == sorted(public)


def test_the_reference_has_every_field_of_a_job() -> None:
    dictionary = (schema.__doc__ or "").partition("## jobs.keys")[0]
    fields = {
        name
        for row in re.findall(r"^\| ([a-z_, ]+?) +\|", dictionary, re.M)
        for name in row.split(", ")
        if name not in ("field", "")
    }
    assert len(fields) > 30
    assert fields - set(inline_code(REFERENCE / "documents.md")) == set()


def test_the_architecture_has_every_index_and_every_chore() -> None:
    architecture = text(ROOT / "ARCHITECTURE.md")
    indexes = {str(index.document["name"]): list(index.document["key"]) for index in index_definitions.JOB_INDEXES}
    described = dict(re.findall(r"^\| `(\w+)` \| ([\w., ]+) \| (?:[^|]+) \| (?:[^|]+) \|$", architecture, re.M))
    assert {name: ", ".join(keys) for name, keys in indexes.items()} == described
    chores = {chore.name for chore in CHORES}
    named = re.findall(r"^\| `(\w+)` \| [^|]+ \|$", architecture.partition("## Chores")[2], re.M)
    assert chores <= set(named)


def test_the_files_that_the_documentation_names_exist() -> None:
    missing = {
        f"{page.relative_to(ROOT)}: {code}"
        for page in pages()
        for code in inline_code(page)
        if re.fullmatch(r"(?:\w+/)+(?:\w+\.py)?|(?:examples|tests|docs)/[\w/.]+", code) and "verb_noun" not in code
        if not any((base / code).exists() for base in (ROOT, SOURCE))
    }
    assert missing == set()


def test_the_files_of_each_subject_are_in_the_folder_that_is_named_before_them() -> None:
    paragraphs = re.findall(r"^\*\*Files\.\*\*.*?(?=^$)", text(ROOT / "ARCHITECTURE.md"), re.M | re.S)
    assert len(paragraphs) > 8
    missing = []
    for paragraph in paragraphs:
        folder = ""
        for code in re.findall(r"`([\w/]+(?:/|\.py))`", paragraph):
            if code.endswith("/"):
                folder = code
            elif "/" not in code and not (SOURCE / folder / code).is_file():
                missing.append(folder + code)
    assert missing == []


def test_the_constants_that_the_documentation_quotes_have_these_values() -> None:
    quotes = [quote for page in pages() for quote in re.findall(r"`(\w+) = ([^`]+)`\s+in\s+`([\w/]+\.py)`", text(page))]
    assert len(quotes) > 5
    wrong = [quote for quote in quotes if ast.literal_eval(quote[1]) not in assigned(SOURCE / quote[2], quote[0])]
    assert wrong == []


def assigned(module: Path, name: str) -> list[Any]:
    """The literals that a module, or a class in it, assigns to a name."""
    values = []
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
            values += [node.value.value for target in targets if isinstance(target, ast.Name) and target.id == name]
    return values


@pytest.mark.slow
def test_the_generated_parts_have_every_module_and_every_import_between_packages() -> None:
    assert text(modules.PAGE) == modules.module_page(), "run: make docs"
    architecture = text(modules.ARCHITECTURE)
    assert modules.diagram() in architecture
    assert architecture == modules.with_diagram(architecture), "run: make docs"


def test_every_name_in_the_glossary_is_one_of_the_code() -> None:
    source = "".join(file.read_text("utf-8") for file in SOURCE.rglob("*.py"))
    names = {name for name in inline_code(ROOT / "docs" / "explain" / "glossary.md") if name != "code"}
    assert len(names) > 20
    assert {name for name in names if not (SOURCE / name).exists() and name.removesuffix("()") not in source} == set()


@pytest.mark.slow
def test_the_methods_that_the_architecture_names_exist() -> None:
    defined: set[str] = set()
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                defined |= {
                    f"{node.name}.{one.name}"
                    for one in node.body
                    if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
                }
    named = {code for code in inline_code(ROOT / "ARCHITECTURE.md") if re.fullmatch(r"[A-Z]\w+\.\w+", code)}
    assert len(named) > 15
    assert named - defined == set()


def test_the_folders_of_unit_tests_are_the_packages_that_they_test() -> None:
    unit = ROOT / "tests" / "unit"
    folders = {path.parent.relative_to(unit) for path in unit.rglob("test_*.py")} - {Path(), Path("project")}
    assert [str(folder) for folder in sorted(folders) if not (SOURCE / folder).is_dir()] == []


def test_no_folder_of_tests_has_too_many_files() -> None:
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    assert [str(folder) for folder in folders if len(list(folder.glob("test_*.py"))) > 32] == []
