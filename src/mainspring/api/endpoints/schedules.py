"""Schedules: looking at them and into their past and future, changing them, and making up for what was missed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Response
from pydantic import Field

from mainspring.api.idempotency import Made, Once
from mainspring.api.problems import Problem
from mainspring.api.service import Caller, Operator, Viewer
from mainspring.api.wire.base import Answer, In, Nothing
from mainspring.api.wire.jobs import JobOut
from mainspring.api.wire.resources import Text
from mainspring.api.wire.schedules import (
    BackfillIn,
    BackfillOut,
    EntryOut,
    FiringOut,
    PauseIn,
    PreviewIn,
    ScheduleIn,
    ScheduleOut,
    TriggerIn,
    Window,
)
from mainspring.errors import ScheduleNotFound
from mainspring.model.reserved import RESERVED
from mainspring.schedules import Schedule

_LOOKED_AT = 2_000
"""How many schedules are looked at for a page, where few of them match."""

router = APIRouter(prefix="/api/schedules", tags=["schedules"])
ScheduleId = Annotated[str, Path(min_length=1, max_length=200, examples=["nightly-report"])]


class Listing(In):
    """Which schedules are listed."""

    state: Literal["active", "paused", "ended"] | None = None
    name: Text | None = None
    tag: Text | None = None
    queue: Text | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    cursor: Text | None = Field(None, description="The `next` of the page before.")


class Listed(Answer[list[ScheduleOut]]):
    """A page of schedules. Where it is not `complete`, it is short although there may be more: go on with `next`."""

    complete: bool


@router.get("", summary="List schedules")
async def list_schedules(caller: Viewer, query: Annotated[Listing, Query()]) -> Listed:
    """Schedules that match, in the order of their ids."""
    found: list[Schedule] = []
    looked_at, last = 0, None
    async for schedule in caller.scheduler.schedules(name=query.name, tag=query.tag, after=query.cursor):
        looked_at, last = looked_at + 1, schedule.id
        if _is_wanted(caller, query, schedule):
            found.append(schedule)
        if len(found) == query.limit or looked_at == _LOOKED_AT:
            break
    else:
        last = None
    data = [_shown(caller, schedule) for schedule in found]
    return Listed(data=data, next=last, complete=last is None or len(found) == query.limit)


@router.post("/preview", summary="Show the firings of a rule")
async def preview_rule(body: PreviewIn, caller: Viewer) -> Answer[list[FiringOut]]:
    """The next firings of a rule, each with what moved it. Nothing is stored."""
    rule = body.rule(caller.service.settings.timezone)
    firings = await caller.scheduler.preview(
        rule,
        body.count,
        start=body.start,
        schedule_id=body.schedule_id or "preview",
        jitter=(body.jitter or 0) / 1000,
    )
    return Answer(data=[FiringOut.of(firing) for firing in firings])


@router.post("/{schedule_id:path}/pause", summary="Pause a schedule")
async def pause_schedule(schedule_id: ScheduleId, caller: Operator, body: PauseIn | None = None) -> Answer[ScheduleOut]:
    """Let a schedule fire no more until it is resumed. Runs that are going on are not touched."""
    before = await reached(caller, schedule_id)
    reason = "" if body is None else body.reason
    after = await caller.scheduler.pause_schedule(schedule_id, reason, actor=caller.actor)
    return await _changed(caller, "schedule.pause", before, after)


@router.post("/{schedule_id:path}/resume", summary="Resume a schedule")
async def resume_schedule(
    schedule_id: ScheduleId, caller: Operator, body: Nothing | None = None
) -> Answer[ScheduleOut]:
    """Let a schedule fire again, from now on. What it has not fired meanwhile, a backfill can make up for."""
    before = await reached(caller, schedule_id)
    after = await caller.scheduler.resume_schedule(schedule_id)
    return await _changed(caller, "schedule.resume", before, after)


@router.post("/{schedule_id:path}/skip", summary="Skip the next firing", response_model=Answer[ScheduleOut])
async def skip_firing(schedule_id: ScheduleId, caller: Operator, once: Once, body: PauseIn | None = None) -> Response:
    """Let the next firing make no job. Called again, it skips the one after that too; with an `Idempotency-Key`, the
    request that comes again skips none."""

    async def make(request_id: str) -> Made:
        before = await reached(caller, schedule_id)
        reason = "" if body is None else body.reason
        after = await caller.scheduler.skip_next(schedule_id, reason, actor=caller.actor, request_id=request_id)
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
    """Make a job now, beside the firings, also while the schedule is paused. Where the overlap policy is "skip" and a
    run is still going, this is a 409."""
    asked = body or TriggerIn()

    async def make(job_id: str) -> Made:
        await reached(caller, schedule_id)
        job = await caller.scheduler.trigger_schedule(
            schedule_id, overlap=asked.overlap, reason=asked.reason, actor=caller.actor, job_id=job_id
        )
        await caller.note("schedule.trigger", schedule_id, after={"job": job.id, "reason": asked.reason})
        return Made(Answer(data=JobOut.of(caller.scheduler.shown(job))))

    return await once.answer(caller, make)


@router.get("/{schedule_id:path}/upcoming", summary="The next firings")
async def upcoming(
    schedule_id: ScheduleId, caller: Viewer, count: Annotated[int, Query(ge=1, le=1000)] = 10
) -> Answer[list[FiringOut]]:
    """The next firings of a schedule, whether or not it is paused, each with what moved it."""
    await reached(caller, schedule_id)
    return Answer(data=[FiringOut.of(firing) for firing in await caller.scheduler.upcoming(schedule_id, count)])


@router.get("/{schedule_id:path}/ledger", summary="What became of each firing")
async def ledger(schedule_id: ScheduleId, caller: Viewer, window: Annotated[Window, Query()]) -> Answer[list[EntryOut]]:
    """Every firing of a stretch of time, past and to come, with what became of it; the first `limit` of them."""
    await reached(caller, schedule_id)
    start, end = window.between(caller.service.now())
    entries = await caller.scheduler.ledger(schedule_id, start, end, limit=window.limit)
    return Answer(data=[EntryOut.of(entry) for entry in entries])


@router.post("/{schedule_id:path}/backfill", summary="Make up for past firings", response_model=Answer[BackfillOut])
async def backfill(schedule_id: ScheduleId, body: BackfillIn, caller: Operator, once: Once) -> Response:
    """Make the jobs of a past window's firings. Interrupted, it goes on where it was left when it is asked for again
    with the same window, whatever the `Idempotency-Key`; what is done is not done twice. With `preview`, nothing is
    made."""

    async def make(_: str) -> Made:
        # The handed id is not the backfill's: another request for the same window is to go on with this one.
        await reached(caller, schedule_id)
        shown = await (_previewed if body.preview else _backfilled)(caller, schedule_id, body)
        return Made(Answer(data=shown), 200)

    return await once.answer(caller, make)


async def _backfilled(caller: Caller, schedule_id: str, body: BackfillIn) -> BackfillOut:
    done = await caller.scheduler.backfill(
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


@router.get("/{schedule_id:path}", summary="A schedule")
async def get_schedule(schedule_id: ScheduleId, caller: Viewer) -> Answer[ScheduleOut]:
    """A schedule as it is now."""
    return Answer(data=_shown(caller, await reached(caller, schedule_id)))


@router.put("/{schedule_id:path}", summary="Store a schedule")
async def put_schedule(schedule_id: ScheduleId, body: ScheduleIn, caller: Operator) -> Answer[ScheduleOut]:
    """Store a schedule under an id, or let the one that has it become this, at once; where it is that already, nothing
    changes. One that calls an endpoint or sends emails is made with `POST /api/jobs`."""
    if body.name.startswith(RESERVED):
        raise Problem(422, "Names of this kind are reserved; use POST /api/jobs for webhooks and emails.", field="name")
    before = await _known(caller, schedule_id)
    options = body.options()
    if caller.principal.scope.queues is not None:
        options.setdefault("queue", "default")  # a handler's own queue may be out of reach
    caller.check_reach(options.get("queue"), body.name, "queue or name within this key's reach")
    rule = body.repeat.rule(caller.service.settings.timezone)
    after = await caller.scheduler.schedule(body.name, body.data, repeat=rule, schedule_id=schedule_id, **options)
    return await _changed(caller, "schedule.put", before, after)


@router.delete("/{schedule_id:path}", summary="Delete a schedule")
async def delete_schedule(schedule_id: ScheduleId, caller: Operator) -> Answer[ScheduleOut]:
    """Delete a schedule and its ledger. Its jobs stay. The answer is what it was."""
    before = await reached(caller, schedule_id)
    await caller.scheduler.delete_schedule(schedule_id)
    await caller.note("schedule.delete", before.id, before=_told(caller, before))
    return Answer(data=_shown(caller, before))


async def reached(caller: Caller, schedule_id: str) -> Schedule:
    """A schedule that the caller may see; any other is not there."""
    schedule = await caller.scheduler.get_schedule(schedule_id)
    caller.check_reach(schedule.queue, schedule.name, "schedule")
    return schedule


async def _known(caller: Caller, schedule_id: str) -> Schedule | None:
    try:
        return await reached(caller, schedule_id)
    except ScheduleNotFound:
        return None


async def _previewed(caller: Caller, schedule_id: str, body: BackfillIn) -> BackfillOut:
    entries = await caller.scheduler.preview_backfill(
        schedule_id, body.start, body.end, which=body.which, limit=body.limit
    )
    return BackfillOut(
        schedule_id=schedule_id,
        start=body.start,
        end=body.end,
        which=body.which,
        made=0,
        done=False,
        firings=[EntryOut.of(entry) for entry in entries],
    )


def _is_wanted(caller: Caller, query: Listing, schedule: Schedule) -> bool:
    fits = query.state in (None, schedule.state) and query.queue in (None, schedule.queue)
    return fits and caller.principal.scope.allows(schedule.queue, schedule.name)


async def _changed(caller: Caller, action: str, before: Schedule | None, after: Schedule) -> Answer[ScheduleOut]:
    told = None if before is None else _told(caller, before)
    await caller.note(action, after.id, before=told, after=_told(caller, after))
    return Answer(data=_shown(caller, after))


def _shown(caller: Caller, schedule: Schedule) -> ScheduleOut:
    return ScheduleOut.of(caller.scheduler.shown_schedule(schedule))


def _told(caller: Caller, schedule: Schedule) -> dict[str, Any]:
    """What the audit log is told of a schedule: all that may be shown of it."""
    return _shown(caller, schedule).model_dump(mode="json", exclude_none=True)
