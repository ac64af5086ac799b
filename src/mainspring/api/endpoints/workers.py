"""The list of workers, and draining one.

Workers serve jobs of all tenants: a key with a scope sees and drains none.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from mainspring.api.dependencies import Operator, Viewer
from mainspring.api.wire.base import Answer
from mainspring.api.wire.views.observability import DrainIn, DrainOut, WorkerOut
from mainspring.model.workers import WorkerStatus

router = APIRouter(prefix="/api/workers", tags=["workers"])
WorkerId = Annotated[str, Path(min_length=1, max_length=300, examples=["web-1:4711:9f1c2b3a"])]


@router.get("", summary="List workers")
async def list_workers(caller: Viewer) -> Answer[list[WorkerOut]]:
    """List the live workers, and those that ended within the last hour, by their latest heartbeat: what each slot runs,
    the memory used, and the delay of the event loop. A worker reports a change within two seconds."""
    caller.check_everything()
    return Answer(data=[WorkerOut.of(worker) for worker in await caller.scheduler.workers.all()])


@router.post("/{worker_id}/drain", summary="Drain a worker")
async def drain_worker(worker_id: WorkerId, caller: Operator, body: DrainIn | None = None) -> Answer[WorkerOut]:
    """Ask a worker to claim no more jobs, finish its running jobs, and end. It reacts within a few seconds; its jobs
    may take as long as they need. A process of `mainspring worker` ends with its worker and is not replaced."""
    caller.check_everything()
    asked = body or DrainIn()
    worker = await caller.scheduler.workers.drain(worker_id, reason=asked.reason, actor=caller.actor)
    await caller.note("worker.drain", worker_id, after=_told(worker))
    return Answer(data=WorkerOut.of(worker))


@router.delete("/{worker_id}/drain", summary="Cancel the drain of a worker")
async def cancel_drain(worker_id: WorkerId, caller: Operator) -> Answer[WorkerOut]:
    """Let a draining worker claim jobs again. If it is not draining, or has finished its jobs, the answer is 409."""
    caller.check_everything()
    worker = await caller.scheduler.workers.cancel_drain(worker_id)
    await caller.note("worker.cancel_drain", worker_id)
    return Answer(data=WorkerOut.of(worker))


def _told(worker: WorkerStatus) -> dict[str, object]:
    """The drain as the audit log has it."""
    return {} if worker.drain is None else DrainOut.of(worker.drain).model_dump(mode="json")
