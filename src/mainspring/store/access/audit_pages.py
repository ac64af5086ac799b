"""Reading the audit log page by page, by its actor, target, action and time. Called by `store/access/audit.py`.

A page examines a bounded number of index keys, however long the log is. Rows are numbered in the order of their times,
so that an instant becomes a number by a binary search. An actor and a target have an index each; every other condition
is checked on the next `_EXAMINED` rows only, and a page that reaches that bound is short and says where to go on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

from pymongo import ASCENDING, DESCENDING

from mainspring.model.access.audit import Row
from mainspring.model.access.audit_filter import AuditFilter, AuditPage
from mainspring.store.collection import Collection
from mainspring.store.connection import Document
from mainspring.store.fitting import readable
from mainspring.store.schema import AUDIT_ACTOR, AUDIT_TARGET, BY_ID
from mainspring.store.shapes import AUDIT_ROW

# They are counted twice: once to find the bound, once to check the rest of the conditions.
_EXAMINED = 900
# The numbers of rows. A document that another program has stored under another id is no row.
_NUMBERED = {"$type": ["int", "long"]}


class AuditPages:
    """Reads pages of the log's collection."""

    def __init__(self, rows: Collection, decode: Callable[[Document], Row]) -> None:
        self._rows = rows
        self._decode = decode

    async def find(self, wanted: AuditFilter, before: int | None, limit: int) -> AuditPage:
        """Rows, the newest first, with numbers below `before`, which is the last number of the page before."""
        low = 0 if wanted.since is None else await self._first_at(wanted.since) - 1
        high = before
        if wanted.until is not None:
            end = await self._first_at(wanted.until)
            high = end if high is None else min(high, end)
        chosen, hint, rest = _conditions(wanted)
        bound = await self._bound({**chosen, "_id": _between(low, high)}, hint) if rest else None
        examined = low if bound is None else bound - 1
        found = await self._rows.find_all(
            {**chosen, **rest, "_id": _between(examined, high)}, sort=[("_id", DESCENDING)], hint=hint, limit=limit
        )
        page = readable(found, AUDIT_ROW, self._decode)
        last = int(found[-1]["_id"]) if len(found) == limit else bound
        return AuditPage(page, page.unreadable, None if last is None or last <= low + 1 else last)

    async def _bound(self, chosen: Document, hint: str) -> int | None:
        """The number of the last row that this page examines; None where there are fewer."""
        found = await self._rows.find_one(chosen, {"_id": 1}, sort=[("_id", DESCENDING)], hint=hint, skip=_EXAMINED - 1)
        return None if found is None else int(found["_id"])

    async def _first_at(self, instant: datetime) -> int:
        """The number of the first row from an instant on; behind the last row where there is none."""
        last = await self._rows.find_one({"_id": _between(0, None)}, {"_id": 1}, sort=[("_id", DESCENDING)], hint=BY_ID)
        low, high = 1, 1 if last is None else int(last["_id"]) + 1
        while low < high:
            middle = (low + high) // 2
            found = await self._rows.find_one(
                {"_id": {**_NUMBERED, "$gte": middle}}, {"at": 1}, sort=[("_id", ASCENDING)], hint=BY_ID
            )
            at = None if found is None else found.get("at")
            if found is None or (isinstance(at, datetime) and at >= instant):
                high = middle
            else:
                low = int(found["_id"]) + 1
        return low


def _conditions(wanted: AuditFilter) -> tuple[Document, str, Document]:
    """The conditions that an index answers, this index, and the rest. Few rows have the same target."""
    rest: Document = {}
    if wanted.action is not None:
        group = wanted.action.endswith(".")
        rest["action"] = {"$regex": f"^{re.escape(wanted.action)}"} if group else wanted.action
    if wanted.target is not None:
        rest |= {} if wanted.actor is None else {"actor": wanted.actor}
        return {"target": wanted.target}, AUDIT_TARGET, rest
    if wanted.actor is not None:
        return {"actor": wanted.actor}, AUDIT_ACTOR, rest
    return {}, BY_ID, rest


def _between(low: int, high: int | None) -> Document:
    """Numbers above `low` and below `high`."""
    bounds: Document = {**_NUMBERED, "$gt": low}
    return bounds if high is None else {**bounds, "$lt": high}
