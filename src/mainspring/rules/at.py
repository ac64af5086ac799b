"""`At`: a rule that fires at given instants."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from mainspring.errors import InvalidSchedule
from mainspring.rules.english import joined
from mainspring.rules.instants import check_aware, floor_ms, from_ms, instant_text, read_instant
from mainspring.rules.rule import TickRule
from mainspring.spelling import spelled_class

MOST_INSTANTS = 10_000
_SHOWN = 3


@spelled_class
@dataclass(frozen=True, init=False)
class At(TickRule):
    """Fires at the given instants: aware datetimes, in any order. An instant that is given twice fires once."""

    ticks: tuple[int, ...]
    """The instants as milliseconds since 1970, in order."""

    def __init__(self, instants: Iterable[datetime]) -> None:
        if isinstance(instants, str | datetime | Mapping) or not isinstance(instants, Iterable):
            raise InvalidSchedule(f"At takes a list of aware datetimes, such as At([first, second]), not {instants!r}.")
        ticks: set[int] = set()
        for place, instant in enumerate(instants):
            if place >= MOST_INSTANTS:
                raise InvalidSchedule(f"At takes at most {MOST_INSTANTS:,} instants; make several schedules of more.")
            ticks.add(floor_ms(check_aware(instant, f"instant {place}")))
        if not ticks:
            raise InvalidSchedule("At was given no instants, so it would never fire; give at least one.")
        object.__setattr__(self, "ticks", tuple(sorted(ticks)))

    @property
    def instants(self) -> tuple[datetime, ...]:
        """The instants, in order."""
        return tuple(from_ms(tick) for tick in self.ticks)

    def describe(self) -> str:
        shown = [instant_text(from_ms(tick)).replace("T", " ").replace("Z", " UTC") for tick in self.ticks[:_SHOWN]]
        if len(self.ticks) > _SHOWN:
            shown[-1] = f"{len(self.ticks) - _SHOWN + 1} more times until {from_ms(self.ticks[-1]):%Y-%m-%d}"
        return f"at {joined(shown)}"

    def to_document(self) -> dict[str, Any]:
        return {"kind": "at", "instants": [instant_text(from_ms(tick)) for tick in self.ticks]}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> At:
        instants = document.get("instants")
        if not isinstance(instants, list | tuple) or len(instants) > MOST_INSTANTS:
            raise InvalidSchedule(f'A rule of kind "at" needs a list of at most {MOST_INSTANTS:,} "instants".')
        if all(isinstance(instant, str) for instant in instants):
            return _read(tuple(instants))
        return cls(read_instant(instant, f"instant {place}") for place, instant in enumerate(instants))

    def _after(self, instant: int) -> int | None:
        place = bisect_right(self.ticks, instant)
        return self.ticks[place] if place < len(self.ticks) else None

    def _before(self, instant: int) -> int | None:
        place = bisect_left(self.ticks, instant)
        return self.ticks[place - 1] if place else None

    def _count(self, start: int, end: int) -> int:
        return bisect_left(self.ticks, end) - bisect_left(self.ticks, start)


@lru_cache(maxsize=64)
def _read(instants: tuple[str, ...]) -> At:
    """The rule of these texts, cached: each firing reads it again, and ten thousand texts take a while."""
    return At(read_instant(instant, f"instant {place}") for place, instant in enumerate(instants))
