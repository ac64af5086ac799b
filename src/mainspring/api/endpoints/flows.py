"""Flows: jobs that wait for jobs. A flow is a root job and its members, which are jobs as any other.

A key with a scope sees a flow if its root is within the scope, and of its members those that are. It cancels and
retries a flow only if it reaches all jobs that would be changed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from mainspring.api.dependencies import Caller, Operator, Viewer
from mainspring.api.endpoints.jobs import Trace
from mainspring.api.jobs.create import put_schedule
from mainspring.api.jobs.flow_plans import BuiltFlow, build_flow
from mainspring.api.jobs.flow_reach import check_cancel, check_retry_of_flow
from mainspring.api.jobs.idempotency import Made, Once
from mainspring.api.jobs.resources import audited, schedule_resources, seen_job
from mainspring.api.problems import Problem
from mainspring.api.wire.base import Answer, Nothing
from mainspring.api.wire.compat import ScheduleResource
from mainspring.api.wire.flows import FlowIn, FlowListed, FlowOut, FlowPage, FlowQuery, FlowTimeline, RowOut
from mainspring.api.wire.jobs import CancelIn, shown_data
from mainspring.client.namespaces.flows import Flow
from mainspring.errors import FlowNotFound, JobNotFound
from mainspring.model.fields import Fields
from mainspring.model.flows.within import ENDED_BADLY

router = APIRouter(prefix="/api/flows", tags=["flows"])
FlowId = Annotated[str, Path(min_length=1, max_length=1000, examples=["6890b1f2c7a4e1d2f3a4b5c6"])]
_LIST = "flows"


@router.post(
    "",
    status_code=201,
    summary="Start a flow",
    response_model=Answer[FlowOut | ScheduleResource],
    responses={200: {"model": Answer[FlowOut], "description": "A flow with this dedupeKey existed already"}},
)
async def start_flow(body: FlowIn, caller: Operator, once: Once, traceparent: Trace = None) -> Response:
    """Start a flow: jobs that wait for other jobs. All nodes are checked first, and either the whole flow is stored or
    nothing: a refusal names the node and the field, such as `nodes.2.after`. A node starts when the nodes in `after`
    have ended as its `when` requires. `fills` copies values of their results into its data. With `over`, the node is a
    map: a job for each item of a list, given here or found in an earlier result. To make a chain, let each node name
    the previous one in `after`. With `schedule` (cron), `every` or `repeat` the answer is a schedule, as for `POST
    /api/jobs`: each firing starts the flow, and the overlap policy applies to whole flows."""

    async def make(flow_id: str) -> Made:
        built = await build_flow(caller, body, flow_id, traceparent)
        if built.root.rule is not None:
            return Made(Answer(data=await _scheduled(caller, built, flow_id)))
        with built.refusing():
            flow = await built.builder.start()
        again = flow.deduplicated and flow.id != flow_id
        if again and (flow.name != body.name or not caller.scope.allows_queue(flow.queue)):
            text = "This dedupeKey is held by a flow or a job of another name or queue; choose another."
            raise Problem(409, text, field="dedupeKey")
        out = await _detail(caller, await _reached(caller, flow.id), deduplicated=again or None)
        if not again:
            await caller.note("flow.start", flow.id, after=_told(out) | {"nodes": [node.name for node in flow.nodes]})
        return Made(Answer(data=out), 200 if again else 201)

    return await once.answer(caller, make)


@router.get("", summary="List flows")
async def list_flows(caller: Viewer, query: Annotated[FlowQuery, Query()]) -> FlowPage:
    """List flows, newest first, without their nodes. The cost of a page is bounded: if few match, or the key reaches
    few, a page may be short, with `next` and `complete: false`."""
    after = await caller.open_cursor(_LIST, query.cursor)
    found, following = await caller.backend.flows(query.limit, after, caller.scope, query.name, query.state)
    listed = [FlowListed.of(_within(caller, flow)) for flow in found]
    complete = following is None or len(found) == query.limit
    return FlowPage(data=listed, next=await caller.seal_cursor(_LIST, following), complete=complete)


@router.get("/{flow_id}", summary="Get a flow")
async def get_flow(flow_id: FlowId, caller: Viewer) -> Answer[FlowOut]:
    """Return a flow as it is now: its edges, and its nodes, each with its state, the number of jobs below it by state,
    and what it waits for. The cost is bounded, so numbers may be lower bounds."""
    return Answer(data=await _detail(caller, await _reached(caller, flow_id)))


@router.get("/{flow_id}/timeline", summary="Get a flow over time")
async def get_flow_timeline(flow_id: FlowId, caller: Viewer) -> Answer[FlowTimeline]:
    """Return when the jobs of a flow started and ended, the first to start first: a row for each job, or for each node
    of a flow with more than 300 jobs. At most 300 rows, from at most 2,000 jobs."""
    found = await caller.backend.flow_timeline(flow_id, caller.scope)
    rows = [RowOut.of(row) for row in found.rows]
    # This process knows the database's time by an estimate, which may be behind the ends that the database has stored.
    now = max([caller.service.now(), *(row.end for row in found.rows if row.end is not None)])
    return Answer(data=FlowTimeline(rows=rows, by=found.by, complete=found.complete, now=now))


@router.post("/{flow_id}/cancel", summary="Cancel a flow")
async def cancel_flow(flow_id: FlowId, caller: Operator, body: CancelIn | None = None) -> Answer[FlowOut]:
    """Cancel a flow with all its jobs. Waiting jobs are cancelled at once; running jobs are asked to stop within about
    two seconds. A flow that has ended stays as it is. If the scope of the key does not include all live jobs of the
    flow, the answer is 403."""
    before = await _detail(caller, await _reached(caller, flow_id))
    await check_cancel(caller, flow_id)
    reason = "" if body is None else body.reason
    await caller.scheduler.flows.cancel(flow_id, reason)
    after = await _detail(caller, await _reached(caller, flow_id))
    await caller.note("flow.cancel", before.id, before=_told(before), after=_told(after) | {"reason": reason})
    return Answer(data=after)


@router.post("/{flow_id}/retry", summary="Retry a flow", response_model=Answer[FlowOut])
async def retry_flow(flow_id: FlowId, caller: Operator, once: Once, body: Nothing | None = None) -> Response:
    """Run the failed and expired jobs of a flow again, and the jobs that were cancelled because of them. Completed jobs
    keep their results. If the flow completed or was cancelled, the answer is 409. If the scope of the key does not
    include all jobs that would run again, it is 403. With an `Idempotency-Key`, a repeated request starts no second
    round."""

    async def make(_: str) -> Made:
        before = await _detail(caller, await _reached(caller, flow_id))
        await check_retry_of_flow(caller, flow_id)
        await caller.scheduler.flows.retry(flow_id)
        after = await _detail(caller, await _reached(caller, flow_id))
        await caller.note("flow.retry", before.id, before=_told(before), after=_told(after))
        return Made(Answer(data=after), 200)

    return await once.answer(caller, make)


async def _scheduled(caller: Caller, built: BuiltFlow, schedule_id: str) -> ScheduleResource:
    """Store the schedule of a flow, under this id unless the request has chosen one, and write the audit entry."""
    with built.refusing():
        schedule = await put_schedule(caller, built.root, schedule_id, built.builder)
    await caller.note("schedule.create", schedule.id, after=audited(caller, schedule))
    return (await schedule_resources(caller, [schedule]))[0]


async def _reached(caller: Caller, flow_id: str) -> Flow:
    """A flow within the caller's reach. The error for any other is the same as for one that does not exist."""
    return await caller.scheduler.flows.get(flow_id, scope=caller.scope)


async def _detail(caller: Caller, flow: Flow, deduplicated: bool | None = None) -> FlowOut:
    """A flow as the caller may see it: its data and its error as those of its root are shown."""
    try:
        root = await seen_job(caller, await caller.job(flow.id))
    except JobNotFound:
        raise FlowNotFound(flow.id) from None
    data = root.data.get("data") if flow.kind == "declared" else root.data
    error = None if root.error is None else str(root.error)
    shown = replace(flow, error=error, because=root.because)
    return FlowOut.detail(shown, shown_data({} if data is None else data), deduplicated)


def _within(caller: Caller, flow: Flow) -> Flow:
    """A flow in a list, without texts that may name jobs out of the caller's scope."""
    if caller.scope.everything:
        return flow
    return replace(flow, error=None if flow.error is None else ENDED_BADLY, because=None)


def _told(flow: FlowOut) -> Fields:
    """The audit entry of a flow."""
    return {"name": flow.name, "queue": flow.queue, "state": flow.state, "counts": flow.counts}
