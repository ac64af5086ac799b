"""The export of a filter: all jobs that match, as a stream of JSON lines or of comma-separated values.

It reads page by page, each only once the one before was sent, so that its memory does not grow with the number of jobs.
A stream that ends before all jobs were sent says so in its last line.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import StreamingResponse

from mainspring.api.dependencies import Caller, Viewer
from mainspring.api.endpoints.views.search import InData, filter_of, is_answerable
from mainspring.api.jobs import csv_rows
from mainspring.api.jobs.resources import seen_jobs
from mainspring.api.wire.filters import ExportQuery
from mainspring.api.wire.jobs import JobOut
from mainspring.errors import MainspringError
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import Job
from mainspring.model.views.search import MOST_FOUND, SearchPage

router = APIRouter(prefix="/api/jobs", tags=["jobs"])
_TYPES = {"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}
_STOPPED = "The service is stopping; export again."
_ANSWERS: dict[int | str, Fields] = {
    200: {
        "description": "The jobs, one in each line.",
        "content": {kind.partition(";")[0]: {"schema": {"type": "string"}} for kind in _TYPES.values()},
    },
    429: {"description": "Too many streams of this key, from this address or in this process are open."},
}


@router.get("/export", summary="Export jobs", response_class=StreamingResponse, responses=_ANSWERS)
async def export_jobs(caller: Viewer, in_data: InData, query: Annotated[ExportQuery, Query()]) -> StreamingResponse:
    """Stream all jobs that match the filter, as they are shown in lists: in `jsonl`, each line is a job; in `csv`,
    cells that a spreadsheet would take for formulas begin with an apostrophe. When the key is revoked or changed, or
    the service stops, the stream ends and its last line says why: `{"incomplete": "…"}`, or `# incomplete: …` in `csv`.
    The audit log records the export."""
    asked = filter_of(query, in_data)
    answerable = await is_answerable(caller, query)
    first: SearchPage[Job] = await _page(caller, asked, None) if answerable else SearchPage(())
    noted = query.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude={"key"})
    noted |= {"format": query.format} | ({"data": dict(in_data)} if in_data else {})
    await caller.note_sampled(caller.service.trail.exports, "job.export", "jobs", after=noted)
    headers = {"Content-Disposition": f'attachment; filename="jobs.{query.format}"'}
    body = _streamed(caller, asked, first, query.format)
    return StreamingResponse(body, media_type=_TYPES[query.format], headers=headers)


async def _page(caller: Caller, asked: Fields, after: str | None) -> SearchPage[Job]:
    return await caller.scheduler.search(**asked, scope=caller.scope, limit=MOST_FOUND, after=after)


async def _streamed(caller: Caller, asked: Fields, page: SearchPage[Job], format: str) -> AsyncIterator[str]:
    """Yield the jobs of page after page until the last one, or until the caller is no longer valid."""
    service = caller.service
    closing = asyncio.ensure_future(service.closing.wait())
    if format == "csv":
        yield csv_rows.header()
    with service.standing.stay(caller.principal) as stay:
        try:
            while True:
                await stay.until_sure(closing)
                if stay.over.done() or closing.done():
                    yield _last(stay.over.result().value if stay.over.done() else _STOPPED, format)
                    return
                jobs = [JobOut.of(job) for job in await seen_jobs(caller, page.jobs)]
                if jobs:
                    yield csv_rows.rows(jobs) if format == "csv" else "".join(f"{_line(job)}\n" for job in jobs)
                if page.next is None:
                    return
                page = await _page(caller, asked, page.next)
        except MainspringError as error:
            yield _last(str(error), format)
        finally:
            closing.cancel()


def _line(job: JobOut) -> str:
    return job.model_dump_json(by_alias=True)


def _last(why: str, format: str) -> str:
    return csv_rows.remark(f"incomplete: {why}") if format == "csv" else json.dumps({"incomplete": why}) + "\n"
