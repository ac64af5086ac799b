"""The site of the documentation: its pages, its navigation, and the check of what was built.

Building it takes longer than a test may; `make site` does, strictly. These tests follow the same links beforehand.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from supply import python_reference, site

import mainspring
from harness.pages import ROOT
from mainspring.client.namespaces.all_namespaces import NAMESPACES

Pages = dict[str, str]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The generator's folder."""
    folder = tmp_path_factory.mktemp("site") / "build"
    site.write_pages(folder)
    return folder


def listed(navigation: Any) -> list[str]:
    """The pages of a navigation, at any depth."""
    if isinstance(navigation, str):
        return [navigation]
    parts = navigation.values() if isinstance(navigation, dict) else navigation
    return [page for part in parts for page in listed(part)]


def test_every_page_is_in_the_navigation_once(build: Path) -> None:
    navigation = tomllib.loads((build / "zensical.toml").read_text("utf-8"))["project"]["nav"]
    pages = [str(page.relative_to(build / "pages")) for page in (build / "pages").rglob("*.md")]
    assert sorted(listed(navigation)) == sorted(pages)
    assert {"index.md", "howto/mongodb.md", "project/SECURITY.md", "project/examples/index.md"} <= set(pages)
    assert [next(iter(one)) for one in navigation[1:]] == list(site.SECTIONS.values())


def test_the_links_of_the_pages_lead_to_pages_of_the_site(build: Path) -> None:
    pages = build / "pages"
    links = [(page, target) for page in pages.rglob("*.md") for target in site.targets(page)]
    assert len(links) > 500
    assert [f"{page.relative_to(pages)}: {target}" for page, target in links if not target.is_file()] == []
    assert [target for _, target in links if not target.is_relative_to(pages)] == []


def test_the_marks_of_the_tests_are_not_shown(build: Path) -> None:
    assert [str(page) for page in (build / "pages").rglob("*.md") if "<!-- " in page.read_text("utf-8")] == []


def built(folder: Path, **files: str) -> list[str]:
    """What is wrong with a site of these pages."""
    for name, text in files.items():
        (folder / f"{name}.html").write_text(text, "utf-8")
    return site.faults(folder)


def test_a_built_site_without_faults_has_none(tmp_path: Path) -> None:
    assert (
        built(tmp_path, a='<h2 id="x"></h2><a href="b.html#y">', b='<p id="y"><a href="a.html#x"><a href="#y">') == []
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('<a href="c.html">', "a.html: c.html"),
        ('<a href="b.html#nowhere">', "a.html: b.html#nowhere"),
        ('<img src="picture.png">', "a.html: picture.png"),
        ('<script src="https://cdn.example.com/x.js">', "a.html: loads https://cdn.example.com/x.js"),
        ('<link rel="stylesheet" href="//fonts.example.com/x.css">', "a.html: loads //fonts.example.com/x.css"),
    ],
)
def test_what_leads_nowhere_or_to_other_hosts_is_found(tmp_path: Path, text: str, fault: str) -> None:
    assert built(tmp_path, a=text, b="<p>") == [fault]


def test_the_reference_of_python_is_that_of_the_code() -> None:
    assert {page: page.read_text("utf-8") for page in python_reference.pages()} == python_reference.pages(), (
        "run: make docs"
    )


def test_the_reference_of_python_has_every_public_name() -> None:
    scheduler = mainspring.Scheduler("mongodb://127.0.0.1:1/x")
    expected = {*mainspring.__all__, "JobFunction", "JobCall", "JobOptions"}
    expected |= {f"JobContext.{name}" for name in dir(mainspring.JobContext) if not name.startswith("_")}
    for name in (one for one in dir(scheduler) if not one.startswith("_")):
        value = getattr(scheduler, name) if name in NAMESPACES else getattr(type(scheduler), name)
        if callable(value) or isinstance(value, property):
            expected.add(f"Scheduler.{name}")
        else:
            expected |= {f"scheduler.{name}.{verb}" for verb in dir(value) if not verb.startswith("_")}
    text = "".join(
        (ROOT / "docs" / "reference" / f"{page}.md").read_text("utf-8") for page in ("python", "python-types")
    )
    headings = {line.lstrip("# ") for line in text.splitlines() if line.startswith("##")}
    assert expected - headings == set()
