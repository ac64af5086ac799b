"""The documentation as tests read it: its pages, their code blocks, and the marks that say what a block is for.

A mark is an HTML comment right above a block, such as `<!-- file: hello.py -->` or `<!-- run -->`. Readers do not see
it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"

_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>\w+)(?:: (?P<argument>[^ ]+))? -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S
)
_CODE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Block:
    """A fenced block; `mark` and `argument` are empty where it has none."""

    language: str
    text: str
    mark: str = ""
    argument: str = ""


def pages() -> list[Path]:
    """All pages of the documentation."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in their order."""
    return [
        Block(found["language"], found["text"], found["mark"] or "", found["argument"] or "")
        for found in _BLOCK.finditer(page.read_text("utf-8"))
    ]


def commands(block: Block) -> Iterator[str]:
    """The commands of a block for the shell, each with the lines that belong to it, without remarks."""
    written = ""
    for line in block.text.splitlines():
        written = f"{written}\n{line}" if written else line.strip()
        if written and not written.endswith("\\") and _is_whole(written):
            if not written.startswith("#"):
                yield written
            written = ""
    assert not written, written


def _is_whole(text: str) -> bool:
    try:
        shlex.split(text, comments=True)
    except ValueError:  # a quotation is open
        return False
    return True


def inline_code(page: Path) -> list[str]:
    """What stands between backticks in a page's text."""
    return _CODE.findall(_BLOCK.sub("", page.read_text("utf-8")))
