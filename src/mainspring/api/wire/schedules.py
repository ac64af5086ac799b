"""Schedules and calendars on the wire."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field

from mainspring.api.wire.base import Answer, In, Instant, InstantIn, Out, Span, jsonable, span_text, to_ms
from mainspring.api.wire.job_requests import Creation, Text
from mainspring.api.wire.jobs import Reason, shown_data
from mainspring.client.views.schedule_views import MOST_RECENT, MOST_SHOWN
from mainspring.model.fields import Fields
from mainspring.model.schedules.coming import MOST_BUCKETS, MOST_HEAVIEST, Coming
from mainspring.model.schedules.firing_plan import Overlap
from mainspring.model.schedules.ledger import Entry, RecentFiring
from mainspring.model.schedules.schedule import Firing, ScheduleFacts
from mainspring.model.schedules.search import is_failing
from mainspring.rules.calendars.calendar import Calendar
from mainspring.rules.text import rule_text, rule_zone
from mainspring.store.schedules.calendars import StoredCalendar
from mainspring.store.schedules.ledger import Backfill

Count = Annotated[int, Field(ge=1, le=2**31)]
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
Day = Annotated[str, Field(max_length=20, examples=["2030-12-24"])]


class PreviewIn(Creation):
    """The body that would create a schedule, of which only the times matter, and the number of firings to show."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"schedule": "0 9 * * MON-FRI", "timezone": "Europe/Paris", "count": 3}]}
    )

    count: Annotated[int, Field(ge=1, le=1000)] = 10
    start: InstantIn | None = None


class RecentIn(In):
    """The schedules whose last firings to show, and how many firings of each."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"ids": ["nightly-report"], "count": 20}]})

    ids: Annotated[list[Text], Field(min_length=1, max_length=MOST_SHOWN)]
    count: Annotated[int, Field(ge=1, le=MOST_RECENT)] = MOST_RECENT


class ComingIn(In):
    """The window in which the firings of all schedules are counted."""

    start: InstantIn | None = Field(
        None, description="The beginning of the first bucket; by default, that of the bucket that contains the present."
    )
    end: InstantIn | None = Field(None, description="A day after the start by default.")
    step: Span = Field("1h", description=f"The length of a bucket, from 1m to 7d; at most {MOST_BUCKETS:,} buckets.")
    heaviest: Annotated[int, Field(ge=0, le=MOST_HEAVIEST)] = Field(5, description="How many schedules to name.")


class ReasonIn(In):
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
    backfill_id: Text | None = Field(None, description="Another id starts the backfill of the window again.")
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
    label: str | None = Field(description="The label of its jobs: a name in addition to that of their handler.")
    data: Fields
    rule: Fields
    description: str = Field(description="The rule in words.")
    text: str = Field(description="The rule as a cron expression, an RRULE or an interval.")
    zone: str | None = Field(description="The time zone of the rule; null if it counts real time.")
    state: str
    next_at: Instant | None
    due_at: Instant | None
    last_at: Instant | None
    last_job_id: str | None
    last_state: str | None = Field(
        None, description="The state of the last firing's job; null if it is no longer stored."
    )
    failing: bool = Field(
        False, description="Whether the last job failed or is being retried, or there are consecutive failures."
    )
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
    def of(cls, schedule: ScheduleFacts, last_state: str | None = None) -> Self:
        """A schedule that has been through `scheduler.privacy.shown`, and the state of its last job."""
        return cls(**schedule_fields(schedule, last_state))


_SAME = (
    *("id", "name", "state", "next_at", "due_at", "last_at", "last_job_id", "runs", "failures", "queue", "priority"),
    *("label", "start_at", "end_at", "pause_after", "declared_by", "created_at", "updated_at", "error"),
)


def schedule_fields(schedule: ScheduleFacts, last_state: str | None) -> Fields:
    """The fields of `ScheduleOut`, which every other shape of a schedule has too."""
    paused, policy = schedule.paused, schedule.policy
    return {key: getattr(schedule, key) for key in _SAME} | {
        "data": shown_data(schedule.data),
        "rule": jsonable(schedule.rule.to_document()),
        "description": schedule.rule.describe(),
        "text": rule_text(schedule.rule),
        "zone": rule_zone(schedule.rule),
        "last_state": last_state,
        "failing": is_failing(schedule.failures, last_state),
        "tags": list(schedule.tags),
        "jitter": span_text(schedule.jitter),
        "paused": None if paused is None else PauseOut(at=paused.at, reason=paused.reason, actor=paused.actor),
        "policy": PolicyOut(
            misfire=policy.misfire,
            misfire_grace=span_text(policy.misfire_grace) or "0s",
            misfire_limit=policy.misfire_limit,
            start_deadline=span_text(policy.start_deadline),
            overlap=policy.overlap,
            max_runs=policy.max_runs,
        ),
    }


class FiringOut(Out):
    """A future firing: its time in UTC and in the rule's zone, when its job is made, and notes if it was moved."""

    at: Instant
    local: str
    due: Instant
    notes: list[str]

    @classmethod
    def of(cls, firing: Firing) -> Self:
        return cls(at=firing.at, local=firing.at.isoformat(), due=firing.due, notes=list(firing.notes))


class FieldProblem(Out):
    """A field of a request that would be refused, and the cure."""

    field: str | None
    detail: str


class PreviewOut(Answer[list[FiringOut]]):
    """The next firings of a rule, and the rule in words. `problems` lists the other fields that would be refused."""

    description: str
    text: str
    zone: str | None
    problems: list[FieldProblem] = Field(default_factory=list)


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


class RecentFiringOut(EntryOut):
    """A firing up to now, its outcome, and the state of its job."""

    job_state: str | None = Field(description="Null if there is no job, or it is no longer stored.")

    @classmethod
    def of_recent(cls, firing: RecentFiring) -> Self:
        return cls(
            **{key: getattr(firing, key) for key in ("at", "outcome", "reason", "job_id", "job_state", "actor")},
            late_by_ms=to_ms(firing.late_by),
        )


class RecentOut(Out):
    """The last firings of a schedule, the latest one last."""

    id: str
    firings: list[RecentFiringOut]


class HeavyOut(Out):
    """A schedule and the number of its firings in a bucket."""

    id: str
    name: str
    firings: int


class BucketOut(Out):
    """The firings of one bucket."""

    at: Instant
    firings: int
    herd: int = Field(description="Firings in the first minute of the bucket that no jitter spreads.")
    schedules: int = Field(description="The number of schedules that fire.")
    heaviest: list[HeavyOut]


class ClockChangeOut(Out):
    """An instant at which the clocks of a zone are set forward or back."""

    at: Instant
    zone: str
    by_ms: int
    words: str
    schedules: int = Field(description="The number of schedules in this zone.")


class ComingOut(Out):
    """The coming firings of all schedules, in buckets; buckets without a firing are left out."""

    start: Instant
    end: Instant
    step: str
    buckets: list[BucketOut]
    schedules: int = Field(description="The number of schedules that were counted.")
    paused: int = Field(description="The number of paused ones among them, which do not fire.")
    clock_changes: list[ClockChangeOut]
    complete: bool = Field(description="False as long as schedules have not been counted yet: ask again.")
    read_since: Instant = Field(description="Every schedule is counted as it was at this instant or later.")

    @classmethod
    def of(cls, coming: Coming) -> Self:
        return cls(
            **{key: getattr(coming, key) for key in ("start", "end", "schedules", "paused", "complete", "read_since")},
            step=span_text(coming.step) or "",
            buckets=[
                BucketOut(
                    at=one.at,
                    firings=one.firings,
                    herd=one.herd,
                    schedules=one.schedules,
                    heaviest=[HeavyOut(id=heavy.id, name=heavy.name, firings=heavy.firings) for heavy in one.heaviest],
                )
                for one in coming.buckets
            ],
            clock_changes=[
                ClockChangeOut(at=one.at, zone=one.zone, by_ms=to_ms(one.by) or 0, words=one.words, schedules=number)
                for one, number in coming.clock_changes
            ],
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
    latest: bool = Field(
        False,
        description="List the last `limit` firings up to now instead of the first, without those that a calendar left "
        "out. `start` is then open by default. For the previous page, set `end` to the first firing of this one.",
    )

    def between(self, now: datetime) -> tuple[datetime, datetime]:
        day = timedelta(days=1)
        return self.start or (_LONG_AGO if self.latest else now - day), self.end or now + day
