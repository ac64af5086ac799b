"""The body that creates or changes a job, or a schedule when `schedule` (cron), `every` or `repeat` is given.

The job does one of three things: call an `endpoint`, send an email (`type: "email"`), or run the handler of a `name`.
The functions at the end turn the fields of a rule into a `Rule`, and show one as these fields.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AliasChoices, ConfigDict, Field, JsonValue, model_validator

from mainspring.api.problems import Problem
from mainspring.api.wire.base import In, InstantIn, Milliseconds, Span
from mainspring.jobtypes.http.request import METHODS
from mainspring.model.schedules.firing_plan import Misfire, Overlap
from mainspring.rules import AnyOf, At, Every, Except, RRule, Rule
from mainspring.rules.any_of import MOST_RULES
from mainspring.rules.cron import Cron
from mainspring.rules.zones.zone import Fold, Gap

ExecutionType = Literal["AT_LEAST_ONCE", "AT_MOST_ONCE", "EXACTLY_ONCE"]
Method = Literal["POST", "GET", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]
assert set(Method.__args__) == set(METHODS)  # type: ignore[attr-defined]
Text = Annotated[str, Field(min_length=1, max_length=200)]
CronText = Annotated[str, Field(min_length=1, max_length=512, examples=["0 */5 * * * *"])]
Status = int | str
After = Literal["start", "end"]
Then = Literal["skip", "next", "previous"]
GAP = "The policy for a wall time that does not exist on a day on which clocks are set forward."
FOLD = "The policy for a wall time that exists twice on a day on which clocks are set back."
AFTER = "`every` counts from the start of a run, on a grid, or from its end, as a fixed delay between runs."


EveryIn = Annotated[Milliseconds | Text, Field(description="Milliseconds, or text such as 5m.")]
RetryAttempts = Annotated[
    int, Field(ge=0, le=1000, description="Attempts after the first: 2 means three attempts in all.")
]
RetryDelay = Annotated[
    Milliseconds | Span,
    Field(description="The delay before the second attempt, in milliseconds, or text such as 5s; later ones grow."),
]

DataVersion = Annotated[
    int | None,
    Field(ge=1, le=1_000_000, description="The payload version of the data; 1 by default."),
]

Encrypt = bool | Annotated[list[Text], Field(min_length=1, max_length=50)]

ScheduleId = Annotated[
    Text | None, Field(description="The id of a new schedule. An existing schedule with this id is replaced.")
]
_CHOICES = ("schedule", "every", "repeat")


class OneRule(In):
    """A rule: one of `cron`, `every`, `rrule` and `at`; `except` leaves out the days of calendars."""

    kinds: ClassVar[tuple[str, ...]] = ("cron", "every", "rrule", "at")

    cron: CronText | None = None
    every: EveryIn | None = None
    after: After | None = Field(default=None, description=AFTER)
    anchor: InstantIn | None = Field(default=None, description="An instant of the grid of `every`.")
    rrule: Annotated[str, Field(min_length=1, max_length=2000)] | None = None
    start: InstantIn | None = Field(default=None, description="The DTSTART of `rrule`, where its text has none.")
    at: Annotated[list[InstantIn], Field(min_length=1, max_length=1000)] | None = None
    timezone: Text | None = None
    gap: Gap | None = Field(default=None, description=GAP)
    fold: Fold | None = Field(default=None, description=FOLD)
    calendars: Annotated[list[Text], Field(max_length=20)] | None = Field(
        default=None, alias="except", description="Names of calendars on whose days it does not fire."
    )
    then: Then | None = Field(default=None, description="Where a firing on such a day moves to; by default nowhere.")

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = [name for name in self.kinds if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give one of {', '.join(self.kinds[:-1])} and {self.kinds[-1]}")
        if self.timezone is not None and given[0] in ("every", "at"):
            raise ValueError(f"{given[0]} has no timezone: leave it out")
        for name, others in _ONLY_FOR.items():
            if getattr(self, name) is not None and given[0] not in others:
                raise ValueError(f"{name} is for {' and '.join(others)}: leave it out")
        if self.then is not None and not self.calendars:
            raise ValueError("then is for except: leave it out")
        return self


_ONLY_FOR = {
    "after": ("every",),
    "anchor": ("every",),
    "start": ("rrule",),
    "gap": ("cron", "rrule"),
    "fold": ("cron", "rrule"),
}
"""The fields of a rule that only some kinds of rules have."""


class Repeat(OneRule):
    """The rule of a schedule: one of `cron`, `every`, `rrule` and `at`, or `any` of several; `except` leaves out the
    days of calendars."""

    kinds: ClassVar[tuple[str, ...]] = (*OneRule.kinds, "any")

    any: Annotated[list[OneRule], Field(min_length=1, max_length=MOST_RULES)] | None = Field(
        default=None,
        description="The schedule fires when any of these rules does. A time zone beside them applies to rules "
        "without their own.",
    )


class Times(In):
    """The times of a job or a schedule."""

    schedule: CronText | None = None
    every: EveryIn | None = None
    repeat: Repeat | None = None
    timezone: Text | None = None
    run_at: InstantIn | None = None
    delay: Span | None = None
    start_at: InstantIn | None = None
    end_at: InstantIn | None = None
    max_runs: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = None
    jitter: Span | None = None
    misfire: Misfire | None = None
    misfire_grace: Span | None = None
    misfire_limit: Annotated[int, Field(ge=1, le=1000)] | None = None
    start_deadline: Span | None = None
    overlap: Overlap | None = None
    pause_after: Annotated[int, Field(ge=1, le=2**31)] | None = None
    enabled: bool | None = None


class Request(In):
    """The request of a webhook."""

    endpoint: Annotated[str, Field(max_length=4000)] | None = Field(
        default=None,
        validation_alias=AliasChoices("endpoint", "url"),
        description="The http or https URL to call.",
        examples=["https://api.example.com/webhook"],
    )
    method: Method | None = None
    headers: dict[str, str] | None = None
    query: dict[str, str | int | float | bool | list[str]] | None = None
    body: JsonValue = None
    timeout: Span | None = Field(
        default=None, description="The timeout of one attempt, for a webhook (at most 10m) or a handler."
    )
    success: list[Status] | None = None
    retry_on: list[Status] | None = Field(
        default=None, description='Statuses, classes such as "5xx", "network", or "all" for every failure.'
    )
    templates: bool | None = Field(default=None, description="false sends {{ and }} unchanged.")
    redirects: Annotated[int, Field(ge=0, le=3)] | None = None
    sign_with: list[Text] | None = None


class NodeOptions(In):
    """The options of a run, as a node of a flow may have them."""

    execution_type: ExecutionType | None = None
    retry_attempts: RetryAttempts | None = None
    retry_delay: RetryDelay | None = None
    queue: Text | None = None
    priority: Annotated[int, Field(ge=1, le=10)] | None = None
    tags: Annotated[list[Text], Field(max_length=50)] | None = None
    start_within: Span | None = None


class RunOptions(NodeOptions):
    """The options of a run."""

    expires_at: InstantIn | None = None


class Work(Request, RunOptions):
    """The work of a job: a webhook's request, or the data of a handler or a mail; and the options of its run."""

    data: dict[str, JsonValue] | None = None


class Change(Times, Work):
    """A change of a job or a schedule; fields that are not given stay as they are."""


class Copy(Work):
    """The changes of a new job that is made from another one; fields that are not given are copied. `data` replaces the
    whole data."""

    data_version: DataVersion = None
    run_at: InstantIn | None = None
    delay: Span | None = None
    dedupe_key: Text | None = None
    dedupe_window: Span | None = None


class Creation(Change):
    """A job or a schedule to be created."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "schedule": "0 */5 * * * *",
                    "endpoint": "https://api.example.com/webhook",
                    "method": "POST",
                    "headers": {"Content-Type": "application/json"},
                    "body": {"event": "scheduled_task", "timestamp": "{{timestamp}}"},
                }
            ]
        }
    )

    type: Literal["http", "email", "job"] | None = None
    name: Text | None = Field(default=None, description="The name of the handler; for a webhook or an email, a label.")
    label: Text | None = Field(default=None, description="A label for the job, in addition to its name.")
    id: ScheduleId = None
    dedupe_key: Text | None = None
    dedupe_window: Span | None = None
    debounce: Span | None = Field(
        default=None,
        description="Of a burst of requests with the same dedupeKey, or name, run only the last, this long after it.",
    )
    debounce_max: Span | None = Field(
        default=None, description="With debounce: run at the latest this long after the first request of the burst."
    )
    throttle: Span | None = Field(
        default=None, description="Create at most one job with the same dedupeKey, or name, within this time."
    )
    encrypt: Encrypt | None = Field(default=None, description="Encrypt all data, or the values at these paths.")
    data_version: DataVersion = None


# -- rules of schedules ----------------------------------------------------------------------------------------------


def rule_of(times: Times, default_zone: str, before: Rule | None = None) -> Rule | None:
    """The requested rule, or None. A time zone alone changes the zone of the rule `before`."""
    given = [name for name in _CHOICES if getattr(times, name) is not None]
    if len(given) > 1:
        raise Problem(422, f"Give one of schedule, every and repeat, not {' and '.join(given)}.", field=given[1])
    if not given:
        return _in_zone(before, times.timezone)
    if times.repeat is not None and times.repeat.timezone is not None and times.timezone is not None:
        raise Problem(422, "Give the time zone once.", field="timezone")
    zone = times.timezone or (times.repeat.timezone if times.repeat is not None else None)
    spelled_out = times.repeat or Repeat.model_validate({"cron": times.schedule, "every": times.every})
    usual = zone or _zone_of(before) or default_zone
    if spelled_out.any is not None:
        parts = AnyOf(*(_rule(one, one.timezone or usual) for one in spelled_out.any))
        return _with_calendars(spelled_out, parts, zone)
    if zone is not None and spelled_out.cron is None and spelled_out.rrule is None:
        raise Problem(422, "Fixed intervals and instants have no time zone; leave it out.", field="timezone")
    return _rule(spelled_out, usual)


def _rule(one: OneRule, zone: str) -> Rule:
    return _with_calendars(one, _bare(one, zone))


def _with_calendars(one: OneRule, rule: Rule, zone: str | None = None) -> Rule:
    """The rule without the days of calendars; in the zone whose days count, where its parts have several."""
    return Except(rule, *one.calendars, then=one.then or "skip", timezone=zone) if one.calendars else rule


def _bare(one: OneRule, zone: str) -> Rule:
    gap, fold = one.gap or "after", one.fold or "first"
    if one.cron is not None:
        return Cron(one.cron, zone, gap=gap, fold=fold)
    if one.rrule is not None:
        return RRule(one.rrule, zone, start=one.start, gap=gap, fold=fold)
    if one.every is not None:
        period = one.every if isinstance(one.every, str) else timedelta(milliseconds=one.every)
        return Every(period, anchor=one.anchor, after=one.after or "start")
    return At(one.at or ())


def rule_field(times: Times) -> str | None:
    """The field that has the rule, for errors about it."""
    return next((name for name in _CHOICES if getattr(times, name) is not None), None)


def _in_zone(before: Rule | None, zone: str | None) -> Rule | None:
    if before is None or zone is None:
        return None
    if isinstance(before, Cron):
        return Cron(before.expression, zone, gap=before.gap, fold=before.fold)
    if isinstance(before, RRule):
        return RRule(before.text, zone, start=before.start, gap=before.gap, fold=before.fold)
    if isinstance(before, AnyOf | Except):
        raise Problem(422, "This rule has parts; give it again, as repeat, with its time zones.", field="timezone")
    raise Problem(422, "A fixed interval has no time zone; leave it out.", field="timezone")


def _zone_of(rule: Rule | None) -> str | None:
    return rule.timezone if isinstance(rule, Cron | RRule) else None


def cron_text(rule: Rule) -> str | None:
    """The rule's cron expression, if it is one."""
    return rule.expression if isinstance(rule, Cron) else None


def period_ms(rule: Rule) -> int | None:
    """The rule's interval in milliseconds, if it is one."""
    return rule.period // timedelta(milliseconds=1) if isinstance(rule, Every) else None


def zone_text(rule: Rule) -> str | None:
    """The rule's time zone, if it has one."""
    return _zone_of(rule)
