"""Pauses, limits and breakers on the wire."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from mainspring.api.wire.base import In, Instant, Out, Span, jsonable, span_text
from mainspring.api.wire.job_requests import Text
from mainspring.api.wire.jobs import Reason
from mainspring.model.fields import Fields
from mainspring.model.limits.breaker import BreakerStatus
from mainspring.model.limits.controls import GateUse, Holder, LimitOverride, LimitStatus, Paused
from mainspring.model.limits.limits import RATE, JobLimits, Limit, Rate

Place = Literal["queue", "name"]
Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Plain = Annotated[str, StringConstraints(max_length=1000)] | Whole | float | bool
Path = Annotated[str, Field(min_length=1, max_length=200)]
Key = Annotated[
    dict[Path, Plain],
    Field(min_length=1, max_length=1, description="Only jobs that have this value in their data."),
]


class TargetIn(In):
    """A queue or a job name; with `key`, only its jobs that have this value in their data."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"queue": "mail"}, {"name": "send", "key": {"to": "a"}}]})

    queue: Text | None = None
    name: Text | None = None
    key: Key | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.queue is None) == (self.name is None):
            raise ValueError("give either queue or name")
        return self

    def given(self) -> Fields:
        """The target, as the Scheduler takes it."""
        fields = {"queue": self.queue, "name": self.name, "key": self.key}
        return {name: value for name, value in fields.items() if value is not None}


class PauseIn(TargetIn):
    """The target of a pause, and its reason."""

    reason: Reason = ""


Many = Annotated[int, Field(ge=1, le=1_000_000)]
RateText = Annotated[str, Field(min_length=1, max_length=100, examples=["100/minute"])]


class ConcurrencyIn(In):
    """At most `limit` jobs at once; with `key`, per value at this path of the data, and with `eachQueue`, per queue."""

    limit: Many
    key: Path | None = None
    each_queue: bool = False


class RateIn(In):
    """A rate of starts; with `key`, per value at this path of the data, and with `eachQueue`, per queue."""

    rate: RateText
    key: Path | None = None
    each_queue: bool = False
    burst: Annotated[int, Field(ge=1, le=1_000_000)] | None = None


class LimitIn(In):
    """An override of the limits declared in code; a limit that is not given stays as declared."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"concurrency": 5}]})

    concurrency: Annotated[ConcurrencyIn | Many, Field(description="How many at once, or this with a key.")] | None = (
        None
    )
    rate: Annotated[RateIn | RateText, Field(description="Text such as 100/minute, or this with a key.")] | None = None
    reason: Reason = ""

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.concurrency is None and self.rate is None:
            raise ValueError("give concurrency, rate or both")
        return self

    def limits(self) -> Fields:
        """The limits as the Scheduler takes them."""
        at_once, starts = self.concurrency, self.rate
        return {
            "concurrency": Limit(**at_once.model_dump()) if isinstance(at_once, ConcurrencyIn) else at_once,
            "rate": Rate(**starts.model_dump()) if isinstance(starts, RateIn) else starts,
        }


class CloseIn(In):
    """The choice of a breaker and a reason: `key` if there is one per value, `queue` for a name's breaker in it."""

    key: Key | None = None
    queue: Text | None = None
    reason: Reason = ""


class OpenIn(CloseIn):
    """The choice of a breaker, a reason, and how long the breaker stays open; by default until it is closed."""

    open_for: Span | None = None


class PausedOut(Out):
    """A pause of a queue or a job name."""

    scope: Place
    target: str
    key: str | None
    value: Any = None
    at: Instant
    reason: str
    actor: str | None
    note: str | None = Field(None, description="A hint if no job, handler or worker has this name now.")

    @classmethod
    def of(cls, paused: Paused) -> Self:
        same = ("scope", "target", "key", "at", "reason", "actor", "note")
        return cls(**{name: getattr(paused, name) for name in same}, value=jsonable(paused.value))


class AllowanceOut(Out):
    """Limits: how many jobs run at once, and the rate of their starts."""

    concurrency: Fields | None
    rate: Fields | None

    @classmethod
    def of(cls, allowance: JobLimits | LimitStatus | LimitOverride) -> Self:
        at_once, starts = allowance.concurrency, allowance.rate
        return cls(
            concurrency=None if at_once is None else at_once.to_document(),
            rate=None if starts is None else starts.to_document(),
        )


class OverrideOut(AllowanceOut):
    """Limits that were set at run time."""

    at: Instant
    reason: str
    actor: str | None
    note: str | None = Field(None, description="A hint if no job, handler or worker has this name now.")

    @classmethod
    def of_override(cls, override: LimitOverride) -> Self:
        limits = AllowanceOut.of(override)
        return cls(
            concurrency=limits.concurrency,
            rate=limits.rate,
            at=override.at,
            reason=override.reason,
            actor=override.actor,
            note=override.note,
        )


class HolderOut(Out):
    """A running job that holds a slot of a limit, by its worker's last heartbeat."""

    job_id: str
    name: str
    worker: str | None = Field(description="The worker; null for keys with a scope.")
    since: Instant | None

    @classmethod
    def of(cls, holder: Holder, *, everything: bool) -> Self:
        worker = holder.worker if everything else None
        return cls(job_id=holder.job_id, name=holder.name, worker=worker, since=holder.since)


class UseOut(Out):
    """The current use of one limit; `waiting` is counted up to `counted`."""

    gate: str
    kind: Literal["concurrency", "rate"]
    value: str | None = Field(description="The value of the key, or the queue, that it is for; null without a key.")
    taken: int
    full: bool = Field(description="Whether all slots are taken, or no start is saved.")
    opens_at: Instant | None = Field(description="For a rate without a saved start: when the next start is.")
    waiting: int
    counted: int
    holders: list[HolderOut] = Field(description="The jobs that have held its slots for longest, at most five.")

    @classmethod
    def of(cls, use: GateUse, *, everything: bool) -> Self:
        same = ("gate", "value", "taken", "full", "opens_at", "waiting", "counted")
        kind: Literal["concurrency", "rate"] = "rate" if use.gate.startswith(f"{RATE}:") else "concurrency"
        holders = [HolderOut.of(holder, everything=everything) for holder in use.holders]
        return cls(**{name: getattr(use, name) for name in same}, kind=kind, holders=holders)


class LimitOut(Out):
    """The limits of a queue or a job name: those in force, those declared in code, and the override."""

    scope: Place
    target: str
    counts: AllowanceOut
    declared: AllowanceOut
    override: OverrideOut | None
    uses: list[UseOut]

    @classmethod
    def of(cls, status: LimitStatus, *, everything: bool = True) -> Self:
        return cls(
            scope=status.scope,  # type: ignore[arg-type]
            target=status.target,
            counts=AllowanceOut.of(status),
            declared=AllowanceOut.of(status.declared),
            override=None if status.override is None else OverrideOut.of_override(status.override),
            uses=[UseOut.of(use, everything=everything) for use in status.uses],
        )


class BreakerChangeOut(Out):
    """One step of a breaker's story."""

    at: Instant
    state: Literal["closed", "open", "half_open"]
    reason: str
    actor: str | None


class BreakerFailureOut(Out):
    """A failed attempt that a breaker has counted."""

    at: Instant
    error_type: str
    job_id: str


class BreakerOut(Out):
    """The state of a breaker."""

    scope: Place
    target: str
    queue: str | None = Field(None, description="The queue, if a name has one breaker per queue.")
    key: str | None
    value: Any = None
    state: Literal["closed", "open", "half_open"]
    since: Instant | None
    open_until: Instant | None
    good: int
    bad: int
    reason: str
    actor: str | None
    rule: Fields | None
    story: list[BreakerChangeOut] = Field(description="Its last changes of state, the latest first; at most ten.")
    last_failure: BreakerFailureOut | None = Field(description="The last failed attempt that it has counted.")

    @classmethod
    def of(cls, status: BreakerStatus) -> Self:
        same = ("scope", "target", "queue", "key", "state", "since", "open_until", "good", "bad", "reason", "actor")
        rule = None if status.rule is None else _rule(status)
        last = status.last_failure
        return cls(
            **{name: getattr(status, name) for name in same},
            value=jsonable(status.value),
            rule=rule,
            story=[BreakerChangeOut.model_validate(asdict(change)) for change in status.story],
            last_failure=None if last is None else BreakerFailureOut.model_validate(asdict(last)),
        )


def _rule(status: BreakerStatus) -> Fields | None:
    """The rule by which a breaker opens by itself."""
    if status.rule is None:
        return None
    rule = status.rule.to_document()
    window, open_for = rule.pop("window"), rule.pop("open_for")
    return rule | {"window": span_text(window), "openFor": span_text(open_for)}
