"""Rows of figures, and the three shapes they are given out in: a table for people, JSON, and Markdown."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

HEAD = ("measurement", "measured", "spread", "beside", "floor", "ratio", "bar", "")


@dataclass(frozen=True)
class Bar:
    """The limit of a figure, at least or at most: of the ratio to the floor, of the value, or of the worst sample."""

    of: Literal["ratio", "value", "worst"]
    limit: float
    at_most: bool = False

    def passed(self, figure: float) -> bool:
        return figure <= self.limit if self.at_most else figure >= self.limit

    def __str__(self) -> str:
        kind = {"ratio": " ×", "value": "", "worst": " at worst"}[self.of]
        return f"{'≤' if self.at_most else '≥'} {self.limit:g}{kind}"


@dataclass
class Row:
    """One figure: the median of its samples, beside the median of what it is compared with."""

    name: str
    unit: str
    samples: list[float]
    floor_name: str = ""
    floor_samples: list[float] = field(default_factory=list)
    bar: Bar | None = None
    note: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def value(self) -> float:
        return statistics.median(self.samples)

    @property
    def floor(self) -> float | None:
        return statistics.median(self.floor_samples) if self.floor_samples else None

    @property
    def ratio(self) -> float | None:
        return self.value / self.floor if self.floor else None

    @property
    def ok(self) -> bool | None:
        """Whether the bar was reached; None when there is none."""
        if self.bar is None:
            return None
        worst = max(self.samples) if self.bar.at_most else min(self.samples)
        figure = {"value": self.value, "worst": worst, "ratio": self.ratio}[self.bar.of]
        return figure is not None and self.bar.passed(figure)

    def cells(self) -> tuple[str, ...]:
        many = len(self.samples) > 1
        return (
            self.name,
            f"{number(self.value)} {self.unit}",
            f"{number(min(self.samples))} – {number(max(self.samples))}" if many else "",
            self.floor_name,
            "" if self.floor is None else f"{number(self.floor)} {self.unit}",
            "" if self.ratio is None else f"{self.ratio:.2f}",
            "" if self.bar is None else str(self.bar),
            {True: "ok", False: "MISSED", None: ""}[self.ok],
        )

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "value": self.value, "floor": self.floor, "ratio": self.ratio, "ok": self.ok}


def number(value: float) -> str:
    """Three figures that matter, thousands set apart."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def percentile(samples: Sequence[float], percent: float) -> float:
    """The smallest sample that at least so many percent do not exceed."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def as_table(rows: Sequence[Row]) -> str:
    """The table for people, with each row's note beneath it."""
    cells = [HEAD, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEAD))]
    rule = "  ".join("─" * width for width in widths)
    lines = [_aligned(HEAD, widths), rule]
    for row, line in zip(rows, cells[1:], strict=True):
        lines.append(_aligned(line, widths))
        if row.note:
            lines.append(f"    {row.note}")
    return "\n".join(lines)


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    to_the_right = {1, 4, 5}
    return "  ".join(
        text.rjust(width) if column in to_the_right else text.ljust(width)
        for column, (text, width) in enumerate(zip(cells, widths, strict=True))
    ).rstrip()


def as_markdown(rows: Sequence[Row], facts: dict[str, Any]) -> str:
    """A table for the documentation, with what it was measured on above it."""
    lines = ["", ", ".join(f"{key} {value}" for key, value in facts.items()) + ".", ""]
    lines += [f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}"]
    lines += [f"| {' | '.join(row.cells())} |" for row in rows]
    notes = [f"- {row.name}: {row.note}" for row in rows if row.note]
    return "\n".join(["# Benchmarks", *lines, "", *notes]).rstrip() + "\n"


def write_json(path: Path, rows: Sequence[Row], facts: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"facts": facts, "rows": [row.as_json() for row in rows]}
    path.write_text(json.dumps(content, indent=2, default=str) + "\n", encoding="utf-8")
