"""Prints tables on stdout, for the commands that list things."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def print_table(titles: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
    """Print lines below their titles, in columns as wide as their widest entry."""
    rows = [titles, *lines]
    widths = [max(len(row[column]) for row in rows) for column in range(len(titles))]
    for row in rows:
        print("  ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True)).rstrip())
