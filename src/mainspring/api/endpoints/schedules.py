"""Schedules: listing and changing them, their ledger and next firings, and backfills."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Response
from pydantic import Field

from mainspring.api.dependencies import Caller, Operator, Viewer
from mainspring.api.jobs.create import check_calendars, make_plan, refusing, store_plan
from mainspring.api.jobs.idempotency import Made, Once
from mainspring.api.jobs.rule_fields import rule_field, rule_of
from mainspring.api.jobs.visibility import seen_job, signed, with_signed
from mainspring.api.problems import Problem
from mainspring.api.wire.base import Answer, In, Nothing
from mainspring.api.wire.job_requests import Creation, Text
from mainspring.api.wire.jobs import JobOut
from mainspring.api.wire.schedules import (
    BackfillIn,
    BackfillOut,
    EntryOut,
    FiringOut,
    PauseIn,
    PreviewIn,
    ScheduleOut,
    TriggerIn,
    Window,
)
from mainspring.client.namespaces.schedules import Schedule
from mainspring.errors import ScheduleNotFound
from mainspring.model.schedules.ledger import Entry
from mainspring.rules import Rule

_LIST = "schedules"
_LOOKED_AT = 2_000
"""How many schedules are read for a page, if few of them match."""

router = APIRouter(prefix="/api/schedules", tags=["schedules"])
ScheduleId = Annotated[str, Path(min_length=1, max_length=200, examples=["nightly-report"])]


class Listing(In):
    """The filter of a list of schedules."""

    state: Literal["active", "paused", "ended"] | None = None
    name: Text | None = None
    tag: Text | None = None
    queue: Text | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    cursor: Annotated[str, Field(max_length=4000)] | None = Field(None, description="The `next` of the previous page.")


class Listed(Answer[list[ScheduleOut]]):
    """A page of schedules. If it is not `complete`, it is short although there may be more: continue with `next`."""

    complete: bool


@router.get("", summary="List schedules")
async def list_schedules(caller: Viewer, query: Annotated[Listing, Query()]) -> Listed:
    """List the schedules that match, in the order of their ids."""
    found: list[Schedule] = []
    looked_at, last = 0, None
    after = await caller.open_cursor(_LIST, query.cursor)
    async for schedule in caller.scheduler.schedules.find(name=query.name, tag=query.tag, after=after):
        looked_at, last = looked_at + 1, schedule.id
        if _is_wanted(caller, query, schedule):
            found.append(schedule)
        if len(found) == query.limit or looked_at == _LOOKED_AT:
            break
    else:
        last = None
    data = await _shown(caller, found)
    complete = last is None or len(found) == query.limit
    return Listed(data=data, next=await caller.seal_cursor(_LIST, last), complete=complete)


@router.post("/preview", summary="Show the firings of a rule")
async def preview_rule(body: PreviewIn, caller: Viewer) -> Answer[list[FiringOut]]:
    """List the next firings of the schedule that `POST /api/jobs` would create from the same fields, each with the
    reason if it was moved. `H` and `jitter` depend on the `id` that the schedule will have. Nothing is stored."""
    with refusing(rule_field(body)):
        rule = _needed(rule_of(body, caller.service.settings.timezone))
        check_calendars(caller, rule)
        firings = await caller.scheduler.schedules.preview(
            rule, body.count, start=body.start, schedule_id=body.id or "preview", jitter=body.jitter or 0
        )
    return Answer(data=[FiringOut.of(firing) for firing in firings])


@router.post("/{schedule_id:path}/pause", summary="Pause a schedule")
async def pause_schedule(schedule_id: ScheduleId, caller: Operator, body: PauseIn | None = None) -> Answer[ScheduleOut]:
    """Pause a schedule: it does not fire until it is resumed. Its running jobs go on."""
    before = await caller.schedule(schedule_id)
    reason = "" if body is None else body.reason
    after = await caller.scheduler.schedules.pause(schedule_id, reason, actor=caller.actor)
    return await _changed(caller, "schedule.pause", before, after)


@router.post("/{schedule_id:path}/resume", summary="Resume a schedule")
async def resume_schedule(
    schedule_id: ScheduleId, caller: Operator, body: Nothing | None = None
) -> Answer[ScheduleOut]:
    """Resume a schedule: it fires again from now on. A backfill can make the jobs of the firings during the pause."""
    before = await caller.schedule(schedule_id)
    after = await caller.scheduler.schedules.resume(schedule_id)
    return await _changed(caller, "schedule.resume", before, after)


@router.post("/{schedule_id:path}/skip", summary="Skip the next firing", response_model=Answer[ScheduleOut])
async def skip_firing(schedule_id: ScheduleId, caller: Operator, once: Once, body: PauseIn | None = None) -> Response:
    """Skip the next firing: it makes no job. A second request skips the firing after that too; with an
    `Idempotency-Key`, a repeated request skips none."""

    async def make(request_id: str) -> Made:
        before = await caller.schedule(schedule_id)
        reason = "" if body is None else body.reason
        after = await caller.scheduler.schedules.skip_next(
            schedule_id, reason, actor=caller.actor, request_id=request_id
        )
        return Made(await _changed(caller, "schedule.skip", before, after), 200)

    return await once.answer(caller, make)


@router.post(
    "/{schedule_id:path}/trigger",
    summary="Make a job of a schedule now",
    status_code=201,
    response_model=Answer[JobOut],
)
async def trigger_schedule(
    schedule_id: ScheduleId, caller: Operator, once: Once, body: TriggerIn | None = None
) -> Response:
    """Make a job now, beside the firings, also while the schedule is paused. If the overlap policy is "skip" and an
    earlier job of the schedule has not ended, the answer is 409."""
    asked = body or TriggerIn()

    async def make(job_id: str) -> Made:
        await caller.schedule(schedule_id)
        job = await caller.scheduler.schedules.trigger(
            schedule_id, overlap=asked.overlap, reason=asked.reason, actor=caller.actor, job_id=job_id
        )
        await caller.note("schedule.trigger", schedule_id, after={"job": job.id, "reason": asked.reason})
        return Made(Answer(data=JobOut.of(await seen_job(caller, job))))

    return await once.answer(caller, make)


@router.get("/{schedule_id:path}/upcoming", summary="List the next firings")
async def upcoming(
    schedule_id: ScheduleId, caller: Viewer, count: Annotated[int, Query(ge=1, le=1000)] = 10
) -> Answer[list[FiringOut]]:
    """List the next firings of a schedule, paused or not, each with the reason if it was moved."""
    await caller.schedule(schedule_id)
    return Answer(
        data=[FiringOut.of(firing) for firing in await caller.scheduler.schedules.upcoming(schedule_id, count)]
    )


@router.get("/{schedule_id:path}/ledger", summary="List firings and their outcomes")
async def ledger(schedule_id: ScheduleId, caller: Viewer, window: Annotated[Window, Query()]) -> Answer[list[EntryOut]]:
    """List every firing between two instants, past and future, with its outcome; the first `limit` of them."""
    await caller.schedule(schedule_id)
    start, end = window.between(caller.service.now())
    entries = await caller.scheduler.schedules.ledger(schedule_id, start, end, limit=window.limit)
    return Answer(data=await _entries(caller, entries))


@router.post("/{schedule_id:path}/backfill", summary="Backfill past firings", response_model=Answer[BackfillOut])
async def backfill(schedule_id: ScheduleId, body: BackfillIn, caller: Operator, once: Once) -> Response:
    """Make the jobs of the firings in a past window. After an interruption, another request for the same window, with
    any `Idempotency-Key`, continues the backfill and makes no job twice. With `preview`, no job is made."""

    async def make(_: str) -> Made:
        # The request's id is not the backfill's: another request for the same window must continue this backfill.
        await caller.schedule(schedule_id)
        shown = await (_previewed if body.preview else _backfilled)(caller, schedule_id, body)
        return Made(Answer(data=shown), 200)

    return await once.answer(caller, make)


async def _backfilled(caller: Caller, schedule_id: str, body: BackfillIn) -> BackfillOut:
    done = await caller.scheduler.schedules.backfill(
        schedule_id,
        body.start,
        body.end,
        which=body.which,
        limit=body.limit,
        actor=caller.actor,
        backfill_id=body.backfill_id,
    )
    shown = BackfillOut.of(done)
    await caller.note("schedule.backfill", schedule_id, after=shown.model_dump(mode="json", exclude_none=True))
    return shown


@router.get("/{schedule_id:path}", summary="Get a schedule")
async def get_schedule(schedule_id: ScheduleId, caller: Viewer) -> Answer[ScheduleOut]:
    """Return a schedule as it is now."""
    return await _answer(caller, await caller.schedule(schedule_id))


@router.put("/{schedule_id:path}", summary="Store a schedule")
async def put_schedule(schedule_id: ScheduleId, body: Creation, caller: Operator) -> Answer[ScheduleOut]:
    """Store a schedule under an id, or replace the one that has it at once; an equal one stays unchanged. The body
    has the fields of `POST /api/jobs`."""
    if body.id not in (None, schedule_id):
        raise Problem(422, "The id is in the path already; leave it out.", field="id")
    plan = make_plan(body.model_copy(update={"id": schedule_id}), caller.service.settings)
    before = await _known(caller, schedule_id)
    after = await store_plan(caller, plan, schedule_id)
    assert isinstance(after, Schedule)
    if body.enabled is True and after.paused is not None:
        after = await caller.scheduler.schedules.resume(schedule_id)
    return await _changed(caller, "schedule.put", before, after)


def _needed(rule: Rule | None) -> Rule:
    if rule is None:
        raise Problem(422, "The rule is missing: give schedule, every or repeat.", field="schedule")
    return rule


@router.delete("/{schedule_id:path}", summary="Delete a schedule")
async def delete_schedule(schedule_id: ScheduleId, caller: Operator) -> Answer[ScheduleOut]:
    """Delete a schedule and its ledger, and return it. Its jobs stay."""
    before = await caller.schedule(schedule_id)
    await caller.scheduler.schedules.delete(schedule_id)
    await caller.note("schedule.delete", before.id, before=_told(caller, before))
    return await _answer(caller, before)


async def _known(caller: Caller, schedule_id: str) -> Schedule | None:
    try:
        return await caller.schedule(schedule_id)
    except ScheduleNotFound:
        return None


async def _previewed(caller: Caller, schedule_id: str, body: BackfillIn) -> BackfillOut:
    entries = await caller.scheduler.schedules.preview_backfill(
        schedule_id, body.start, body.end, which=body.which, limit=body.limit
    )
    return BackfillOut(
        schedule_id=schedule_id,
        start=body.start,
        end=body.end,
        which=body.which,
        made=0,
        done=False,
        firings=await _entries(caller, entries),
    )


def _is_wanted(caller: Caller, query: Listing, schedule: Schedule) -> bool:
    fits = query.state in (None, schedule.state) and query.queue in (None, schedule.queue)
    return fits and caller.principal.scope.allows(schedule.queue, schedule.name)


async def _changed(caller: Caller, action: str, before: Schedule | None, after: Schedule) -> Answer[ScheduleOut]:
    told = None if before is None else _told(caller, before)
    await caller.note(action, after.id, before=told, after=_told(caller, after))
    return await _answer(caller, after)


async def _answer(caller: Caller, schedule: Schedule) -> Answer[ScheduleOut]:
    return Answer(data=(await _shown(caller, [schedule]))[0])


async def _shown(caller: Caller, schedules: Sequence[Schedule]) -> list[ScheduleOut]:
    """Schedules as the caller may see them: the reason of a pause is shown only if the caller may know its actor."""
    seen = await with_signed(caller, schedules, "paused")
    return [ScheduleOut.of(caller.scheduler.privacy.shown(schedule)) for schedule in seen]


async def _entries(caller: Caller, entries: Sequence[Entry]) -> list[EntryOut]:
    """Firings as the caller may see them. Entries without an actor, such as an overlap, are Mainspring's own."""
    by_hand = iter(await signed(caller, [one for one in entries if one.actor is not None]))
    return [EntryOut.of(one if one.actor is None else next(by_hand)) for one in entries]


def _told(caller: Caller, schedule: Schedule) -> dict[str, Any]:
    """The audit entry of a schedule: all of its fields, redacted."""
    shown = ScheduleOut.of(caller.scheduler.privacy.shown(schedule))
    return shown.model_dump(mode="json", exclude_none=True)
