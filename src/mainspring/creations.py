"""The verbs for requests that may come twice, and for listing what was created: what the HTTP service stands on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mainspring.errors import ConfigurationError
from mainspring.model.job import Job
from mainspring.model.replies import Reply
from mainspring.schedules import Schedule, ScheduleVerbs
from mainspring.store import Store

_LISTED_AT_MOST = 10_000


class CreationVerbs(ScheduleVerbs):
    """The part of the Scheduler that knows what was asked for, and what was made of it."""

    async def created(
        self,
        limit: int = 100,
        *,
        skip: int = 0,
        kind: str | None = None,
        queues: Sequence[str] | None = None,
        prefixes: Sequence[str] | None = None,
    ) -> list[Job | Schedule]:
        """Jobs that somebody has scheduled, and schedules, newest first; not the jobs that schedules have made.

        `kind` chooses "job" or "schedule"; `queues` and `prefixes` (of names) choose some of either.
        """
        _check_page(limit, skip, kind)
        store, most = await self._store(), limit + skip
        jobs = await store.jobs.created(most, queues, prefixes) if limit and kind != "schedule" else []
        schedules = await store.schedules.created(most, queues, prefixes) if limit and kind != "job" else []
        places = [(at, True, one) for at, one in jobs] + [(at, False, one) for at, one in schedules]
        page = sorted(places, key=lambda place: place[0], reverse=True)[skip:most]
        return await self._read(store, [(is_job, one) for _, is_job, one in page])

    async def _read(self, store: Store, page: list[tuple[bool, Any]]) -> list[Job | Schedule]:
        """The jobs and schedules of a page, without those that were deleted meanwhile."""
        jobs = await store.jobs.get_many([one for is_job, one in page if is_job])
        schedules = await store.schedules.get_many([one for is_job, one in page if not is_job])
        read: list[Job | Schedule] = []
        for is_job, one in page:
            if is_job and one in jobs:
                read.append(store.sealer.decode(jobs[one]))
            elif not is_job and one in schedules:
                read.append(self._schedule(schedules[one]))
        return read

    async def open_reply(self, key: str, print: str) -> Reply:
        """What is known of a request under its key, for a day; a record is made if there is none. What the request
        makes is to have the record's `seed` for its id, so that it is made once however often the request comes."""
        return await (await self._store()).replies.open(key, print)

    async def keep_reply(self, key: str, status: int, body: str) -> None:
        """Keep the answer to a request; the first one counts."""
        await (await self._store()).replies.keep(key, status, body)

    async def find_replies(self, keys: Sequence[str]) -> dict[str, Reply]:
        """What is known of many requests, or of the parts of a large one, by those of their keys that are known."""
        return await (await self._store()).replies.find(keys)

    async def keep_replies(self, replies: Mapping[str, Reply]) -> None:
        """Keep many answers at once, each under its key; the first one of a key counts."""
        if replies:
            await (await self._store()).replies.keep_many(replies)

    async def forget_reply(self, key: str) -> None:
        """Forget a request that was refused: nothing was made."""
        await (await self._store()).replies.forget(key)


def _check_page(limit: object, skip: object, kind: object) -> None:
    for name, value in (("limit", limit), ("skip", skip)):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LISTED_AT_MOST:
            raise ConfigurationError(f"{name} must be a whole number from 0 to {_LISTED_AT_MOST:,}, not {value!r}.")
    if kind not in (None, "job", "schedule"):
        raise ConfigurationError(f"kind must be job or schedule, not {kind!r}.")
