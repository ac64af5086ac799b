"""The verb that starts a batch: any number of jobs, streamed in, with callbacks when all have ended.

The root of the batch is stored first, and sealed when the last job is stored. Nothing of the items is kept in this
process beside the chunk that is being sent.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping
from typing import Any, Unpack

from mainspring.client.core import Core
from mainspring.client.drafting import BulkOf, Drafts
from mainspring.client.flows.starts import FlowStarts, stored_options
from mainspring.client.jobs import Jobs
from mainspring.client.namespaces.flows import Flow, Flows, flow_of
from mainspring.client.scheduling import Scheduling
from mainspring.config.settings import check_name
from mainspring.engine.handlers import Named
from mainspring.errors import ConfigurationError, InvalidFlow, JobStateError, Unavailable
from mainspring.model.flows.family import Family
from mainspring.model.flows.graph import Node
from mainspring.model.flows.waits import tolerated
from mainspring.model.jobs.draft import Draft
from mainspring.model.jobs.job import BLOCKED
from mainspring.model.jobs.options import BatchOptions
from mainspring.model.jobs.reserved_names import BATCH
from mainspring.spelling import suggestion
from mainspring.store import Store
from mainspring.store.codec import DocumentId
from mainspring.store.connection import Document
from mainspring.store.flows.batches import family_of

CHUNK = 1_000
_PAUSES = (0.1, 0.5, 2.0)
"""The seconds between tries to store a chunk while MongoDB cannot be reached."""
Callback = Named | tuple[Named, Mapping[str, Any]] | None
"""The job that is run when a batch has ended: its name, or with its data."""
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
        all have ended. The jobs may run while others are still being stored.

        `on_success` runs if no more jobs ended badly than `tolerate`, a number or a fraction of them; `on_failure`
        otherwise; `on_done` in either case. A callback is a job, or a job with its data; its handler finds the numbers
        in `ctx.before["items"].result`. If this process dies before the last job is stored, the batch has failed and
        its callbacks run a minute later, once the stored jobs have ended. With `id`, a call with the same items
        continues a batch that was interrupted, and returns one that is stored completely.
        """
        draft = await self._root(
            name, tolerate, {"on_success": on_success, "on_failure": on_failure, "on_done": on_done}, options
        )
        store = await self._core.store()
        await self._core.live_handlers.look(store)
        root, fresh = await store.batches.open(draft, None if id is None else _checked_id(id))
        if not fresh and not _is_open(root):
            return flow_of(self._flows, root)
        try:
            total = await self._stream(store, root["_id"], items)
        except BaseException as error:
            if id is None and not isinstance(error, JobStateError):
                await self._give_up(str(root["_id"]), error)
            raise
        if not await store.batches.seal(root["_id"], total, tolerated(tolerate, total)):
            raise _closed(root["_id"])
        await self._jobs.check_waits(store, [family_of(str(root["_id"])).wait])
        return await self._flows.get(str(root["_id"]))

    async def _stream(self, store: Store, root_id: DocumentId, items: Any) -> int:
        family, total = family_of(str(root_id)), 0
        kinds: dict[Named, BulkOf] = {}
        async for chunk in _chunks(items):
            drafts = [self._draft(store, item, total + place, kinds) for place, item in enumerate(chunk)]
            self._scheduling.announce_children(await self._store(store, root_id, family, drafts, total))
            total += len(drafts)
        await store.spawning.check_last(family, total)
        return total

    async def _store(
        self, store: Store, root_id: DocumentId, family: Family, drafts: list[Draft], start: int
    ) -> list[Document]:
        """Store a chunk. The batch is renewed under the same deadline, which is far shorter than its lease, so that no
        job is stored after the sweep has given the batch up."""
        ids = [family.child_id(start + place) for place in range(len(drafts))]
        for pause in (*_PAUSES, None):
            try:
                with store.connection.deadline():
                    if not await store.batches.renew(root_id):
                        raise _closed(root_id)
                    return await store.spawning.store(family, drafts, ids, start)
            except Unavailable:
                if pause is None:
                    raise
                await asyncio.sleep(pause)
        raise AssertionError

    def _draft(self, store: Store, item: Mapping[str, Any], place: int, kinds: dict[Named, BulkOf]) -> Draft:
        draft = self._scheduling.draft_item(item, store, kinds)
        if isinstance(draft, Exception):
            raise InvalidFlow(f"Item {place:,} of the batch: {draft}") from draft
        if draft.dedupe_key is not None or draft.debounce is not None or draft.job_id is not None:
            raise InvalidFlow(f"Item {place:,} of the batch: a job of a batch has no dedupe_key, debounce or job_id.")
        return draft

    async def _give_up(self, root_id: str, error: BaseException) -> None:
        """Cancel a batch that cannot be continued, since its caller has given it no id."""
        try:
            await self._flows.cancel(root_id, f"Its jobs could not be stored: {type(error).__name__}")
        except Exception:  # the sweep gives it up when it is not renewed
            return

    async def _root(
        self, name: str, tolerate: float, callbacks: Mapping[str, Callback], options: Mapping[str, Any]
    ) -> Draft:
        if unknown := sorted(options.keys() - BATCH_OPTIONS):
            raise InvalidFlow(f"A batch has no option {unknown[0]!r}.{suggestion(unknown[0], sorted(BATCH_OPTIONS))}")
        if isinstance(tolerate, bool) or not isinstance(tolerate, int | float) or tolerate < 0:
            raise InvalidFlow(f"tolerate is a number of jobs, or a fraction such as 0.01, not {tolerate!r}.")
        given: dict[str, Document] = {}
        for key, callback in callbacks.items():
            if callback is not None:
                given[key] = await self._callback(key, callback)
        queue = next((one["options"]["queue"] for one in given.values()), None)
        label = check_name(name, "A batch's name")
        data = {"label": label, "tolerate": tolerate, "callbacks": given}
        return self._drafts.draft(BATCH, data, {"queue": queue, **{k: v for k, v in options.items() if v is not None}})

    async def _callback(self, key: str, callback: Callback) -> Document:
        job, data = callback if isinstance(callback, tuple) else (callback, None)
        if job is None:
            raise InvalidFlow(f"{key} is a job, or a job with its data.")
        try:
            draft = await self._drafts.informed(self._starts.named(job), data, {})
        except ConfigurationError as error:
            raise InvalidFlow(f"{key}: {error}") from None
        node = Node(key, draft.name, draft.data or {})
        return {"job": node.job, "data": dict(node.data), "options": stored_options({}, draft)}


def _is_open(root: Document) -> bool:
    return root.get("state") == BLOCKED and (root.get("waits") or {}).get("sealed") is False


def _closed(root_id: DocumentId) -> JobStateError:
    return JobStateError(str(root_id), "cancelled, or given up since it was not renewed", "batch()", "open")


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
    if isinstance(items, AsyncIterable):
        async for item in items:
            chunk.append(item)
            if len(chunk) == CHUNK:
                yield chunk
                chunk = []
    elif isinstance(items, Iterable) and not isinstance(items, str | bytes | Mapping):
        for item in items:
            chunk.append(item)
            if len(chunk) == CHUNK:
                yield chunk
                chunk = []
    else:
        raise InvalidFlow(f"The items of a batch are an iterable of mappings, not {type(items).__name__}.")
    if chunk:
        yield chunk
