"""The verb that searches jobs: by what they are, by when they were made, and by values in their data."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mainspring.errors import ConfigurationError
from mainspring.model.access import Scope
from mainspring.model.job import Job
from mainspring.model.searching import Search, SearchPage, check_limit, make_search
from mainspring.verbs import Verbs


class SearchVerbs(Verbs):
    """The part of the Scheduler that searches."""

    async def search(
        self,
        *,
        state: str | None = None,
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
    ) -> SearchPage:
        """A page of the jobs that match all that is given. `after` is the `next` of the page before.

        `since` and `until` are about when a job was made; `data` has plain values by their paths, such as
        `{"user.id": 7}`; a tuple there stands for any of its values. What is encrypted or redacted is not compared.
        Finished jobs come latest first, pending ones in the order in which they run, others newest first. Every page
        costs little, however many jobs there are: where few of them match, it may be short, and not `complete`.
        """
        given: dict[str, Any] = {"state": state, "name": name, "queue": queue, "tag": tag, "since": since}
        given |= {"schedule_id": schedule_id, "parent_id": parent_id, "until": until}
        search = make_search(given, data, scope)
        limit = check_limit(limit)
        self._check_paths(search)
        store = await self._store()
        found = await store.searching.page(search, limit, after)
        jobs = [store.sealer.decode(document) for document in found.documents]
        shown = tuple(job for job in jobs if self._tells(search, job))
        return SearchPage(shown, found.next, found.next is None or len(jobs) == limit)

    def _check_paths(self, search: Search) -> None:
        """Refuse to compare what is not shown: who may not see a value may not guess it, either."""
        for path in search.paths:
            if self._is_hidden(search.name or "", path):
                raise ConfigurationError(f"data.{path} is redacted, so that it cannot be searched for.")

    def _tells(self, search: Search, job: Job) -> bool:
        """Whether a job may be found by these values: its own handler may keep some of them from being seen."""
        return not any(self._is_hidden(job.name, path) for path in search.paths)

    def _is_hidden(self, name: str, path: str) -> bool:
        value: Any = "-"
        for step in reversed(path.split(".")):
            value = {step: value}
        return bool(self._secrecy.redaction(name).hidden(value))
