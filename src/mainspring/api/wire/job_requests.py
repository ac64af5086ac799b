"""The body that creates or changes a job, or a schedule when `schedule` (cron), `every` or `repeat` is given.

The job does one of three things: call an `endpoint`, send an email (`type: "email"`), or run the handler of a `name`.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import AliasChoices, ConfigDict, Field, JsonValue, model_validator

from mainspring.api.wire.base import In, InstantIn, Milliseconds, Span
from mainspring.jobtypes.http.request import METHODS
from mainspring.model.schedules.firing_plan import Misfire, Overlap
from mainspring.rules.any_of import MOST_RULES
from mainspring.rules.zones.zone import Fold, Gap

ExecutionType = Literal["AT_LEAST_ONCE", "AT_MOST_ONCE", "EXACTLY_ONCE"]
Method = Literal["POST", "GET", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]
assert set(Method.__args__) == set(METHODS)  # type: ignore[attr-defined]
Text = Annotated[str, Field(min_length=1, max_length=200)]
Cron = Annotated[str, Field(min_length=1, max_length=512, examples=["0 */5 * * * *"])]
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
    Field(ge=1, le=1_000_000, description="The payload version that the data is written for; 1 if it is not given."),
]

Encrypt = bool | Annotated[list[Text], Field(min_length=1, max_length=50)]

ScheduleId = Annotated[
    Text | None, Field(description="The id of a new schedule. A schedule that has it already is replaced.")
]


class OneRule(In):
    """A rule: one of `cron`, `every`, `rrule` and `at`; `except` leaves out the days of calendars."""

    kinds: ClassVar[tuple[str, ...]] = ("cron", "every", "rrule", "at")

    cron: Cron | None = None
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
        default=None, description="Rules of which any fires it. A time zone beside them is that of those without one."
    )


class Times(In):
    """The times of a job or a schedule."""

    schedule: Cron | None = None
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
    timeout: Span | None = Field(default=None, description="For one attempt, of a webhook (at most 10m) or a handler.")
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
    name: Text | None = Field(default=None, description="The name of a handler; of a webhook or a mail, its own name.")
    label: Text | None = Field(default=None, description="A name of its own, beside that of its handler.")
    id: ScheduleId = None
    dedupe_key: Text | None = None
    dedupe_window: Span | None = None
    debounce: Span | None = Field(
        default=None,
        description="Run the last of a burst of requests with one dedupeKey, or name, this long after it.",
    )
    debounce_max: Span | None = Field(default=None, description="The longest time after the first of a burst.")
    throttle: Span | None = Field(
        default=None, description="Make one job with one dedupeKey, or name, within this time."
    )
    encrypt: Encrypt | None = Field(default=None, description="Encrypt all data, or the values at these paths.")
    data_version: DataVersion = None
