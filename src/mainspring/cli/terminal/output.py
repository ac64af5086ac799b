"""Prints what commands have found: tables, fields and JSON. Texts of jobs cannot move the cursor or change colours.

At a terminal, tables fit its width and states are coloured. In a pipe, nothing is cut, coloured or framed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from mainspring.model.printable import printable

Columns = Mapping[str, Callable[[Any], object]]
"""The titles of a table, each with the function that finds its cell in an item."""
_COLOURS = {
    **dict.fromkeys(("completed", "healthy", "active", "live", "fired", "closed", "in force"), "green"),
    **dict.fromkeys(("running", "half_open", "degraded", "paused", "draining", "retried", "late"), "yellow"),
    **dict.fromkeys(("failed", "unhealthy", "expired", "open", "missed", "broken", "failing"), "red"),
    **dict.fromkeys(("cancelled", "revoked", "ended", "skipped", "gone"), "magenta"),
    **dict.fromkeys(("pending", "blocked", "scheduled"), "cyan"),
}
_LEAST_WIDTH = 8


def print_json(value: Any) -> None:
    """Print one JSON document: on one line in a pipe."""
    print(json.dumps(value, indent=2 if sys.stdout.isatty() else None), flush=True)


def print_items(items: Iterable[Any], columns: Columns, empty: str = "") -> None:
    """Print a table; instead of one without lines, a sentence on stderr."""
    rows = [[cell(find(item)) for find in columns.values()] for item in items]
    if not rows and empty:
        sys.stderr.write(f"{empty}\n")
        return
    print_table(list(columns), rows)


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of safe texts below their titles."""
    for line in table_lines(titles, rows, terminal_width()):
        print_text(line)


def print_fields(fields: Iterable[tuple[str, object]], indent: str = "") -> None:
    """Print names and values, one below the other; those without a value are left out."""
    told = [(name, cell(value, keep="\n")) for name, value in fields if value not in (None, "", [], {})]
    width = max((len(name) for name, _ in told), default=0)
    for name, text in told:
        first, *rest = text.split("\n")
        print_text(Text.assemble(indent, (f"{name:{width}}  ", "dim"), (first, _COLOURS.get(first, ""))))
        for line in rest:
            print_text(Text(f"{indent}{' ' * width}  {line}"))


def print_heading(text: str) -> None:
    """Print the title of a part."""
    print_text(Text(f"\n{printable(text)}", "bold"))


def print_text(text: Text | str) -> None:
    """Print a line as it is; at a terminal with its colours."""
    if sys.stdout.isatty():
        Console(highlight=False).print(text, soft_wrap=True)
    else:
        print(text.plain if isinstance(text, Text) else text)


def terminal_width() -> int | None:
    """The width of the terminal; None in a pipe, where nothing is cut."""
    return Console().width if sys.stdout.isatty() else None


def cell(value: object, keep: str = "") -> str:
    """A value as text that is safe for a terminal."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return printable(", ".join(map(str, value)) or "-")
    if isinstance(value, dict):
        return printable(json.dumps(value, ensure_ascii=False))
    return printable(str(value), keep)


def many(number: int, one: str, more: str | None = None) -> str:
    """A number and its noun: 1 job, 2 jobs."""
    return f"{number:,} {one if number == 1 else more or f'{one}s'}"


def fitting(items: Sequence[Any], columns: Columns, spare: Sequence[str], width: int | None) -> Columns:
    """The columns without as many of the spare ones, the last of them first, as it takes for the table to fit the
    width: a row that is broken into two lines is harder to read than one with less in it."""
    kept, left = dict(columns), list(spare)
    while width is not None and left and _needs(items, kept) > width:
        del kept[left.pop()]
    return kept


def _needs(items: Sequence[Any], columns: Columns) -> int:
    """The width that a table needs if its last column is cut."""
    widths = [max(map(cell_len, (title, *(cell(find(one)) for one in items)))) for title, find in columns.items()]
    return sum(widths[:-1]) + 2 * (len(widths) - 1) + min(widths[-1], _LEAST_WIDTH)


def table_lines(titles: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> list[Text]:
    """The lines of a table, the titles first. The last column is cut where they are longer than the width."""
    widths = [max(map(cell_len, column)) for column in zip(titles, *rows, strict=True)]
    room = None if width is None else width - sum(widths[:-1]) - 2 * (len(widths) - 1)
    if room is not None and room < widths[-1]:
        widths[-1] = max(room, _LEAST_WIDTH)
    lines = [_line(titles, widths, "bold")]
    return lines + [_line(row, widths) for row in rows]


def _line(row: Sequence[str], widths: Sequence[int], style: str = "") -> Text:
    line = Text()
    for place, (text, width) in enumerate(zip(row, widths, strict=True)):
        shown = text if cell_len(text) <= width else f"{set_cell_size(text, width - 1).rstrip()}…"
        padding = "" if place == len(widths) - 1 else " " * (width - cell_len(shown) + 2)
        line.append(shown, style or _COLOURS.get(text, "")).append(padding)
    line.rstrip()
    return line
