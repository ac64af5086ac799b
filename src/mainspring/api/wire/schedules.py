"""Schedules and calendars on the wire."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, JsonValue, model_validator

from mainspring.api.showing import jsonable
from mainspring.api.wire.base import In, Instant, InstantIn, Milliseconds, Out, to_ms
from mainspring.api.wire.jobs import Reason, shown_data
from mainspring.api.wire.resources import Cron as CronText
from mainspring.api.wire.resources import ExecutionType, Text
from mainspring.cron import Cron
from mainspring.model.calendar import Calendar
from mainspring.model.ledger import Entry
from mainspring.model.retry import Retry
from mainspring.model.rules import At, Every, Except, RRule, Rule
from mainspring.model.schedule import Firing, ScheduleFacts
from mainspring.store.calendars import StoredCalendar
from mainspring.store.ledger import Backfill

Overlap = Literal["allow", "skip", "queue_one", "queue_all", "cancel_running"]
Count = Annotated[int, Field(ge=1, le=2**31)]
Day = Annotated[str, Field(max_length=20, examples=["2030-12-24"])]


class RuleIn(In):
    """When a schedule fires: one of `cron`, `every`, `rrule` and `at`; `except` takes the days of calendars out."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"cron": "0 9 * * MON-FRI", "timezone": "Europe/Paris"}, {"every": 300_000}]}
    )

    cron: CronText | None = None
    every: Annotated[Milliseconds | Text, Field(description="Milliseconds, or text such as 5m.")] | None = None
    rrule: Annotated[str, Field(min_length=1, max_length=2000)] | None = None
    at: Annotated[list[InstantIn], Field(min_length=1, max_length=1000)] | None = None
    timezone: Text | None = None
    calendars: Annotated[list[Text], Field(max_length=20)] | None = Field(
        None, alias="except", description="Names of calendars on whose days it does not fire."
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = [name for name in ("cron", "every", "rrule", "at") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("give one of cron, every, rrule and at")
        if self.timezone is not None and given[0] in ("every", "at"):
            raise ValueError(f"{given[0]} has no timezone: leave it out")
        return self

    def rule(self, zone: str) -> Rule:
        """The rule that this says; without a zone of its own, in the service's."""
        rule = self._bare(self.timezone or zone)
        return Except(rule, *self.calendars) if self.calendars else rule

    def _bare(self, zone: str) -> Rule:
        if self.cron is not None:
            return Cron(self.cron, zone)
        if self.rrule is not None:
            return RRule(self.rrule, zone)
        if self.every is not None:
            return Every(self.every if isinstance(self.every, str) else timedelta(milliseconds=self.every))
        return At(self.at or ())


class PreviewIn(RuleIn):
    """A rule, and how many of its firings to show."""

    count: Annotated[int, Field(ge=1, le=1000)] = 10
    start: InstantIn | None = None
    schedule_id: Text | None = Field(None, description="H and jitter depend on the id that the schedule will have.")
    jitter: Milliseconds | None = None


class ScheduleIn(In):
    """What a schedule is to be: which jobs it makes, and when."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"name": "send-report", "data": {"to": "a@b.example"}, "repeat": {"cron": "0 9 * * MON-FRI"}}]
        }
    )

    name: Text
    data: dict[str, JsonValue] | None = None
    repeat: RuleIn
    queue: Text | None = None
    priority: Annotated[int, Field(ge=1, le=10)] | None = None
    tags: Annotated[list[Text], Field(max_length=50)] | None = None
    timeout: Annotated[int, Field(ge=1, le=31 * 86_400_000)] | None = None
    execution_type: ExecutionType | None = None
    retry_attempts: Annotated[int, Field(ge=0, le=1000)] | None = Field(None, description="Tries after the first.")
    retry_delay: Milliseconds | None = Field(None, description="The pause before the second try; later ones grow.")
    start_within: Milliseconds | None = None
    start_at: InstantIn | None = None
    end_at: InstantIn | None = None
    max_runs: Count | None = None
    jitter: Milliseconds | None = None
    misfire: Literal["skip", "latest", "all"] | None = None
    misfire_grace: Milliseconds | None = None
    misfire_limit: Annotated[int, Field(ge=1, le=1000)] | None = None
    start_deadline: Milliseconds | None = None
    overlap: Overlap | None = None
    pause_after: Count | None = None

    def options(self) -> dict[str, Any]:
        """What `Scheduler.schedule` takes beside the name, the data and the rule."""
        same = ("queue", "priority", "tags", "start_at", "end_at", "max_runs", "misfire", "misfire_limit", "overlap")
        spans = ("timeout", "start_within", "jitter", "misfire_grace", "start_deadline")
        options = {key: getattr(self, key) for key in (*same, "pause_after")}
        options |= {key: None if (span := getattr(self, key)) is None else span / 1000 for key in spans}
        options["executes"] = None if self.execution_type is None else self.execution_type.lower()
        return {key: value for key, value in (options | {"retry": self._retry()}).items() if value is not None}

    def _retry(self) -> Retry | None:
        given: dict[str, Any] = {}
        if self.retry_attempts is not None:
            given["attempts"] = self.retry_attempts + 1
        if self.retry_delay is not None:
            given["delay"] = self.retry_delay / 1000
        return Retry(**given) if given else None


class PauseIn(In):
    """Why a schedule is paused, or a firing skipped."""

    reason: Reason = ""


class TriggerIn(In):
    """How a run by hand meets runs that are still going; the schedule's own policy where nothing is given."""

    overlap: Overlap | None = None
    reason: Reason = ""


class BackfillIn(In):
    """The past window whose firings are to be made up for: those that were missed or skipped, or all."""

    start: InstantIn
    end: InstantIn
    which: Literal["not_run", "all"] = "not_run"
    limit: Annotated[int, Field(ge=1, le=10_000)] = 1000
    backfill_id: Text | None = Field(None, description="Another one to do all over what was done before.")
    preview: bool = Field(False, description="Only show which firings it would make up for.")


class PauseOut(Out):
    """Why a schedule does not fire."""

    at: Instant
    reason: str
    actor: str | None = None


class PolicyOut(Out):
    """What is done when firings are missed or runs overlap."""

    misfire: str
    misfire_grace: int
    misfire_limit: int
    start_deadline: int | None
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
    jitter: int | None
    policy: PolicyOut
    pause_after: int | None
    declared_by: str | None
    created_at: Instant
    updated_at: Instant

    @classmethod
    def of(cls, schedule: ScheduleFacts) -> Self:
        """A schedule that has been through `Scheduler.shown_schedule`."""
        paused, policy = schedule.paused, schedule.policy
        return cls(
            **{key: getattr(schedule, key) for key in _SAME},
            data=shown_data(schedule.name, schedule.data),
            rule=jsonable(schedule.rule.to_document()),
            description=schedule.rule.describe(),
            tags=list(schedule.tags),
            jitter=to_ms(schedule.jitter),
            paused=None if paused is None else PauseOut(at=paused.at, reason=paused.reason, actor=paused.actor),
            policy=PolicyOut(
                misfire=policy.misfire,
                misfire_grace=round(policy.misfire_grace * 1000),
                misfire_limit=policy.misfire_limit,
                start_deadline=to_ms(policy.start_deadline),
                overlap=policy.overlap,
                max_runs=policy.max_runs,
            ),
        )


_SAME = (
    *("id", "name", "state", "next_at", "due_at", "last_at", "last_job_id", "runs", "failures", "queue", "priority"),
    *("start_at", "end_at", "pause_after", "declared_by", "created_at", "updated_at"),
)


class FiringOut(Out):
    """A firing to come: when it is, in UTC and on the clocks of the rule's zone, when its job is made, and what moved
    it."""

    at: Instant
    local: str
    due: Instant
    notes: list[str]

    @classmethod
    def of(cls, firing: Firing) -> Self:
        return cls(at=firing.at, local=firing.at.isoformat(), due=firing.due, notes=list(firing.notes))


class EntryOut(Out):
    """A firing and what became of it."""

    at: Instant
    outcome: str
    reason: str
    late_by: int | None
    job_id: str | None
    actor: str | None

    @classmethod
    def of(cls, entry: Entry) -> Self:
        return cls(
            at=entry.at,
            outcome=entry.outcome,
            reason=entry.reason,
            late_by=to_ms(entry.late_by),
            job_id=entry.job_id,
            actor=entry.actor,
        )


class BackfillOut(Out):
    """A past window that was made up for."""

    id: str | None = None
    schedule_id: str
    start: Instant
    end: Instant
    which: str
    made: int
    done: bool
    firings: list[EntryOut] | None = Field(None, description="Of a preview: what it would make up for.")

    @classmethod
    def of(cls, backfill: Backfill) -> Self:
        same = ("id", "schedule_id", "start", "end", "which", "made", "done")
        return cls(**{key: getattr(backfill, key) for key in same})


class CalendarIn(In):
    """A set of days: single ones, ranges of a first and a last one, days of every year, and weekdays."""

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
    """A stretch of time of a ledger."""

    start: InstantIn | None = Field(None, description="A day ago by default.")
    end: InstantIn | None = Field(None, description="A day from now by default.")
    limit: Annotated[int, Field(ge=1, le=1000)] = 100

    def between(self, now: datetime) -> tuple[datetime, datetime]:
        day = timedelta(days=1)
        return self.start or now - day, self.end or now + day
