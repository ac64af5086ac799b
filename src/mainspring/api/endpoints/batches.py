"""Starts a batch with one request: its callbacks first, then its jobs, stored while the client still sends the rest.

The body is read, and its lines are answered, as those of a bulk are (`api/endpoints/bulk.py`). The first refused line
ends the batch: its callbacks may rely on all lines. The service renews a batch whose client pauses. A batch whose body
ends early is not sealed, so that the sweep of a worker finds it a minute later and lets it fail, as that of a Python
process that died.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace

from fastapi import APIRouter, Request, Response

from mainspring.api.audit.bulk_tally import in_short
from mainspring.api.dependencies import Caller, Operator
from mainspring.api.endpoints.bulk import (
    NDJSON,
    Bulk,
    Entry,
    ItemOutcome,
    StreamedLines,
    answer_to,
    as_line,
    read_item,
    splitter_of,
)
from mainspring.api.endpoints.jobs import Trace
from mainspring.api.jobs.body_splitter import BrokenArray, Item, Splitter, TooLong
from mainspring.api.jobs.bulk_record import Before, print_of
from mainspring.api.jobs.data_checks import refusing
from mainspring.api.jobs.flow_plans import plan_batch
from mainspring.api.jobs.idempotency import NAME, REPLAYED, Key, open_record, record_of
from mainspring.api.problems import Problem, as_problem
from mainspring.api.wire.flows import BatchIn
from mainspring.client.flows.batches import OpenBatch
from mainspring.clock import monotonic
from mainspring.errors import MainspringError, NotRepeatable
from mainspring.model.access.idempotency import Reply
from mainspring.model.fields import Fields
from mainspring.model.jobs.draft import Draft

router = APIRouter(prefix="/api/flows", tags=["flows"])
_EXAMPLE = (
    '{"name": "mails", "onDone": {"job": "report"}}\n'
    '{"name": "mail", "data": {"to": 1}}\n{"name": "mail", "data": {"to": 2}}\n'
)
_ANSWERS = (
    '{"line":1,"flowId":"6890b1f2c7a4e1d2f3a4b5c6"}\n{"line":2,"jobId":"6890b1f2c7a4e1d2f3a4b5c6.items.00000000"}\n'
    '{"flowId":"6890b1f2c7a4e1d2f3a4b5c6","sealed":true,"jobs":1}\n'
)
_LONGEST_PAUSE = 600.0
"""The seconds for which a batch is renewed although its client sends nothing: the client may be gone unnoticed."""
_GIVEN_UP = "The batch was given up: its jobs that wait are cancelled, and no callback runs."
_LEFT_OPEN = (
    "Send the whole body again with the same Idempotency-Key within a minute to continue the batch; otherwise it fails."
)
_ENDED = "This batch was cancelled, or failed since its body ended early; use a new Idempotency-Key."


@router.post(
    "/batch",
    summary="Start a batch",
    response_class=Response,
    responses={
        200: {"description": "A line for each line, and a last one.", "content": {NDJSON: {"example": _ANSWERS}}}
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                NDJSON: {"schema": {"type": "string"}, "example": _EXAMPLE},
                "application/json": {"schema": {"type": "array", "items": {"type": "object"}, "minItems": 1}},
            },
        }
    },
)
async def start_batch(request: Request, caller: Operator, key: Key = None, traceparent: Trace = None) -> Response:
    """Store any number of jobs, and run callbacks when all have ended. The first line (NDJSON), or the first entry of a
    JSON array, describes the batch: `name`, the callbacks `onSuccess`, `onFailure` and `onDone` (each a `job` with
    `data`, an `endpoint` or an email, like a node of a flow), `tolerate` (a number of jobs, or a fraction), `queue`,
    `priority` and `tags`. Each further line is a job, given as for `POST /api/jobs/bulk`, without a `dedupeKey`.

    The jobs are stored in chunks while the service reads the body, and may run at once. The answer has
    `{"line": 1, "flowId": …}`, then `{"line": 2, "jobId": …}` for each job, and at the end
    `{"flowId": …, "sealed": true, "jobs": …}`: from then on the batch waits for the ends of its jobs. The first refused
    line ends the answer with `sealed: false`, and the batch is cancelled. If the body ends early, since the connection
    was lost, the batch is `aborted`: a minute later it fails, and `onFailure` runs. With an `Idempotency-Key` the batch
    is left open for that minute in both cases: the same body continues it, and stores no job twice."""
    splitter = splitter_of(request, caller)
    stream = request.stream()
    head = await _read_head(stream, splitter)
    body = read_item(head.item, caller.service.settings.max_body, BatchIn, "with the callbacks of the batch")
    asked = await plan_batch(caller, body, traceparent)
    record = None if key is None else await _Record.open(caller, key, print_of(head.item))
    if record is not None and record.reply.body is not None:
        return StreamedLines(_replayed(stream, record.reply.body.encode()), {REPLAYED: "true"})
    with refusing():
        batch = await caller.backend.open_batch(**asked, batch_id=None if record is None else record.reply.seed)
    if not batch.is_open:
        raise Problem(409, _ENDED)
    return StreamedLines(Batch(caller, splitter, batch, record, head).lines(stream))


# -- the first line ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Head:
    """The first line of a batch, its number, and the lines that were read with it."""

    item: Item
    line: int
    others: tuple[Item, ...]


async def _read_head(stream: AsyncIterator[bytes], splitter: Splitter) -> _Head:
    line = 0
    while True:
        piece = await anext(stream, b"")
        try:
            items = splitter.feed(piece) if piece else splitter.close()
        except BrokenArray as error:
            raise Problem(400, str(error)) from None
        for place, item in enumerate(items):
            line += 1
            if isinstance(item, TooLong) or item.strip():
                return _Head(item, line, tuple(items[place + 1 :]))
        if not piece:
            raise Problem(422, "The first line is missing: a JSON object with the callbacks of the batch.")


@dataclass(frozen=True, slots=True)
class _Record:
    """The record of a batch with an Idempotency-Key; the seed of the record is the id of the batch."""

    key: str
    reply: Reply

    @classmethod
    async def open(cls, caller: Caller, key: str, print: str) -> _Record:
        record = record_of(caller, key)
        return cls(record, await open_record(caller, record, f"batch:{print}"))


async def _replayed(stream: AsyncIterator[bytes], last: bytes) -> AsyncIterator[bytes]:
    """The answer to a batch that is stored completely: the last line. The body is read and dropped."""
    async for _ in stream:
        pass
    yield last


# -- the jobs ----------------------------------------------------------------------------------------------------------


class Batch(Bulk):
    """One batch under way."""

    def __init__(
        self, caller: Caller, splitter: Splitter, batch: OpenBatch, record: _Record | None, head: _Head
    ) -> None:
        super().__init__(caller, splitter, None)
        self._batch = batch
        self._of_key = record
        self._head = head
        self._drafts: dict[int, Draft] = {}
        self._sealed = False
        self._line = head.line
        self._heard_at = monotonic()
        self._add(head.others)

    async def lines(self, stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the answers, some lines at a time. A client that disconnects leaves the batch open."""
        keeping = asyncio.create_task(self._batch.keep_open(lambda: monotonic() - self._heard_at < _LONGEST_PAUSE))
        try:
            yield as_line({"line": self._head.line, "flowId": self._batch.id})
            async for lines in super().lines(self._heard(stream)):
                yield lines
            if self._over:
                yield await self._give_up()
        finally:
            keeping.cancel()
            await asyncio.shield(self._note())

    async def _heard(self, stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The pieces of the body; notes when the client sent the last one."""
        async for piece in stream:
            self._heard_at = monotonic()
            yield piece

    async def _judged(self, entries: list[Entry], sure: bool) -> list[Entry]:
        """The items up to the first refused one, which ends the batch."""
        judged: list[Entry] = []
        for entry in await super()._judged(entries, sure):
            judged.append(self._drafted(entry))
            if isinstance(judged[-1].item, Problem):
                self._over, self._entries = True, []
                break
        return judged

    def _drafted(self, entry: Entry) -> Entry:
        if isinstance(entry.item, Problem):
            return entry
        try:
            with refusing():
                self._drafts[entry.line] = self._batch.draft(entry.item)
        except Problem as problem:
            return replace(entry, item=problem)
        return entry

    async def _store(self, entries: list[Entry]) -> dict[int, ItemOutcome | Before]:
        drafts = [self._drafts.pop(one.line) for one in entries]
        try:
            made = await self._batch.add(drafts) if drafts else []
        except NotRepeatable:
            self._over, self._entries = True, []
            return {one.line: _other_items() for one in entries}
        for (job_id, fresh), draft in zip(made, drafts, strict=True):
            if fresh:
                self._stored.add(in_short(job_id, draft.name, draft.data or {}))
        return {one.line: Before(job_id, fresh) for one, (job_id, fresh) in zip(entries, made, strict=True)}

    async def _end(self) -> bytes:
        """Seal the batch. From then on a repeated request is answered with the same last line."""
        try:
            await self._batch.seal()
        except MainspringError as error:
            self._over = True
            problem = _other_items() if isinstance(error, NotRepeatable) else as_problem(error)
            return as_line(answer_to(self._line + 1, problem))
        self._sealed = True
        last = as_line({"flowId": self._batch.id, "sealed": True, "jobs": self._batch.total})
        if self._of_key is not None:
            with suppress(MainspringError):  # the id of the batch keeps it from being stored twice
                await self._caller.backend.keep_reply(self._of_key.key, 200, last.decode())
        return last

    async def _give_up(self) -> bytes:
        if self._of_key is None:
            await self._batch.give_up("A line of its body was refused, or could not be stored.")
        detail = _GIVEN_UP if self._of_key is None else _LEFT_OPEN
        return as_line({"flowId": self._batch.id, "sealed": False, "detail": detail})

    @property
    def _changed(self) -> bool:
        return False  # `lines` writes the audit entry in any case: the batch itself is stored

    async def _write_note(self, told: Fields) -> None:
        await self._caller.note("flow.batch", self._batch.id, after=told | {"sealed": self._sealed})


def _other_items() -> Problem:
    return Problem(422, f"This {NAME} came with other items before; use a new one.", field=NAME)
