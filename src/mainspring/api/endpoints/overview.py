"""The list of queues."""

from __future__ import annotations

from fastapi import APIRouter

from mainspring.api.dependencies import Viewer
from mainspring.api.endpoints.limits import is_reached
from mainspring.api.jobs.visibility import with_signed
from mainspring.api.wire.base import Answer
from mainspring.api.wire.limits import QueueOut
from mainspring.model.limits.limits import QUEUE

router = APIRouter(prefix="/api")


@router.get("/queues", tags=["queues"], summary="List queues")
async def list_queues(caller: Viewer) -> Answer[list[QueueOut]]:
    """List the queues that have unfinished jobs, that workers serve, or that are paused. Their jobs are counted up to
    `counted`."""
    found = [queue for queue in await caller.scheduler.queues.all() if is_reached(caller, QUEUE, queue.name)]
    return Answer(data=[QueueOut.of(queue) for queue in await with_signed(caller, found, "paused")])
