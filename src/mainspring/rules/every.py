"""`Every`: firings on a grid that begins at an anchor and never drifts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from mainspring.durations import Duration, duration_ms, duration_text, duration_words
from mainspring.errors import InvalidSchedule
from mainspring.rules.instants import check_aware, floor_ms, from_ms, instant_text, read_instant
from mainspring.rules.rule import TickRule
from mainspring.spelling import spelled_class

SHORTEST_MS = 100
LONGEST_MS = 3653 * 86_400_000
START, END = "start", "end"
After = Literal["start", "end"]


@spelled_class
@dataclass(frozen=True, init=False)
class Every(TickRule):
    """Fires at `anchor`, and then every `period` after it: exactly at anchor + k × period, forever.

    `period` is text such as "5m" or "1h30m", a timedelta, or seconds. Without an anchor, the grid begins when the
    schedule is created; a rule without a schedule counts from the instant that is passed to its methods. `after="end"`
    counts from the end of each run instead, so that there is always a pause between two runs.
    """

    period: timedelta
    anchor: datetime | None
    after: str

    def __init__(self, period: Duration, *, anchor: datetime | None = None, after: After = "start") -> None:
        length = duration_ms(period, "period", InvalidSchedule)
        if not SHORTEST_MS <= length <= LONGEST_MS:
            raise InvalidSchedule(
                f"period must be between 100 milliseconds and ten years, not {duration_text(length)}."
            )
        if after not in (START, END):
            raise InvalidSchedule(f'after must be "start" or "end", not {after!r}.')
        if anchor is not None:
            anchor = from_ms(floor_ms(check_aware(anchor, "anchor")))
            if after == END:
                raise InvalidSchedule('A rule with after="end" has no grid; leave anchor out, or set start_at.')
        object.__setattr__(self, "period", timedelta(milliseconds=length))
        object.__setattr__(self, "anchor", anchor)
        object.__setattr__(self, "after", after)

    @property
    def anchors(self) -> tuple[datetime, ...]:
        return () if self.anchor is None else (self.anchor,)

    def anchored(self, at: datetime) -> Every:
        """The rule with its grid beginning at `at`, unless it already has an anchor, or needs none."""
        check_aware(at, "at")
        return self if self.anchor is not None or self.after == END else Every(self.period, anchor=at)

    def describe(self) -> str:
        length = duration_words(self._step)
        if self.after == END:
            return f"{length} after the end of each run"
        since = "" if self.anchor is None else f", from {_plain(self.anchor)}"
        return f"every {length.removeprefix('1 ') if length.count(' ') == 1 else length}{since}"

    def to_document(self) -> dict[str, Any]:
        document: dict[str, Any] = {"kind": "every", "period": duration_text(self._step)}
        if self.anchor is not None:
            document["anchor"] = instant_text(from_ms(floor_ms(self.anchor)))
        if self.after == END:
            document["after"] = END
        return document

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Every:
        anchor = document.get("anchor")
        return cls(
            document.get("period"),  # type: ignore[arg-type]
            anchor=None if anchor is None else read_instant(anchor, "anchor"),
            after=document.get("after", START),
        )

    @property
    def _step(self) -> int:
        return self.period // timedelta(milliseconds=1)

    def _after(self, instant: int) -> int | None:
        if self.anchor is None:
            return instant + self._step
        first = floor_ms(self.anchor)
        return max(first, first + ((instant - first) // self._step + 1) * self._step)

    def _before(self, instant: int) -> int | None:
        if self.anchor is None:
            return instant - self._step
        first = floor_ms(self.anchor)
        return None if instant <= first else first + (instant - 1 - first) // self._step * self._step

    def _count(self, start: int, end: int) -> int:
        if self.anchor is None:
            return -((start - end) // self._step)
        first = floor_ms(self.anchor)
        return max(0, -((first - end) // self._step)) - max(0, -((first - start) // self._step))

    def _walk(self, start: int, end: int) -> Iterator[datetime]:
        if self.anchor is None:
            return Every(self.period, anchor=from_ms(start))._walk(start, end)
        return super()._walk(start, end)


def _plain(instant: datetime) -> str:
    seconds = instant.second or instant.microsecond
    text = instant.isoformat(" ", "milliseconds" if instant.microsecond else "seconds" if seconds else "minutes")
    return text.replace("+00:00", " UTC")
