"""What was tried, and what came of it: a row for each promise, counted try by try, and the table of all rows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attack.stage import Stage

LONGEST = 240.0
"""Seconds that a probe may take."""
SHOWN = 5
"""How many of the requests that broke a promise are printed for each row."""


class CannotTell(Exception):
    """A control failed: where the service does not do what it should, a refusal proves nothing."""


@dataclass
class Row:
    """One promise, and how often it was tried."""

    area: str
    promise: str
    tries: int = 0
    broke: list[str] = field(default_factory=list)
    """The requests that broke it."""
    unknown: str | None = None
    """Why nothing can be said of it."""
    note: str = ""
    seconds: float = 0.0

    def check(self, held: object, request: object) -> None:
        """Count a try; where it did not hold, keep the request that did it."""
        self.tries += 1
        if not held:
            self.broke.append(str(request))

    def control(self, works: object, what: object) -> None:
        """See that the attack would show at all: what is allowed works, what listens hears."""
        if not works:
            raise CannotTell(f"the control failed: {what}")

    @property
    def held(self) -> int:
        return self.tries - len(self.broke)


@dataclass(frozen=True)
class Probe:
    """An attack on one promise."""

    area: str
    promise: str
    run: Callable[[Stage, Row], Awaitable[None]]
    fast: bool
    """Whether it is run with the tests, in a small form."""


PROBES: list[Probe] = []
Attack = Callable[["Stage", Row], Awaitable[None]]


def probe(area: str, promise: str, *, fast: bool = False) -> Callable[[Attack], Attack]:
    """Register an attack; the rows of an area are in this order."""

    def register(run: Attack) -> Attack:
        PROBES.append(Probe(area, promise, run, fast))
        return run

    return register


def chosen(areas: Sequence[str]) -> list[Probe]:
    """The probes of these areas, in this order of areas."""
    return [one for area in areas for one in PROBES if one.area == area]


async def attempt(stage: Stage, one: Probe) -> Row:
    """Run a probe; what stands in its way makes its row one of which nothing can be said."""
    row = Row(one.area, one.promise)
    began = time.monotonic()
    try:
        async with asyncio.timeout(LONGEST):
            await one.run(stage, row)
    except Exception as error:
        row.unknown = f"{type(error).__name__}: {error}"[:1000]
    row.seconds = time.monotonic() - began
    return row


def table(rows: Iterable[Row]) -> str:
    """The rows as a table in Markdown."""
    lines = ["| area | what is promised | tries | held | broke |", "|---|---|---:|---:|---:|"]
    for row in rows:
        said = f"{row.promise} ({row.note})" if row.note else row.promise
        broke = str(len(row.broke)) if row.broke else "not run" if row.unknown is not None else ""
        lines.append(f"| {row.area} | {said} | {row.tries:,} | {row.held:,} | {broke} |")
    return "\n".join(lines)


def findings(rows: Iterable[Row]) -> list[str]:
    """What broke and what could not be run, one line each, with the requests."""
    lines = []
    for row in rows:
        if row.unknown is not None:
            lines.append(f"NOT RUN  {row.area}: {row.promise}: {row.unknown}")
        lines += [f"BROKE    {row.area}: {row.promise}\n         {one}" for one in row.broke[:SHOWN]]
        if len(row.broke) > SHOWN:
            lines.append(f"         … and {len(row.broke) - SHOWN} more")
    return lines


def verdict(rows: Sequence[Row]) -> int:
    """The exit code: 1 where a promise was broken, 2 where one could not be tried, 0 where all held."""
    if any(row.broke for row in rows):
        return 1
    return 2 if not rows or any(row.unknown is not None for row in rows) else 0
