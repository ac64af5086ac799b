"""What the HTTP service and the command line need of a Scheduler beyond its public verbs.

`ServiceBackend(scheduler)` remembers requests that are sent twice, lists created jobs and schedules, checks API keys
and sessions, writes the audit log, and hands the built-in jobs the secrets that they may use. It is no part of the
public interface.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from mainspring.client.namespaces.operations import Operation, page_of
from mainspring.client.namespaces.schedules import Schedule, StoredSchedules
from mainspring.client.scheduler import Scheduler, core_of
from mainspring.config.checks import check_whole
from mainspring.config.settings import check_name
from mainspring.errors import ConfigurationError, InvalidKey
from mainspring.model.access.api_keys import Key, Scope, key_id, verify
from mainspring.model.access.audit import Entry, Row
from mainspring.model.access.idempotency import Reply
from mainspring.model.jobs.job import Job, JobState
from mainspring.model.privacy.secrets import Lent, SecretUse, check_secret_name
from mainspring.model.unreadable import Listed
from mainspring.model.views.search import make_search
from mainspring.store import Store
from mainspring.store.codec import document_id
from mainspring.store.views.created import JOBS, SCHEDULES

_LISTED_AT_MOST = 10_000
KINDS = (JOBS, SCHEDULES)
Kind = Literal["job", "schedule"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CreatedPage(Generic[T]):
    """A page of what was created. `next` leads to the page behind it and is None at the end. A page that is not
    `complete` has fewer than were asked for, since so much was looked at that is not in these queues or has no such
    name: there may be more behind it."""

    things: tuple[T, ...]
    next: str | None = None
    complete: bool = True


class ServiceBackend:
    """The service's own door to a Scheduler."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._core = core_of(scheduler)
        self._operations = scheduler.operations
        self._schedules = StoredSchedules(self._core, scheduler.schedules)

    # -- created jobs and schedules ----------------------------------------------------------------------------------

    async def created(
        self,
        limit: int = 100,
        *,
        skip: int = 0,
        kind: Kind | None = None,
        state: JobState | None = None,
        name: str | None = None,
        queue: str | None = None,
        tag: str | None = None,
        queues: Sequence[str] | None = None,
        prefixes: Sequence[str] | None = None,
        after: str | None = None,
    ) -> CreatedPage[Job | Schedule]:
        """Jobs that were scheduled by a call, and schedules, newest first; not the jobs that schedules have made.

        `kind` chooses "job" or "schedule", `state` jobs in it; `name`, `queue`, `tag`, `queues` and `prefixes` (of
        names) choose some of either. `after` is the `next` of the page before. Every page costs little, however many
        jobs there are: where few of them match, it may be short, and not `complete`.
        """
        _check_page(limit, skip, kind)
        if state is not None and kind == SCHEDULES:
            raise ConfigurationError("state is that of jobs; leave it out, or kind.")
        scope = Scope(None if queues is None else tuple(queues), None if prefixes is None else tuple(prefixes))
        search = make_search({"state": state, "name": name, "queue": queue, "tag": tag}, scope=scope)
        kinds = KINDS if kind is None else (kind,)
        store = await self._core.store()
        found = await store.created.page(limit, skip, kinds if state is None else (JOBS,), search, after)
        things = await self._read(store, found.things)
        return CreatedPage(tuple(things), found.next, found.next is None or len(found.things) == limit)

    async def _read(self, store: Store, page: list[tuple[str, Any]]) -> list[Job | Schedule]:
        """The jobs and schedules of a page, without those that were deleted meanwhile."""
        jobs = await store.jobs.get_many([one for kind, one in page if kind == JOBS])
        schedules = await store.schedules.get_many([one for kind, one in page if kind == SCHEDULES])
        read: list[Job | Schedule] = []
        for kind, one in page:
            if kind == JOBS and one in jobs:
                read.append(store.cipher.decode(jobs[one]))
            elif kind == SCHEDULES and one in schedules:
                read.append(self._schedules.decode(schedules[one]))
        return read

    async def jobs_within(self, ids: Iterable[str], scope: Scope) -> set[str]:
        """Those of the named jobs that are there and within a scope."""
        found = await (await self._core.store()).jobs.existing_among([document_id(one) for one in ids], scope)
        return {str(one) for one in found}

    async def operations(self, limit: int, after: str | None) -> tuple[Listed[Operation], str | None]:
        """A page of operations, the newest first, and the `after` of the next one; None at the end."""
        return await page_of(self._operations, limit, after)

    # -- requests that may be sent twice -----------------------------------------------------------------------------

    async def open_reply(self, key: str, print: str) -> Reply:
        """What is known of a request under its key, for a day; a record is made if there is none. What the request
        makes is to have the record's `seed` for its id, so that it is made once however often the request comes."""
        return await (await self._core.store()).idempotency.open(key, print)

    async def keep_reply(self, key: str, status: int, body: str) -> None:
        """Keep the answer to a request; the first one counts."""
        await (await self._core.store()).idempotency.keep(key, status, body)

    async def find_replies(self, keys: Sequence[str]) -> dict[str, Reply]:
        """What is known of many requests, or of the parts of a large one, by those of their keys that are known."""
        return await (await self._core.store()).idempotency.find(keys)

    async def keep_replies(self, replies: Mapping[str, Reply]) -> None:
        """Keep many answers at once, each under its key; the first one of a key counts."""
        if replies:
            await (await self._core.store()).idempotency.keep_many(replies)

    async def forget_reply(self, key: str) -> None:
        """Forget a request that was refused: nothing was made."""
        await (await self._core.store()).idempotency.forget(key)

    # -- callers -----------------------------------------------------------------------------------------------------

    async def service_secret(self, name: str) -> bytes:
        """A secret of 32 random bytes that all service processes on this database share; the first to ask makes it."""
        return await (await self._core.store()).service_secrets.get(check_name(name, "a secret's name"))

    async def any_api_key(self) -> bool:
        """Whether an API key was ever made: until then, a service that was started so needs none on its machine."""
        return await (await self._core.store()).api_keys.any_exists()

    async def check_api_key(self, text: str) -> Key | None:
        """The key that a text is, if it counts now; that it was used is noted."""
        store = await self._core.store()
        try:
            key = await store.api_keys.get(key_id(text))
        except InvalidKey:
            return None
        if not verify(text, key, store.clock.now()) or key is None:
            return None
        await store.api_keys.touch(key)
        return key

    async def get_api_key(self, key: str) -> Key | None:
        """An API key by its id."""
        return await (await self._core.store()).api_keys.get(key)

    def now(self) -> datetime:
        """The database's clock, as far as this process knows it."""
        return self._core.link.clock.now()

    async def close_session(self, session: str, until: datetime) -> None:
        """Let a session of the service count no more, by its id, though it was to last until then."""
        await (await self._core.store()).closed_sessions.add(session, until)

    async def session_is_closed(self, session: str) -> bool:
        """Whether a session of the service was closed, in whatever process."""
        return await (await self._core.store()).closed_sessions.has(session)

    async def note_change(self, *entries: Entry) -> list[Row]:
        """Add changes, each with its actor, to the audit log."""
        return await (await self._core.store()).audit.append(*entries)

    # -- built-in jobs -------------------------------------------------------------------------------------------------

    async def lend_secret(self, name: str, use: SecretUse) -> Lent:
        """The values of a secret for a webhook that sends the secret, or a text that is signed with it, to an origin.
        Raises SecretRefused where the secret is not for that job and origin."""
        store = await self._core.store()
        lent = await store.secrets.lend(check_secret_name(name), use)
        await self._core.secret_uses.note(store, name, use)
        return lent


def _check_page(limit: object, skip: object, kind: object) -> None:
    for name, value in (("limit", limit), ("skip", skip)):
        check_whole(value, name, 0, _LISTED_AT_MOST)
    if kind not in (None, *KINDS):
        raise ConfigurationError(f"kind must be job or schedule, not {kind!r}.")
