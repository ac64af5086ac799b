"""The verbs for requests that may come twice, and for listing what was created: what the HTTP service stands on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from mainspring.errors import ConfigurationError
from mainspring.model.access import Scope
from mainspring.model.job import Job
from mainspring.model.replies import Reply
from mainspring.schedules import Schedule, ScheduleVerbs
from mainspring.store import Store
from mainspring.store.creations import JOBS, SCHEDULES

_LISTED_AT_MOST = 10_000
KINDS = (JOBS, SCHEDULES)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CreatedPage(Generic[T]):
    """A page of what was created. `next` leads to the page behind it and is None at the end. A page that is not
    `complete` has fewer than were asked for, since so much was looked at that is not in these queues or has no such
    name: there may be more behind it."""

    things: tuple[T, ...]
    next: str | None = None
    complete: bool = True


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
        after: str | None = None,
    ) -> CreatedPage[Job | Schedule]:
        """Jobs that somebody has scheduled, and schedules, newest first; not the jobs that schedules have made.

        `kind` chooses "job" or "schedule"; `queues` and `prefixes` (of names) choose some of either. `after` is the
        `next` of the page before. Every page costs little, however many jobs there are: where few of them are in these
        queues and have such names, it may be short, and not `complete`.
        """
        _check_page(limit, skip, kind)
        scope = Scope(None if queues is None else tuple(queues), None if prefixes is None else tuple(prefixes))
        store = await self._store()
        found = await store.creations.page(limit, skip, KINDS if kind is None else (kind,), scope, after)
        things = await self._read(store, found.things)
        return CreatedPage(tuple(things), found.next, found.next is None or len(found.things) == limit)

    async def _read(self, store: Store, page: list[tuple[str, Any]]) -> list[Job | Schedule]:
        """The jobs and schedules of a page, without those that were deleted meanwhile."""
        jobs = await store.jobs.get_many([one for kind, one in page if kind == JOBS])
        schedules = await store.schedules.get_many([one for kind, one in page if kind == SCHEDULES])
        read: list[Job | Schedule] = []
        for kind, one in page:
            if kind == JOBS and one in jobs:
                read.append(store.sealer.decode(jobs[one]))
            elif kind == SCHEDULES and one in schedules:
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
    if kind not in (None, *KINDS):
        raise ConfigurationError(f"kind must be job or schedule, not {kind!r}.")
