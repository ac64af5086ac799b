"""Storing the audit log: rows that are only ever added, each under the next number, each with the hash before it.

Who appends reads the end of the chain and inserts the next number; of two at once one meets a duplicate `_id`, reads
again and goes on behind the other. So the order is total without a transaction, on a standalone server too. The
collections are `jobs.audit`, where nothing but inserts is needed, and `jobs.audit.head`: one document with the last
number and hash, moved on behind the rows. It shows when the end of the log was cut off, which the chain alone cannot.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from datetime import timedelta
from itertools import islice
from typing import Any

from bson import MinKey
from pymongo import ASCENDING, DESCENDING
from pymongo.errors import BulkWriteError, DuplicateKeyError

from mainspring import clock as clocks
from mainspring.clock import EPOCH, truncate
from mainspring.errors import Unavailable
from mainspring.model.audit import Entry, Link, Redact, Row, Verdict, check_rows, to_fields, write_rows
from mainspring.store.collections import BY_ID
from mainspring.store.company import Company
from mainspring.store.connection import DUPLICATE, Connection, Document

logger = logging.getLogger("mainspring")

MOST_ROWS = 200
_BATCH = 1000
_COMPANY = 500
_HEAD = "head"
# Those who meet wait a moment of random length, so that they do not meet again.
_PAUSE = timedelta(milliseconds=20)
# How long the head may be behind the rows, in seconds: a write of its own for each of them would slow them down.
_HEAD_EVERY = 0.1


class Audit:
    """The store's verbs for the audit log. `redact` takes out of a value what must not be kept."""

    def __init__(self, connection: Connection, redact: Redact) -> None:
        self._connection = connection
        self._rows = connection.audit
        self._head = connection.audit_head
        self._redact = redact
        self._company = Company(self._append_all, _COMPANY)
        self._end: Link | None = None
        self._written = Link()
        """The last row that this process has written."""
        self._moving: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()

    async def append(self, *entries: Entry) -> list[Row]:
        """Add rows at the end of the log, in this order; rows of others may come between them.

        What is to be added while a write is under way goes with the next one: the chain allows one writer at a time,
        and a service makes many changes at once.
        """
        return await self._company.join([(entry.id or secrets.token_hex(12), entry) for entry in entries])

    async def settle(self, seconds: float) -> None:
        """Let the head be moved on now, if that takes no longer than this."""
        moving = self._moving
        if moving is not None:
            self._hurry.set()
            await asyncio.wait({moving}, timeout=seconds)
            self._hurry.clear()
            moving.cancel()

    async def _append_all(self, changes: list[list[tuple[str, Entry]]]) -> list[list[Row]]:
        named = [one for entries in changes for one in entries]
        added: list[Row] = []
        until = clocks.monotonic() + self._connection.settings.operation_timeout
        while len(added) < len(named):
            if clocks.monotonic() > until:
                raise Unavailable("The audit log could not be written: others were always first; try once more.")
            added += await self._append_some(named[len(added) :])
        if added and self._moving is None:
            self._moving = asyncio.create_task(self._move_head())
        rows = iter(added)
        return [list(islice(rows, len(entries))) for entries in changes]

    async def head(self) -> Link:
        """The end of the log: the last row's number, hash and time. Kept elsewhere, it proves what was there."""
        return await self._read_end()

    async def find(
        self, *, before: int | None = None, limit: int = 50, actor: str | None = None, target: str | None = None
    ) -> list[Row]:
        """Rows, the newest first: those with numbers below `before`, which is the last number of the page before."""
        chosen: Document = {"_id": {"$gt": 0} if before is None else {"$gt": 0, "$lt": before}}
        chosen |= {name: value for name, value in (("actor", actor), ("target", target)) if value is not None}
        with self._connection.deadline():
            cursor = self._rows.find(chosen, sort=[("_id", DESCENDING)], limit=min(max(limit, 1), MOST_ROWS))
            return [_decode(document) for document in await cursor.to_list(MOST_ROWS)]

    async def get(self, n: int) -> Row | None:
        """A row by its number."""
        with self._connection.deadline():
            document = await self._rows.find_one({"_id": n})
        return None if document is None else _decode(document)

    async def verify(self, first: int = 1, last: int | None = None, *, known: Link | None = None) -> Verdict:
        """Check the chain from one row to another, or to the end; the verdict names the first row that is broken.
        `known` is a `head()` of before, kept elsewhere: who can write to the database can write a whole new log, but
        not one that passes through there.
        """
        own = [self._written] if self._written.n else []  # the head may be a moment behind it
        links = [await self._read_head(), *own, *([] if known is None else [known])]
        link = await self._link_before(first)
        if isinstance(link, Verdict):
            return link
        verdict = Verdict(0, link)
        async with aclosing(self._read(first, last)) as batches:
            async for batch in batches:
                part = check_rows(verdict.last, batch, links)
                verdict = Verdict(verdict.checked + part.checked, part.last, part.broken, part.reason)
                if not verdict.ok:
                    return verdict
        return _judge_end(verdict, links, last)

    # -- appending -------------------------------------------------------------------------------------------------

    async def _append_some(self, entries: Sequence[tuple[str, Entry]]) -> list[Row]:
        """Insert behind the end as it is known; returns the rows that are in, from the first one on."""
        if self._end is None:
            self._end = await self._read_end()
        rows = write_rows(self._end, entries, truncate(self._connection.clock.now()), self._redact)
        self._end = None  # Whatever happens from here on, it is read again unless all is known to be in.
        added = rows[: await self._insert(rows)]
        if added:
            self._written = Link(added[-1].n, added[-1].hash, added[-1].at)
        if len(added) == len(rows):
            self._end = self._written
        else:
            await asyncio.sleep(secrets.randbelow(1000) / 1000 * _PAUSE.total_seconds())
        return added

    async def _insert(self, rows: Sequence[Row]) -> int:
        """How many of the rows are in, from the first one on. After an error that leaves it open, this is read back."""
        try:
            with self._connection.deadline():
                await self._rows.insert_many([_encode(row) for row in rows], ordered=True)
        except BulkWriteError as error:
            if any(failure["code"] != DUPLICATE for failure in error.details["writeErrors"]):
                raise
            return await self._count_in(rows)
        except Unavailable:
            found = await self._count_in(rows)
            if not found:
                raise
            return found
        return len(rows)

    async def _count_in(self, rows: Sequence[Row]) -> int:
        numbers = [row.n for row in rows]
        with self._connection.deadline():
            found = await self._rows.find({"_id": {"$in": numbers}}, {"hash": 1}, hint=BY_ID).to_list(len(numbers))
        stored = {document["_id"]: document.get("hash") for document in found}
        count = 0
        while count < len(rows) and stored.get(rows[count].n) == rows[count].hash:
            count += 1
        return count

    async def _read_end(self) -> Link:
        """Where the next row goes. A head that is ahead of the rows, or says otherwise, wins: what was cut off at the
        end, or replaced there, stays visible as a break.
        """
        head = await self._read_head()
        with self._connection.deadline():
            cursor = self._rows.find({"_id": {"$gt": 0}}, sort=[("_id", DESCENDING)], hint=BY_ID, limit=1)
            found = await cursor.to_list(1)
        last = _link(found[0]) if found else Link()
        return last if last.n > head.n else head

    async def _read_head(self) -> Link:
        with self._connection.deadline():
            document = await self._head.find_one({"_id": _HEAD})
        return Link() if document is None else Link(int(document["n"]), str(document["hash"]), document["at"])

    async def _move_head(self) -> None:
        """Move the head on to the last row that was written, while nobody waits for it; not for each of many rows."""
        moved = 0
        try:
            while moved < self._written.n:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_HEAD_EVERY):
                        await self._hurry.wait()
                moved = self._written.n
                await self._note_end(self._written)
        except Exception as error:
            logger.warning("The head of the audit log stays behind until the next change: %s", error)
        finally:
            self._moving = None

    async def _note_end(self, end: Link) -> None:
        fields = {"n": end.n, "hash": end.hash, "at": end.at}
        try:
            with self._connection.deadline():
                await self._head.update_one({"_id": _HEAD, "n": {"$lt": end.n}}, {"$set": fields}, upsert=True)
        except (DuplicateKeyError, Unavailable):
            # Somebody else's head is further on, or the database is away; the row itself is in.
            pass

    # -- checking --------------------------------------------------------------------------------------------------

    async def _link_before(self, first: int) -> Link | Verdict:
        if first <= 1:
            return Link()
        with self._connection.deadline():
            document = await self._rows.find_one({"_id": first - 1})
        if document is None:
            return Verdict(0, Link(), first - 1, f"row {first - 1} is missing")
        return _link(document)

    async def _read(self, first: int, last: int | None) -> AsyncGenerator[list[Document], None]:
        """The stored rows in order. From the beginning, whatever else is in the collection is read too."""
        chosen = _after(MinKey() if first <= 1 else first - 1, last)
        while True:
            with self._connection.deadline():
                cursor = self._rows.find(chosen, sort=[("_id", ASCENDING)], hint=BY_ID, limit=_BATCH)
                batch = await cursor.to_list(_BATCH)
            yield [_fields(document) for document in batch]
            if len(batch) < _BATCH:
                return
            chosen = _after(batch[-1]["_id"], last)


def _after(identity: Any, last: int | None) -> Document:
    """Documents behind this id, of whatever type theirs is: a plain comparison finds those of the same type only."""
    behind: Document = {"$expr": {"$gt": ["$_id", {"$literal": identity}]}}
    return behind if last is None else {**behind, "_id": {"$lte": last}}


def _judge_end(verdict: Verdict, known: Sequence[Link], last: int | None) -> Verdict:
    """Whether the log goes as far as it must: to the row that was asked for, or to the last that is known."""
    end = verdict.last
    if last is not None:
        missing = end.n < last
        return Verdict(verdict.checked, end, end.n + 1, f"row {end.n + 1} is missing") if missing else verdict
    once = max(link.n for link in known)
    if end.n < once:
        return Verdict(verdict.checked, end, end.n + 1, f"row {end.n + 1} is missing: the log once had {once} rows")
    return verdict


def _encode(row: Row) -> Document:
    fields = to_fields(row)
    return {"_id": fields.pop("n"), **fields}


def _fields(document: Document) -> dict[str, Any]:
    """A stored row's fields by name. A field that no row has is kept, so that it is noticed."""
    return {"n": document["_id"], **{name: value for name, value in document.items() if name != "_id"}}


def _decode(document: Document) -> Row:
    fields = _fields(document)
    known = {name: fields.get(name) for name in Row.__dataclass_fields__}
    return Row(**known)  # type: ignore[arg-type]


def _link(document: Document) -> Link:
    at = document.get("at")
    number, digest = document["_id"], str(document.get("hash"))
    return Link(int(number), digest, at if at is not None else EPOCH)
