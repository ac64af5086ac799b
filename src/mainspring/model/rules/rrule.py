"""RFC 5545's recurrence rules: every second Tuesday, the last working day of each month."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from mainspring.cron.notes import missing, repeated
from mainspring.cron.zone import FOLDS, GAPS, WALL_EPOCH, Fold, Gap, check_policy, find_zone, in_zone, instants
from mainspring.errors import InvalidSchedule
from mainspring.model.recurrence.compiled import check_times, compiled, last_instant, read_wall
from mainspring.model.recurrence.parse import Written, parse
from mainspring.model.recurrence.pattern import Pattern
from mainspring.model.recurrence.timeline import Timeline
from mainspring.model.recurrence.words import describe
from mainspring.model.rules.instants import check_aware, floor_ms, from_ms, instant_text, read_instant
from mainspring.model.rules.rule import TickRule

_DEFAULT_GAP, _DEFAULT_FOLD = GAPS[0], FOLDS[0]
_MOST_NAMED = 4
# A start that leaves every rule a chance: what does not fire after it in UTC never does.
_PROBE = 946_684_800


class RRule(TickRule):
    """Fires as an RRULE says, such as "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17;BYMINUTE=0", in a time zone.

    What the text leaves open (the time of day, the weekday, the phase of INTERVAL) is taken from `start`, or from a
    DTSTART in the text; without either, from the moment at which the schedule is created. Nothing fires before it.
    FREQ=DAILY and coarser follow the wall clock, with `gap` and `fold` as for Cron; HOURLY and finer follow real time.
    """

    def __init__(
        self,
        text: str,
        timezone: str | ZoneInfo = "UTC",
        *,
        start: datetime | None = None,
        gap: Gap = _DEFAULT_GAP,
        fold: Fold = _DEFAULT_FOLD,
    ) -> None:
        written = parse(text)
        check_policy(gap, fold)
        check_times(written.pattern)
        zone = _zone(written, timezone)
        if start is not None:
            start = in_zone(check_aware(start, "start"), zone).replace(microsecond=0)
            if written.start is not None:
                raise InvalidSchedule("The text has a DTSTART; leave out start=, or the DTSTART.")
        elif written.start is not None:
            start = _written_start(written.start, zone)
        object.__setattr__(self, "_key", (written.pattern, zone.key, gap, fold, start))
        self._check()

    @property
    def text(self) -> str:
        """The rule as RFC 5545 writes it, without its start."""
        return self._key[0].text()

    @property
    def timezone(self) -> str:
        return self._key[1]

    @property
    def gap(self) -> Gap:
        return self._key[2]

    @property
    def fold(self) -> Fold:
        return self._key[3]

    @property
    def start(self) -> datetime | None:
        """Where it counts from; None until a schedule is made of it."""
        return self._key[4]

    _key: tuple[Pattern, str, Gap, Fold, datetime | None]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RRule) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        start = "" if self.start is None else f", start={self.start.isoformat()}"
        return f"RRule({self.text!r}, {self.timezone!r}{start})"

    @property
    def zones(self) -> tuple[str, ...]:
        return (self.timezone,)

    @property
    def anchors(self) -> tuple[datetime, ...]:
        return () if self.start is None else (self.start,)

    def anchored(self, at: datetime) -> RRule:
        """The rule starting at `at`, unless it has a start already."""
        check_aware(at, "at")
        if self.start is not None:
            return self
        return RRule(self.text, self.timezone, start=at, gap=self.gap, fold=self.fold)

    def describe(self) -> str:
        return describe(self._key[0], self.timezone, self.start)

    def notes(self, at: datetime) -> tuple[str, ...]:
        check_aware(at, "at")
        if self.start is None or at.microsecond or self._key[0].follows_real_time:
            return ()
        second = floor_ms(at) // 1000
        timeline = self._from(floor_ms(at))
        if timeline.first(second) != second:
            return ()
        zone = find_zone(self.timezone)
        wall = in_zone(at, zone).replace(tzinfo=None)
        passes = instants(wall, zone, "skip", "both")
        found = [repeated(wall, passes.index(at), len(passes), zone.key)] if len(passes) > 1 and at in passes else []
        lost = [WALL_EPOCH + timedelta(0, one) for one in timeline.lost_at(second, _MOST_NAMED)]
        return (*found, missing(lost, wall, zone.key)) if lost else tuple(found)

    def to_document(self) -> dict[str, Any]:
        pattern, zone, gap, fold, start = self._key
        document = {"kind": "rrule", "rule": pattern.text(), "timezone": zone, "gap": gap, "fold": fold}
        return document if start is None else {**document, "start": instant_text(from_ms(floor_ms(start)))}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> RRule:
        start = document.get("start")
        return cls(
            document.get("rule"),  # type: ignore[arg-type]
            document.get("timezone", "UTC"),
            start=None if start is None else read_instant(start, "start"),
            gap=document.get("gap", _DEFAULT_GAP),
            fold=document.get("fold", _DEFAULT_FOLD),
        )

    def _after(self, instant: int) -> int | None:
        found = self._from(instant).first(instant // 1000 + 1)
        return None if found is None else found * 1000

    def _before(self, instant: int) -> int | None:
        found = self._from(instant).last((instant - 1) // 1000)
        return None if found is None else found * 1000

    def _count(self, start: int, end: int) -> int:
        return self._from(start).count(-(-start // 1000), -(-end // 1000))

    def _walk(self, start: int, end: int) -> Iterator[datetime]:
        timeline = self._from(start)
        second = timeline.first(-(-start // 1000))
        while second is not None and second * 1000 < end:
            yield self._show(second * 1000)
            second = timeline.first(second + 1)

    def _show(self, instant: int) -> datetime:
        return in_zone(from_ms(instant), find_zone(self.timezone))

    def _from(self, instant: int) -> Timeline:
        """The rule's times; one without a start counts from the instant it is asked about."""
        pattern, zone, gap, fold, start = self._key
        if start is None:
            return compiled.__wrapped__(pattern, zone, gap, fold, instant // 1000)
        return compiled(pattern, zone, gap, fold, floor_ms(start) // 1000)

    def _check(self) -> None:
        """Refuse a rule that never fires. As long as its start is open, this is one that never would."""
        pattern, zone, gap, fold, start = self._key
        if pattern.until is not None:
            last_instant(pattern.until, zone)
        if start is None:
            fires = compiled(pattern.endless(), "UTC", gap, fold, _PROBE).first(_PROBE) is not None
        else:
            fires = self._from(0).first(floor_ms(start) // 1000) is not None
        if not fires:
            raise InvalidSchedule(
                f"{self.text} never fires{'' if start is None else f' from {start.isoformat()} on'}: "
                "look at BYMONTHDAY with BYMONTH, at BYSETPOS, at INTERVAL with the start, and at UNTIL."
            )


def _zone(written: Written, timezone: str | ZoneInfo) -> ZoneInfo:
    """The zone that was given, or that of DTSTART."""
    zone = find_zone(timezone)
    if written.zone is None:
        return zone
    named = find_zone(written.zone)
    if zone.key not in ("UTC", named.key):
        raise InvalidSchedule(f"DTSTART is in {named.key} and timezone is {zone.key}; leave one of them out.")
    return named


def _written_start(text: str, zone: ZoneInfo) -> datetime:
    wall = read_wall(text, "DTSTART")
    if text.endswith("Z"):
        return in_zone(wall.replace(tzinfo=UTC), zone)
    found = instants(wall, zone, "after", "first")
    if not found:
        raise InvalidSchedule(f"DTSTART={text} is too far away; use a year from 2 to 9998.")
    return found[0]
