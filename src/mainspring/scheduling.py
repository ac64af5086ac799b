"""The verbs that store jobs and schedules: one, many, and as part of a transaction."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Unpack, overload

from mainspring.config import Settings
from mainspring.drafting import DraftVerbs, unknown_option
from mainspring.engine.backlog import Backlogs
from mainspring.errors import BulkError, ConfigurationError, InvalidJob, QueueFull, UnsupportedServer
from mainspring.model.draft import Draft, check_in_transaction
from mainspring.model.job import Job
from mainspring.model.retry import Retry, Seconds
from mainspring.model.rules import Rule
from mainspring.model.schedule import ScheduleOptions, check_repeated, make_spec
from mainspring.schedules import Schedule, ScheduleVerbs, new_schedule_id
from mainspring.store import Store
from mainspring.store.codec import encode_data, new_job
from mainspring.store.connection import Document
from mainspring.transactions import TransactionVerbs


class SchedulingVerbs(DraftVerbs, TransactionVerbs, ScheduleVerbs):
    """The part of the Scheduler that stores jobs."""

    settings: Settings
    _backlogs: Backlogs

    @abstractmethod
    def _wake(self) -> None:
        """Jobs were stored: this process's worker, if it has one, need not be told by others."""

    @overload
    async def schedule(
        self,
        name: str,
        data: Mapping[str, Any] | None = None,
        *,
        run_at: datetime | None = None,
        delay: Seconds | None = None,
        priority: int | None = None,
        queue: str | None = None,
        dedupe_key: str | None = None,
        dedupe_window: Seconds | None = None,
        debounce: Seconds | None = None,
        debounce_max: Seconds | None = None,
        throttle: Seconds | None = None,
        expires_at: datetime | None = None,
        start_within: Seconds | None = None,
        timeout: Seconds | None = None,
        retry: Retry | int | None = None,
        executes: str | None = None,
        tags: Sequence[str] | None = None,
        version: int | None = None,
        encrypt: bool | Sequence[str] | None = None,
        session: Any = None,
        parent_id: str | None = None,
        job_id: str | None = None,
        repeat: None = None,
    ) -> Job: ...
    @overload
    async def schedule(
        self,
        name: str,
        data: Mapping[str, Any] | None = None,
        *,
        repeat: Rule,
        schedule_id: str | None = None,
        priority: int | None = None,
        queue: str | None = None,
        start_within: Seconds | None = None,
        timeout: Seconds | None = None,
        retry: Retry | int | None = None,
        executes: str | None = None,
        tags: Sequence[str] | None = None,
        version: int | None = None,
        encrypt: bool | Sequence[str] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule: ...
    async def schedule(
        self,
        name: str,
        data: Mapping[str, Any] | None = None,
        *,
        run_at: datetime | None = None,
        delay: Seconds | None = None,
        priority: int | None = None,
        queue: str | None = None,
        dedupe_key: str | None = None,
        dedupe_window: Seconds | None = None,
        debounce: Seconds | None = None,
        debounce_max: Seconds | None = None,
        throttle: Seconds | None = None,
        expires_at: datetime | None = None,
        start_within: Seconds | None = None,
        timeout: Seconds | None = None,
        retry: Retry | int | None = None,
        executes: str | None = None,
        tags: Sequence[str] | None = None,
        version: int | None = None,
        encrypt: bool | Sequence[str] | None = None,
        session: Any = None,
        parent_id: str | None = None,
        job_id: str | None = None,
        repeat: Rule | None = None,
        schedule_id: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Job | Schedule:
        """Store a job. When this returns, the job survives the loss of any one node.

        With a `dedupe_key` that a live job holds (or any job, within its `dedupe_window`), that job is returned and
        its `deduplicated` is True. `throttle` is such a window, by the job's name where no key is given. With
        `debounce`, the last of a burst of calls runs, that long after it: each call changes the job that waits, and
        returns it. With `session`, the job exists if and only if your transaction commits. `version` is that of the
        handler that the data is written for, where this process does not have the handler itself. `executes` chooses
        a guarantee for this job: "at_least_once", "at_most_once" or "exactly_once". With `encrypt`, all data or the
        values at these paths are stored encrypted, beside what the handler has encrypted anyway. `job_id` is the id it
        is to have, 24 hexadecimal digits: a job that has it already is returned, so that calling again is safe.

        With `repeat`, a rule such as `Cron("0 9 * * *")` or `Every("5m")`, store a schedule that makes such jobs, and
        return it. One that has this `schedule_id` already becomes what is asked for here, at once; where it is that
        already, nothing changes. `ScheduleOptions` lists the options of schedules.
        """
        if repeat is None and (schedule_id is not None or options):
            raise InvalidJob(_not_repeated(["schedule_id"] if schedule_id is not None else sorted(options)))
        draft = self._draft(
            name,
            data,
            {
                "run_at": run_at,
                "delay": delay,
                "priority": priority,
                "queue": queue,
                "dedupe_key": dedupe_key,
                "dedupe_window": dedupe_window,
                "debounce": debounce,
                "debounce_max": debounce_max,
                "throttle": throttle,
                "expires_at": expires_at,
                "start_within": start_within,
                "timeout": timeout,
                "retry": retry,
                "executes": executes,
                "tags": tags,
                "version": version,
                "encrypt": encrypt,
                "parent_id": parent_id,
                "job_id": job_id,
            },
        )
        if repeat is not None:
            check_repeated(draft, session)
            self._check_guarantee(await self._store(), draft)
            identity = new_schedule_id(name) if schedule_id is None else schedule_id
            return await self._put_schedule(make_spec(identity, draft, repeat, options))
        store = await self._store()
        self._check_guarantee(store, draft)
        if session is not None:
            store.transactions.check_session(session)
            check_in_transaction(draft)
            await self._backlogs.check(store, draft)
            (job,) = await self._insert_in(store, session, [draft], self._stored)
            return job
        document, fresh = await self._backlogs.insert(store, draft)
        job = self._stored(document, draft, fresh)
        if fresh:
            self._announce(document, job)
        return job

    async def schedule_bulk(self, items: Iterable[Mapping[str, Any]], *, session: Any = None) -> list[Job]:
        """Store many jobs, each given as a mapping of what `schedule` takes: name, data and options.

        When some are refused, the others are stored all the same and BulkError tells, item by item, what became of
        each. With `session`, all are checked first and nothing is stored when one is refused.
        """
        store = await self._store()
        drafts = (self._draft_item(item, store) for item in items)
        if session is not None:
            return await self._schedule_in(store, session, list(drafts))
        outcomes = await self._backlogs.insert_many(store, drafts)
        errors = {place: outcome for place, outcome in enumerate(outcomes) if isinstance(outcome, Exception)}
        jobs = outcomes if not errors else [None if isinstance(o, Exception) else o for o in outcomes]
        if self._events.wanted("job:created"):
            for job in jobs:
                if isinstance(job, Job) and not job.deduplicated:
                    self._events.emit("job:created", job)
        if outcomes:
            self._wake()
        if errors:
            raise BulkError(list(jobs), errors)
        return jobs  # type: ignore[return-value]

    async def _schedule_in(self, store: Store, session: Any, drafts: list[Draft | Exception]) -> list[Job]:
        """All or nothing: what cannot be stored is refused before anything is."""
        store.transactions.check_session(session)
        errors: dict[int, Exception] = {}
        checked: list[Draft] = []
        for place, draft in enumerate(drafts):
            try:
                if isinstance(draft, Exception):
                    raise draft
                check_in_transaction(draft)
                encode_data(draft.data, self.settings.max_data)
                await self._backlogs.check(store, draft)
                checked.append(draft)
            except (ConfigurationError, QueueFull, UnsupportedServer) as error:
                errors[place] = error
        if errors:
            raise BulkError([None] * len(drafts), errors)
        return await self._insert_in(store, session, checked, self._stored)

    def _stored(self, document: Document, draft: Draft, fresh: bool) -> Job:
        if fresh:
            return new_job(document, dict(draft.data or {}))
        return self._secrecy.sealer.decode(document, deduplicated=True)

    async def _draft_of_child(self, name: str, data: Any, options: dict[str, Any]) -> Draft:
        """The draft of a job that a handler stores in the transaction of its own process."""
        draft = self._draft(name, data, options)
        check_in_transaction(draft)
        await self._backlogs.check(await self._store(), draft)
        return replace(draft, gates=())

    def _draft_item(self, item: Mapping[str, Any], store: Store) -> Draft | Exception:
        """The draft of a bulk's item, or what is wrong with it."""
        try:
            if not isinstance(item, Mapping) or "name" not in item:
                found = f"a mapping of {list(item)}" if isinstance(item, Mapping) else repr(item)
                raise InvalidJob(f"An item of a bulk is a mapping with at least a 'name', not {found}.")
            name, data = item["name"], item.get("data")
            if len(item) == 1 + ("data" in item):
                draft = self._plain_draft(name, data)
            else:
                options = {key: value for key, value in item.items() if key not in ("name", "data")}
                draft = self._draft(name, data, options)
            if not store.connection.supports_transactions:
                self._check_guarantee(store, draft)
            return draft
        except (ConfigurationError, UnsupportedServer) as error:
            return error


def _not_repeated(options: Sequence[str]) -> str:
    """What is wrong with options that a single job does not have."""
    unknown = [option for option in options if option not in ("schedule_id", *ScheduleOptions.__annotations__)]
    return unknown_option(unknown[0]) if unknown else f"{options[0]} is for schedules; give repeat=… with it."
