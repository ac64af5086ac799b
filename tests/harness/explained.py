"""Asking why a job does not run, and waiting until it is held for a given reason."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from harness.waiting import eventually
from mainspring import ExplainedGate, Explanation, Job, JobContext, Scheduler


def serve(scheduler: Scheduler, door: asyncio.Event, name: str = "report", **options: Any) -> None:
    """Register a handler that runs until the door is opened."""

    @scheduler.job(name, **options)
    async def run(ctx: JobContext) -> None:
        await door.wait()


def holding(explanation: Explanation) -> ExplainedGate:
    assert explanation.holding is not None, explanation.to_document()
    assert explanation.text.startswith(explanation.holding.text), explanation.text
    assert json.loads(json.dumps(explanation.to_document()))["holding"] == explanation.holding.kind
    return explanation.holding


def gate(explanation: Explanation, kind: str) -> ExplainedGate:
    found = [one for one in explanation.gates if one.kind == kind]
    assert found, [one.kind for one in explanation.gates]
    return found[0]


async def held_by(scheduler: Scheduler, job: Job, kind: str) -> Explanation:
    """The explanation, once this kind of gate holds the job."""

    async def look() -> Explanation | None:
        explanation = await scheduler.explain(job.id)
        return explanation if explanation.holding is not None and explanation.holding.kind == kind else None

    found: Explanation = await eventually(look)
    return found


async def running(scheduler: Scheduler, *jobs: Job) -> None:
    async def look() -> bool:
        return all([(await scheduler.get_job(job.id)).state == "running" for job in jobs])

    await eventually(look)


async def some_runs(scheduler: Scheduler, jobs: list[Job], number: int) -> tuple[list[Job], list[Job]]:
    """Wait until so many of these jobs run and the others are in line; returns both."""

    async def look() -> tuple[list[Job], list[Job]] | None:
        found = [await scheduler.get_job(job.id) for job in jobs]
        runs, waits = (
            [one for one in found if one.state == "running"],
            [one for one in found if one.waiting_for is not None],
        )
        return (runs, waits) if len(runs) == number and len(runs) + len(waits) == len(jobs) else None

    found: tuple[list[Job], list[Job]] = await eventually(look)
    return found
