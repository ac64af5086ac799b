"""Operations: one verb on many jobs, stored as an order (`store/operations/orders.py`) and carried out by the workers.

The jobs are found by the same walks along indexes as in a search, one page for each batch, so that no step examines
more keys than a search does. The update that changes a job writes the operation's id to the `requests` of the job, and
passes over jobs that have it, that are out of the creator's scope, or that do not match the frozen filter any more.

Pending jobs move in their index while it is walked. So a walk of them is repeated until it finds none, but not for
ever. An operation is `open` while a worker has something to do for it: to start it, to carry it on, to count its last
batch, or to write its end to the audit log.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import datetime

from mainspring.clock import truncate
from mainspring.errors import MainspringError, OperationNotFound
from mainspring.model.jobs.job import CANCELLED as CANCELLED_JOB
from mainspring.model.jobs.job import FINISHED, NOT_STARTED, PENDING, RETRIABLE
from mainspring.model.jobs.reserved_names import HTTP
from mainspring.model.operations.operations import (
    CANCEL,
    CANCELLED,
    DELETE,
    DELETED,
    DONE,
    FAILED,
    MOVE,
    NOT_THERE,
    RETRY,
    RUN,
    RUNNING,
    WAITING,
    WORKS_ON,
    Order,
    left_in_state,
)
from mainspring.store.codec import DocumentId, document_id
from mainspring.store.connection import Connection, Document
from mainspring.store.flows.beyond import FlowsBeyond
from mainspring.store.flows.waiters import look_soon
from mainspring.store.jobs.dedupe import DedupeKeys
from mainspring.store.jobs.edit import (
    again_stages,
    cancel_stages,
    edit_stages,
    edited_stage,
    remember_stage,
    run_now_stages,
)
from mainspring.store.operations.orders import BATCH, KEPT, Left, Orders, Remove, appended, entry_of, named_batch
from mainspring.store.operations.preview import Counted, Preview
from mainspring.store.reach import both, reached
from mainspring.store.schema import BY_ID, CREATED, OPEN_OPERATIONS
from mainspring.store.views.search import Searching
from mainspring.store.views.walks import Place, wanted_of

_ENTRY = {"dedupe_key": 1, "name": 1, "state": 1}
_WALKS = 3
"""How often the pending jobs are walked at most."""
SCANNED = 5_000
"""The index entries that are compared with the filter for one batch: no request waits for it."""
_BEGINNING: Document = {"walk": 1, "state": 0, "after": None, "found": 0}
"""The cursor of a walk: which walk it is, in which state, behind which page, and how many jobs it has found."""
_REMOVED_AT_ONCE = 100
_MOST_OPEN = 100
_BEYOND = "the flow below it has jobs out of the scope of the key"
_SECRETS = "a key with a scope moves webhooks one by one, with PUT /api/jobs/{id}, since their secrets are checked"

Cancelled = Callable[[Sequence[Document]], None]
"""Is told of jobs that were cancelled."""


class Operations(Orders):
    """The store's verbs for operations."""

    noun = "operation"
    done = DONE
    asked = ("verb", "filter", "ids", "priority", "queue", "scope", "reason", "actor")
    read_back = ("state", "requests")

    def __init__(
        self, connection: Connection, keys: DedupeKeys, searching: Searching, flows_beyond: FlowsBeyond
    ) -> None:
        super().__init__(connection, connection.operations, keys)
        self._searching = searching
        self._flows_beyond = flows_beyond
        self._preview = Preview(connection)

    def _missing(self, order_id: str) -> MainspringError:
        return OperationNotFound(order_id)

    # -- creating and ending -----------------------------------------------------------------------------------------

    async def preview(self, order: Order) -> Counted:
        """The jobs that an operation would mean now. Nothing is stored."""
        return await self._preview.count(order)

    async def create(
        self, order: Order, counted: Counted, reason: str, actor: str | None, start_after: int, operation_id: str | None
    ) -> Document:
        """Store an operation that starts after so many milliseconds, or find the one that has this id already. Its
        instant is the server's: jobs that are made from then on are not meant."""
        now = self._connection.clock.expression()
        literal: Document = {
            **order.to_document(),
            "state": WAITING,
            "open": True,
            "reason": reason,
            "count": counted.count,
            "capped": counted.capped,
            "changed": 0,
            "skipped": 0,
            "refused": 0,
            "rev": 0,
        }
        literal |= {} if actor is None else {"actor": actor}
        literal |= {} if order.ids is None else {"named": len(order.ids)}
        # A job that this very process has just made tells the time of the server as this process knows it.
        cutoff = {"$max": [now, truncate(self._connection.clock.now())]}
        computed = {"cutoff": cutoff, "created_at": now, "stepped_at": now, "starts_at": {"$add": [now, start_after]}}
        return await self._begin(operation_id or secrets.token_hex(12), literal, computed)

    async def find(self, limit: int, after: Place | None = None) -> list[Document]:
        """The latest operations, the newest first, without the ids of jobs; with `after`, those behind the place of
        one: its `created_at` and its `_id`."""
        newest = [("created_at", -1), ("_id", -1)]
        bound = None if after is None else dict(zip(("created_at", "_id"), after, strict=True))
        brief = {"ids": 0, "batch": 0}
        return await self._collection.find_all({}, brief, sort=newest, hint=CREATED, limit=limit, max=bound)

    async def next_start(self) -> float | None:
        """The seconds until the first open operation starts, not above zero if it is to be carried on; None if there is
        none. Read from the index alone."""
        first = {"_id": 0, "starts_at": 1, "now": {"$add": [self._connection.clock.expression(), 0]}}
        found = await self._collection.find_all(
            {"open": True}, first, sort=[("starts_at", 1)], hint=OPEN_OPERATIONS, limit=1
        )
        if not found:
            return None
        starts_at = found[0].get("starts_at")
        return (starts_at - found[0]["now"]).total_seconds() if isinstance(starts_at, datetime) else 0.0

    async def find_due(self, left_alone: Sequence[str] = ()) -> list[Document]:
        """The operations that a worker has something to do for now, those that were to start first at the head, without
        those that it leaves alone: a hundred of them would hide all others."""
        due: Document = {"open": True, "$expr": {"$lte": ["$starts_at", self._connection.clock.expression()]}}
        due |= {"_id": {"$nin": list(left_alone)}} if left_alone else {}
        return await self._collection.find_all(due, sort=[("starts_at", 1)], hint=OPEN_OPERATIONS, limit=_MOST_OPEN)

    async def cancel(self, operation_id: str) -> Document:
        """Let an operation take no more jobs in hand. One that has not started does nothing at all, and needs no worker
        any more; one that has ended stays as it is."""
        ended = {
            "state": CANCELLED,
            "finished_at": self._connection.clock.expression(),
            "open": {"$cond": [{"$eq": ["$state", WAITING]}, "$$REMOVE", "$open"]},
        }
        await self._collection.update_one(
            {"_id": operation_id, "state": {"$in": [WAITING, RUNNING]}}, [{"$set": ended}]
        )
        return await self.get(operation_id)

    async def start(self, document: Document) -> Document:
        """Begin an operation whose time has come, unless it was cancelled."""
        now = self._connection.clock.expression()
        due = {"state": WAITING, "$expr": {"$lte": ["$starts_at", now]}}
        return await self._change(document, {"state": RUNNING, "started_at": now}, **due)

    async def fail(self, document: Document, error: str) -> Document:
        """End an operation that must not go on. Jobs that it has changed stay so."""
        failed = {"state": FAILED, "error": {"$literal": error}, "finished_at": self._connection.clock.expression()}
        return await self._change(document, failed, state={"$in": [WAITING, RUNNING]})

    async def hold(self, document: Document, error: str) -> None:
        """Tell why an operation does not get on for now. It is tried again."""
        await self._collection.update_one({"_id": document["_id"], "state": RUNNING}, {"$set": {"error": error}})

    async def settle(self, document: Document) -> Document:
        """Count the batch that was in hand when an operation was ended from outside, without carrying it out."""
        return await self._account(document, {}) if "batch" in document else document

    async def close(self, document: Document) -> None:
        """Nothing more is to be done for an operation that has ended."""
        await self._collection.update_one({"_id": document["_id"], "rev": document["rev"]}, {"$unset": {"open": ""}})

    async def prune(self, before: datetime, limit: int) -> int:
        """Delete operations that have ended and were created before an instant."""
        old = {"created_at": {"$lt": before}, "open": {"$exists": False}}
        return await self._collection.delete_some(old, hint=CREATED, limit=limit)

    async def step(self, document: Document, remove: Remove, cancelled: Cancelled | None = None) -> Document:
        """Deal with one batch of an operation that runs; returns the operation as it is then. `cancelled` is told of
        the jobs that the step has ended."""
        if "batch" not in document:
            document = await self.take_batch(document)
        if "batch" not in document:
            return document
        refused = await self.carry_out(document, remove)
        if cancelled is not None and document["verb"] == CANCEL:
            ids = [one["_id"] for one in document["batch"]]
            mine = {"_id": {"$in": ids}, "state": CANCELLED_JOB, "requests": document["_id"]}
            cancelled(await self._connection.jobs.find_all(mine, hint=BY_ID))
        return await self._account(document, refused)

    # -- the batch ---------------------------------------------------------------------------------------------------

    async def _next_batch(self, document: Document) -> tuple[list[Document], Document | None]:
        order = Order.from_document(document)
        if order.ids is not None:
            return await self._named(order, order.ids, document.get("cursor"))
        return await self._walked(order, document)

    async def _named(
        self, order: Order, ids: Sequence[str], cursor: Document | None
    ) -> tuple[list[Document], Document | None]:
        """The next of those that are named by their ids; one that is not there, or out of reach, is a stray."""
        named, following = named_batch(ids, cursor)
        wanted = list(dict.fromkeys(document_id(one) for one in named))
        found = await self._connection.jobs.find_all(
            {"_id": {"$in": wanted}, **reached(order.scope)}, _ENTRY, hint=BY_ID
        )
        there = {one["_id"]: _entry(order, one) for one in found}
        return [there.get(one, {"_id": one, "stray": True}) for one in wanted], following

    async def _walked(self, order: Order, document: Document) -> tuple[list[Document], Document | None]:
        """The next page of the walk through the states that the order looks for jobs in."""
        place = _BEGINNING | (document.get("cursor") or {})
        if place["walk"] > 1 and not _all_kept(document):
            return [], None  # those that were left alone would be counted again
        states = order.states if place["walk"] == 1 else (PENDING,)
        search = order.search_in(states[place["state"]], document["cutoff"], document["_id"])
        page = await self._searching.page(search, BATCH, place["after"], _ENTRY, SCANNED)
        again = _left_before(document) if place["walk"] > 1 else frozenset[str]()
        found = [one for one in page.documents if isinstance(one["_id"], Hashable) and str(one["_id"]) not in again]
        batch = [_entry(order, one) for one in found]
        place["found"] += len(batch)
        if page.next is not None:
            return batch, place | {"after": page.next}
        if place["state"] + 1 < len(states):
            return batch, place | {"state": place["state"] + 1, "after": None}
        repeat = PENDING in states and place["found"] and place["walk"] < _WALKS
        return batch, _BEGINNING | {"walk": place["walk"] + 1} if repeat else None

    # -- carrying it out ---------------------------------------------------------------------------------------------

    async def carry_out(self, document: Document, remove: Remove) -> Mapping[DocumentId, str]:
        order = Order.from_document(document)
        refused: dict[DocumentId, str] = {one["_id"]: _SECRETS for one in document["batch"] if "secret" in one}
        if order.verb == DELETE:
            await self._delete(order, document, remove)
            return refused
        if order.verb == CANCEL and not order.scope.everything:
            refused |= dict.fromkeys(await self._with_flows_beyond(order, document["batch"]), _BEYOND)
        change = self._connection.mirror.stages([*self._stages(order, document), remember_stage(document["_id"])])

        async def write(ids: Sequence[DocumentId]) -> None:
            meant = self._connection.mirror.guard(_meant(order, document, ids))
            await self._connection.jobs.update_many(meant, change, hint=BY_ID)
            if order.verb == RETRY:
                await self._waits_again(ids)
            elif order.verb == CANCEL:
                await self._waits_ended(ids)

        await (self._act_again if order.verb == RETRY else self._act)(document, write, refused)
        return refused

    async def _with_flows_beyond(self, order: Order, batch: Sequence[Document]) -> list[DocumentId]:
        """Those of a batch whose cancellation would reach jobs out of the creator's scope."""
        parents = {"_id": {"$in": [one["_id"] for one in batch]}, "spawned": True}
        found = await self._connection.jobs.find_all(parents, {"flow": 1, "spawned": 1}, hint=BY_ID)
        return [job["_id"] for job in found if await self._flows_beyond.cancelled(job, order.scope)]

    def _stages(self, order: Order, document: Document) -> list[Document]:
        """The update that carries the verb out on a job: that of the verb for a single job."""
        now = self._connection.clock.expression()
        if order.verb == CANCEL:
            return cancel_stages(now, document["reason"])
        if order.verb == RETRY:
            return [*again_stages(now), edited_stage(now)]
        if order.verb == RUN:
            return [*run_now_stages(now), edited_stage(now)]
        return [*edit_stages(order.edits), edited_stage(now)]

    async def _delete(self, order: Order, document: Document, remove: Remove) -> None:
        """Delete the batch: ended jobs through `remove`, each only as it was read; jobs that have not started at
        once."""
        ids = [one["_id"] for one in document["batch"] if "stray" not in one]
        held = await self._note_deleted(ids)
        for start in range(0, len(ids), _REMOVED_AT_ONCE):
            meant = _meant(order, document, ids[start : start + _REMOVED_AT_ONCE])
            ended = await self._connection.jobs.find_all(both(meant, {"state": {"$in": list(FINISHED)}}), hint=BY_ID)
            if ended:
                await remove(ended)
        waiting = both(_meant(order, document, ids), {"state": {"$in": list(NOT_STARTED)}})
        await self._connection.jobs.delete_many(waiting, hint=BY_ID)
        await look_soon(self._connection, held)
        await self._free_keys(document)

    # -- counting ----------------------------------------------------------------------------------------------------

    def _lefts(
        self, document: Document, jobs: Mapping[DocumentId, Document], refused: Mapping[DocumentId, str]
    ) -> list[Left]:
        order = Order.from_document(document)
        verdicts = [_left(order, document, one, jobs.get(one["_id"]), refused) for one in document["batch"]]
        return [one for one in verdicts if one is not None]

    def _tally(self, changed: int, lefts: Sequence[Left]) -> Document:
        refused = sum(one.refused for one in lefts)
        counts = {"changed": changed, "refused": refused, "skipped": len(lefts) - refused}
        reasons = [{"job": one.job_id, "refused": one.refused, "reason": one.reason} for one in lefts]
        counted: Document = {name: {"$add": [f"${name}", number]} for name, number in counts.items()}
        return counted | {"error": "$$REMOVE"} | appended("reasons", reasons)


def _entry(order: Order, document: Document) -> Document:
    """A job as a batch has it. A webhook may refer to secrets that are not for the queue it is moved to; a job that
    cannot be run again wants no dedupe key back."""
    if order.verb == MOVE and not order.scope.everything and document.get("name") == HTTP:
        return {"_id": document["_id"], "secret": True}
    keyless = order.verb == RETRY and document.get("state") not in RETRIABLE
    return {"_id": document["_id"]} if keyless else entry_of(document)


def _meant(order: Order, document: Document, ids: Sequence[DocumentId]) -> Document:
    """The filter for those of these jobs that the operation means and has not changed."""
    named: Document = {"_id": {"$in": list(ids)}, "state": {"$in": list(WORKS_ON[order.verb])}}
    if order.search is None:
        untouched = {"requests": {"$ne": document["_id"]}, "created_at": {"$lte": document["cutoff"]}}
        return both(named | untouched, reached(order.scope))
    searches = [order.search_in(state, document["cutoff"], document["_id"]) for state in order.states]
    return both(named, {"$or": [both({"state": one.state}, wanted_of(one)) for one in searches]})


def _left(
    order: Order, document: Document, entry: Document, job: Document | None, refused: Mapping[DocumentId, str]
) -> Left | None:
    """Why a job of the batch was left alone; None when it was dealt with. `job` is what became of it."""
    job_id = str(entry["_id"])
    if "stray" in entry:
        return Left(job_id, NOT_THERE)
    if job is None:
        return None if order.verb == DELETE else Left(job_id, DELETED)
    if _has_changed(document, job):
        return None
    if entry["_id"] in refused:
        return Left(job_id, refused[entry["_id"]], refused=True)
    reason, by_verb = left_in_state(order, job.get("state"))
    return Left(job_id, reason, refused=by_verb)


def _has_changed(document: Document, job: Document) -> bool:
    """Whether the operation has changed a job."""
    requests = job.get("requests")
    return isinstance(requests, list) and document["_id"] in requests


def _left_before(document: Document) -> frozenset[str]:
    """The jobs that were left alone in an earlier walk: they are counted."""
    return frozenset(one["job"] for one in document.get("reasons", ()))


def _all_kept(document: Document) -> bool:
    """Whether all that were left alone so far are known."""
    return bool(document["skipped"] + document["refused"] <= KEPT)
