"""The verbs that find jobs by a filter: iterating, searching page by page, counting, and what a filter may name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any, Unpack

from mainspring.client.core import Core
from mainspring.client.jobs import Jobs
from mainspring.errors import ConfigurationError
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.jobs.job import Job
from mainspring.model.jobs.reserved_names import HTTP
from mainspring.model.privacy.credentials import mask_urls
from mainspring.model.views.search import (
    JobFilter,
    Search,
    SearchPage,
    StateCount,
    check_limit,
    make_search,
)


class Searcher:
    """Finds jobs by filters."""

    def __init__(self, core: Core, jobs: Jobs) -> None:
        self._core = core
        self._jobs = jobs

    async def jobs(
        self, *, limit: int | None = None, scope: Scope = EVERYTHING, **filter: Unpack[JobFilter]
    ) -> AsyncIterator[Job]:
        """Iterate over the jobs that match all given filters and are within the `scope`. Finished jobs and jobs of a
        schedule come newest first, pending jobs in the order in which they run. `JobFilter` lists the filters."""
        search = self._checked(filter, scope)
        if limit is not None and limit < 0:
            raise ConfigurationError(f"limit must be 0 or more, not {limit}.")
        store = await self._core.store()
        async for document in store.searching.find(search, limit):
            yield self._jobs.decode(document)

    async def search(
        self,
        *,
        scope: Scope | None = None,
        limit: int = 50,
        after: str | None = None,
        **filter: Unpack[JobFilter],
    ) -> SearchPage[Job]:
        """Return a page of the jobs that match all given filters. `after` is the `next` of the previous page.

        `JobFilter` lists the filters. `data` maps paths to plain values, such as `{"user.id": 7}`; a tuple matches any
        of its values. Encrypted and redacted values are not compared. Finished jobs come latest first, pending jobs in
        the order in which they run, others newest first; without a state, jobs of schedules and flows come after all
        others. The cost of a page is bounded, however many jobs there are: if few jobs match, a page may be short and
        not `complete`; `searched` then says how far the search got.
        """
        search = self._checked(filter, scope)
        limit = check_limit(limit)
        store = await self._core.store()
        found = await store.searching.page(search, limit, after)
        jobs = tuple(self._jobs.decode(document) for document in found.documents)
        complete = found.next is None or len(jobs) == limit
        return SearchPage(jobs, found.next, complete, None if complete else _told(search, found.searched))

    async def count(self, *, scope: Scope | None = None, **filter: Unpack[JobFilter]) -> list[StateCount]:
        """Count the jobs that match all given filters, by state. A `state` among the filters is ignored. The cost is
        bounded: if a count is `capped`, there are at least that many jobs."""
        search = self._checked(filter, scope)
        return await (await self._core.store()).counts.by_state(search)

    def _checked(self, filter: Mapping[str, Any], scope: Scope | None) -> Search:
        return self.tellable(make_search(filter, scope))

    def tellable(self, search: Search) -> Search:
        """The search without the jobs of which it would tell a value that is not shown: a caller that may not see a
        value may not guess it, either. Refused where no job would be left."""
        for path, values in search.data:
            if self._is_hidden(search.name or "", path):
                raise ConfigurationError(f"data.{path} is redacted, so it cannot be searched.")
            if any(isinstance(value, str) and mask_urls(value) != value for value in values):
                raise ConfigurationError(f"data.{path}: a credential in a URL cannot be searched for.")
        names = [] if search.name is not None else [HTTP, *self._core.handlers.own_names]
        hidden = {name for name in names if any(self._is_hidden(name, path) for path in search.paths)}
        return replace(search, without=tuple(sorted(hidden)))

    def _is_hidden(self, name: str, path: str) -> bool:
        value: Any = "-"
        for step in reversed(path.split(".")):
            value = {step: value}
        return bool(self._core.privacy.redaction(name).hidden(value))


def _told(search: Search, searched: str | None) -> str:
    """How far a search has come. The place that it has reached may be that of a job out of the scope."""
    whole = searched if searched is not None and search.scope.everything else "Only a part of the jobs was searched."
    return f"{whole} Continue with the next page."
