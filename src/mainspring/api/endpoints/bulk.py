"""Creates many jobs with one request: items are stored and answered while the client still sends the rest.

Each line of the answer has the outcome of one item, so that a client always knows which items are stored. A refused
item does not keep the others from being stored. An item that was sent twice, with the same Idempotency-Key and at the
same place, is stored once (`api/jobs/bulk_record.py`).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from mainspring.api.audit.bulk_tally import Tally, in_short
from mainspring.api.dependencies import Caller, Operator
from mainspring.api.jobs.body_splitter import BrokenArray, Entries, Item, Lines, Splitter, TooLong
from mainspring.api.jobs.bulk_record import Before, BulkRecord, Line, other_item, print_of
from mainspring.api.jobs.create import check_holder, check_plan, make_plan
from mainspring.api.jobs.data_checks import Known, check_data, check_secrets
from mainspring.api.jobs.idempotency import REPLAYED, Key
from mainspring.api.middleware.hardening import log_fault
from mainspring.api.middleware.revalidation import Stay, unsure
from mainspring.api.problems import Problem, as_problem
from mainspring.api.request_faults import faults_of
from mainspring.api.wire.job_requests import Creation
from mainspring.errors import BulkError, MainspringError, Unavailable
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import Job
from mainspring.model.jobs.reserved_names import HTTP

logger = logging.getLogger("mainspring.api")

AT_ONCE = 500
# How long a client may pause before the items that it has sent so far are stored.
_PAUSE = 0.05
NDJSON = "application/x-ndjson"
M = TypeVar("M", bound=BaseModel)
_EXAMPLE = '{"name": "send-report", "data": {"to": 1}}\n{"name": "send-report", "data": {"to": 2}}\n'
_ANSWERS = '{"line":1,"jobId":"6890b1f2c7a4e1d2f3a4b5c6"}\n{"line":2,"error":{"status":422,"detail":"…"}}\n'

router = APIRouter(prefix="/api/jobs", tags=["jobs"])


@dataclass(frozen=True, slots=True)
class Entry:
    """One item of a bulk: the arguments for the Scheduler, or the problem for which it is refused."""

    line: int
    item: Fields | Problem
    print: str = ""
    """The item's fingerprint, if an earlier request may have had the same item."""


ItemOutcome = Job | Problem


@router.post(
    "/bulk",
    summary="Create many jobs",
    response_class=Response,
    responses={200: {"description": "A line for each item.", "content": {NDJSON: {"example": _ANSWERS}}}},
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                NDJSON: {"schema": {"type": "string"}, "example": _EXAMPLE},
                "application/json": {"schema": {"type": "array", "items": {"type": "object"}}},
            },
        }
    },
)
async def create_jobs(request: Request, caller: Operator, key: Key = None) -> Response:
    """Create many jobs, each given as for `POST /api/jobs`, one per line (NDJSON) or as entries of a JSON array. The
    service stores them in chunks while it reads the body, and answers line by line: `{"line": 1, "jobId": …}`, or
    `{"line": 2, "error": {"status", "detail", "field"}}` for a refused item; the other items are still stored.
    Schedules cannot be created in bulk. With an `Idempotency-Key`, the same body sent again within a day creates no job
    twice: an item that was stored before is answered with `"deduplicated": true`, an item that was not is stored, and a
    different item in the position of a stored one is refused with 422."""
    splitter = splitter_of(request, caller)
    record = None if key is None else await BulkRecord.open(caller, key)
    headers = {REPLAYED: "true"} if record is not None and record.complete else None
    return StreamedLines(Bulk(caller, splitter, record).lines(request.stream()), headers)


def splitter_of(request: Request, caller: Caller) -> Splitter:
    """The splitter for the type of a request's body."""
    array = request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"
    longest = caller.service.settings.max_body
    return Entries(longest) if array else Lines(longest)


class StreamedLines(Response):
    """A response that is written while the request is still being read.

    Starlette's own streaming response receives messages to notice a disconnect, and so would consume the body.
    """

    media_type = NDJSON

    def __init__(self, lines: AsyncIterator[bytes], headers: Mapping[str, str] | None = None) -> None:
        super().__init__(headers=headers)
        del self.headers["content-length"]
        self._lines = lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for lines in self._lines:
            await send({"type": "http.response.body", "body": lines, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class Bulk:
    """One bulk request under way."""

    def __init__(self, caller: Caller, splitter: Splitter, record: BulkRecord | None) -> None:
        self._caller = caller
        self._splitter = splitter
        self._record = record
        self._entries: list[Entry] = []
        self._line = 0
        self._stored = Tally()
        self._refused = self._unknown = 0
        self._over = False

    async def lines(self, stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the answers, some lines at a time; write the audit entry at the end or when the client disconnects."""
        try:
            with self._caller.service.standing.stay(self._caller.principal) as stay:
                async for piece in _pieces(stream, stay):
                    self._take(piece)
                    # When the client pauses or has sent all, each item that it has sent gets its answer.
                    while len(self._entries) >= AT_ONCE or (self._entries and (self._over or not piece)):
                        yield await self._flush(await stay.becomes_sure())
                    if self._over:
                        return
            if last := await self._end():
                yield last
        except Problem as problem:  # the caller's key or session is no longer valid
            yield self._cut_off(problem)
        except ClientDisconnect:
            return
        finally:
            if self._changed:
                await asyncio.shield(self._note())

    @property
    def _changed(self) -> bool:
        """Whether the request has changed anything, or may have."""
        return bool(self._stored.count or self._unknown)

    async def _end(self) -> bytes:
        """Note that the body has ended, and return the last line of the answer, if there is one."""
        if self._record is not None:
            await self._record.close(self._line)
        return b""

    def _cut_off(self, problem: Problem) -> bytes:
        """The last line of the answer, at the first item that was not stored."""
        self._over = True
        line = self._entries[0].line if self._entries else self._line + 1
        detail = f"{problem.detail} Nothing from this line on was stored."
        return as_line(answer_to(line, Problem(problem.status, detail)))

    async def _note(self) -> None:
        """Write the audit entry. If MongoDB is unavailable, the answer, which says so, must not be cut off for it."""
        try:
            await self._write_note(self._told())
        except Unavailable as error:
            logger.error("A bulk request stored %d jobs without an audit entry: %s", self._stored.count, error)

    def _told(self) -> Fields:
        told = {"refused": self._refused} | ({"unknown": self._unknown} if self._unknown else {})
        return {"stored": self._stored.told(), **told}

    async def _write_note(self, told: Fields) -> None:
        await self._caller.note("job.bulk", "bulk", after=told)

    def _take(self, piece: bytes | None) -> None:
        """Check the items of a piece; b"" is the end, and None a pause."""
        if piece is None or self._over:
            return
        try:
            items = self._splitter.feed(piece) if piece else self._splitter.close()
        except BrokenArray as error:
            items, self._over = [], True
            self._entries.append(Entry(self._line + 1, Problem(400, str(error))))
        self._add(items)

    def _add(self, items: Iterable[Item]) -> None:
        for item in items:
            self._line += 1
            if isinstance(item, TooLong) or item.strip():
                print = "" if self._record is None else print_of(item)
                self._entries.append(Entry(self._line, self._checked(item), print))

    def _checked(self, item: Item) -> Fields | Problem:
        """The arguments for the Scheduler, or the refusal."""
        try:
            plan = check_plan(self._caller, make_plan(_read(item, self._longest), self._caller.service.settings))
        except Problem as problem:
            return problem
        except MainspringError as error:
            return as_problem(error)
        if plan.rule is not None:
            return Problem(
                422, "A bulk request creates single jobs; create a schedule with POST /api/jobs.", field="schedule"
            )
        return plan.as_item() if self._record is None else plan.named(self._record.job_id(self._line))

    @property
    def _longest(self) -> int:
        return self._caller.service.settings.max_body

    async def _flush(self, sure: bool) -> bytes:
        """Store a chunk, if the caller is sure to be still valid, and return a line for each of its items."""
        entries, self._entries = self._entries[:AT_ONCE], self._entries[AT_ONCE:]
        entries = await self._judged(entries, sure)
        outcomes = await self._outcomes([one for one in entries if not isinstance(one.item, Problem)])
        answers = []
        for entry in entries:
            outcome = entry.item if isinstance(entry.item, Problem) else outcomes[entry.line]
            self._refused += isinstance(outcome, Problem)
            answers.append(as_line(answer_to(entry.line, outcome)))
        return b"".join(answers)

    async def _judged(self, entries: list[Entry], sure: bool) -> list[Entry]:
        """The items; one that may not use the secrets that it refers to, or whose data its handler would refuse, is
        replaced by a refusal, and each of them if the caller may not be valid any more."""
        if not sure:
            return [replace(one, item=as_problem(unsure())) for one in entries]
        secrets: Known = {}
        return [await self._confined_one(one, secrets) for one in entries]

    async def _confined_one(self, entry: Entry, secrets: Known) -> Entry:
        if isinstance(entry.item, Problem):
            return entry
        item = entry.item
        try:
            if item["name"] == HTTP:
                await check_secrets(self._caller, HTTP, item["queue"], item["data"], secrets)
            await check_data(self._caller, item["name"], item["data"], item.get("version"))
        except MainspringError as error:
            return replace(entry, item=as_problem(error))
        except Problem as problem:
            return replace(entry, item=problem)
        return entry

    async def _outcomes(self, entries: list[Entry]) -> dict[int, ItemOutcome | Before]:
        """Store these items and return their outcomes by line."""
        try:
            return await self._store(entries)
        except MainspringError as error:
            # The outcome of these items is unknown, and the rest would fail in the same way.
            self._over, self._entries = True, []
            self._unknown += len(entries)
            problem = as_problem(error)
            detail = f"{problem.detail} It is unknown whether this item was stored; the items after it were not read."
            return {one.line: Problem(problem.status, detail) for one in entries}

    async def _store(self, entries: list[Entry]) -> dict[int, ItemOutcome | Before]:
        known = await self._known(entries)
        new = [one for one in entries if one.line not in known]
        stored = [self._seen(one, job) for one, job in zip(new, await self._schedule(new), strict=True)]
        self._count(new, stored)
        await self._keep(new, stored)
        return {**known, **{one.line: outcome for one, outcome in zip(new, stored, strict=True)}}

    def _count(self, entries: list[Entry], outcomes: list[ItemOutcome]) -> None:
        """Count the jobs that this bulk has made, now or in an earlier try; not jobs that existed before."""
        for entry, job in zip(entries, outcomes, strict=True):
            asked = entry.item if isinstance(entry.item, Mapping) else {}
            if isinstance(job, Job) and (not job.deduplicated or asked.get("job_id") == job.id):
                self._stored.add(in_short(job.id, job.name, job.data))

    async def _schedule(self, entries: list[Entry]) -> list[ItemOutcome]:
        items = [one.item for one in entries if isinstance(one.item, dict)]
        try:
            return list(await self._caller.scheduler.schedule_bulk(items)) if items else []
        except BulkError as error:
            return [_outcome(job, error.errors.get(place)) for place, job in enumerate(error.jobs)]

    async def _known(self, entries: list[Entry]) -> dict[int, Before | Problem]:
        """The items of earlier requests with the same Idempotency-Key."""
        return {} if self._record is None else await self._record.known([(one.line, one.print) for one in entries])

    async def _keep(self, entries: list[Entry], outcomes: list[ItemOutcome]) -> None:
        if self._record is not None:
            made: dict[Line, str] = {}
            for one, outcome in zip(entries, outcomes, strict=True):
                if isinstance(outcome, Job):
                    made[one.line, one.print] = outcome.id
            await self._record.keep(made)

    def _seen(self, entry: Entry, outcome: ItemOutcome) -> ItemOutcome:
        """Refuse a job that existed already and belongs to another caller, or to another item of an earlier request."""
        if isinstance(outcome, Job) and outcome.deduplicated and _differs(entry.item, outcome):
            return other_item()
        if isinstance(outcome, Job) and isinstance(entry.item, dict):
            try:
                check_holder(self._caller, entry.item, outcome)
            except Problem as problem:
                return problem
        return outcome


async def _pieces(stream: AsyncIterator[bytes], stay: Stay) -> AsyncIterator[bytes | None]:
    """Yield the pieces of a body as the client sends them, None when the next one is not there at once, and b"" at the
    end. Raise a Problem if the caller's key or session becomes invalid before that."""
    while True:
        coming = asyncio.ensure_future(anext(stream, b""))
        try:
            await asyncio.wait({coming}, timeout=_PAUSE)
            if not coming.done():
                yield None
                await stay.first(coming)
            stay.check()
            piece = await coming
        finally:
            coming.cancel()
        yield piece
        if not piece:
            return


def _read(item: Item, longest: int) -> Creation:
    return read_item(item, longest, Creation, "as the body of POST /api/jobs is")


def read_item(item: Item, longest: int, model: type[M], what: str) -> M:
    """An item of a body as a model. Raises a Problem that names the field."""
    if isinstance(item, TooLong):
        raise Problem(413, f"This item is larger than {longest:,} bytes; MAINSPRING_MAX_BODY sets the limit.")
    try:
        value = json.loads(item, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise Problem(400, "This item is not valid JSON.") from None
    if not isinstance(value, dict):
        raise Problem(422, f"An item is a JSON object, {what}.")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        [first, *_] = faults_of([{**one, "loc": ("body", *one["loc"])} for one in errors], value, model)
        raise Problem(422, f"{first['field']}: {first['detail']}", field=first["field"]) from None


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not a JSON number.")


def _outcome(job: object, error: Exception | None) -> ItemOutcome:
    if isinstance(job, Job):
        return job
    if isinstance(error, MainspringError):
        return as_problem(error)
    number = log_fault("Storing an item of a bulk", error or RuntimeError())
    return Problem(500, f"This is an internal error; the service's log has its details under the number {number}.")


def _differs(item: Mapping[str, Any] | Problem, job: Job) -> bool:
    """Whether the job that has the item's id is another job than the item would make."""
    asked = item if isinstance(item, Mapping) else {}
    return asked.get("job_id") == job.id and (asked["name"], asked["data"]) != (job.name, job.data)


def as_line(answer: Fields) -> bytes:
    """A line of an answer."""
    return json.dumps(answer, separators=(",", ":")).encode() + b"\n"


def answer_to(line: int, outcome: ItemOutcome | Before) -> Fields:
    """The answer to a line."""
    if isinstance(outcome, Problem):
        error: Fields = {"status": outcome.status, "detail": outcome.detail}
        return {"line": line, "error": error if outcome.field is None else error | {"field": outcome.field}}
    if isinstance(outcome, Before):
        known: Fields = {"line": line, "jobId": outcome.job_id}
        return known if outcome.fresh else known | {"deduplicated": True}
    answer: Fields = {"line": line, "jobId": outcome.id}
    return answer | {"deduplicated": True} if outcome.deduplicated else answer
