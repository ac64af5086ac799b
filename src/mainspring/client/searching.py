"""The verb that searches jobs by their fields, their time of creation, and values in their data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from mainspring.client.core import Core
from mainspring.client.jobs import Jobs
from mainspring.errors import ConfigurationError
from mainspring.model.access.api_keys import Scope
from mainspring.model.jobs.job import Job, JobState
from mainspring.model.jobs.reserved_names import HTTP
from mainspring.model.privacy.credentials import mask_urls
from mainspring.model.views.search import Search, SearchPage, check_limit, make_search


class Searcher:
    """Searches jobs."""

    def __init__(self, core: Core, jobs: Jobs) -> None:
        self._core = core
        self._jobs = jobs

    async def search(
        self,
        *,
        state: JobState | None = None,
        name: str | None = None,
        queue: str | None = None,
        tag: str | None = None,
        schedule_id: str | None = None,
        parent_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        data: Mapping[str, Any] | None = None,
        scope: Scope | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> SearchPage[Job]:
        """Return a page of the jobs that match all given filters. `after` is the `next` of the previous page.

        `since` and `until` bound the time of a job's creation; `data` has plain values by their paths, such as
        `{"user.id": 7}`; a tuple stands for any of its values. Encrypted and redacted values are not compared.
        Finished jobs come latest first, pending ones in the order in which they run, others newest first. The cost of a
        page is bounded, however many jobs there are: if few of them match, it may be short, and not `complete`.
        """
        given: dict[str, Any] = {"state": state, "name": name, "queue": queue, "tag": tag, "since": since}
        given |= {"schedule_id": schedule_id, "parent_id": parent_id, "until": until}
        search = self.tellable(make_search(given, data, scope))
        limit = check_limit(limit)
        store = await self._core.store()
        found = await store.searching.page(search, limit, after)
        jobs = tuple(self._jobs.decode(document) for document in found.documents)
        return SearchPage(jobs, found.next, found.next is None or len(jobs) == limit)

    def tellable(self, search: Search) -> Search:
        """The search without the jobs of which it would tell a value that is not shown: a caller that may not see a
        value may not guess it, either. Refused where no job would be left."""
        for path, values in search.data:
            if self._is_hidden(search.name or "", path):
                raise ConfigurationError(f"data.{path} is redacted, so that it cannot be searched for.")
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
