"""Schedules and calendars on the wire."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field

from mainspring.api.wire.base import In, Instant, InstantIn, Out, jsonable, span_text, to_ms
from mainspring.api.wire.job_requests import Creation, Text
from mainspring.api.wire.jobs import Reason, shown_data
from mainspring.model.schedules.firing_plan import Overlap
from mainspring.model.schedules.ledger import Entry
from mainspring.model.schedules.schedule import Firing, ScheduleFacts
from mainspring.rules.calendars.calendar import Calendar
from mainspring.store.schedules.calendars import StoredCalendar
from mainspring.store.schedules.ledger import Backfill

Count = Annotated[int, Field(ge=1, le=2**31)]
Day = Annotated[str, Field(max_length=20, examples=["2030-12-24"])]


class PreviewIn(Creation):
    """The body that would create a schedule, of which only the times matter, and the number of firings to show."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"schedule": "0 9 * * MON-FRI", "timezone": "Europe/Paris", "count": 3}]}
    )

    count: Annotated[int, Field(ge=1, le=1000)] = 10
    start: InstantIn | None = None


class PauseIn(In):
    """The reason for which a schedule is paused, or a firing skipped."""

    reason: Reason = ""


class TriggerIn(In):
    """The overlap policy of a triggered job, by default the schedule's own, and a reason."""

    overlap: Overlap | None = None
    reason: Reason = ""


class BackfillIn(In):
    """The past window of a backfill, and its firings: those that were missed or skipped, or all."""

    start: InstantIn
    end: InstantIn
    which: Literal["not_run", "all"] = "not_run"
    limit: Annotated[int, Field(ge=1, le=10_000)] = 1000
    backfill_id: Text | None = Field(None, description="Another id starts the backfill of the window anew.")
    preview: bool = Field(False, description="Only show the firings that would get a job.")


class PauseOut(Out):
    """The pause of a schedule."""

    at: Instant | None
    reason: str
    actor: str | None = None


class PolicyOut(Out):
    """The policies for missed firings and overlapping runs."""

    misfire: str
    misfire_grace: str
    misfire_limit: int
    start_deadline: str | None
    overlap: str
    max_runs: int | None


class ScheduleOut(Out):
    """A schedule as it is now."""

    id: str
    name: str
    data: dict[str, Any]
    rule: dict[str, Any]
    description: str
    state: str
    next_at: Instant | None
    due_at: Instant | None
    last_at: Instant | None
    last_job_id: str | None
    runs: int
    failures: int
    paused: PauseOut | None
    queue: str
    priority: int
    tags: list[str]
    start_at: Instant | None
    end_at: Instant | None
    jitter: str | None
    policy: PolicyOut
    pause_after: int | None
    declared_by: str | None
    created_at: Instant | None
    updated_at: Instant | None
    error: str | None = Field(None, description="The unreadable fields of its document.")

    @classmethod
    def of(cls, schedule: ScheduleFacts) -> Self:
        """A schedule that has been through `scheduler.privacy.shown`."""
        paused, policy = schedule.paused, schedule.policy
        return cls(
            **{key: getattr(schedule, key) for key in _SAME},
            data=shown_data(schedule.data),
            rule=jsonable(schedule.rule.to_document()),
            description=schedule.rule.describe(),
            tags=list(schedule.tags),
            jitter=span_text(schedule.jitter),
            paused=None if paused is None else PauseOut(at=paused.at, reason=paused.reason, actor=paused.actor),
            policy=PolicyOut(
                misfire=policy.misfire,
                misfire_grace=span_text(policy.misfire_grace) or "0s",
                misfire_limit=policy.misfire_limit,
                start_deadline=span_text(policy.start_deadline),
                overlap=policy.overlap,
                max_runs=policy.max_runs,
            ),
        )


_SAME = (
    *("id", "name", "state", "next_at", "due_at", "last_at", "last_job_id", "runs", "failures", "queue", "priority"),
    *("start_at", "end_at", "pause_after", "declared_by", "created_at", "updated_at", "error"),
)


class FiringOut(Out):
    """A future firing: its time in UTC and in the rule's zone, when its job is made, and notes on what moved it."""

    at: Instant
    local: str
    due: Instant
    notes: list[str]

    @classmethod
    def of(cls, firing: Firing) -> Self:
        return cls(at=firing.at, local=firing.at.isoformat(), due=firing.due, notes=list(firing.notes))


class EntryOut(Out):
    """A firing and its outcome."""

    at: Instant
    outcome: str
    reason: str
    late_by_ms: int | None
    job_id: str | None
    actor: str | None

    @classmethod
    def of(cls, entry: Entry) -> Self:
        return cls(
            at=entry.at,
            outcome=entry.outcome,
            reason=entry.reason,
            late_by_ms=to_ms(entry.late_by),
            job_id=entry.job_id,
            actor=entry.actor,
        )


class BackfillOut(Out):
    """A backfill of a past window."""

    id: str | None = None
    schedule_id: str
    start: Instant
    end: Instant
    which: str
    made: int
    done: bool
    firings: list[EntryOut] | None = Field(None, description="In a preview: the firings that would get a job.")

    @classmethod
    def of(cls, backfill: Backfill) -> Self:
        same = ("id", "schedule_id", "start", "end", "which", "made", "done")
        return cls(**{key: getattr(backfill, key) for key in same})


class CalendarIn(In):
    """A set of days: single days, ranges of a first and a last day, days of every year, and weekdays."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"days": ["2030-12-24"], "yearly": ["12-25"], "weekdays": ["SAT", "SUN"]}]}
    )

    days: Annotated[list[Day], Field(max_length=20_000)] = Field(default_factory=list)
    ranges: Annotated[list[tuple[Day, Day]], Field(max_length=20_000)] = Field(default_factory=list)
    yearly: Annotated[list[Day], Field(max_length=400)] = Field(default_factory=list)
    weekdays: Annotated[list[Day], Field(max_length=7)] = Field(default_factory=list)
    description: Annotated[str, Field(max_length=1000)] = ""

    def calendar(self) -> Calendar:
        return Calendar(
            self.days,
            ranges=self.ranges,
            yearly=self.yearly,
            weekdays=self.weekdays,
            description=self.description,
        )


class CalendarOut(Out):
    """A calendar as it is stored."""

    name: str
    rev: int
    days: list[date]
    ranges: list[tuple[date, date]]
    yearly: list[str]
    weekdays: list[str]
    description: str
    updated_at: Instant
    actor: str | None

    @classmethod
    def of(cls, stored: StoredCalendar) -> Self:
        calendar = stored.calendar
        return cls(
            name=stored.name,
            rev=stored.rev,
            days=list(calendar.days),
            ranges=list(calendar.ranges),
            yearly=[f"{month:02}-{day:02}" for month, day in calendar.yearly],
            weekdays=list(calendar.weekdays),
            description=calendar.description,
            updated_at=stored.updated_at,
            actor=stored.actor,
        )


class Window(In):
    """The part of a ledger between two instants."""

    start: InstantIn | None = Field(None, description="A day ago by default.")
    end: InstantIn | None = Field(None, description="A day from now by default.")
    limit: Annotated[int, Field(ge=1, le=1000)] = 100

    def between(self, now: datetime) -> tuple[datetime, datetime]:
        day = timedelta(days=1)
        return self.start or now - day, self.end or now + day
