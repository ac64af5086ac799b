"""The filter of jobs on the wire: in queries, in the bodies of operations, and in answers. It has one spelling."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from mainspring.api.wire.base import Answer, In, Instant, InstantIn, Out
from mainspring.api.wire.dead_letters import JobId
from mainspring.api.wire.job_requests import Text
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import JobState
from mainspring.model.views.search import CONDITIONS, MOST_FOUND, StateCount, Suggestions

LongText = Annotated[str, Field(min_length=1, max_length=1000)]


class JobConditions(In):
    """Which jobs are meant; all that is given has to fit."""

    state: JobState | None = None
    name: Text | None = None
    queue: Text | None = None
    tag: Text | None = None
    label: Text | None = Field(None, description="The label of a job, such as the name of a webhook.")
    dedupe_key: LongText | None = None
    error: LongText | None = Field(
        None, description="A text in the type or the message of the error; case does not matter."
    )
    fingerprint: Text | None = Field(None, description="The fingerprint of dead letters with the same cause.")
    worker: LongText | None = Field(None, description="The worker that runs the job, or has run it.")
    schedule_id: Text | None = None
    parent_id: JobId | None = None
    flow_id: JobId | None = Field(None, description="The flow that the jobs belong to, by the id of its root.")
    node: LongText | None = Field(None, description="A node of that flow: its jobs, and those below it.")
    since: InstantIn | None = Field(None, description="Made at this instant or later.")
    until: InstantIn | None = Field(None, description="Made before this instant.")
    run_since: InstantIn | None = Field(None, description="Due at this instant or later.")
    run_until: InstantIn | None = Field(None, description="Due before this instant.")
    finished_since: InstantIn | None = Field(None, description="Ended at this instant or later.")
    finished_until: InstantIn | None = Field(None, description="Ended before this instant.")

    @property
    def given(self) -> Fields:
        """The conditions as the Scheduler takes them."""
        return {name: value for name in CONDITIONS if (value := getattr(self, name)) is not None}


class JobQuery(JobConditions):
    """The filter as parameters of a query. Names that begin with `data.` are read beside it."""

    model_config = ConfigDict(extra="ignore")

    key: list[str] | None = Field(
        None,
        description="PATH:VALUE, a path in the data and its value. `data.PATH=VALUE` does the same.",
        examples=[["customer.id:4711"]],
    )


class SearchQuery(JobQuery):
    """The filter of a search, and which page of it."""

    limit: Annotated[int, Field(ge=1, le=MOST_FOUND)] = 50
    cursor: Annotated[str, Field(max_length=4000)] | None = Field(None, description="The `next` of the previous page.")


class ExportQuery(JobQuery):
    """The filter of an export, and its format."""

    format: Literal["jsonl", "csv"] = Field("jsonl", description="A JSON object per line, or comma-separated values.")


class JobFilterOut(Out):
    """The jobs that the operation acts on."""

    state: str | None = None
    name: str | None = None
    queue: str | None = None
    tag: str | None = None
    label: str | None = None
    dedupe_key: str | None = None
    error: str | None = None
    fingerprint: str | None = None
    worker: str | None = None
    schedule_id: str | None = None
    parent_id: str | None = None
    flow_id: str | None = None
    node: str | None = None
    since: Instant | None = None
    until: Instant | None = None
    run_since: Instant | None = None
    run_until: Instant | None = None
    finished_since: Instant | None = None
    finished_until: Instant | None = None
    data: Fields | None = None


class StateCountOut(Out):
    """How many jobs are in a state."""

    state: JobState
    count: int
    capped: bool = Field(description="Whether counting has stopped: there are at least so many.")

    @classmethod
    def of(cls, count: StateCount) -> StateCountOut:
        return cls.model_validate({"state": count.state, "count": count.count, "capped": count.capped})


class SuggestionsOut(Out):
    """Recently seen values for use in filters."""

    names: list[str]
    queues: list[str]
    tags: list[str]
    errors: list[str] = Field(description="Types of errors.")

    @classmethod
    def of(cls, found: Suggestions) -> SuggestionsOut:
        return cls(names=list(found.names), queues=list(found.queues), tags=list(found.tags), errors=list(found.errors))


CountsAnswer = Answer[list[StateCountOut]]
SuggestionsAnswer = Answer[SuggestionsOut]
