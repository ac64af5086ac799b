"""The verb that starts a batch: any number of jobs, streamed in, with callbacks when all have ended.

The root of the batch is stored first, and sealed when the last job is stored. Nothing of the items is kept in this
process beside the chunk that is being sent.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Unpack

from mainspring.client.core import Core
from mainspring.client.drafting import BulkOf, Drafts
from mainspring.client.flows.starts import NODE_OPTIONS, FlowStarts, Step, step_of, stored_options
from mainspring.client.jobs import Jobs
from mainspring.client.scheduling import Scheduling
from mainspring.clock import monotonic
from mainspring.config.settings import check_name
from mainspring.engine.handlers import Named
from mainspring.engine.service import cancel_task
from mainspring.errors import ConfigurationError, InvalidFlow, JobStateError, MainspringError, Unavailable
from mainspring.model.fields import Fields
from mainspring.model.flows.waits import tolerated, wrong_tolerance
from mainspring.model.jobs.draft import Draft
from mainspring.model.jobs.job import BLOCKED
from mainspring.model.jobs.options import BatchOptions
from mainspring.model.jobs.reserved_names import BATCH
from mainspring.spelling import suggestion
from mainspring.store import Store
from mainspring.store.codec import DocumentId
from mainspring.store.connection import Document
from mainspring.store.flows.batches import family_of

if TYPE_CHECKING:
    from mainspring.client.namespaces.flows import Flow, Flows

CHUNK = 1_000
CHUNK_AGE = 10.0
"""The seconds after which a chunk is stored although it has fewer items."""
RENEW_EVERY = 15.0
"""The seconds between renewals of a batch whose iterator lets the event loop wait for the next item."""
_PAUSES = (0.1, 0.5, 2.0)
"""The seconds between tries to store a chunk while MongoDB cannot be reached."""
Callback = Step | None
"""The job that is run when a batch has ended: its name, or with its data, and with its options."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
_HEX = re.compile(r"[0-9a-f]{24}")
BATCH_OPTIONS = frozenset(BatchOptions.__annotations__)


class Batches:
    """Starts batches."""

    def __init__(
        self, core: Core, jobs: Jobs, drafts: Drafts, scheduling: Scheduling, starts: FlowStarts, flows: Flows
    ) -> None:
        self._core = core
        self._jobs = jobs
        self._drafts = drafts
        self._scheduling = scheduling
        self._starts = starts
        self._flows = flows

    async def batch(
        self,
        items: Iterable[Mapping[str, Any]] | AsyncIterable[Mapping[str, Any]],
        *,
        on_success: Callback = None,
        on_failure: Callback = None,
        on_done: Callback = None,
        name: str = "batch",
        tolerate: float = 0,
        id: str | None = None,
        **options: Unpack[BatchOptions],
    ) -> Flow:
        """Store any number of jobs, each given as a mapping of the arguments of `schedule()`, and run callbacks when
        all have ended. Jobs may start while later ones are still being stored.

        `on_success` runs if at most `tolerate` jobs (a number, or a fraction of all) ended badly; otherwise
        `on_failure` runs. `on_done` runs in either case. A callback is a job, or a tuple of a job, its data and,
        optionally, its options; its handler reads the numbers from `ctx.before["items"].result`. If this process dies
        before the last job is stored, the batch fails, and its callbacks run a minute later, once the stored jobs have
        ended. With `id`, you can repeat an interrupted call with the same items: it continues the batch, or returns it
        if all its jobs are stored.
        """
        callbacks = {"on_success": on_success, "on_failure": on_failure, "on_done": on_done}
        root_id = None if id is None else _checked_id(id)
        opened = await self.open(name, tolerate, callbacks, options, root_id)
        if not opened.is_open:
            return opened.flow
        keeping = asyncio.create_task(opened.keep_open())
        try:
            async for chunk in _chunks(items):
                await opened.add([opened.draft_at(place, item) for place, item in enumerate(chunk, opened.total)])
            return await opened.seal()
        except BaseException as error:
            if id is None and not isinstance(error, JobStateError):
                await opened.give_up(f"Its jobs could not be stored: {type(error).__name__}")
            raise
        finally:
            await cancel_task(keeping)

    async def open(
        self,
        name: str,
        tolerate: float,
        callbacks: Mapping[str, Callback],
        options: Mapping[str, Any],
        root_id: DocumentId | None,
    ) -> OpenBatch:
        """Store the root of a batch, or find the one that has this id."""
        draft = await self._root(name, tolerate, callbacks, options)
        store = await self._core.store()
        await self._core.live_handlers.look(store)
        root, _ = await store.batches.open(draft, root_id)
        return OpenBatch(store, self._jobs, self._scheduling, self._flows, root, tolerate)

    async def _root(
        self, name: str, tolerate: float, callbacks: Mapping[str, Callback], options: Mapping[str, Any]
    ) -> Draft:
        if unknown := sorted(options.keys() - BATCH_OPTIONS):
            raise InvalidFlow(f"A batch has no option {unknown[0]!r}.{suggestion(unknown[0], sorted(BATCH_OPTIONS))}")
        if wrong := wrong_tolerance(tolerate, "jobs"):
            raise InvalidFlow(wrong)
        given: dict[str, Document] = {}
        secret: Fields = {}
        for key, callback in callbacks.items():
            if callback is not None:
                given[key], draft = await self._callback(key, callback)
                secret |= {} if draft.encrypt is None else {"encrypt": ["callbacks"]}
        queue = next((one["options"]["queue"] for one in given.values()), None)
        label = check_name(name, "A batch's name")
        data = {"label": label, "tolerate": tolerate, "callbacks": given}
        chosen = {key: value for key, value in options.items() if value is not None}
        return self._drafts.draft(BATCH, data, {"queue": queue, **chosen, **secret})

    async def _callback(self, key: str, callback: Step) -> tuple[Document, Draft]:
        """A callback as the root keeps it, and the job that it becomes."""
        job, data, options = step_of(callback, key)
        try:
            if unknown := sorted(options.keys() - NODE_OPTIONS):
                raise InvalidFlow(f"A callback has no option {unknown[0]!r}.")
            draft = await self._drafts.informed(self._starts.named(job), data, options)
        except ConfigurationError as error:
            raise InvalidFlow(f"{key}: {error}") from None
        kept = {"job": draft.name, "data": dict(draft.data or {}), "options": stored_options(options, draft)}
        return kept, draft


class OpenBatch:
    """A batch whose jobs are being stored: `add` them in chunks, then `seal` it. Not for concurrent use."""

    def __init__(
        self, store: Store, jobs: Jobs, scheduling: Scheduling, flows: Flows, root: Document, tolerate: float
    ) -> None:
        self._store = store
        self._jobs = jobs
        self._scheduling = scheduling
        self._flows = flows
        self._root = root
        self._tolerate = tolerate
        self._family = family_of(self.id)
        self._kinds: dict[Named, BulkOf] = {}
        self.total = 0
        """The number of jobs so far."""

    @property
    def id(self) -> str:
        return str(self._root["_id"])

    @property
    def is_open(self) -> bool:
        """Whether jobs could be added when it was opened; a batch that an earlier call has sealed is not open."""
        return self._root.get("state") == BLOCKED and (self._root.get("waits") or {}).get("sealed") is False

    @property
    def flow(self) -> Flow:
        """The batch as it was when it was opened."""
        from mainspring.client.namespaces.flows import flow_of

        return flow_of(self._flows, self._root)

    def draft(self, item: Mapping[str, Any]) -> Draft:
        """The draft of a job, from the arguments of `schedule()`. Raises InvalidFlow."""
        draft = self._scheduling.draft_item(item, self._store, self._kinds)
        if isinstance(draft, Exception):
            raise InvalidFlow(str(draft)) from draft
        if draft.dedupe_key is not None or draft.debounce is not None or draft.job_id is not None:
            raise InvalidFlow("a job of a batch has no dedupe_key, debounce or job_id.")
        return draft

    def draft_at(self, place: int, item: Mapping[str, Any]) -> Draft:
        """The same; the error names the place of the item."""
        try:
            return self.draft(item)
        except InvalidFlow as error:
            raise InvalidFlow(f"Item {place:,} of the batch: {error}") from error.__cause__

    async def add(self, drafts: Sequence[Draft]) -> list[tuple[str, bool]]:
        """Store the next jobs; returns the id of each, and whether it is new."""
        ids = [self._family.child_id(self.total + place) for place in range(len(drafts))]
        made = await self._stored(drafts, ids)
        self.total += len(drafts)
        self._scheduling.announce_children(made)
        new = {document["_id"] for document in made}
        return [(one, one in new) for one in ids]

    async def _stored(self, drafts: Sequence[Draft], ids: Sequence[str]) -> list[Document]:
        """Store a chunk. The batch is renewed under the same deadline, which is far shorter than its lease, so that no
        job is stored after the sweep has given the batch up."""
        for pause in (*_PAUSES, None):
            try:
                with self._store.connection.deadline():
                    if not await self._store.batches.renew(self._root["_id"]):
                        raise self._closed()
                    return await self._store.spawning.store(self._family, drafts, ids, self.total)
            except Unavailable:
                if pause is None:
                    raise
                await asyncio.sleep(pause)
        raise AssertionError

    async def keep_open(self, wanted: Callable[[], bool] = lambda: True) -> None:
        """Renew the batch while it is wanted, until this is cancelled: the next item may come much later."""
        while wanted():
            await asyncio.sleep(RENEW_EVERY)
            with suppress(MainspringError):  # the next renewal, or the next chunk, tries again
                await self._store.batches.renew(self._root["_id"])

    async def seal(self) -> Flow:
        """Note that all jobs are stored, and return the batch."""
        await self._store.spawning.check_last(self._family, self.total)
        if not await self._store.batches.seal(self._root["_id"], self.total, tolerated(self._tolerate, self.total)):
            raise self._closed()
        await self._jobs.check_waits(self._store, [self._family.wait])
        return await self._flows.get(self.id)

    async def give_up(self, reason: str) -> None:
        """Cancel a batch that cannot be continued, since its caller has given it no id."""
        try:
            await self._flows.cancel(self.id, reason)
        except Exception:  # the sweep gives it up when it is not renewed
            return

    def _closed(self) -> JobStateError:
        return JobStateError(self.id, "cancelled, or given up since it was not renewed", "batch()", "open")


def _checked_id(value: object) -> str:
    if not isinstance(value, str) or not _ID.fullmatch(value) or _HEX.fullmatch(value):
        raise InvalidFlow(
            "The id of a batch is a text of up to 100 letters, digits, - and _ that is no ObjectId, "
            f"not {value!r:.120}."
        )
    return value


async def _chunks(items: Any) -> AsyncIterator[list[Any]]:
    """The items in lists, never more than one list at a time."""
    chunk: list[Any] = []
    begun = monotonic()
    async for item in _each(items):
        chunk.append(item)
        if len(chunk) == CHUNK or monotonic() - begun >= CHUNK_AGE:
            yield chunk
            chunk, begun = [], monotonic()
    if chunk:
        yield chunk


async def _each(items: Any) -> AsyncIterator[Any]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    elif isinstance(items, Iterable) and not isinstance(items, str | bytes | Mapping):
        for item in items:
            yield item
    else:
        raise InvalidFlow(f"The items of a batch are an iterable of mappings, not {type(items).__name__}.")
