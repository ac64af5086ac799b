"""The verbs that store jobs and schedules: one, many, and as part of a transaction.

Jobs of a transaction are announced after it has committed: right after the commit if the transaction was opened here.
Mainspring does not learn of the commit of the caller's own session; workers find its jobs like those of other
processes.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

from mainspring.client.core import Core
from mainspring.client.drafting import BulkOf, Drafts
from mainspring.client.jobs import Jobs
from mainspring.client.namespaces.schedules import Schedule, StoredSchedules, new_schedule_id
from mainspring.engine.claim.back_pressure import Backlogs
from mainspring.engine.handlers import Named
from mainspring.errors import BulkError, ConfigurationError, InvalidJob, QueueFull, UnsupportedServer
from mainspring.model.fields import Fields
from mainspring.model.jobs.draft import OPTIONS, Draft, check_in_transaction
from mainspring.model.jobs.guarantee import EXACTLY_ONCE
from mainspring.model.jobs.job import Job, bind
from mainspring.model.jobs.options import JobOptions
from mainspring.model.jobs.retry import Seconds, seconds
from mainspring.model.schedules.schedule import ScheduleOptions, check_repeated, make_spec
from mainspring.rules import Rule
from mainspring.store import Store
from mainspring.store.bounded_values import encode_data
from mainspring.store.codec import new_job
from mainspring.store.connection import Document
from mainspring.store.jobs.transactions import Reruns, Transaction

T = TypeVar("T")
Drafted = TypeVar("Drafted", Draft, Draft | Exception)
AsJob = Callable[[Document, Draft, bool], Job]
"""Makes the job of a stored document, which is new or existed already."""


class RunAtOnce(Protocol):
    """Runs jobs in place of storing them: the eager mode of `mainspring.testing`."""

    async def run(self, draft: Draft) -> Job: ...


class Scheduling:
    """Stores jobs and schedules."""

    at_once: RunAtOnce | None = None
    """Runs each job at once, in this process; None, outside of tests, to store it."""

    def __init__(
        self,
        core: Core,
        jobs: Jobs,
        drafts: Drafts,
        transactions: Transactions,
        schedules: StoredSchedules,
        backlogs: Backlogs,
    ) -> None:
        self._core = core
        self._jobs = jobs
        self._drafts = drafts
        self._transactions = transactions
        self._schedules = schedules
        self._backlogs = backlogs

    async def schedule(
        self,
        name: Named,
        data: Mapping[str, Any] | None = None,
        *,
        repeat: Rule | Mapping[str, Any] | None = None,
        schedule_id: str | None = None,
        session: Any = None,
        **options: Any,
    ) -> Job | Schedule:
        """Store a job or, with `repeat`, a schedule."""
        others = {key: options.pop(key) for key in options.keys() - OPTIONS}
        if repeat is None and (schedule_id is not None or others):
            raise InvalidJob(self._not_repeated(name, ["schedule_id"] if schedule_id is not None else sorted(others)))
        if repeat is None and self.at_once is not None:
            return await self.at_once.run(self._drafts.draft(name, data, options))
        draft = await self._drafts.informed(name, data, options)
        if repeat is None:
            return await self._store_job(draft, session)
        check_repeated(draft, session)
        self._check_repeat_options(name, others)
        spec = make_spec(new_schedule_id(draft.name) if schedule_id is None else schedule_id, draft, repeat, others)
        self._transactions.check_guarantee(await self._core.store(), draft)
        return await self._schedules.put(spec)

    async def store_draft(self, draft: Draft, session: Any) -> Job:
        """Store a job that is checked."""
        return await self._store_job(draft, session)

    async def _store_job(self, draft: Draft, session: Any) -> Job:
        if not self._core.observers:
            return await self._store_now(draft, session)
        storing = self._core.observers.storing(draft.name, draft.queue)
        _trace(draft, storing.carrier)
        try:
            job = await self._store_now(draft, session)
        except BaseException as error:
            storing.done([], error)
            raise
        storing.done([job], None)
        return job

    async def _store_now(self, draft: Draft, session: Any) -> Job:
        store = await self._core.store()
        self._transactions.check_guarantee(store, draft)
        if session is not None:
            store.transactions.check_session(session)
            check_in_transaction(draft)
            await self._backlogs.check(store, draft)
            (job,) = await self._transactions.insert_in(store, session, [draft], self._stored)
            return job
        document, fresh = await self._backlogs.insert(store, draft)
        job = self._stored(document, draft, fresh)
        if fresh:
            self._core.announce(document, job)
        return job

    async def schedule_bulk(self, items: Iterable[Mapping[str, Any]], *, session: Any = None) -> list[Job]:
        """Store many jobs. Each item is a mapping of the arguments of `schedule`: name, data and options.

        If some items are refused, the others are still stored, and BulkError carries the outcome of each item. With
        `session`, all items are checked first, and nothing is stored if one is refused.
        """
        if self.at_once is not None:
            return [await self.enqueue(**_split(item)) for item in items]
        if not self._core.observers:
            return await self._store_bulk(items, session, {})
        storing = self._core.observers.storing()
        try:
            jobs = await self._store_bulk(items, session, storing.carrier)
        except BulkError as error:
            storing.done([job for job in error.jobs if isinstance(job, Job)], error)
            raise
        except BaseException as error:
            storing.done([], error)
            raise
        storing.done(jobs, None)
        return jobs

    async def _store_bulk(
        self, items: Iterable[Mapping[str, Any]], session: Any, carrier: Mapping[str, str]
    ) -> list[Job]:
        store = await self._core.store()
        await self._core.live_handlers.look(store)
        kinds: dict[Named, BulkOf] = {}
        drafts = (_trace(self.draft_item(item, store, kinds), carrier) for item in items)
        if session is not None:
            return await self._schedule_in(store, session, list(drafts))
        outcomes = await self._backlogs.insert_many(store, drafts)
        errors = {place: outcome for place, outcome in enumerate(outcomes) if isinstance(outcome, Exception)}
        for outcome in outcomes:
            if not isinstance(outcome, Exception):
                bind(outcome, self._jobs)
        jobs = outcomes if not errors else [None if isinstance(o, Exception) else o for o in outcomes]
        if self._core.events.wanted("job:created"):
            for job in jobs:
                if isinstance(job, Job) and not job.deduplicated:
                    self._core.events.emit("job:created", job)
        if outcomes:
            self._core.worker.wake()
        if errors:
            raise BulkError(list(jobs), errors)
        return jobs  # type: ignore[return-value]

    async def _schedule_in(self, store: Store, session: Any, drafts: list[Draft | Exception]) -> list[Job]:
        """Store all jobs or none: an invalid one is refused before any is stored."""
        store.transactions.check_session(session)
        errors: dict[int, Exception] = {}
        checked: list[Draft] = []
        for place, draft in enumerate(drafts):
            try:
                if isinstance(draft, Exception):
                    raise draft
                check_in_transaction(draft)
                encode_data(draft.data, self._core.link.settings.max_data)
                await self._backlogs.check(store, draft)
                checked.append(draft)
            except (ConfigurationError, QueueFull, UnsupportedServer) as error:
                errors[place] = error
        if errors:
            raise BulkError([None] * len(drafts), errors)
        return await self._transactions.insert_in(store, session, checked, self._stored)

    def _stored(self, document: Document, draft: Draft, fresh: bool) -> Job:
        if fresh:
            return bind(new_job(document, dict(draft.data or {})), self._jobs)
        return self._jobs.decode(document, deduplicated=True)

    async def enqueue(self, name: str, data: Mapping[str, Any], options: JobOptions) -> Job:
        """Store a job of a typed job object."""
        job = await self.schedule(name, data, **options)
        assert isinstance(job, Job)
        return job

    async def schedule_child(self, name: Named, data: Any, options: Fields) -> Job:
        """Store a job that a handler schedules."""
        job = await self.schedule(name, data, **options)
        assert isinstance(job, Job)
        return replace(job)  # without verbs: a handler may be a plain function, or run in another process

    async def draft_of_child(self, name: Named, data: Any, options: Fields) -> Draft:
        """The draft of a job that a handler stores in the transaction of its own process."""
        draft = await self._drafts.informed(name, data, options)
        check_in_transaction(draft)
        await self._backlogs.check(await self._core.store(), draft)
        return _trace(replace(draft, gates=()), self._core.observers.carrier())

    async def drafts_of_children(self, name: Named, items: Sequence[Any], options: Fields) -> list[Draft]:
        """The drafts of children that a handler waits for: of one name, with data each, and the same options. The bound
        of a queue does not hold for them: their parent would wait for room that it may have to make itself."""
        first = await self._drafts.informed(name, items[0], options)
        self._transactions.check_guarantee(await self._core.store(), first)
        carrier = self._core.observers.carrier()
        if options:
            drafts = [first, *(self._drafts.draft(name, item, options) for item in items[1:])]
        else:
            kind = self._drafts.bulk_of(name)
            drafts = [first, *(self._drafts.plain(kind, item) for item in items[1:])]
        return [_trace(draft, carrier) for draft in drafts]

    async def draft_of_node(self, name: str, data: Mapping[str, Any], options: Fields, later: frozenset[str]) -> Draft:
        """The draft of a node that the root of a flow lays out."""
        draft = await self._drafts.of_node(name, data, options, later)
        self._transactions.check_guarantee(await self._core.store(), draft)
        return _trace(draft, self._core.observers.carrier())

    def announce_children(self, documents: list[Document]) -> None:
        """Tell the callbacks and the worker of this process that children are stored."""
        if self._core.events.wanted("job:created"):
            for document in documents:
                self._core.events.emit("job:created", self._jobs.decode(document))
        if documents:
            self._core.worker.wake()

    def draft_item(self, item: Mapping[str, Any], store: Store, kinds: dict[Named, BulkOf]) -> Draft | Exception:
        """The draft of a bulk's item, or the error for which it is refused."""
        try:
            if (type(item) is not dict and not isinstance(item, Mapping)) or "name" not in item:
                found = f"a mapping of {list(item)}" if isinstance(item, Mapping) else repr(item)
                raise InvalidJob(f"An item of schedule_bulk() must be a mapping with at least a 'name', not {found}.")
            name, data = item["name"], item.get("data")
            if len(item) == 1 + ("data" in item):
                kind = kinds.get(name) if type(name) is str else None
                if kind is None:
                    kind = self._drafts.bulk_of(name)
                    kinds[kind.draft.name] = kind
                draft = self._drafts.plain(kind, data)
            else:
                options = {key: value for key, value in item.items() if key not in ("name", "data")}
                draft = self._drafts.draft(name, data, options)
                self._core.live_handlers.warn_of(draft.name)
            if not store.connection.supports_transactions:
                self._transactions.check_guarantee(store, draft)
            return draft
        except (ConfigurationError, UnsupportedServer) as error:
            return error

    def _check_repeat_options(self, name: Named, options: Mapping[str, Any]) -> None:
        """Refuse an argument of the handler among the options of its schedule."""
        handler = self._core.handlers.own(self._core.handlers.named(name))
        for option in options.keys() - ScheduleOptions.__annotations__.keys():
            if handler is not None and option in handler.argument_names:
                raise InvalidJob(self._drafts.unknown_option(name, option))

    def _not_repeated(self, name: Named, options: Sequence[str]) -> str:
        """The error text for options that a single job does not have."""
        unknown = [option for option in options if option not in ("schedule_id", *ScheduleOptions.__annotations__)]
        if not unknown:
            return f"{options[0]} is an option of schedules; give repeat=… too."
        return self._drafts.unknown_option(name, unknown[0])


def _split(item: Mapping[str, Any]) -> Fields:
    """An item of a bulk as the arguments of `enqueue`."""
    options = {key: value for key, value in item.items() if key not in ("name", "data")}
    return {"name": item.get("name"), "data": item.get("data"), "options": options}


def _trace(draft: Drafted, carrier: Mapping[str, str] | None) -> Drafted:
    """A draft with a trace context, if there is one; an item of a bulk may be an error instead."""
    if carrier and isinstance(draft, Draft):
        draft.trace, draft.has_options = dict(carrier), True
    return draft


# -- transactions ----------------------------------------------------------------------------------------------------


class Transactions:
    """Opens transactions, and stores jobs as part of them."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def in_transaction(self, function: Callable[[Transaction], Awaitable[T]], *, timeout: Seconds = 60) -> T:
        """Run `async def function(tx)` in a transaction, commit it, and return the function's result.

        After a conflict or a failover, the whole function runs again after a short pause. If the outcome of the commit
        is unknown, the commit is retried. After `timeout`, raise Unavailable; its message says whether the changes may
        be stored. If the function raises, the transaction is aborted.
        """
        reruns = Reruns(seconds(timeout, "timeout"))
        while True:
            try:
                async with self.open(reruns.left) as transaction:
                    return await _awaited(function(transaction))
            except Exception as error:
                pause = reruns.pause_after(error)
            await asyncio.sleep(pause)

    @asynccontextmanager
    async def open(self, patience: float | None = None) -> AsyncIterator[Transaction]:
        """Open a transaction of the scheduler's client; `patience` is how long its commit may take."""
        store = await self._core.store()
        async with store.transactions.open(patience) as transaction:
            yield transaction

    async def insert_in(self, store: Store, session: Any, drafts: Sequence[Draft], as_job: AsJob) -> list[Job]:
        """Store jobs in a transaction, and announce them once it has committed."""
        checked = store.transactions.check_session(session)
        stored = await store.inserts.insert_in(checked, drafts)
        transaction = store.transactions.of(checked)
        jobs = []
        for (document, fresh), draft in zip(stored, drafts, strict=True):
            job = as_job(document, draft, fresh)
            jobs.append(job)
            if fresh and transaction is not None:
                transaction.on_commit(partial(self._core.announce, document, job))
        return jobs

    def check_guarantee(self, store: Store, draft: Draft) -> None:
        """Refuse a job that needs transactions if the server has none."""
        declared = self._core.live_handlers.defaults(draft.name)
        if (draft.guarantee or (declared and declared.guarantee)) == EXACTLY_ONCE:
            store.transactions.check_supported(f'guarantee="exactly_once" (of {draft.name!r})')

    def check_handlers(self, store: Store) -> None:
        """Refuse to run handlers that need transactions if the server has none."""
        for name in self._core.handlers.executing(EXACTLY_ONCE):
            store.transactions.check_supported(f'guarantee="exactly_once" (of {name!r})')


async def _awaited(outcome: Awaitable[T]) -> T:
    if not inspect.isawaitable(outcome):
        raise ConfigurationError("in_transaction() takes an async function; write async def, or use mainspring.sync.")
    return await outcome
