"""The times of one schedule: the firings of its rule between its start and its end, and the jitter of each.

The rule's own instant of a firing is its *nominal* time: it names the firing for ever, and the job has it as
`scheduled_for`. The *due* time, at which the job is made, is the nominal one plus the jitter. The jitter is a hash of
the schedule and the firing, never a random number, so that every process computes the same and lateness stays defined;
and it never reaches the next firing, so that the order of firings is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b

from mainspring.rules.every import END, Every
from mainspring.rules.instants import instant_text
from mainspring.rules.rule import Rule

_MOMENT = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Times:
    """The firings of a schedule, all in UTC. `rule` is bound to the schedule's id and calendars."""

    schedule_id: str
    rule: Rule
    start_at: datetime | None = None
    end_at: datetime | None = None
    jitter: float = 0.0

    def next(self, after: datetime) -> datetime | None:
        """The nominal time of the first firing after an instant."""
        found: datetime | None
        if self.start_at is None or after >= self.start_at:
            found = self.rule.next(after)
        elif is_after_end(self.rule):  # there is no run yet to count from
            found = self.start_at
        else:
            found = self.rule.next(self.start_at - _MOMENT)
        if found is None or (self.end_at is not None and found > self.end_at):
            return None
        return found.astimezone(UTC)

    def previous(self, before: datetime) -> datetime | None:
        """The nominal time of the last firing before an instant."""
        if self.end_at is not None and before > self.end_at:
            before = self.end_at + _MOMENT
        found = self.rule.previous(before)
        if found is None or (self.start_at is not None and found < self.start_at):
            return None
        return found.astimezone(UTC)

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """The nominal times from `start` on and before `end`."""
        start, end = self._within(start, end)
        for found in self.rule.between(start, end) if start < end else ():
            yield found.astimezone(UTC)

    def skipped(self, start: datetime, end: datetime) -> Iterator[tuple[datetime, str]]:
        """The firings from `start` on and before `end` that a calendar left out, with its name."""
        start, end = self._within(start, end)
        for found, calendar in self.rule.skipped(start, end) if start < end else ():
            yield found.astimezone(UTC), calendar

    def count(self, start: datetime, end: datetime) -> int:
        """The number of firings from `start` on and before `end`."""
        start, end = self._within(start, end)
        return self.rule.count(start, end) if start < end else 0

    def due(self, nominal: datetime) -> datetime:
        """The instant at which the job of a firing is made."""
        if not self.jitter:
            return nominal
        reach = self.jitter
        following = self.rule.next(nominal)
        if following is not None:
            reach = min(reach, (following - nominal).total_seconds())
        return nominal + timedelta(milliseconds=int(1000 * reach * self._share(nominal)))

    def _share(self, nominal: datetime) -> float:
        """A number between 0 and 1, the same for this firing in every process."""
        key = f"{self.schedule_id}@{nominal.timestamp():.3f}".encode()
        return int.from_bytes(blake2b(key, digest_size=6).digest()) / 2**48

    def _within(self, start: datetime, end: datetime) -> tuple[datetime, datetime]:
        if self.start_at is not None:
            start = max(start, self.start_at)
        if self.end_at is not None:
            end = min(end, self.end_at + _MOMENT)
        return start, end


def is_after_end(rule: Rule) -> bool:
    """Whether a rule counts from the end of the run before."""
    return isinstance(rule, Every) and rule.after == END


def firing_id(schedule_id: str, nominal: datetime) -> str:
    """The id of the job that a firing makes: the same for every worker."""
    return f"{schedule_id}@{instant_text(nominal)}"
