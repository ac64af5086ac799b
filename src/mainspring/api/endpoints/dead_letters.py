"""Dead letters: listing them, grouping them, retrying and discarding many, and the redrives that do so.

A key with a scope sees and changes only the dead letters within its reach. It chooses those to retry or discard by ids,
or by a queue or name within its reach, and it sees only the redrives that it has begun itself.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from mainspring.api.audit.bulk_tally import Tally
from mainspring.api.dependencies import Caller, Operator, Viewer
from mainspring.api.jobs.idempotency import Made, Once
from mainspring.api.jobs.redrive_edits import checked_edit
from mainspring.api.jobs.resources import seen_jobs
from mainspring.api.problems import Problem
from mainspring.api.wire.base import Answer, ListAnswer, Nothing
from mainspring.api.wire.dead_letters import (
    DeadLetterFilterIn,
    DeadLetterListing,
    DeadLetters,
    DiscardIn,
    GroupListing,
    GroupOut,
    RedriveOut,
    RetryIn,
)
from mainspring.api.wire.jobs import JobOut
from mainspring.client.namespaces.dead_letters import Redrive
from mainspring.errors import JobNotFound, RedriveNotFound
from mainspring.jobtypes.http.templates import instant
from mainspring.model.dead_letters.dead_letters import DeadLetterGroup
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import FAILED, Job

_LIST = "dead letters"
_LOOKED_AT = 2_000
"""How many dead letters are read for a page of a key with a scope."""
_IDS_OF_A_SCOPE = 500

router = APIRouter(prefix="/api/dead-letters", tags=["dead letters"])
redrives = APIRouter(prefix="/api/redrives", tags=["dead letters"])
RedriveId = Annotated[str, Path(min_length=1, max_length=100, examples=["9f1c2b3a4d5e6f70"])]


@router.get("", summary="List dead letters")
async def list_dead_letters(caller: Viewer, query: Annotated[DeadLetterListing, Query()]) -> DeadLetters:
    """List the failed jobs that match, the latest first."""
    found: list[Job] = []
    looked_at, last = 0, None
    cursor = await caller.open_cursor(_LIST, query.cursor)
    after = None if cursor is None else _read_cursor(cursor)
    async for job in caller.scheduler.dead_letters.find(after=after, **_within(caller, query)):
        looked_at, last = looked_at + 1, job
        if caller.principal.scope.allows(job.queue, job.name):
            found.append(job)
        if len(found) == query.limit or looked_at == _LOOKED_AT:
            break
    else:
        last = None
    jobs = [JobOut.of(job) for job in await seen_jobs(caller, found)]
    complete = last is None or len(found) == query.limit
    following = await caller.seal_cursor(_LIST, None if last is None else _cursor(last))
    return DeadLetters(data=jobs, next=following, complete=complete)


@router.get("/groups", summary="List groups of dead letters")
async def list_dead_letter_groups(caller: Viewer, query: Annotated[GroupListing, Query()]) -> Answer[list[GroupOut]]:
    """Group the matching failed jobs by the fingerprint of their error, with their number in each of the last 24 hours.
    The group with the latest failure comes first. The cost does not grow with the number of dead letters: if there are
    many, counts are `capped`, and a filter by queue, tag or text applies to the newest 1,000 only."""
    groups = await caller.scheduler.dead_letters.groups(limit=query.limit, scope=caller.scope, **query.given())
    return Answer(data=[GroupOut.of(group, await _message(caller, group)) for group in groups])


@router.post("/retry", summary="Run dead letters again", status_code=202, response_model=Answer[RedriveOut])
async def retry_dead_letters(body: RetryIn, caller: Operator, once: Once) -> Response:
    """Run dead letters again, each as a new round of attempts. The first 500 are retried before the answer; workers
    retry the rest, and the redrive shows the progress."""

    async def make(redrive_id: str) -> Made:
        which = await _which(caller, body, redrive_id)
        data = await checked_edit(caller, body)
        redrive = await caller.scheduler.dead_letters.retry(
            data=data, remove=body.remove, reason=body.reason, actor=caller.actor, redrive_id=redrive_id, **which
        )
        return await _begun(caller, "dead_letters.retry", redrive, body)

    return await once.answer(caller, make)


@router.post("/discard", summary="Delete dead letters", status_code=202, response_model=Answer[RedriveOut])
async def discard_dead_letters(body: DiscardIn, caller: Operator, once: Once) -> Response:
    """Delete dead letters, after the archive hook has received them. The first 500 are deleted before the answer;
    workers delete the rest, and the redrive shows the progress."""

    async def make(redrive_id: str) -> Made:
        which = await _which(caller, body, redrive_id)
        redrive = await caller.scheduler.dead_letters.discard(
            reason=body.reason, actor=caller.actor, redrive_id=redrive_id, **which
        )
        return await _begun(caller, "dead_letters.discard", redrive, body)

    return await once.answer(caller, make)


@redrives.get("", summary="List redrives")
async def list_redrives(caller: Viewer, limit: Annotated[int, Query(ge=1, le=200)] = 50) -> ListAnswer[RedriveOut]:
    """List the latest redrives, the newest first."""
    found = await caller.scheduler.dead_letters.redrives(limit)
    shown = [RedriveOut.of(redrive) for redrive in found if _is_own(caller, redrive)]
    return ListAnswer.of(found, shown, everything=caller.principal.scope.everything)


@redrives.get("/{redrive_id}", summary="Get a redrive")
async def get_redrive(redrive_id: RedriveId, caller: Viewer) -> Answer[RedriveOut]:
    """Return a redrive as it is now."""
    return Answer(data=RedriveOut.of(await _reached(caller, redrive_id)))


@redrives.post("/{redrive_id}/cancel", summary="Cancel a redrive")
async def cancel_redrive(redrive_id: RedriveId, caller: Operator, body: Nothing | None = None) -> Answer[RedriveOut]:
    """Stop a redrive before its next dead letter. This does not undo what it has already retried or discarded."""
    before = await _reached(caller, redrive_id)
    after = await caller.scheduler.dead_letters.cancel_redrive(redrive_id)
    await caller.note("redrive.cancel", redrive_id, before=_told(before), after=_told(after))
    return Answer(data=RedriveOut.of(after))


# -- the choice of dead letters ----------------------------------------------------------------------------------------


async def _which(caller: Caller, body: DiscardIn, redrive_id: str) -> Fields:
    """The choice of dead letters as arguments for the Scheduler; all of them are within the caller's reach."""
    if caller.principal.scope.everything:
        return _chosen(body)
    if body.ids is not None:
        # The ids of a redrive that has begun were checked at its start; their jobs may be deleted by now.
        return {"ids": body.ids if await _has_begun(caller, redrive_id) else await _own_ids(caller, body.ids)}
    if body.filter is None or body.everything:
        caller.check_everything()
        return _chosen(body)
    chosen = _within(caller, body.filter)
    if not caller.principal.scope.allows(chosen.get("queue"), chosen.get("name")):
        raise Problem(403, "Say which dead letters by a queue and a name that this key reaches, or by their ids.")
    return chosen


def _chosen(body: DiscardIn) -> Fields:
    if body.ids is not None:
        return {"ids": body.ids}
    return {"everything": True} if body.filter is None or body.everything else body.filter.given()


async def _own_ids(caller: Caller, ids: list[str]) -> list[str]:
    """Check the ids that a key with a scope gave. An id out of its reach does not exist for it."""
    if len(ids) > _IDS_OF_A_SCOPE:
        raise Problem(422, f"A key with a scope names at most {_IDS_OF_A_SCOPE} dead letters at a time.", field="ids")
    for one in ids:
        await caller.job(one)
    return ids


def _within(caller: Caller, filter: DeadLetterFilterIn) -> Fields:
    """The filter, narrowed to the caller's queue if its key reaches only one."""
    queues = caller.principal.scope.queues
    given = filter.given()
    return {"queue": queues[0], **given} if queues is not None and len(queues) == 1 else given


async def _message(caller: Caller, group: DeadLetterGroup) -> str:
    """The message of a group's sample, as it may be shown."""
    try:
        job = caller.scheduler.privacy.shown(await caller.scheduler.get_job(group.sample_job_id))
    except JobNotFound:
        return ""
    return "" if job.error is None else job.error.message


# -- redrives ----------------------------------------------------------------------------------------------------------


async def _has_begun(caller: Caller, redrive_id: str) -> bool:
    if not caller.again:
        return False
    try:
        return _is_own(caller, await caller.scheduler.dead_letters.get_redrive(redrive_id))
    except RedriveNotFound:
        return False


async def _begun(caller: Caller, action: str, redrive: Redrive, body: DiscardIn) -> Made:
    asked = body.model_dump(mode="json", exclude_defaults=True, exclude={"ids", "data"})
    ids = {} if body.ids is None else {"ids": Tally(body.ids).told()}
    await caller.note(action, redrive.id, after=asked | ids | _told(redrive))
    return Made(Answer(data=RedriveOut.of(redrive)), 202)


async def _reached(caller: Caller, redrive_id: str) -> Redrive:
    redrive = await caller.scheduler.dead_letters.get_redrive(redrive_id)
    if not _is_own(caller, redrive):
        raise RedriveNotFound(redrive_id)
    return redrive


def _is_own(caller: Caller, redrive: Redrive) -> bool:
    return caller.principal.scope.everything or redrive.actor == caller.actor


def _told(redrive: Redrive) -> Fields:
    return {"state": redrive.state, "matched": redrive.matched, "done": redrive.done, "skipped": redrive.skipped}


# -- pages -------------------------------------------------------------------------------------------------------------


def _cursor(job: Job) -> str:
    """The end of a page: the instant at which its last job failed, and that job's id."""
    return json.dumps([None if job.finished_at is None else instant(job.finished_at), job.id])


def _read_cursor(text: str) -> Job:
    """The last job of a page, with the fields that matter to the next page."""
    at, identity = json.loads(text)
    failed_at = datetime.fromisoformat(at).astimezone(UTC)
    return Job(identity, "", {}, FAILED, "", 5, failed_at, failed_at, finished_at=failed_at)
