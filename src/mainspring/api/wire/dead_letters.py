"""Dead letters and redrives on the wire."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import ConfigDict, Field, JsonValue, model_validator

from mainspring.api.wire.base import Answer, In, Instant, InstantIn, Out
from mainspring.api.wire.job_requests import Text
from mainspring.api.wire.jobs import JobOut, Reason
from mainspring.client.namespaces.dead_letters import Redrive
from mainspring.model.dead_letters.dead_letters import MOST_IDS, DeadLetterGroup
from mainspring.model.fields import Fields

JobId = Annotated[str, Field(min_length=1, max_length=1000)]


class DeadLetterFilterIn(In):
    """A filter of dead letters; they must match all given fields."""

    name: Text | None = None
    queue: Text | None = None
    tag: Text | None = None
    error: Text | None = Field(None, description="The type of the error.", examples=["TimeoutError"])
    fingerprint: Text | None = None
    since: InstantIn | None = Field(None, description="Failed at this instant or later.")
    until: InstantIn | None = Field(None, description="Failed before this instant.")
    text: Annotated[str, Field(min_length=1, max_length=1000, description="Text in the error's message.")] | None = None

    def given(self) -> Fields:
        """The filter as the Scheduler takes it."""
        names = ("name", "queue", "tag", "error", "fingerprint", "since", "until", "text")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


class DeadLetterListing(DeadLetterFilterIn):
    """The filter of a list of dead letters, and its length."""

    limit: Annotated[int, Field(ge=1, le=200)] = 50
    cursor: Annotated[str, Field(max_length=4000, description="The `next` of the previous page.")] | None = None


class GroupListing(DeadLetterFilterIn):
    """The filter of the dead letters that are grouped, and the number of groups."""

    limit: Annotated[int, Field(ge=1, le=200)] = 50


class DeadLetters(Answer[list[JobOut]]):
    """A page of dead letters. If it is not `complete`, there may be more: continue with `next`."""

    complete: bool


class DiscardIn(In):
    """A choice of dead letters: by their ids, by a filter, or all of them with `everything`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"filter": {"name": "send-report"}}]})

    ids: Annotated[list[JobId], Field(min_length=1, max_length=MOST_IDS)] | None = None
    filter: DeadLetterFilterIn | None = None
    everything: bool = False
    reason: Reason = ""

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = (self.ids is not None) + (self.filter is not None and bool(self.filter.given())) + self.everything
        if given != 1:
            raise ValueError("give one of ids, a filter that says something, and everything: true")
        return self


class RetryIn(DiscardIn):
    """A choice of dead letters and an edit of their data: `data` replaces fields of it, `remove` deletes fields."""

    data: dict[str, JsonValue] | None = None
    remove: Annotated[list[Text], Field(max_length=100)] = Field(default_factory=list)


class GroupOut(Out):
    """Dead letters with the same fingerprint. The message is that of the latest one, redacted."""

    fingerprint: str
    name: str
    error_type: str
    message: str
    count: int
    first_seen: Instant | None
    last_seen: Instant | None
    sample_job_id: str
    capped: bool = Field(description="Whether there are more than `count`, or may be.")
    queues: list[str] = Field(description="The queues of the failures of the last day, and of the latest dead letter.")
    trend_start: Instant | None = Field(description="The beginning of the first hour of `trend`.")
    trend: list[int] = Field(description="How many jobs failed in each hour, the current one last; 24 at most.")

    @classmethod
    def of(cls, group: DeadLetterGroup, message: str) -> Self:
        same = ("fingerprint", "name", "error_type", "count", "first_seen", "last_seen", "sample_job_id")
        more: Fields = {"capped": group.capped, "queues": list(group.queues), "trend": list(group.trend)}
        fields = {key: getattr(group, key) for key in same} | more
        return cls(**fields, trend_start=group.trend_start, message=message)


class SkipOut(Out):
    """A dead letter that a redrive has skipped, and the reason."""

    job_id: str
    reason: str


class RedriveOut(Out):
    """A redrive: an order to retry or to discard dead letters, and its progress."""

    id: str
    kind: str
    state: str
    matched: int
    done: int
    skipped: int
    progress: float
    started_at: Instant
    finished_at: Instant | None
    actor: str | None
    reason: str
    skips: list[SkipOut] = Field(description="The first skipped dead letters, up to 100.")

    @classmethod
    def of(cls, redrive: Redrive) -> Self:
        same = ("id", "kind", "state", "matched", "done", "skipped", "progress", "started_at", "finished_at")
        skips = [SkipOut(job_id=skip.job_id, reason=skip.reason) for skip in redrive.skips]
        fields = {key: getattr(redrive, key) for key in same}
        return cls(**fields, actor=redrive.actor, reason=redrive.reason, skips=skips)
