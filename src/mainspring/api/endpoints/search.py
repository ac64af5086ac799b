"""Searching jobs by what they are, when they were made, and values in their data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from mainspring.api.problems import Problem
from mainspring.api.service import Viewer
from mainspring.api.wire.base import InstantIn
from mainspring.api.wire.jobs import JobOut, SearchAnswer, State
from mainspring.model.searching import MOST_FOUND, read_value

router = APIRouter(prefix="/api/jobs", tags=["jobs"])
Word = Annotated[str | None, Query(min_length=1, max_length=200)]
_IN_DATA = "data."
_KNOWN = {"state", "name", "queue", "tag", "scheduleId", "parentId", "since", "until", "key", "limit", "cursor"}


@router.get("/search", summary="Search jobs")
async def search_jobs(
    request: Request,
    caller: Viewer,
    state: Annotated[State | None, Query()] = None,
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
    cursor: Annotated[str | None, Query(max_length=4000, description="The `next` of the page before.")] = None,
) -> SearchAnswer:
    """The jobs that match all that is given. A value is compared as the text that it is and, where it is a number, true
    or false, as that too; nothing in it is an operator. Finished jobs come latest first, pending ones in the order in
    which they run, others newest first. A page never costs much: where few jobs match, it may be short, with `next`
    and `complete: false`."""
    found = await caller.scheduler.search(
        state=state,
        name=name,
        queue=queue,
        tag=tag,
        schedule_id=schedule_id,
        parent_id=parent_id,
        since=since,
        until=until,
        data=_data(request.query_params.multi_items(), key or ()),
        scope=caller.principal.scope,
        limit=limit,
        after=cursor,
    )
    jobs = [JobOut.of(caller.scheduler.shown(job)) for job in found.jobs]
    return SearchAnswer(data=jobs, next=found.next, complete=found.complete)


def _data(query: Iterable[tuple[str, str]], keys: Iterable[str]) -> dict[str, Any]:
    """The values in the data that are asked for, by their paths."""
    data: dict[str, Any] = {}
    for name, text in query:
        if name.startswith(_IN_DATA):
            _add(data, name.removeprefix(_IN_DATA), text, name)
        elif name not in _KNOWN:
            raise Problem(422, f"There is no parameter {name[:100]!r}.", field=f"query.{name[:100]}")
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
