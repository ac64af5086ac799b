"""The list of queues, and one queue in detail.

A key with a scope sees the queues of its scope; a key whose scope is about job names sees none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope

from mainspring.api.dependencies import Caller, Viewer
from mainspring.api.endpoints.limits import check_target, is_reached
from mainspring.api.jobs.resources import signed, with_signed
from mainspring.api.problems import Problem
from mainspring.api.wire.base import Answer, Span, span_seconds
from mainspring.api.wire.queues import QueueDetailOut, QueueListing, QueueOut, ScaleOut
from mainspring.model.limits.limits import QUEUE
from mainspring.model.views.queues import QueueStatus

_LIST = "queues"

router = APIRouter(prefix="/api/queues", tags=["queues"])


class _PlainSlash(APIRoute):
    """A route whose last part follows a plain slash. An encoded slash belongs to the name of a queue, so that the page
    of a queue whose name ends like this route is not hidden by it."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        last = self.path.rpartition("/")[2].encode()
        if scope.get("raw_path", b"").lower().endswith(b"%2f" + last):
            return Match.NONE, {}
        return super().matches(scope)


@router.get("", summary="List queues")
async def list_queues(caller: Viewer, query: Annotated[QueueListing, Query()]) -> Answer[list[QueueOut]]:
    """List the queues that have unfinished jobs, that workers serve, that are paused, or in which attempts ended in the
    last half hour, by name: their backlog, the oldest due job, the workers that serve them, and their activity in that
    half hour. Pending jobs are counted up to `counted`, so that the cost does not grow with the number of jobs."""
    after = await caller.open_cursor(_LIST, query.cursor) or ""
    found, following = await _page(caller, after, query.limit)
    shown = [QueueOut.of(queue) for queue in await with_signed(caller, found, "paused")]
    return Answer(data=shown, next=await caller.seal_cursor(_LIST, following))


async def get_queue_scale(
    queue: Annotated[str, Path(min_length=1, max_length=200, examples=["mail"])],
    caller: Viewer,
    drain: Annotated[Span, Query(description="The time within which the ready jobs should be finished.")] = "1m",
    slots: Annotated[int | None, Query(ge=1, le=100_000, description="The slots of one worker.")] = None,
) -> ScaleOut:
    """Return the backlog of a queue and `wanted`, the number of workers that finish it within `drain`: the ready jobs
    times their measured run time, divided by the slots of a worker. Autoscalers such as KEDA can read it. Ready jobs
    are counted up to 5,000. Jobs that wait at a limit or a pause are not counted, since more workers would not start
    them.
    """
    check_target(caller, QUEUE, queue)
    if not span_seconds(drain):
        raise Problem(422, "must be longer than 0.", field="drain")
    return ScaleOut.of(await caller.scheduler.queues.scale(queue, drain=drain, slots=slots))


router.add_api_route(  # before the route of a queue, which would take its paths
    "/{queue:path}/scale",
    get_queue_scale,
    summary="Get the number of workers that a queue needs",
    route_class_override=_PlainSlash,
)


@router.get("/{queue:path}", summary="Get a queue")
async def get_queue(
    queue: Annotated[str, Path(min_length=1, max_length=200, examples=["mail"])], caller: Viewer
) -> Answer[QueueDetailOut]:
    """Return a queue with its activity in the last hour, what its waiting jobs wait for, and the names of the jobs that
    are due next. The last two cover the first 200 such jobs."""
    check_target(caller, QUEUE, queue)
    found = await caller.scheduler.queues.get(queue)
    status = found.status
    if status.paused is not None:
        (paused,) = await signed(caller, [status.paused])
        status = replace(status, paused=paused)
    return Answer(data=QueueDetailOut.of_detail(found, status, everything=caller.scope.everything))


async def _page(caller: Caller, after: str, limit: int) -> tuple[list[QueueStatus], str | None]:
    if caller.scope.everything:
        return await caller.scheduler.queues.page(after=after, limit=limit)
    names = sorted(name for name in caller.scope.queues or () if name > after and is_reached(caller, QUEUE, name))
    found = await caller.scheduler.queues.some(names[:limit])
    return found, names[limit - 1] if len(names) > limit else None
