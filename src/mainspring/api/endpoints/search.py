"""The search for jobs by their fields, their time of creation, and values in their data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query

from mainspring.api.dependencies import Caller, Viewer
from mainspring.api.jobs.visibility import seen_jobs
from mainspring.api.middleware.parameters import Prefixed
from mainspring.api.problems import Problem
from mainspring.api.wire.base import InstantIn
from mainspring.api.wire.jobs import JobOut, SearchAnswer
from mainspring.model.jobs.job import JobState
from mainspring.model.views.search import MOST_FOUND, read_value

router = APIRouter(prefix="/api/jobs", tags=["jobs"])
Word = Annotated[str | None, Query(min_length=1, max_length=200)]
_IN_DATA = Prefixed("data.")
_LIST = "search"


@router.get("/search", summary="Search jobs")
async def search_jobs(
    caller: Viewer,
    in_data: Annotated[list[tuple[str, str]], Depends(_IN_DATA)],
    state: Annotated[JobState | None, Query()] = None,
    name: Word = None,
    queue: Word = None,
    tag: Word = None,
    schedule_id: Annotated[str | None, Query(alias="scheduleId", min_length=1, max_length=200)] = None,
    parent_id: Annotated[str | None, Query(alias="parentId", min_length=1, max_length=1000)] = None,
    since: Annotated[InstantIn | None, Query(description="Made at this instant or later.")] = None,
    until: Annotated[InstantIn | None, Query(description="Made before this instant.")] = None,
    key: Annotated[
        list[str] | None,
        Query(
            description="A path in the data and its value, with a colon between. `data.PATH=VALUE` says the same.",
            examples=["customer.id:4711"],
        ),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_FOUND)] = 50,
    cursor: Annotated[str | None, Query(max_length=4000, description="The `next` of the previous page.")] = None,
) -> SearchAnswer:
    """List the jobs that match all given filters. A value is compared as text and, if it reads as a number, true or
    false, as that too; it has no operators. Finished jobs come latest first, pending ones in the order in which they
    run, others newest first. The cost of a page is bounded: if few jobs match, it may be short, with `next` and
    `complete: false`."""
    if parent_id is not None and not await _is_reached(caller, parent_id):
        return SearchAnswer(data=[], complete=True)
    found = await caller.scheduler.search(
        state=state,
        name=name,
        queue=queue,
        tag=tag,
        schedule_id=schedule_id,
        parent_id=parent_id,
        since=since,
        until=until,
        data=_data(in_data, key or ()),
        scope=caller.principal.scope,
        limit=limit,
        after=await caller.open_cursor(_LIST, cursor),
    )
    jobs = [JobOut.of(job) for job in await seen_jobs(caller, found.jobs)]
    return SearchAnswer(data=jobs, next=await caller.seal_cursor(_LIST, found.next), complete=found.complete)


async def _is_reached(caller: Caller, parent_id: str) -> bool:
    """Whether the parent is within reach: a caller must not learn that a job within reach has a parent out of it."""
    return caller.scope.everything or bool(await caller.backend.jobs_within([parent_id], caller.scope))


def _data(query: Iterable[tuple[str, str]], keys: Iterable[str]) -> dict[str, Any]:
    """The requested values in the data, by their paths."""
    data: dict[str, Any] = {}
    for path, text in query:
        _add(data, path, text, f"{_IN_DATA.prefix}{path}")
    for one in keys:
        path, colon, text = one.partition(":")
        if not colon:
            raise Problem(422, "key is a path and a value with a colon between: tenant:acme.", field="query.key")
        _add(data, path, text, "key")
    return data


def _add(data: dict[str, Any], path: str, text: str, name: str) -> None:
    if path in data:
        raise Problem(422, f"{path[:100]!r} is asked for twice.", field=f"query.{name[:100]}")
    data[path] = read_value(text)
