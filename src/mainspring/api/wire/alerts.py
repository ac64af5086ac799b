"""Alert rules on the wire. Answers show of a destination's URL the server only, and no values of its headers."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from mainspring.api.wire.base import In, Instant, InstantIn, Out, Span, span_seconds, span_text
from mainspring.api.wire.job_requests import Text
from mainspring.client.alerts.trial import AlertTest
from mainspring.model.alerts.episode import Subject
from mainspring.model.alerts.rule import (
    MOST_DESTINATIONS,
    MOST_THRESHOLD,
    AlertKind,
    AlertRule,
    DestinationType,
    Silence,
)
from mainspring.model.fields import Fields

Names = Annotated[list[Text], Field(min_length=1, max_length=100)]
Address = Annotated[str, Field(min_length=1, max_length=320)]
Addresses = Annotated[list[Address], Field(min_length=1, max_length=20)]
_LONGEST_TEST = 30.0
_KIND = (
    "The problem: jobs that failed for good, a schedule that missed its firing, a queue whose oldest due job waits too "
    "long, no live worker (for a queue), or an open breaker."
)


def _short(value: str) -> str:
    if span_seconds(value) > _LONGEST_TEST:
        raise ValueError(f"must be at most {_LONGEST_TEST:g}s")
    return value


class DestinationIn(In):
    """Where messages go. An email has `to`; a webhook and a chat have a `url`."""

    type: DestinationType
    to: Addresses | None = None
    url: Annotated[str, Field(min_length=1, max_length=4000)] | None = Field(
        None,
        description='A chat receives `{"text": …}`, the format of Slack and others. The path may be a stored secret, '
        "as in `https://hooks.example.com/secret://chat`.",
        examples=["https://hooks.slack.com/secret://chat"],
    )
    headers: Annotated[dict[str, str], Field(max_length=20)] | None = Field(None, description="Only for a webhook.")
    sign_with: Annotated[list[Text], Field(max_length=5)] | None = Field(
        None, description="For a webhook only: the secrets that sign it."
    )

    def given(self) -> Fields:
        return self.model_dump(by_alias=False, exclude_none=True)


class RuleFields(In):
    """The fields of a rule that can be changed."""

    queues: Names | None = Field(None, description="Only these queues; null: all.")
    prefixes: Names | None = Field(None, description="Only jobs whose names begin with one of these; null: all.")
    after: Span | None = Field(
        None, description="How long the problem must last before it counts; not for dead_letters."
    )
    threshold: Annotated[int, Field(ge=1, le=MOST_THRESHOLD)] | None = Field(
        None, description="For dead_letters: how many with the same cause trigger the alert."
    )
    within: Span | None = Field(None, description="For dead_letters: the span of time in which they are counted.")
    group_window: Span | None = Field(
        None,
        description="How long subjects are gathered for one message, and how long the problem must be gone before the "
        "alert is over.",
    )
    repeat_every: Span | None = Field(
        None, description="How often the message of an ongoing alert is repeated, at least 1m; null: never."
    )
    send_resolved: bool | None = Field(None, description="Whether to send a message when the alert is over.")
    enabled: bool | None = None
    queue: Text | None = Field(
        None, description="The queue of the jobs that send the messages; null: the queue of webhooks or email."
    )

    def options(self) -> Fields:
        """The given options, as arguments of `scheduler.alerts`."""
        may_be_null = ("queues", "prefixes", "after", "repeat_every", "queue")
        given = {name: getattr(self, name) for name in RuleFields.model_fields if name in self.model_fields_set}
        return {name: value for name, value in given.items() if value is not None or name in may_be_null}


class RuleIn(RuleFields):
    """An alert rule to be created."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "Dead letters",
                    "kind": "dead_letters",
                    "to": [{"type": "chat", "url": "https://hooks.slack.com/secret://chat"}],
                    "repeatEvery": "4h",
                }
            ]
        }
    )

    name: Text
    kind: AlertKind = Field(description=_KIND)
    to: Annotated[list[DestinationIn], Field(min_length=1, max_length=MOST_DESTINATIONS)]


class RuleChange(RuleFields):
    """A change of an alert rule; fields that are not given stay as they are. A destination that is sent back as it was
    shown keeps its hidden values."""

    name: Text | None = None
    to: Annotated[list[DestinationIn], Field(min_length=1, max_length=MOST_DESTINATIONS)] | None = None


class SilenceIn(In):
    """A silence: until an instant, or for some time."""

    until: InstantIn | None = None
    duration: Span | None = Field(None, description="How long, from now on.", examples=["2h"])
    reason: Annotated[str, Field(max_length=2000)] = ""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.until is None) == (self.duration is None):
            raise ValueError("give until or duration, and not both")
        return self


class TrialIn(In):
    """How long a test waits for its messages."""

    timeout: Annotated[Span, AfterValidator(_short)] = Field(default="10s", description="At most 30s.")


class DestinationOut(Out):
    type: DestinationType
    to: list[str] | None = None
    url: str | None = Field(None, description="Without its path, unless that is a reference to a secret.")
    headers: dict[str, str] | None = None
    sign_with: list[str] | None = None


class SilenceOut(Out):
    until: Instant
    reason: str
    actor: str | None
    at: Instant

    @classmethod
    def of(cls, silence: Silence) -> Self:
        return cls(until=silence.until, reason=silence.reason, actor=silence.actor, at=silence.at)


class SubjectOut(Out):
    key: str
    text: str
    since: Instant
    told: bool = Field(description="Whether a message has reported it.")

    @classmethod
    def of(cls, subject: Subject) -> Self:
        return cls(key=subject.key, text=subject.text, since=subject.since, told=subject.told)


class RuleOut(Out):
    """An alert rule, and the state of its alert."""

    id: str
    name: str
    kind: AlertKind
    to: list[DestinationOut]
    queues: list[str] | None
    prefixes: list[str] | None
    after: str
    threshold: int
    within: str
    group_window: str
    repeat_every: str | None
    send_resolved: bool
    enabled: bool
    queue: str | None
    status: Literal["ok", "pending", "firing"]
    since: Instant | None = Field(description="For a firing alert: since when.")
    subjects: list[SubjectOut]
    told_at: Instant | None = Field(description="When the last message was made.")
    messages: int = Field(description="The number of messages so far.")
    jobs: list[str] = Field(description="The ids of the jobs that send the last messages, the latest first.")
    silence: SilenceOut | None
    created_at: Instant
    updated_at: Instant
    actor: str | None

    @classmethod
    def of(cls, rule: AlertRule, silence: Silence | None) -> Self:
        same = ("id", "name", "kind", "threshold", "send_resolved", "enabled", "queue", "created_at", "updated_at")
        scope, state = rule.scope, rule.state
        return cls(
            **{name: getattr(rule, name) for name in (*same, "actor")},
            to=[DestinationOut(**one.shown) for one in rule.to],
            queues=None if scope.queues is None else list(scope.queues),
            prefixes=None if scope.prefixes is None else list(scope.prefixes),
            after=span_text(rule.after) or "0s",
            within=span_text(rule.within) or "0s",
            group_window=span_text(rule.group_window) or "0s",
            repeat_every=span_text(rule.repeat_every),
            status=state.status,
            since=state.since,
            subjects=[SubjectOut.of(one) for one in state.current],
            told_at=state.told_at,
            messages=state.messages,
            jobs=list(state.jobs),
            silence=None if silence is None else SilenceOut.of(silence),
        )


class AlertTestOut(Out):
    """The outcome of a test message at one destination."""

    to: DestinationOut
    job_id: str
    state: str = Field(
        description="The state of the job that sends it; completed means that the destination accepted it."
    )
    arrived: bool
    error: str | None

    @classmethod
    def of(cls, test: AlertTest) -> Self:
        to = DestinationOut(**test.to)
        return cls(to=to, job_id=test.job_id, state=test.state, arrived=test.arrived, error=test.error)
