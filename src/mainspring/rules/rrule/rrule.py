"""`RRule`: a recurrence rule of RFC 5545 in a time zone, such as the last working day of each month."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Self
from zoneinfo import ZoneInfo

from mainspring.errors import InvalidSchedule
from mainspring.rules.instants import check_aware, instant_text, read_instant
from mainspring.rules.rrule.compile import check_times, compiled, last_instant, read_wall
from mainspring.rules.rrule.describe import describe
from mainspring.rules.rrule.parse import Written, parse
from mainspring.rules.rrule.pattern import Pattern
from mainspring.rules.timeline import Timeline
from mainspring.rules.wall_clock_rule import WallClockRule
from mainspring.rules.zones.zone import Fold, Gap, check_policy, find_zone, in_zone, instants, whole_second
from mainspring.spelling import spelled_class

# A start after which every rule that fires at all does so: a rule without a firing after it in UTC never fires.
_PROBE = 946_684_800


@spelled_class
class RRule(WallClockRule):
    """Fires by an RRULE, such as "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17;BYMINUTE=0", in a time zone.

    Parts that the text leaves open (the time of day, the weekday, the phase of INTERVAL) come from `start`, or from a
    DTSTART in the text; without either, from the time at which the schedule is created. Nothing fires before that time.
    FREQ=DAILY and coarser follow the wall clock, with `gap` and `fold` as for Cron; HOURLY and finer follow real time.
    """

    _key: tuple[Pattern, str, Gap, Fold, datetime | None]
    _firings: Timeline | None

    def __init__(
        self,
        text: str,
        timezone: str | ZoneInfo = "UTC",
        *,
        start: datetime | None = None,
        gap: Gap = "after",
        fold: Fold = "first",
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
        timeline = None if start is None else compiled(written.pattern, zone.key, gap, fold, whole_second(start))
        object.__setattr__(self, "_firings", timeline)
        self._check()

    @property
    def text(self) -> str:
        """The rule as RFC 5545 writes it, without its start."""
        return self._key[0].text()

    @property
    def start(self) -> datetime | None:
        """The instant that the rule counts from; None until a schedule supplies it."""
        return self._key[4]

    def __repr__(self) -> str:
        start = "" if self.start is None else f", start={self.start.isoformat()}"
        return f"RRule({self.text!r}, {self.timezone!r}{start})"

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
        """The effect of the zone's clocks on the firing at this instant; none on a rule that follows real time."""
        found = super().notes(at)
        return () if self.start is None or self._key[0].follows_real_time else found

    def to_document(self) -> dict[str, Any]:
        pattern, zone, gap, fold, start = self._key
        document = {"kind": "rrule", "rule": pattern.text(), "timezone": zone, "gap": gap, "fold": fold}
        return document if start is None else {**document, "start": instant_text(start)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        start = document.get("start")
        return cls(
            document.get("rule"),  # type: ignore[arg-type]
            document.get("timezone", "UTC"),
            start=None if start is None else read_instant(start, "start"),
            gap=document.get("gap", "after"),
            fold=document.get("fold", "first"),
        )

    def _timeline(self, asked: int) -> Timeline:
        pattern, zone, gap, fold, _ = self._key
        return self._firings or compiled.__wrapped__(pattern, zone, gap, fold, asked)

    def _check(self) -> None:
        """Refuse a rule that never fires; as long as its start is open, a rule that would never fire with any start."""
        pattern, zone, gap, fold, start = self._key
        if pattern.until is not None:
            last_instant(pattern.until, zone)
        timeline = self._firings or compiled(pattern.endless(), "UTC", gap, fold, _PROBE)
        if timeline.first(_PROBE if start is None else whole_second(start)) is None:
            raise InvalidSchedule(
                f"{self.text} never fires{'' if start is None else f' from {start.isoformat()} on'}: "
                "look at BYMONTHDAY with BYMONTH, at BYSETPOS, at INTERVAL with the start, and at UNTIL."
            )


def _zone(written: Written, timezone: str | ZoneInfo) -> ZoneInfo:
    """The given zone, or that of DTSTART."""
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
