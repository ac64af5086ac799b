"""A zone's time under a policy: the spans in which wall times fire, and the lost wall times that fire at their starts.

`fold` leaves out the pass of a repeated hour that does not count; `gap` moves wall times that do not exist to the
instant after. With `gap="skip"` and `fold="both"` only real time is left, for the rules that follow it. So one search
serves all policies.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

from mainspring.rules.zones.zone import BLOCK, EARLIEST, LATEST, Fold, Gap, Segment, segments, wall_epoch

Range = tuple[int, int]
"""Wall times from the first to before the second."""


class Span(NamedTuple):
    """Instants from `start` to before `end`; wall times are `offset` more. Nothing fires between two spans."""

    start: int
    end: int
    offset: int
    epoch: datetime
    """1970-01-01 00:00 with this span's offset, to which a wall time can be added."""
    lost: tuple[Range, ...] = ()
    """Wall times that do not exist; if any of them match, the rule fires once for them, at `start`."""


class Spans(NamedTuple):
    """The spans of a block, and a list of their starts for the search."""

    starts: list[int]
    spans: list[Span]


@lru_cache(maxsize=8192)
def spans(zone: ZoneInfo, gap: Gap, fold: Fold, number: int) -> Spans:
    """The spans of one block of about a year."""
    parts = segments(zone, number)
    start, end = max(number * BLOCK, EARLIEST), min((number + 1) * BLOCK, LATEST)
    lost = _lost(parts) if gap == "after" else {}
    found: list[Span] = []
    for index, part in enumerate(parts):
        if part.end > start and part.start < end:
            clipped = part._replace(start=max(part.start, start), end=min(part.end, end))
            others = parts[:index] if fold == "first" else parts[index + 1 :]
            missing = lost.get(part.start, ()) if part.start >= start else ()
            found += _fire_in(clipped, others if fold != "both" else (), missing)
    return Spans([span.start for span in found], found)


def _fire_in(part: Segment, others: Sequence[Segment], lost: tuple[Range, ...]) -> list[Span]:
    """A segment without the wall times that count in another one."""
    epoch = wall_epoch(part.offset, part.name)
    kept = _without(_walls(part), [_walls(other) for other in others])
    found = [Span(low - part.offset, high - part.offset, part.offset, epoch) for low, high in kept]
    if lost and not (found and found[0].start == part.start):
        found.insert(0, Span(part.start, part.start, part.offset, epoch))
    if lost:
        found[0] = found[0]._replace(lost=lost)
    return found


def _lost(parts: Sequence[Segment]) -> dict[int, tuple[Range, ...]]:
    """The wall times that never existed, by the instant at which the clock skipped them."""
    known = [_walls(part) for part in parts]
    lost: dict[int, tuple[Range, ...]] = {}
    for before, after in pairwise(parts):
        if after.offset > before.offset:
            missing = _without((after.start + before.offset, after.start + after.offset), known)
            lost[after.start] = tuple(missing)
            known += missing
    return lost


def _walls(part: Segment) -> Range:
    return part.start + part.offset, part.end + part.offset


def _without(whole: Range, others: Sequence[Range]) -> list[Range]:
    """The rest of a range when others are taken out of it."""
    left = [whole]
    for low, high in others:
        left = [
            piece
            for start, end in left
            for piece in ((start, min(end, low)), (max(start, high), end))
            if piece[0] < piece[1]
        ]
    return left
