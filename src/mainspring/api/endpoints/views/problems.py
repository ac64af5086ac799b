"""The overview: problems in sentences, the worst first."""

from __future__ import annotations

from fastapi import APIRouter

from mainspring.api.dependencies import Viewer
from mainspring.api.jobs.resources import signed
from mainspring.api.wire.base import Answer
from mainspring.api.wire.views.overview import OverviewOut

router = APIRouter(prefix="/api")


@router.get("/overview", tags=["observability"], summary="List problems")
async def get_overview(caller: Viewer) -> Answer[OverviewOut]:
    """List the problems, worst first, each as a sentence with its target and its cures: what fails, is late, stuck,
    paused, limited, broken or without workers. If there is none, `checks` says what was checked. The cost is bounded,
    however many jobs are stored: numbers that may be larger are `capped`."""
    report = await caller.scheduler.monitor.overview(scope=caller.scope)
    return Answer(data=OverviewOut.of(report, await signed(caller, report.problems)))
