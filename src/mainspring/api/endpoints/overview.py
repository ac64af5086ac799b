"""Queues and workers as a whole."""

from __future__ import annotations

from fastapi import APIRouter

from mainspring.api.dependencies import Viewer
from mainspring.api.endpoints.limits import is_reached
from mainspring.api.jobs.visibility import with_signed
from mainspring.api.wire.base import Answer
from mainspring.api.wire.limits import QueueOut
from mainspring.api.wire.observability import WorkerOut
from mainspring.model.limits.limits import QUEUE

router = APIRouter(prefix="/api")


@router.get("/queues", tags=["queues"], summary="List queues")
async def list_queues(caller: Viewer) -> Answer[list[QueueOut]]:
    """The queues that have live jobs, that workers ask for, or that are paused, with their jobs counted as far as that
    is cheap: `counted` says how far."""
    found = [queue for queue in await caller.scheduler.queues.all() if is_reached(caller, QUEUE, queue.name)]
    return Answer(data=[QueueOut.of(queue) for queue in await with_signed(caller, found, "paused")])


@router.get("/workers", tags=["workers"], summary="List workers")
async def list_workers(caller: Viewer) -> Answer[list[WorkerOut]]:
    """The worker processes that are there, and those that were within the last hour, by when they were heard of."""
    caller.check_everything()
    return Answer(data=[WorkerOut.of(worker) for worker in await caller.scheduler.workers.all()])
