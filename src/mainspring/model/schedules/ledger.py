"""The ledger of a schedule: every firing of its rule, and its outcome.

Rows are stored only for firings that cannot be computed: late, skipped, missed, backfilled or triggered by hand. A row
may cover a whole span of firings. A firing before the schedule's cursor that has no row was made on time; a firing
after it is still expected. The firings themselves are computed from the rules in force at the time (`Era`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from mainspring.model.schedules.times import Times, firing_id, is_after_end

ON_TIME, LATE, SKIPPED, MISSED = "on_time", "late", "skipped", "missed"
BACKFILLED, TRIGGERED, EXPECTED, DUE = "backfilled", "triggered", "expected", "due"
_MOMENT = timedelta(milliseconds=1)
OUTCOMES = (ON_TIME, LATE, SKIPPED, MISSED, BACKFILLED, TRIGGERED, EXPECTED, DUE)


@dataclass(frozen=True, slots=True)
class Row:
    """The stored row of one firing, or of all from `at` to `until`."""

    at: datetime
    until: datetime
    outcome: str
    reason: str = ""
    late_by: timedelta | None = None
    job_id: str | None = None
    actor: str | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One firing and its outcome.

    `outcome` is "on_time", "late" (by `late_by`), "skipped" (`reason`: overlap, paused, calendar, misfire, expired or
    by hand), "missed", "backfilled", "triggered", "due" (not decided yet) or "expected" (in the future).
    """

    at: datetime
    outcome: str
    reason: str = ""
    late_by: timedelta | None = None
    job_id: str | None = None
    actor: str | None = None


@dataclass(frozen=True, slots=True)
class RecentFiring:
    """A past firing, its outcome, and the state of its job: None if it has no job, or if the job is no longer stored.
    "retrying" is the state of a pending job after a failed attempt."""

    at: datetime
    outcome: str
    reason: str = ""
    late_by: timedelta | None = None
    job_id: str | None = None
    job_state: str | None = None
    actor: str | None = None

    @classmethod
    def of(cls, entry: Entry, job_state: str | None) -> RecentFiring:
        return cls(entry.at, entry.outcome, entry.reason, entry.late_by, entry.job_id, job_state, entry.actor)


@dataclass(frozen=True, slots=True)
class Notice:
    """Firings that were late, missed or skipped, as reported in schedule events: `count` of them, from `at` to
    `until`."""

    schedule_id: str
    name: str
    at: datetime
    until: datetime
    outcome: str
    reason: str = ""
    late_by: timedelta | None = None
    job_id: str | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class Era:
    """The times that were in force after `since` and up to `until`."""

    since: datetime
    until: datetime | None
    times: Times

    @property
    def computed(self) -> bool:
        """False when the rule counts from the end of runs: then every firing has its row."""
        return not is_after_end(self.times.rule)

    def covers(self, at: datetime) -> bool:
        return self.since < at and (self.until is None or at <= self.until)


@dataclass(frozen=True, slots=True)
class Book:
    """All that the ledger of a schedule is computed from."""

    eras: Sequence[Era]
    rows: Sequence[Row]
    cursor: datetime
    paused_at: datetime | None
    now: datetime


def entries(book: Book, start: datetime, end: datetime, limit: int) -> list[Entry]:
    """The first `limit` firings from `start` on and before `end`, each with its outcome."""
    merged = heapq.merge(_computed(book, start, end), _kept(book, start, end), key=lambda entry: entry.at)
    return list(islice(merged, limit))


def recent(book: Book, count: int, start: datetime, end: datetime | None = None) -> list[Entry]:
    """The last `count` firings from `start` on, up to now and before `end`, in order, each with its outcome.

    Days that a calendar leaves out are no firings here: a rule of every minute has thousands of them over a weekend.
    The book needs the last `count` rows of this time, and the spans that reach into it.
    """
    end = book.now + _MOMENT if end is None else min(end, book.now + _MOMENT)
    found = list(_kept(book, start, end))
    rows = [row for row in book.rows if row.outcome != TRIGGERED]
    single = {row.at: row for row in rows if row.at == row.until}
    spans = [row for row in rows if row.at != row.until]
    left = count
    for era in reversed(book.eras):
        for at in islice(_backwards(era, start, end) if era.computed else (), left):
            found.append(_judge(book, era, at, single, spans))
            left -= 1
    return sorted(found, key=lambda entry: entry.at)[-count:]


def _backwards(era: Era, start: datetime, end: datetime) -> Iterator[datetime]:
    """The firings of an era before an instant, the last one first."""
    at = era.times.previous(end if era.until is None else min(end, era.until + _MOMENT))
    while at is not None and at > era.since and at >= start:
        yield at
        at = era.times.previous(at)


def _kept(book: Book, start: datetime, end: datetime) -> Iterator[Entry]:
    """The entries that come from rows alone: manual runs, and firings that no rule can compute."""
    uncomputed = [era for era in book.eras if not era.computed]
    for row in sorted(book.rows, key=lambda row: row.at):
        by_itself = row.outcome == TRIGGERED or any(era.covers(row.at) for era in uncomputed)
        if by_itself and start <= row.at < end:
            yield _entry(row.at, row)


def _computed(book: Book, start: datetime, end: datetime) -> Iterator[Entry]:
    firings = [row for row in book.rows if row.outcome != TRIGGERED]
    single = {row.at: row for row in firings if row.at == row.until}
    spans = [row for row in firings if row.at != row.until]
    for era in book.eras:
        first = max(start, era.since + _MOMENT)
        last = end if era.until is None else min(end, era.until + _MOMENT)
        if era.computed and first < last:
            yield from _of_era(book, era, first, last, single, spans)


def _of_era(
    book: Book, era: Era, start: datetime, end: datetime, single: dict[datetime, Row], spans: list[Row]
) -> Iterator[Entry]:
    taken = (Entry(at, SKIPPED, f"calendar {name}") for at, name in era.times.skipped(start, end))
    fired = (_judge(book, era, at, single, spans) for at in era.times.between(start, end))
    yield from heapq.merge(taken, fired, key=lambda entry: entry.at)


def _judge(book: Book, era: Era, at: datetime, single: dict[datetime, Row], spans: Iterable[Row]) -> Entry:
    row = single.get(at) or next((span for span in spans if span.at <= at <= span.until), None)
    if row is not None:
        return _entry(at, row)
    if at <= book.cursor:
        return Entry(at, ON_TIME, job_id=firing_id(era.times.schedule_id, at))
    if book.paused_at is not None and at <= book.now:
        return Entry(at, SKIPPED, "paused")
    return Entry(at, DUE if era.times.due(at) <= book.now else EXPECTED)


def _entry(at: datetime, row: Row) -> Entry:
    return Entry(at, row.outcome, row.reason, row.late_by, row.job_id, row.actor)
