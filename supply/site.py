"""Builds the documentation as a site, into build/site/html: `make site`.

The pages are those of docs/ and, under "Project", the files outside of it that they link to. The navigation follows the
folders; within a folder, the order in which docs/README.md names the pages, then their titles. Nothing is listed by
hand.

The generator (Zensical) runs in its strict mode. Afterwards every link, anchor and asset of the HTML is checked here,
too, and a script, a style or a picture from another host is an error: the site is complete in its folder.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
CONFIG = Path(__file__).with_name("zensical.toml")
BUILD = ROOT / "build" / "site"
SECTIONS = {
    "tutorial": "Tutorials",
    "howto": "How to",
    "explain": "Explanations",
    "reference": "Reference",
    "decisions": "Decisions",
    "project": "Project",
}
_LINK = re.compile(r"(\[[^\]]*\]\()([^)\s]+)(\))")
_FENCED = re.compile(r"(^[ ]*```.*?^[ ]*```$)", re.M | re.S)
_MARK = re.compile(r"^<!-- .*? -->\n", re.M)


def destination(file: Path) -> Path:
    """The place of a file in the site's pages. A README is the first page of its folder."""
    place = file.relative_to(DOCS) if file.is_relative_to(DOCS) else Path("project") / file.relative_to(ROOT)
    return place.with_name("index.md") if place.name == "README.md" else place


def gathered() -> list[Path]:
    """The pages of docs/, and the files outside of it that these and their like link to."""
    found = sorted(DOCS.glob("**/*.md"))
    known = set(found)
    for page in found:  # grows while it is read
        for target in targets(page) if page.suffix == ".md" else ():
            if target not in known and target.is_file():
                known.add(target)
                found.append(target)
    return found


def targets(page: Path) -> Iterator[Path]:
    """The files that a page links to, whether they exist or not."""
    for part in _prose(page.read_text("utf-8")):
        for _, link, _ in _LINK.findall(part):
            if "://" not in link and not link.startswith(("#", "mailto:")):
                yield (page.parent / link.partition("#")[0]).resolve()


def _prose(text: str) -> list[str]:
    """The text between code blocks."""
    return _FENCED.split(text)[::2]


def staged(page: Path) -> str:
    """A page as the generator gets it: its links lead to places of the site, and the marks of tests are left out."""
    here = destination(page).parent

    def moved(link: re.Match[str]) -> str:
        place, _, fragment = link[2].partition("#")
        if "://" in link[2] or link[2].startswith("mailto:") or not place:
            return link[0]
        target = os.path.relpath(destination((page.parent / place).resolve()), here)
        return f"{link[1]}{target}{'#' if fragment else ''}{fragment}{link[3]}"

    parts = _FENCED.split(_MARK.sub("", page.read_text("utf-8")))
    parts[::2] = [_LINK.sub(moved, part) for part in parts[::2]]
    parts[1::2] = [re.sub(r"^[ ]+(?=\S)", "    ", part, flags=re.M) if part[0] == " " else part for part in parts[1::2]]
    return "".join(parts)


def navigation(pages: list[Path]) -> str:
    """The navigation in TOML: a section for each folder; how-tos are grouped as the rows of docs/README.md are."""
    index = DOCS / "README.md"
    order = {target: place for place, target in reversed(list(enumerate(targets(index))))}
    sections: dict[str, list[Path]] = {name: [] for name in SECTIONS}
    for page in pages:
        if page.suffix == ".md" and page != index:
            sections.setdefault(destination(page).parts[0], []).append(page)
    lines = [json.dumps(str(destination(index)))]
    for folder, members in sections.items():
        members.sort(key=lambda page: (page.name != "README.md", order.get(page, len(order)), _title(page)))
        listed = _grouped(members, index) if folder == "howto" else _listed(members)
        lines.append(_section(SECTIONS.get(folder, folder.capitalize()), listed))
    return "nav = [\n  " + ",\n  ".join(lines) + "\n]"


def _grouped(members: list[Path], index: Path) -> str:
    groups: dict[str, list[Path]] = {}
    for page in members:
        groups.setdefault(_row(page, index), []).append(page)
    return ", ".join(_section(label, _listed(group)) for label, group in groups.items())


def _row(page: Path, index: Path) -> str:
    """The first column of the row of the index that names a page."""
    link = f"]({page.relative_to(DOCS)})"
    row = next((line for line in index.read_text("utf-8").splitlines() if line.startswith("| ") and link in line), "")
    label = row.strip("| ").partition(" | ")[0]
    return label[:1].upper() + label[1:] or "More"


def _section(label: str, listed: str) -> str:
    return f"{{{json.dumps(label)} = [{listed}]}}"


def _listed(pages: list[Path]) -> str:
    return ", ".join(json.dumps(str(destination(page))) for page in pages)


def _title(page: Path) -> str:
    found = re.search(r"^# (.+)$", page.read_text("utf-8"), re.M)
    return found[1].lower() if found else page.name


def write_pages(build: Path) -> None:
    """Write the generator's configuration and its pages into a folder."""
    shutil.rmtree(build, ignore_errors=True)
    files = gathered()
    for file in files:
        place = build / "pages" / destination(file)
        place.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            place.write_text(staged(file), "utf-8")
        else:
            shutil.copyfile(file, place)
    config = CONFIG.read_text("utf-8").replace("nav = []", navigation(files))
    (build / "zensical.toml").write_text(config, "utf-8")


class _Page(HTMLParser):
    """The anchors of a page, what it links to, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attributes if value is not None}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif "src" in given or (tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload")):
            self.loads.append(given.get("src") or given["href"])


def faults(html: Path) -> list[str]:
    """The links, anchors and assets of a built site that lead nowhere, and assets of other hosts."""
    pages = {file: _Page(file.read_text("utf-8")) for file in sorted(html.rglob("*.html"))}
    found = []
    for file, page in pages.items():
        if file.name == "404.html":  # its links are absolute, for a server
            continue
        name = str(file.relative_to(html))
        found += [f"{name}: loads {load}" for load in page.loads if urlsplit(load).netloc]
        found += [f"{name}: {link}" for link in [*page.links, *page.loads] if not _leads(file, link, pages)]
    return found


def _leads(file: Path, link: str, pages: dict[Path, _Page]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    target = target / "index.html" if target.is_dir() else target
    if target not in pages:
        return target.is_file()
    return not parts.fragment or unquote(parts.fragment) in pages[target].anchors


def main() -> int:
    """Build the site; the exit code is 1 if something in it leads nowhere."""
    write_pages(BUILD)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", "zensical.toml"]
    if subprocess.run(command, cwd=BUILD, check=False).returncode:
        return 1
    wrong = faults(BUILD / "html")
    print("\n".join(wrong) or f"The site is complete. To read and search it: python -m http.server -d {BUILD / 'html'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
