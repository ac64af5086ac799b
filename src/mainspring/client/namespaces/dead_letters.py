"""`scheduler.dead_letters`: listing them, grouping them, retrying and discarding many, and alerts about new ones.

A `Redrive` is an order to retry or to discard dead letters, as it was when it was read. The workers carry it out in
batches; a caller that waits for it carries it out itself while no worker does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar, Unpack

from mainspring.client.core import Core
from mainspring.client.jobs import Jobs
from mainspring.config.checks import check_whole
from mainspring.config.settings import check_actor, check_name, check_reason
from mainspring.durations import Duration
from mainspring.engine.handler import Handler, check_part
from mainspring.engine.services.redriving import take_step
from mainspring.errors import ArchiveError, ConfigurationError, InvalidJob, WaitTimeout
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.dead_letters.dead_letters import (
    DEFAULT_ALERT,
    DISCARD,
    RETRY,
    RUNNING,
    Alert,
    DeadLetterFilter,
    DeadLetterGroup,
    RedriveFacts,
    Selection,
    Skip,
    check_every,
    make_selection,
)
from mainspring.model.jobs.job import FAILED, Job
from mainspring.model.jobs.retry import Retry, Seconds, seconds
from mainspring.model.unreadable import Listed
from mainspring.spelling import spelled_verbs
from mainspring.store import Store
from mainspring.store.bounded_values import encode_data
from mainspring.store.codec import document_id
from mainspring.store.connection import Document
from mainspring.store.dead_letters.dead_letters import Place
from mainspring.store.fitting import read, readable
from mainspring.store.shapes import REDRIVE

logger = logging.getLogger("mainspring")

F = TypeVar("F", bound=Callable[..., Any])

_LOOK_EVERY = 0.2
# A redrive without a step for this long is not being carried out by any worker.
_IDLE = timedelta(seconds=2)


@dataclass(frozen=True)
class Redrive(RedriveFacts):
    """An order to retry or discard dead letters, as it was when it was read."""

    _verbs: DeadLetters | None = field(default=None, repr=False, compare=False, kw_only=True)

    def _face(self) -> DeadLetters:
        if self._verbs is None:
            raise ConfigurationError("This redrive was not read from a Scheduler, so its methods cannot be used.")
        return self._verbs

    async def refresh(self) -> Redrive:
        """Return the redrive as it is now."""
        return await self._face().get_redrive(self.id)

    async def wait(self, timeout: Seconds | None = None) -> Redrive:
        """Wait until it has ended, and return it. While no worker carries it out, this call does.

        Raise WaitTimeout; the redrive continues as soon as a worker runs or another caller waits for it.
        """
        return await self._face()._wait_for(self.id, timeout)

    async def cancel(self) -> Redrive:
        """Stop it before its next dead letter. This does not undo what it has already retried or discarded."""
        return await self._face().cancel_redrive(self.id)


@spelled_verbs
class DeadLetters:
    """The verbs for dead letters."""

    def __init__(self, core: Core, jobs: Jobs) -> None:
        self._core = core
        self._jobs = jobs

    # -- looking ---------------------------------------------------------------------------------------------------

    async def find(
        self, *, limit: int | None = None, after: Job | None = None, **filter: Unpack[DeadLetterFilter]
    ) -> AsyncIterator[Job]:
        """Iterate over the failed jobs that match, the latest first; with `after`, over those after this one.

        `DeadLetterFilter` lists the filters: name, queue, tag, error, fingerprint, since, until and text.
        """
        selection, place = make_selection(filter), _place(after)
        if limit is not None:
            check_whole(limit, "limit", 0)
        store = await self._core.store()
        async for document in store.dead_letters.find(selection, limit, place):
            yield self._jobs.decode(document)

    async def groups(
        self, *, limit: int = 100, scope: Scope = EVERYTHING, **filter: Unpack[DeadLetterFilter]
    ) -> list[DeadLetterGroup]:
        """Group the matching failed jobs by the fingerprint of their error. The group with the latest failure comes
        first.

        The cost does not grow with the number of dead letters. If there are many, a group's `count` is `capped`, and a
        filter by queue, tag or text, or a scope, applies to the newest 1,000 only.
        """
        selection = make_selection(filter)
        check_whole(limit, "limit", 1, 200)
        return await (await self._core.store()).dead_letter_groups.find(selection, scope, limit)

    # -- redrives --------------------------------------------------------------------------------------------------

    async def retry(
        self,
        ids: Sequence[str] | str | None = None,
        *,
        everything: bool = False,
        data: Mapping[str, Any] | None = None,
        remove: Sequence[str] = (),
        reason: str = "",
        actor: str | None = None,
        redrive_id: str | None = None,
        **filter: Unpack[DeadLetterFilter],
    ) -> Redrive:
        """Run dead letters again, each as a new round of attempts: those with these ids, those that match the filter,
        or `everything`. Jobs that fail after this call are not included.

        `data` replaces fields in the data of each job, and `remove` deletes fields from it. The first 500 are retried
        before this returns; workers retry the rest, and `await redrive.wait()` waits for the end. `redrive_id` is the
        id of the redrive: a second call with the same id continues that redrive and starts no other.
        """
        named = filter.get("name")
        edit = self._edit(data, remove, None if named is None else self._core.handlers.own(named))
        return await self._start(RETRY, _chosen(ids, filter, everything), edit, reason, actor, redrive_id)

    async def discard(
        self,
        ids: Sequence[str] | str | None = None,
        *,
        everything: bool = False,
        reason: str = "",
        actor: str | None = None,
        redrive_id: str | None = None,
        **filter: Unpack[DeadLetterFilter],
    ) -> Redrive:
        """Delete dead letters, after the archive hook has received them: those with these ids, those that match the
        filter, or `everything`. Otherwise like `retry`."""
        return await self._start(DISCARD, _chosen(ids, filter, everything), None, reason, actor, redrive_id)

    async def redrives(self, limit: int = 100) -> Listed[Redrive]:
        """List the latest redrives, newest first. Redrives that have ended are kept as long as ledgers (the setting
        `keep_ledger`). `unreadable` of the list names documents that cannot be read."""
        check_whole(limit, "limit", 1, 10_000)
        return readable(await (await self._core.store()).redrives.find(limit), REDRIVE, self._decode)

    async def get_redrive(self, redrive_id: str) -> Redrive:
        """Return the redrive as it is stored now. Raise RedriveNotFound."""
        return self._redrive(await (await self._core.store()).redrives.get(_id(redrive_id)))

    async def cancel_redrive(self, redrive_id: str) -> Redrive:
        """Stop a redrive before its next dead letter. This does not undo what it has already retried or discarded. A
        redrive that has ended stays unchanged."""
        return self._redrive(await (await self._core.store()).redrives.cancel(_id(redrive_id)))

    async def _start(
        self,
        kind: str,
        selection: Selection,
        edit: Document | None,
        reason: str,
        actor: str | None,
        redrive_id: str | None,
    ) -> Redrive:
        reason, actor = check_reason(reason), check_actor(actor)
        identity = None if redrive_id is None else check_name(redrive_id, "redrive_id")
        store = await self._core.store()
        document = await store.redrives.start(kind, selection, edit, actor, reason, identity)
        going = document["state"] == RUNNING
        return self._redrive(await self._carry_on(store, document) if going else document)

    async def _carry_on(self, store: Store, document: Document) -> Document:
        """Take a step of a redrive here. If the archive hook raises, its jobs stay, and the step is retried later."""
        try:
            document = await take_step(store, self._core.registry.archive, document)
        except ArchiveError as error:
            logger.warning("The redrive %s waits: %s", document["_id"], error)
            return await store.redrives.get(document["_id"])
        if document["kind"] == RETRY:
            self._core.worker.look()
        return document

    async def _wait_for(self, redrive_id: str, timeout: Seconds | None) -> Redrive:
        limit = None if timeout is None else seconds(timeout, "timeout")
        store = await self._core.store()
        with suppress(TimeoutError):
            async with asyncio.timeout(limit):
                while True:
                    document = await store.redrives.get(redrive_id)
                    while not (redrive := self._redrive(document)).finished and self._is_idle(store, document):
                        document = await self._help(store, document)
                    if redrive.finished:
                        return redrive
                    await asyncio.sleep(_LOOK_EVERY)
        raise WaitTimeout(f"Redrive {redrive_id} has not ended within {limit:g} s; it continues.")

    async def _help(self, store: Store, document: Document) -> Document:
        """Carry out a step in place of a worker. The old `stepped_at` is returned, so that the redrive still counts as
        idle."""
        stepped = document["stepped_at"]
        document = await self._carry_on(store, document)
        if document["stepped_at"] == stepped:
            await asyncio.sleep(_LOOK_EVERY)
        return {**document, "stepped_at": stepped}

    def _is_idle(self, store: Store, document: Document) -> bool:
        idle: bool = store.clock.now() - document["stepped_at"] > _IDLE
        return idle

    def _edit(self, data: Mapping[str, Any] | None, remove: Sequence[str], handler: Handler | None) -> Document | None:
        if isinstance(remove, str) or not isinstance(remove, Sequence) or not all(isinstance(x, str) for x in remove):
            raise InvalidJob(f"remove must be a list of names of fields in the data, not {remove!r:.100}.")
        both = set(remove) & set(data or ())
        if both:
            raise InvalidJob(f"{min(both)!r} is both in data and in remove.")
        edit: Document = {}
        if data:
            edit["set"] = encode_data(check_part(handler, data), self._core.link.settings.max_data)
        if remove:
            edit["remove"] = list(dict.fromkeys(remove))
        return edit or None

    def _redrive(self, document: Document) -> Redrive:
        return read(document, REDRIVE, self._decode, "The redrive")

    def _decode(self, document: Document) -> Redrive:
        return Redrive(
            str(document["_id"]),
            document["kind"],
            document["state"],
            max(document["matched"], document["done"] + document["skipped"]),
            document["done"],
            document["skipped"],
            document["started_at"],
            document.get("finished_at"),
            document.get("actor"),
            document.get("reason", ""),
            tuple(Skip(one["job"], one["reason"]) for one in document.get("skips", ())),
            _verbs=self,
        )

    # -- alerts ----------------------------------------------------------------------------------------------------

    def handler(
        self,
        name: str = DEFAULT_ALERT,
        *,
        every: Duration | None = None,
        retry: Retry | int | None = None,
        timeout: Seconds | None = None,
        queue: str | None = None,
        priority: int | None = None,
    ) -> Callable[[F], F]:
        """Register a function that is called for dead letters. It is an ordinary handler, under `name`: from the first
        start on, each new dead letter makes one job for it, which is retried like any other job.

        The function receives job_id, name, queue, error (the type), message, fingerprint, attempts and failed_at. With
        `every`, such as "5m", at most one job is made in that time; it receives count, since, until and groups instead.
        """
        if callable(name):
            raise ConfigurationError("Write @scheduler.dead_letters.handler(), with brackets.")
        alert = Alert(check_name(name, "a job's name"), check_every(every))

        def register(function: F) -> F:
            self._core.registry.job(name, retry=retry, timeout=timeout, queue=queue, priority=priority)(function)
            self._core.handlers.alerts[name] = alert
            return function

        return register


def _chosen(ids: Sequence[str] | str | None, filter: Mapping[str, Any], everything: bool) -> Selection:
    """The choice of dead letters; all of them only with `everything`."""
    selection = make_selection(filter, ids)
    if everything and selection:
        raise ConfigurationError("everything=True means all dead letters; leave it out beside ids or a filter.")
    if not selection and not everything:
        raise ConfigurationError("Say which dead letters: ids, a filter such as name=…, or everything=True for all.")
    return selection


def _place(after: Job | None) -> Place | None:
    if after is None:
        return None
    if not isinstance(after, Job) or after.state != FAILED or after.finished_at is None:
        raise ConfigurationError(f"after must be a dead letter, the last one of the page before, not {after!r:.100}.")
    return Place(after.finished_at, document_id(after.id))


def _id(redrive_id: object) -> str:
    if not isinstance(redrive_id, str) or not redrive_id:
        raise ConfigurationError(f"A redrive's id is a non-empty text, not {redrive_id!r}.")
    return redrive_id
