"""Storing the audit log: rows that are only ever added, each under the next number, each with the hash before it.

A process that appends reads the end of the chain and inserts the next number; of two processes at once, one gets a
duplicate `_id`, reads again and goes on behind the other. So the order is total without a transaction, on a standalone
server too. The collections are `jobs.audit`, where nothing but inserts is needed, and `jobs.audit.head`: one document
with the last number and hash, updated after the rows. It shows when the end of the log was cut off, which the chain
alone cannot. With keys, rows and head are signed (`model/access/audit.py`).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from datetime import datetime
from itertools import islice
from typing import Any

from bson import MinKey
from pymongo import ASCENDING, DESCENDING
from pymongo.errors import BulkWriteError, DuplicateKeyError

from mainspring import clock as clocks
from mainspring.clock import EPOCH, truncate
from mainspring.errors import Unavailable
from mainspring.model.access.audit import (
    End,
    Entry,
    Head,
    Keys,
    Link,
    Redact,
    Row,
    Verdict,
    Walk,
    find_end,
    is_signed,
    sign_head,
    to_fields,
    write_rows,
)
from mainspring.model.access.audit_filter import EVERY_ROW, AuditFilter, AuditPage
from mainspring.store.access.audit_pages import AuditPages
from mainspring.store.access.ticket_line import TicketLine
from mainspring.store.collection import DUPLICATE
from mainspring.store.connection import Connection, Document
from mainspring.store.fitting import read
from mainspring.store.group_commit import GroupCommit
from mainspring.store.privacy.keyring import Keyring
from mainspring.store.schema import BY_ID
from mainspring.store.shapes import AUDIT_ROW

logger = logging.getLogger("mainspring")

MOST_ROWS = 200
_BATCH = 1000
_CHUNK = 500
_HEAD = "head"
_NO_NUMBER = -1
_FORGED = (
    "The head of the audit log is missing or was changed by a program without its key; the log goes on at row %d, "
    "behind a gap that `mainspring audit verify` names"
)
# The numbers of rows. A document that another program has stored under another id is no row, and no end of the log.
_NUMBERED = {"$type": ["int", "long"]}
_MAYBE = ("address", "before", "after", "key")
# Processes that contend take turns for this many seconds.
_CROWDED = 5.0
# The head may be behind the rows by this many seconds: one write of the head per row would slow the rows down.
_HEAD_EVERY = 0.1


class Audit:
    """The store's verbs for the audit log. `redact` removes sensitive parts from a value; the first of the keys signs,
    and without keys the chain is not signed."""

    def __init__(self, connection: Connection, redact: Redact, ring: Keyring) -> None:
        self._connection = connection
        self._rows = connection.audit
        self._head = connection.audit_head
        self._pages = AuditPages(connection.audit, _decode)
        self._redact = redact
        self._ring = ring
        self.turns = TicketLine(connection, "audit")
        self._group = GroupCommit(self._append_all, _CHUNK)
        self._end: End | None = None
        self._written = Link()
        """The last row that this process has written."""
        self._crowded_until = float("-inf")
        self._moving: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()

    @property
    def keyed(self) -> bool:
        """Whether this process signs the rows that it appends."""
        return bool(self._ring.ids)

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The ids of the keys of the log, the one that signs first."""
        return self._ring.ids

    async def append(self, *entries: Entry) -> list[Row]:
        """Add rows at the end of the log, in this order; rows of other processes may be between them.

        Rows are written by group commit: the chain allows one writer at a time, and a service makes many changes at
        once.
        """
        return await self._group.submit([(entry.id or secrets.token_hex(12), entry) for entry in entries])

    async def settle(self, seconds: float) -> None:
        """Update the head now, and wait no longer than this for it."""
        moving = self._moving
        if moving is not None:
            self._hurry.set()
            await asyncio.wait({moving}, timeout=seconds)
            self._hurry.clear()
            moving.cancel()

    async def _append_all(self, changes: list[list[tuple[str, Entry]]]) -> list[list[Row] | Exception]:
        """Add the rows of several changes; stored rows are kept even if the rest fails."""
        named = [one for entries in changes for one in entries]
        added: list[Row] = []
        failed: Exception | None = None
        try:
            await self._contend(named, added)
        except Exception as error:
            failed = error
        if added and self._moving is None:
            self._moving = asyncio.create_task(self._move_head())
        rows = iter(added)
        found = [list(islice(rows, len(entries))) for entries in changes]
        return [
            failed if failed is not None and len(mine) < len(entries) else mine
            for mine, entries in zip(found, changes, strict=True)
        ]

    async def _contend(self, entries: Sequence[tuple[str, Entry]], added: list[Row]) -> None:
        """Add rows behind those of other processes until all are stored. Processes that contend take turns from then
        on, for a while: otherwise most of their inserts would be in vain."""
        until = clocks.monotonic() + self._connection.settings.operation_timeout
        turn = await self._take_turn(until) if clocks.monotonic() < self._crowded_until else None
        try:
            while len(added) < len(entries):
                added += await self._append_some(entries[len(added) :])
                if len(added) == len(entries):
                    return
                self._crowded_until = clocks.monotonic() + _CROWDED
                if clocks.monotonic() > until:
                    raise Unavailable("Too much contention on the audit log; try again.")
                turn = turn or await self._take_turn(until)
        finally:
            if turn is not None:
                with suppress(Unavailable):  # other processes do not wait for long
                    await self.turns.end(turn)

    async def _take_turn(self, until: float) -> int:
        """Wait for this process's turn, and read the end of the log then."""
        turn = await self.turns.join()
        await self.turns.wait(turn, until)
        if self._end is not None:
            await self._look_behind(self._end.link)
        return turn

    async def head(self) -> Link:
        """The end of the log: the last row's number, hash and time. A copy kept elsewhere proves what was stored."""
        found = (await self._read_last())[0], _decode_head(await self._read_head()) or Head(Link())
        return max(found[0], found[1].link, key=lambda link: link.n)

    async def check_end(self) -> End:
        """The end of the log, as far as this process can tell. Raises AuditKeyMissing."""
        return await self._read_end()

    async def find(self, wanted: AuditFilter = EVERY_ROW, *, before: int | None = None, limit: int = 50) -> AuditPage:
        """Rows, the newest first, with numbers below `before`, which is the `next` of the page before."""
        return await self._pages.find(wanted, before, min(max(limit, 1), MOST_ROWS))

    async def get(self, n: int) -> Row | None:
        """A row by its number."""
        document = await self._rows.find_one({"_id": n})
        return None if document is None else read(document, AUDIT_ROW, _decode, "The row")

    async def verify(self, first: int = 1, last: int | None = None, *, known: Link | None = None) -> Verdict:
        """Check the chain from one row to another, or to the end; the verdict names the first row that is broken.
        `known` is an earlier `head()`, kept elsewhere: the chain must contain it.
        """
        own = [self._written] if self._written.n else []  # the head may be a moment behind it
        keys, head = self._ring.keys, _decode_head(await self._read_head())
        links = [Link() if head is None else head.link, *own, *([] if known is None else [known])]
        link = await self._link_before(first)
        if isinstance(link, Verdict):
            return link
        walk = Walk(link, links, keys)
        async with aclosing(self._read(first, last)) as batches:
            async for batch in batches:
                if not walk.follow(batch):
                    return walk.verdict()
        verdict = _judge_end(walk.verdict(), links, last)
        if last is None and verdict.ok and walk.last_key is not None and not is_signed(head, keys):
            return await self._judge_head(verdict, keys)
        return verdict

    async def _judge_head(self, verdict: Verdict, keys: Keys) -> Verdict:
        """Read a head without a valid signature once more: the first row may have been written meanwhile."""
        if is_signed(_decode_head(await self._read_head()), keys):
            return verdict
        behind = f"rows behind row {verdict.last.n} may have been cut off"
        return _missing(verdict, f"the head of the log is missing or was changed: {behind}")

    # -- appending -------------------------------------------------------------------------------------------------

    async def _append_some(self, entries: Sequence[tuple[str, Entry]]) -> list[Row]:
        """Insert rows behind the known end; returns the rows that were stored, from the first one on."""
        end, keys = self._end or await self._read_end(), self._ring.keys
        self._end = None  # The end is read again unless all rows are known to be stored.
        if end.unsigned:
            await self._replace_head(end.link, keys)
        rows = write_rows(end.link, entries, truncate(self._connection.clock.now()), self._redact, keys)
        added = rows[: await self._insert(rows)]
        if added:
            self._written = Link(added[-1].n, added[-1].hash, added[-1].at)
            if end.forged:
                logger.error(_FORGED, rows[0].n)
                with suppress(Unavailable):  # the rows are stored, and show the gap
                    await self._replace_head(self._written, keys)
        if len(added) == len(rows):
            self._end = End(self._written)
        return added

    async def _insert(self, rows: Sequence[Row]) -> int:
        """Insert rows; returns how many were stored, from the first one on. After an ambiguous error, this is read
        back."""
        try:
            await self._rows.insert_many([_encode(row) for row in rows], ordered=True)
        except BulkWriteError as error:
            if any(failure["code"] != DUPLICATE for failure in error.details["writeErrors"]):
                raise
            if error.details["writeConcernErrors"]:  # otherwise the server has waited for the majority
                await self._wait_for_majority()
            return await self._count_in(rows)
        except Unavailable:
            await self._wait_for_majority()
            found = await self._count_in(rows)
            if not found:
                raise
            return found
        return len(rows)

    async def _wait_for_majority(self) -> None:
        """Wait until a majority has all rows of the primary: a row that only the primary has may be rolled back, and
        the chain would go on behind a missing row. The write changes nothing, and needs no right to change rows."""
        await self._head.update_one({"_id": _HEAD, "n": _NO_NUMBER}, {"$set": {"n": _NO_NUMBER}})

    async def _count_in(self, rows: Sequence[Row]) -> int:
        """Count the rows that are stored, from the first one on, by their hashes."""
        found = await self._look_behind(Link(rows[0].n - 1, rows[0].prev))
        count = 0
        while count < min(len(rows), len(found)) and found[count].get("hash") == rows[count].hash:
            count += 1
        return count

    async def _look_behind(self, link: Link) -> list[Document]:
        """Read the rows behind a link, and note the end of the log by them."""
        chosen, fields = {"_id": {**_NUMBERED, "$gt": link.n}}, {"hash": 1, "at": 1, "key": 1}
        found = await self._rows.find_all(chosen, fields, sort=[("_id", ASCENDING)], hint=BY_ID, limit=_BATCH)
        if found:
            ours = _text(found[-1].get("key")) == next(iter(self._ring.ids), None)
            # An end that this key did not sign has to be judged by the head as well.
            self._end = End(_link(found[-1])) if ours and len(found) < _BATCH else None
        return found

    async def _read_end(self) -> End:
        """The end of the log, behind which the next row goes."""
        head = _decode_head(await self._read_head())  # before the rows: it is never ahead of rows that are read later
        last, key = await self._read_last()
        end = self._judge(last, key, head)
        # The first process that signs may have written meanwhile, the head first and then a row.
        return self._judge(last, key, _decode_head(await self._read_head())) if end.forged else end

    def _judge(self, last: Link, key: str | None, head: Head | None) -> End:
        for key_id in (key, None if head is None else head.key):
            if key_id is not None:
                self._ring.get(key_id)  # an unknown key is looked for in the file at once
        return find_end(last, key, head, self._ring.keys)

    async def _read_last(self) -> tuple[Link, str | None]:
        """The last row's place in the chain, and the id of its key."""
        found = await self._rows.find_all(
            {"_id": {**_NUMBERED, "$gt": 0}}, sort=[("_id", DESCENDING)], hint=BY_ID, limit=1
        )
        return (_link(found[0]), _text(found[0].get("key"))) if found else (Link(), None)

    async def _read_head(self) -> Document | None:
        return await self._head.find_one({"_id": _HEAD})

    async def _move_head(self) -> None:
        """Move the head to the last row that was written, in the background; once for many rows."""
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
        change = {"$set": _encode_head(sign_head(end, self._ring.keys))}
        try:
            await self._head.update_one({"_id": _HEAD, "n": {"$lt": end.n}}, change, upsert=True)
        except (DuplicateKeyError, Unavailable):
            # Another process has moved the head further, or the database is not reachable; the row itself is stored.
            pass

    async def _replace_head(self, link: Link, keys: Keys) -> None:
        """Replace a head without a valid signature by a signed one. Of several processes at once, one does so."""
        found = await self._read_head()
        if is_signed(_decode_head(found), keys):
            return
        signed = _encode_head(sign_head(link, keys))
        with suppress(DuplicateKeyError), self._connection.deadline():
            if found is None:
                await self._head.insert_one({"_id": _HEAD, **signed})
            else:
                same = {name: {"$eq": found.get(name)} for name in ("n", "hash", "mac")}
                await self._head.replace_one({"_id": _HEAD, **same}, signed)

    # -- checking --------------------------------------------------------------------------------------------------

    async def _link_before(self, first: int) -> Link | Verdict:
        if first <= 1:
            return Link()
        document = await self._rows.find_one({"_id": first - 1})
        if document is None:
            return Verdict(0, Link(), first - 1, f"row {first - 1} is missing")
        return _link(document)

    async def _read(self, first: int, last: int | None) -> AsyncGenerator[list[Document], None]:
        """The stored rows in order. A read from the first row on includes all other documents of the collection."""
        chosen = _after(MinKey() if first <= 1 else first - 1, last)
        while True:
            batch = await self._rows.find_all(chosen, sort=[("_id", ASCENDING)], hint=BY_ID, limit=_BATCH)
            yield [_fields(document) for document in batch]
            if len(batch) < _BATCH:
                return
            chosen = _after(batch[-1]["_id"], last)


def _after(identity: Any, last: int | None) -> Document:
    """The filter for documents behind this id, with ids of any type: a plain comparison only finds the same type."""
    behind: Document = {"$expr": {"$gt": ["$_id", {"$literal": identity}]}}
    return behind if last is None else {**behind, "_id": {"$lte": last}}


def _judge_end(verdict: Verdict, known: Sequence[Link], last: int | None) -> Verdict:
    """Check that the log goes as far as it must: to the requested row, or to the last known one."""
    end = verdict.last
    if not verdict.ok:
        return verdict
    if last is not None:
        missing = end.n < last
        return _missing(verdict, f"row {end.n + 1} is missing") if missing else verdict
    once = max(link.n for link in known)
    return _missing(verdict, f"row {end.n + 1} is missing: the log once had {once} rows") if end.n < once else verdict


def _missing(verdict: Verdict, reason: str) -> Verdict:
    return Verdict(verdict.checked, verdict.last, verdict.last.n + 1, reason)


def _encode(row: Row) -> Document:
    fields = to_fields(row)
    return {"_id": fields.pop("n"), **fields}


def _fields(document: Document) -> Document:
    """A stored row's fields by name. An unknown field is kept, so that the check notices it."""
    return {"n": document["_id"], **{name: value for name, value in document.items() if name != "_id"}}


def _decode(document: Document) -> Row:
    fields = _fields(document)
    values: Document = {name: fields.get(name) if name in _MAYBE else fields[name] for name in Row.__dataclass_fields__}
    row = Row(**values)
    row.value_before(), row.value_after()  # raise where they are no JSON
    return row


def _link(document: Document) -> Link:
    at = document.get("at")
    return Link(int(document["_id"]), str(document.get("hash")), at if isinstance(at, datetime) else EPOCH)


def _encode_head(head: Head) -> Document:
    fields: Document = {"n": head.link.n, "hash": head.link.hash, "at": head.link.at}
    return fields if head.key is None else {**fields, "key": head.key, "mac": head.mac}


def _decode_head(document: Document | None) -> Head | None:
    """The stored head; None for a malformed one."""
    if document is None:
        return None
    number, digest, at = document.get("n"), document.get("hash"), document.get("at")
    if not isinstance(number, int) or not isinstance(digest, str) or not isinstance(at, datetime):
        return None
    return Head(Link(number, digest, at), _text(document.get("key")), _text(document.get("mac")))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
