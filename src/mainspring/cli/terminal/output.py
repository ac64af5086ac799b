"""Prints what commands have found: tables, fields and JSON. Texts of jobs cannot move the cursor or change colours.

At a terminal, tables fit its width and states are coloured. In a pipe, nothing is cut, coloured or framed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from textwrap import wrap
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
"""The least that is left of the last column on the line of the others."""
_WORTH_READING = 12
"""The width of the last column for which spare columns are left out."""
_NARROWEST = 40
"""Texts are not broken into shorter lines."""
_LONGEST_ID = 36
"""A text without a space that is no longer may be an id, and an id that is cut cannot be copied."""
_MARGIN = "  "
"""Before the further lines of a row."""


def print_json(value: Any) -> None:
    """Print one JSON document: on one line in a pipe."""
    print(json.dumps(value, indent=2 if sys.stdout.isatty() else None), flush=True)


def print_items(items: Sequence[Any], columns: Columns, empty: str = "", spare: Sequence[str] = ()) -> None:
    """Print a table, at a narrow terminal without its spare columns; instead of one without lines, a sentence on
    stderr."""
    if not items and empty:
        sys.stderr.write(f"{empty}\n")
        return
    kept = fitting(items, columns, spare, terminal_width())
    print_table(list(kept), [[cell(find(item)) for find in kept.values()] for item in items])


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of safe texts below their titles."""
    for line in table_lines(titles, rows, terminal_width()):
        print_text(line)


def print_fields(fields: Iterable[tuple[str, object]], indent: str = "") -> None:
    """Print names and values, one below the other; those without a value are left out."""
    told = [(name, value) for name, value in fields if value not in (None, "", [], {})]
    width = max((len(name) for name, _ in told), default=0)
    for name, value in told:
        text = cell(value, keep="\n")
        taken = len(indent) + width + 2
        first, *rest = _broken(text, taken) if isinstance(value, str) else text.split("\n")  # JSON stays on one line
        print_text(Text.assemble(indent, (f"{name:{width}}  ", "dim"), (first, _COLOURS.get(first, ""))))
        for line in rest:
            print_text(Text(f"{indent}{' ' * width}  {line}"))


def _broken(text: str, taken: int = 0) -> list[str]:
    """The lines of a text, at a terminal broken between its words. A word that is too long stays whole, so that it can
    be copied."""
    width, lines = terminal_width(), text.split("\n")
    if width is None:
        return lines
    room = max(width - taken, _NARROWEST)
    return [part for line in lines for part in wrap(line, room, break_long_words=False, break_on_hyphens=False) or [""]]


def print_sentence(text: Text) -> None:
    """Print a sentence, at a terminal broken between its words."""
    first, *rest = _broken(text.plain)
    print_text(text[: len(first)])
    for line in rest:
        print_text(line)


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
    width: a row that is broken into two lines is harder to read than one with less in it. Columns that are empty in
    all rows go before them."""
    kept = dict(columns)
    left = [*spare, *(title for title in list(columns)[1:] if items and _is_empty(items, columns[title]))]
    while width is not None and left and _needs(items, kept) > width:
        kept.pop(left.pop(), None)
    return kept


def _is_empty(items: Sequence[Any], find: Callable[[Any], object]) -> bool:
    return all(cell(find(one)) == cell(None) for one in items)


def _needs(items: Sequence[Any], columns: Columns) -> int:
    """The width that a table needs if its last column is cut."""
    cells = [[title, *(cell(find(one)) for one in items)] for title, find in columns.items()]
    others = sum(max(map(cell_len, column)) + 2 for column in cells[:-1])
    return others + _least(cells[-1], _WORTH_READING)


def _least(column: Sequence[str], enough: int) -> int:
    """The width that a last column needs: its ids in full, and enough of its sentences."""
    return max(cell_len(text) if _may_be_id(text) else min(cell_len(text), enough) for text in column)


def _may_be_id(text: str) -> bool:
    return " " not in text and cell_len(text) <= _LONGEST_ID


def table_lines(titles: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> list[Text]:
    """The lines of a table, the titles first. Where they are longer than the width, the last column is cut; where that
    does not help, each row has several lines, which end between columns."""
    columns = list(zip(titles, *rows, strict=True))
    widths = [max(map(cell_len, column)) for column in columns]
    parts = _parts([*widths[:-1], _least(columns[-1], _LEAST_WIDTH)], width)
    if width is not None:
        start, end = parts[-1]
        taken = sum(widths[start : end - 1]) + 2 * (end - 1 - start) + (len(_MARGIN) if start else 0)
        widths[-1] = min(widths[-1], max(width - taken, _LEAST_WIDTH))
    return [
        _line(row[start:end], widths[start:end], style, _MARGIN if start else "")
        for row, style in [(titles, "bold"), *((row, "") for row in rows)]
        for start, end in parts
    ]


def _parts(needs: Sequence[int], width: int | None) -> list[tuple[int, int]]:
    """The ranges of the columns that have a line of their own in each row."""
    starts, taken = [0], needs[0]
    for place, needed in enumerate(needs[1:], 1):
        if width is None or taken + 2 + needed <= width:
            taken += 2 + needed
        else:
            starts.append(place)
            taken = len(_MARGIN) + needed
    return list(zip(starts, [*starts[1:], len(needs)], strict=True))


def _line(row: Sequence[str], widths: Sequence[int], style: str, margin: str) -> Text:
    line = Text(margin)
    for place, (text, width) in enumerate(zip(row, widths, strict=True)):
        shown = text if cell_len(text) <= width else f"{set_cell_size(text, width - 1).rstrip()}…"
        padding = "" if place == len(widths) - 1 else " " * (width - cell_len(shown) + 2)
        line.append(shown, style or _COLOURS.get(text, "")).append(padding)
    line.rstrip()
    return line
