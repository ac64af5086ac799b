"""Flows on the wire: the bodies that start flows and batches, flows in lists and in detail, and their timelines."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, JsonValue

from mainspring.api.wire.base import Answer, In, Instant, InstantIn, Out, Span
from mainspring.api.wire.job_requests import DataVersion, NodeOptions, Request, ScheduleId, Text, Times
from mainspring.client.namespaces.flows import Flow
from mainspring.model.fields import Fields
from mainspring.model.flows.flow import FlowKind, FlowNode
from mainspring.model.flows.graph import MOST_NODES, When
from mainspring.model.flows.timeline import TimelineRow
from mainspring.model.jobs.job import JobState

Step = Annotated[str, Field(max_length=1000)] | Annotated[int, Field(ge=0, le=2**31)]
Path = Annotated[list[Step], Field(max_length=100, examples=[["shards"]])]
NodeName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^/]+$", examples=["extract"])]
MOST_ITEMS = 100_000
Tolerance = Annotated[int, Field(ge=0, le=2**31)] | Annotated[float, Field(ge=0, lt=1)]


class ResultIn(In):
    """The result of an earlier node, or the value at a path in it."""

    node: NodeName
    path: Path = Field([], description="Names in documents and places in lists, from the top of the result.")


class FillIn(ResultIn):
    """A place in the data of a node that gets a value of an earlier node's result when the node starts."""

    at: Annotated[list[Step], Field(min_length=1, max_length=100, examples=[["shard"]])] = Field(
        description="The place in `data`: names in documents and places in lists. `data` has null there, or nothing."
    )


class PartIn(Request, NodeOptions):
    """A job of a flow: it runs the handler of a `job`, calls an `endpoint`, or sends an email (`type`: "email")."""

    job: Text | None = Field(None, description="The name of a handler.")
    type: Literal["http", "email", "job"] | None = None
    data: dict[str, JsonValue] | None = None
    data_version: DataVersion = None


class NodeIn(PartIn):
    """A node: a job, or with `over` a job for each item of a list.

    It runs the handler of a `job`, calls an `endpoint`, or sends an email (`type`: "email").
    """

    name: NodeName | None = Field(None, description="By default, the name of its job.")
    fills: Annotated[list[FillIn], Field(max_length=1000)] | None = Field(
        None, description="Values of earlier results that are put into `data` when the node starts."
    )
    after: Annotated[list[NodeName], Field(max_length=MOST_NODES)] | None = Field(
        None, description="The nodes that it waits for."
    )
    when: When = Field(
        "success",
        description="success: it runs if all in `after` completed, and is cancelled if one did not. done: it runs in "
        "any case. failure: it runs if one of them ended badly, and is skipped otherwise.",
    )
    over: ResultIn | Annotated[list[JsonValue], Field(max_length=MOST_ITEMS)] | None = Field(
        None, description="The items of a map: a list, or a list in the result of an earlier node."
    )
    item: Text | None = Field(
        None, description="For a map: the argument that gets an item; otherwise an item is the data of its job."
    )
    key: Text | None = Field(
        None, description="For a map: the field of an item by which its job is known, in place of its place."
    )
    tolerate: Tolerance | None = Field(
        None, description="For a map: how many of its jobs may end badly, or which fraction of them."
    )
    fail_fast: bool | None = Field(None, description="For a map: cancel its other jobs once too many ended badly.")


class FlowIn(Times):
    """A flow to be started, once or by a schedule: jobs that wait for jobs. All of it is stored, or nothing."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "nightly",
                    "nodes": [
                        {"name": "extract", "job": "extract", "data": {"day": "2026-12-24"}},
                        {
                            "name": "transform",
                            "job": "transform",
                            "after": ["extract"],
                            "over": {"node": "extract", "path": ["shards"]},
                            "item": "shard",
                        },
                        {
                            "name": "load",
                            "job": "load",
                            "after": ["transform"],
                            "fills": [{"at": ["rows"], "node": "extract", "path": ["rows"]}],
                        },
                    ],
                }
            ]
        }
    )

    id: ScheduleId = None
    name: Text
    nodes: Annotated[list[NodeIn], Field(min_length=1, max_length=MOST_NODES)]
    data: dict[str, JsonValue] | None = Field(None, description="Values that are kept with the flow.")
    queue: Text | None = Field(None, description="The queue of its root; by default that of the first node.")
    priority: Annotated[int, Field(ge=1, le=10)] | None = None
    tags: Annotated[list[Text], Field(max_length=50)] | None = None
    expires_at: InstantIn | None = None
    start_within: Span | None = None
    dedupe_key: Text | None = None
    dedupe_window: Span | None = None
    throttle: Span | None = None


class BatchIn(In):
    """The first line of a batch: its callbacks, which run when all its jobs have ended, and the options of its root."""

    name: Text = "batch"
    on_success: PartIn | None = Field(None, description="Runs if no more jobs ended badly than `tolerate`.")
    on_failure: PartIn | None = Field(None, description="Runs otherwise, and if the upload was interrupted.")
    on_done: PartIn | None = Field(None, description="Runs in either case.")
    tolerate: Tolerance = Field(0, description="How many of its jobs may end badly, or which fraction of them.")
    queue: Text | None = Field(None, description="The queue of its root; by default that of the first callback.")
    priority: Annotated[int, Field(ge=1, le=10)] | None = None
    tags: Annotated[list[Text], Field(max_length=50)] | None = None


class FlowQuery(In):
    """The filter of a list of flows, and which page of it."""

    state: JobState | None = None
    name: Text | None = None
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    cursor: Annotated[str, Field(max_length=4000)] | None = Field(None, description="The `next` of the previous page.")


class EdgeOut(Out):
    """One node waits for another."""

    before: str
    after: str
    when: When


class NodeOut(Out):
    """A node of a flow as it is now. Of a flow whose handler waits for children, each wait is a node."""

    name: str
    job: str | None = Field(description="The name of its jobs; null for a wait of a handler.")
    id: str | None = Field(description="The id of its job; null for a wait of a handler.")
    state: JobState | None = Field(description="Null while its job is not stored, and for a wait of a handler.")
    when: When
    after: list[str]
    map: bool
    skipped: bool = Field(description="Whether its `when` was not met: it is cancelled, and that is no failure.")
    counts: dict[str, int] = Field(description="The jobs below it by state.")
    at_least: bool = Field(description="Whether a number in `counts` is a lower bound.")
    holding: str | None = Field(description="What it waits for, in words.")
    error: str | None = None
    because: str | None = Field(None, description="The job whose end decided that it was cancelled or skipped.")
    started_at: Instant | None = None
    finished_at: Instant | None = None

    @classmethod
    def of(cls, node: FlowNode) -> Self:
        same = ("name", "job", "id", "state", "when", "at_least", "skipped", "holding", "error", "because")
        fields = {name: getattr(node, name) for name in (*same, "started_at", "finished_at")}
        return cls.model_validate(
            {**fields, "after": list(node.after), "map": node.is_map, "counts": dict(node.counts)}
        )


class FlowListed(Out):
    """A flow in a list: its root."""

    id: str
    name: str
    kind: FlowKind = Field(description="A declared graph, a batch, or dynamic: a job whose handler waited for jobs.")
    state: JobState
    queue: str
    created_at: Instant
    started_at: Instant | None = None
    finished_at: Instant | None = None
    error: str | None = None
    because: str | None = None
    cancel_requested: bool = False
    aborted: bool = Field(False, description="For a batch: whether the process that stored its jobs died too early.")

    @classmethod
    def of(cls, flow: Flow, **more: Any) -> Self:
        same = ("id", "name", "kind", "state", "queue", "created_at", "started_at", "finished_at", "error", "because")
        fields = {name: getattr(flow, name) for name in (*same, "cancel_requested", "aborted")}
        return cls.model_validate({**fields, **more})


class FlowOut(FlowListed):
    """A flow as it is now, with its nodes."""

    data: Fields = Field(description="The values stored with it; hidden values are replaced by a placeholder.")
    counts: dict[str, int] = Field(description="Its jobs by state, without its root.")
    nodes: list[NodeOut]
    edges: list[EdgeOut]
    complete: bool = Field(
        description="False if some jobs were not counted, since the number of counted jobs is bounded."
    )
    deduplicated: bool | None = Field(None, description="Whether a flow with this dedupeKey existed already.")

    @classmethod
    def detail(cls, flow: Flow, data: Fields, deduplicated: bool | None = None) -> Self:
        """A flow as the caller may see it, and its data as that may be shown."""
        return cls.of(
            flow,
            data=data,
            counts=flow.counts,
            nodes=[NodeOut.of(node) for node in flow.nodes],
            edges=[{"before": edge.before, "after": edge.after, "when": edge.when} for edge in flow.edges],
            complete=flow.complete,
            deduplicated=deduplicated,
        )


class FlowPage(Answer[list[FlowListed]]):
    """A page of flows. If it is not `complete`, there may be more: continue with `next`."""

    complete: bool


class RowOut(Out):
    """A bar of a chart: one job, or all jobs of a node."""

    node: str
    id: str | None = Field(description="The id of the job; null for all jobs of a node.")
    job: str | None = Field(description="The name of the job, or of the jobs if they have the same.")
    state: JobState | None = Field(description="The state of the job; null for all jobs of a node.")
    jobs: int
    start: Instant | None = Field(description="When the first one started; null if none has.")
    end: Instant | None = Field(description="When the last one ended; null while one has not.")

    @classmethod
    def of(cls, row: TimelineRow) -> Self:
        return cls.model_validate({name: getattr(row, name) for name in TimelineRow.__slots__})


class FlowTimeline(Out):
    """The jobs of a flow over time: a row for each job, or for each node of a flow with more jobs than rows."""

    rows: list[RowOut]
    by: Literal["job", "node"]
    complete: bool = Field(description="False if some jobs were not read: bars may be too short, or missing.")
    now: Instant = Field(description="The database's time of this answer.")
