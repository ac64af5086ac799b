"""The verbs of a Scheduler for the HTTP service and the command line only.

`ServiceBackend(scheduler)` stores the replies of idempotency keys, lists created jobs and schedules, checks API keys
and sessions, writes the audit log, and gives the built-in jobs the secrets that they may use. It is not part of the
public interface.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from mainspring.client.alerts.trial import AlertTest, begin_trial, end_trial
from mainspring.client.flows.batches import Callback, OpenBatch
from mainspring.client.namespaces.flows import Flow, chart_of
from mainspring.client.namespaces.flows import page_of as flows_page_of
from mainspring.client.namespaces.operations import Operation, page_of
from mainspring.client.namespaces.schedules import Schedule, StoredSchedules
from mainspring.client.scheduler import Scheduler, batches_of, core_of, jobs_of
from mainspring.config.checks import check_whole
from mainspring.config.settings import check_name
from mainspring.errors import ConfigurationError, InvalidKey
from mainspring.model.access.api_keys import Key, Scope, key_id, verify
from mainspring.model.access.audit import Entry, Row
from mainspring.model.access.idempotency import Reply
from mainspring.model.alerts.rule import AlertRule
from mainspring.model.flows.timeline import Timeline
from mainspring.model.jobs.data_schema import Misfit
from mainspring.model.jobs.job import Job, JobState
from mainspring.model.privacy.secrets import Lent, SecretUse, check_secret_name
from mainspring.model.unreadable import Listed
from mainspring.model.views.about import DatabaseFacts, KeyIds
from mainspring.model.views.search import Suggestions, make_search
from mainspring.store import Store
from mainspring.store.codec import decode_job, document_id
from mainspring.store.views.about import read_database_facts
from mainspring.store.views.created import JOBS, SCHEDULES

_LISTED_AT_MOST = 10_000
KINDS = (JOBS, SCHEDULES)
Kind = Literal["job", "schedule"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Related:
    """The jobs around a job, with few of their fields."""

    children: list[Job]
    children_complete: bool
    runs: list[Job]
    holder: Job | None


@dataclass(frozen=True, slots=True)
class CreatedPage(Generic[T]):
    """A page of created jobs and schedules. `next` is the cursor of the next page and None at the end. A page that is
    not `complete` is shorter than its limit although there may be more: too many documents that do not match were
    read."""

    things: tuple[T, ...]
    next: str | None = None
    complete: bool = True


class ServiceBackend:
    """The internal verbs of a Scheduler for the service."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._core = core_of(scheduler)
        self._operations = scheduler.operations
        self._flows = scheduler.flows
        self._jobs = jobs_of(scheduler)
        self._batches = batches_of(scheduler)
        self._schedules = StoredSchedules(self._core, scheduler.schedules)

    # -- schedules ---------------------------------------------------------------------------------------------------

    async def suggestions(self, *, scope: Scope) -> Suggestions:
        """Names, queues, tags and types of errors that filters may name: of jobs that were made, ran or failed lately.
        The cost is bounded, so that some may be missing."""
        return await (await self._core.store()).suggesting.suggest(scope)

    async def last_states(self, schedules: Iterable[Schedule], scope: Scope) -> dict[str, str]:
        """The state of the job of each schedule's last firing, by the schedule's id, as far as it is stored."""
        jobs = {one.id: one.last_job_id for one in schedules}
        return await (await self._core.store()).schedule_views.states_of(jobs, scope)

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
        """List schedules, and jobs that no schedule has made, newest first.

        `kind` chooses "job" or "schedule", `state` jobs in it; `name`, `queue`, `tag`, `queues` and `prefixes` (of
        names) filter both. `after` is the `next` of the previous page. The cost of a page is bounded, however many
        jobs there are: if few of them match, it may be short, and not `complete`.
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
        """Read the jobs and schedules of a page, without those that were deleted meanwhile."""
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
        """The ids among these whose jobs exist and are within a scope."""
        found = await (await self._core.store()).jobs.existing_among([document_id(one) for one in ids], scope)
        return {str(one) for one in found}

    async def operations(self, limit: int, after: str | None) -> tuple[Listed[Operation], str | None]:
        """A page of operations, the newest first, and the `after` of the next one; None at the end."""
        return await page_of(self._operations, limit, after)

    # -- flows -------------------------------------------------------------------------------------------------------

    async def flows(
        self, limit: int, after: str | None, scope: Scope, name: str | None, state: str | None
    ) -> tuple[list[Flow], str | None]:
        """A page of flows, the newest first, without their nodes, and the `after` of the next one; None at the end."""
        return await flows_page_of(self._flows, limit, after, scope, name, state)

    async def open_batch(
        self,
        name: str,
        tolerate: float,
        callbacks: Mapping[str, Callback],
        options: Mapping[str, Any],
        batch_id: str | None,
    ) -> OpenBatch:
        """Open a batch whose jobs are stored as the service reads them, or find the one that has this id."""
        root_id = None if batch_id is None else document_id(batch_id)
        return await self._batches.open(name, tolerate, callbacks, options, root_id)

    async def flow_timeline(self, flow_id: str, scope: Scope) -> Timeline:
        """The jobs of a flow over time, as far as they are within a scope."""
        return await chart_of(self._flows, flow_id, scope)

    async def cancels_beyond(self, job_id: str, scope: Scope) -> bool:
        """Whether the cancellation of a job would cancel jobs out of the scope, of the flow below it."""
        store = await self._core.store()
        return await store.flows_beyond.cancelled(await store.jobs.get(document_id(job_id)), scope)

    async def retries_beyond(self, flow_id: str, scope: Scope) -> bool:
        """Whether the retry of a flow would run jobs again that are out of the scope."""
        return await (await self._core.store()).flows_beyond.retried(flow_id, scope)

    # -- requests that may be sent twice -----------------------------------------------------------------------------

    async def open_reply(self, key: str, print: str) -> Reply:
        """Return the record of a request under its key, or make one; it is kept for a day. The job or other thing that
        the request makes must have the record's `seed` as its id, so that repeated requests make only one."""
        return await (await self._core.store()).idempotency.open(key, print)

    async def keep_reply(self, key: str, status: int, body: str) -> None:
        """Store the answer to a request; the first one stays."""
        await (await self._core.store()).idempotency.keep(key, status, body)

    async def find_replies(self, keys: Sequence[str]) -> dict[str, Reply]:
        """The records of many requests, or of the parts of a large one, by key; unknown keys are left out."""
        return await (await self._core.store()).idempotency.find(keys)

    async def keep_replies(self, replies: Mapping[str, Reply]) -> None:
        """Store many answers at once, each under its key; the first one of a key stays."""
        if replies:
            await (await self._core.store()).idempotency.keep_many(replies)

    async def forget_reply(self, key: str) -> None:
        """Delete the record of a refused request, which has made nothing."""
        await (await self._core.store()).idempotency.forget(key)

    async def find_misfit(self, name: str, data: Mapping[str, Any], version: int | None = None) -> Misfit | None:
        """The first place at which data does not fit the handler of a name, by the schema that live workers have
        registered; None if it fits, or if that is not known."""
        return await self._core.live_handlers.check(await self._core.store(), name, data, version)

    async def last_completed(self, job_id: str, scope: Scope) -> tuple[Job | None, bool]:
        """The job of the same name that completed last before a job; and whether all jobs were looked at if there is
        none."""
        store = await self._core.store()
        earlier = await store.related.last_completed(await store.jobs.get(document_id(job_id), scope), scope)
        found = earlier.document
        return None if found is None else self._core.privacy.cipher.decode(found), earlier.complete

    async def related(self, job_id: str, scope: Scope) -> Related:
        """The jobs around a job: its children, other runs of its schedule, and the holder of its dedupe key."""
        store = await self._core.store()
        found = await store.related.of(await store.jobs.get(document_id(job_id), scope), scope)
        return Related(
            [decode_job(one) for one in found.children],
            found.children_complete,
            [decode_job(one) for one in found.runs],
            None if found.holder is None else decode_job(found.holder),
        )

    # -- callers -----------------------------------------------------------------------------------------------------

    async def service_secret(self, name: str) -> bytes:
        """A secret of 32 random bytes that all service processes on this database share; the first process makes it."""
        return await (await self._core.store()).service_secrets.get(check_name(name, "a secret's name"))

    async def any_api_key(self) -> bool:
        """Whether an API key was ever made: until then, a keyless service needs none on its machine."""
        return await (await self._core.store()).api_keys.any_exists()

    async def check_api_key(self, text: str) -> Key | None:
        """Return the API key of a text if it is valid now, and record its use."""
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
        """The database's time, as far as this process knows it."""
        return self._core.link.clock.now()

    async def close_session(self, session: str, until: datetime) -> None:
        """Close a session of the service, by its id, before it expires at `until`."""
        await (await self._core.store()).closed_sessions.add(session, until)

    async def session_is_closed(self, session: str) -> bool:
        """Whether any process has closed a session of the service."""
        return await (await self._core.store()).closed_sessions.has(session)

    async def note_change(self, *entries: Entry) -> list[Row]:
        """Add changes, each with its actor, to the audit log."""
        return await (await self._core.store()).audit.append(*entries)

    # -- alert rules -------------------------------------------------------------------------------------------------

    async def begin_alert_test(self, rule: AlertRule) -> list[str]:
        """Store the jobs of a test of an alert rule, and return their ids."""
        return await begin_trial(self._core, rule)

    async def end_alert_test(self, rule: AlertRule, ids: Sequence[str], timeout: float) -> list[AlertTest]:
        """Wait for the jobs of a test, and return what has become of them."""
        return await end_trial(self._jobs, rule, ids, timeout)

    # -- the service itself ------------------------------------------------------------------------------------------

    async def database_facts(self) -> DatabaseFacts:
        """The database in use, and its indexes."""
        store = await self._core.store()
        return await read_database_facts(store.connection, embedded=self._core.link.embedded)

    async def key_ids(self) -> KeyIds:
        """The ids of the keys that encrypt data, and of those that sign the audit log."""
        store = await self._core.store()
        return KeyIds(store.cipher.ring.ids, store.audit.key_ids)

    # -- built-in jobs -------------------------------------------------------------------------------------------------

    async def lend_secret(self, name: str, use: SecretUse) -> Lent:
        """Return the values of a secret for a webhook that sends the secret, or a text that is signed with it, to an
        origin. Raise SecretRefused if the secret is not for that job and origin."""
        store = await self._core.store()
        lent = await store.secrets.lend(check_secret_name(name), use)
        await self._core.secret_uses.note(store, name, use)
        return lent


def _check_page(limit: object, skip: object, kind: object) -> None:
    for name, value in (("limit", limit), ("skip", skip)):
        check_whole(value, name, 0, _LISTED_AT_MOST)
    if kind not in (None, *KINDS):
        raise ConfigurationError(f"kind must be job or schedule, not {kind!r}.")
