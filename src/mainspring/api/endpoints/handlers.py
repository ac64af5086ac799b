"""The handlers of live workers: what jobs can be created, and which data they take."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from mainspring.api.dependencies import Viewer
from mainspring.api.wire.handlers import HandlersAnswer

router = APIRouter(prefix="/api", tags=["workers"])
Name = Annotated[str | None, Query(min_length=1, max_length=200, description="Only the handler of this name.")]


@router.get("/handlers", summary="List handlers")
async def list_handlers(caller: Viewer, name: Name = None) -> HandlersAnswer:
    """List the handlers of live workers by name, without Mainspring's own: each with the JSON Schema of its data, the
    defaults of its jobs, its payload versions, and the number of workers that have it. At most 500 are listed."""
    return HandlersAnswer.of(await caller.scheduler.workers.handlers(name, scope=caller.scope))
