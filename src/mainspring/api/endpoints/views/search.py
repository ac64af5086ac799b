"""Finding jobs by one filter: a search page by page, counts by state, and what a filter may name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from mainspring.api.dependencies import Caller, Prefixed, Viewer
from mainspring.api.jobs.resources import seen_jobs
from mainspring.api.problems import Problem
from mainspring.api.wire.filters import (
    CountsAnswer,
    JobQuery,
    SearchQuery,
    StateCountOut,
    SuggestionsAnswer,
    SuggestionsOut,
)
from mainspring.api.wire.jobs import JobOut, SearchAnswer
from mainspring.model.fields import Fields
from mainspring.model.views.search import read_value

router = APIRouter(prefix="/api/jobs", tags=["jobs"])
_IN_DATA = Prefixed("data.")
_LIST = "search"
InData = Annotated[list[tuple[str, str]], Depends(_IN_DATA)]


@router.get("/search", summary="Search jobs")
async def search_jobs(caller: Viewer, in_data: InData, query: Annotated[SearchQuery, Query()]) -> SearchAnswer:
    """List the jobs that match all given filters. A value in the data is compared as text and, if it looks like a
    number, true or false, also as that; there are no operators. Finished jobs come latest first, pending jobs in the
    order in which they run, others newest first; without a state, jobs of schedules and flows come after all others.
    The cost of a page is bounded: if few jobs match, a page may be short, with `next`, `complete: false`, and
    `searched`, which says how far the search got."""
    asked = filter_of(query, in_data)
    if not await is_answerable(caller, query):
        return SearchAnswer(data=[], complete=True)
    after = await caller.open_cursor(_LIST, query.cursor)
    found = await caller.scheduler.search(**asked, scope=caller.scope, limit=query.limit, after=after)
    jobs = [JobOut.of(job) for job in await seen_jobs(caller, found.jobs)]
    following = await caller.seal_cursor(_LIST, found.next)
    return SearchAnswer(data=jobs, next=following, complete=found.complete, searched=found.searched)


@router.get("/counts", summary="Count jobs by state")
async def count_jobs(caller: Viewer, in_data: InData, query: Annotated[JobQuery, Query()]) -> CountsAnswer:
    """Count the jobs that match all given filters, in each state; a `state` among the filters is ignored. The cost is
    bounded: if a count is `capped`, there are at least that many jobs."""
    asked = filter_of(query, in_data)
    if not await is_answerable(caller, query):
        return CountsAnswer(data=[])
    found = await caller.scheduler.count(**asked, scope=caller.scope)
    return CountsAnswer(data=[StateCountOut.of(one) for one in found])


@router.get("/suggestions", summary="Names for filters")
async def suggest_names(caller: Viewer) -> SuggestionsAnswer:
    """List the names, queues, tags and error types of jobs that were recently created, ran or failed, for use in
    filters; at most 500 of each. The cost is bounded, so some may be missing."""
    return SuggestionsAnswer(data=SuggestionsOut.of(await caller.backend.suggestions(scope=caller.scope)))


async def is_answerable(caller: Caller, query: JobQuery) -> bool:
    """Whether the parent, the flow and the worker of a filter are within reach. Otherwise nothing is found: a caller
    must not learn that a job within reach has a parent or a flow out of it, or which worker has run it."""
    if caller.scope.everything:
        return True
    if query.worker is not None:
        return False
    named = {one for one in (query.parent_id, query.flow_id) if one is not None}
    return not named or await caller.backend.jobs_within(named, caller.scope) == named


def filter_of(query: JobQuery, in_data: Iterable[tuple[str, str]]) -> Fields:
    """The filter of a query as the Scheduler takes it."""
    data = _data(in_data, query.key or ())
    return {**query.given, "data": data} if data else query.given


def _data(query: Iterable[tuple[str, str]], keys: Iterable[str]) -> Fields:
    """The requested values in the data, by their paths."""
    data: Fields = {}
    for path, text in query:
        _add(data, path, text, f"{_IN_DATA.prefix}{path}")
    for one in keys:
        path, colon, text = one.partition(":")
        if not colon:
            raise Problem(422, "key is a path and a value with a colon between: tenant:acme.", field="query.key")
        _add(data, path, text, "key")
    return data


def _add(data: Fields, path: str, text: str, name: str) -> None:
    if path in data:
        raise Problem(422, f"{path[:100]!r} is asked for twice.", field=f"query.{name[:100]}")
    data[path] = read_value(text)
