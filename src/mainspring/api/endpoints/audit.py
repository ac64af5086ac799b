"""The audit log over HTTP: who changed what, and whether anybody has tampered with that."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from mainspring.api.problems import Problem
from mainspring.api.service import Admin
from mainspring.api.wire.access import AuditRow, AuditVerdict
from mainspring.api.wire.base import Answer
from mainspring.model.audit import EPOCH, Link

router = APIRouter(tags=["audit"])

_LARGEST = 2**53
Number = Annotated[int, Query(ge=1, le=_LARGEST)]
Limit = Annotated[int, Query(ge=1, le=200)]
Word = Annotated[str, Query(min_length=1, max_length=500)]


@router.get("/api/audit", summary="Who changed what")
async def list_changes(
    caller: Admin,
    before: Number | None = None,
    limit: Limit = 50,
    actor: Word | None = None,
    target: Word | None = None,
) -> Answer[list[AuditRow]]:
    """The audit log, newest first. `before` is the `next` of the page before; `actor` and `target` match exactly."""
    caller.check_everything()
    rows = await caller.scheduler.changes(before=before, limit=limit, actor=actor, target=target)
    more = str(rows[-1].n) if len(rows) == limit and rows[-1].n > 1 else None
    return Answer(data=[AuditRow.of(row) for row in rows], next=more)


@router.get("/api/audit/verify", summary="Check the audit log")
async def verify_changes(
    caller: Admin,
    first: Number = 1,
    last: Number | None = None,
    known_n: Annotated[int | None, Query(alias="knownN", ge=1, le=_LARGEST)] = None,
    known_hash: Annotated[str | None, Query(alias="knownHash", pattern="^[0-9a-f]{64}$")] = None,
) -> Answer[AuditVerdict]:
    """Follow the chain of hashes and tell the first row that was edited, removed or added, if there is one.

    `knownN` and `knownHash` are the `last` of an earlier answer, kept elsewhere: whoever can write to the database can
    write a whole new log, but not one that passes through there. A long log is best checked in parts.
    """
    caller.check_everything()
    if (known_n is None) is not (known_hash is None):
        raise Problem(422, "Give knownN and knownHash together.", field="query.knownN")
    known = None if known_n is None or known_hash is None else Link(known_n, known_hash, EPOCH)
    return Answer(data=AuditVerdict.of(await caller.scheduler.verify_changes(first=first, last=last, known=known)))
