"""The audit log over HTTP: changes with their actors, and a check of the chain."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from mainspring.api.dependencies import Admin
from mainspring.api.problems import Problem
from mainspring.api.wire.access import AuditRow, AuditVerdict
from mainspring.api.wire.base import Answer, InstantIn, ListAnswer
from mainspring.model.access.audit import EPOCH, Link

router = APIRouter(tags=["audit"])

_LARGEST = 2**53
Number = Annotated[int, Query(ge=1, le=_LARGEST)]
Limit = Annotated[int, Query(ge=1, le=200)]
Word = Annotated[str, Query(min_length=1, max_length=500)]


@router.get("/api/audit", summary="List changes and their actors")
async def list_audit_entries(
    caller: Admin,
    before: Number | None = None,
    limit: Limit = 50,
    actor: Word | None = None,
    target: Word | None = None,
    action: Word | None = None,
    since: InstantIn | None = None,
    until: InstantIn | None = None,
) -> ListAnswer[AuditRow]:
    """List the audit log, newest first. `before` is the `next` of the previous page. `actor`, `target` and `action`
    match exactly, except that `job.*` matches all actions on jobs. `since` is inclusive, `until` exclusive. A request
    examines a bounded number of rows: a page may be short, or empty, although it has a `next`."""
    caller.check_everything()
    page = await caller.scheduler.audit.find(
        before=before, limit=limit, actor=actor, target=target, action=action, since=since, until=until
    )
    await caller.note_sampled(caller.service.trail.reads, "audit.read", "audit")
    answer = ListAnswer.of(page, [AuditRow.of(row) for row in page])
    answer.next = None if page.next is None else str(page.next)
    return answer


@router.get("/api/audit/verify", summary="Check the audit log")
async def verify_audit_log(
    caller: Admin,
    first: Number = 1,
    last: Number | None = None,
    known_n: Annotated[int | None, Query(alias="knownN", ge=1, le=_LARGEST)] = None,
    known_hash: Annotated[str | None, Query(alias="knownHash", pattern="^[0-9a-f]{64}$")] = None,
) -> Answer[AuditVerdict]:
    """Follow the chain of hashes and report the first row that was edited, removed or added, if there is one.

    `keyed` says whether the hashes of all rows use a key that is kept outside the database; without such a key, a
    program that can write to the database can write a whole new log. `knownN` and `knownHash` are the `last` of an
    earlier answer that you kept elsewhere: the log must contain that row. Check a long log in parts.
    """
    caller.check_everything()
    if (known_n is None) is not (known_hash is None):
        raise Problem(422, "Give knownN and knownHash together.", field="query.knownN")
    known = None if known_n is None or known_hash is None else Link(known_n, known_hash, EPOCH)
    verdict = await caller.scheduler.audit.verify(first=first, last=last, known=known)
    await caller.note_sampled(caller.service.trail.reads, "audit.read", "audit")
    return Answer(data=AuditVerdict.of(verdict))
