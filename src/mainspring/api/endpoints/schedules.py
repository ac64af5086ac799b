"""Schedules: listing and changing them, their ledger and next firings, and backfills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, TypeVar

from fastapi import APIRouter, Path, Query, Response
from pydantic import Field

from mainspring.api.dependencies import Caller, Operator, Viewer
from mainspring.api.jobs.create import check_calendars, check_plan, make_plan, store_plan
from mainspring.api.jobs.data_checks import refusing
from mainspring.api.jobs.flow_reach import check_firings
from mainspring.api.jobs.idempotency import Made, Once
from mainspring.api.jobs.resources import seen_job, seen_schedules, signed
from mainspring.api.jobs.update import change_schedule
from mainspring.api.problems import Problem
from mainspring.api.wire.base import Answer, In, Nothing
from mainspring.api.wire.job_requests import Change, Creation, Text, rule_field, rule_of
from mainspring.api.wire.jobs import JobOut
from mainspring.api.wire.schedules import (
    BackfillIn,
    BackfillOut,
    ComingIn,
    ComingOut,
    EntryOut,
    FieldProblem,
    FiringOut,
    PreviewIn,
    PreviewOut,
    ReasonIn,
    RecentFiringOut,
    RecentIn,
    RecentOut,
    ScheduleOut,
    TriggerIn,
    Window,
)
from mainspring.client.namespaces.schedules import Schedule
from mainspring.errors import ScheduleNotFound
from mainspring.model.fields import Fields
from mainspring.model.schedules.ledger import Entry, RecentFiring
from mainspring.model.schedules.search import ScheduleFilterState, ScheduleOrder
from mainspring.rules import Rule
from mainspring.rules.text import rule_text, rule_zone

_LIST = "schedules"
F = TypeVar("F", Entry, RecentFiring)

router = APIRouter(prefix="/api/schedules", tags=["schedules"])
ScheduleId = Annotated[str, Path(min_length=1, max_length=200, examples=["nightly-report"])]


class Listing(In):
    """The filter of a list of schedules."""

    state: ScheduleFilterState | None = None
    name: Text | None = None
    tag: Text | None = None
    queue: Text | None = None
    text: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        None, description="A part of the id or the name; case does not matter."
    )
    order: ScheduleOrder = Field(
        "id", description="`next` lists the schedules that have a next firing, the earliest first."
    )
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    cursor: Annotated[str, Field(max_length=4000)] | None = Field(None, description="The `next` of the previous page.")


class Listed(Answer[list[ScheduleOut]]):
    """A page of schedules. If it is not `complete`, there may be more: continue with `next`."""

    complete: bool


@router.get("", summary="List schedules")
async def list_schedules(caller: Viewer, query: Annotated[Listing, Query()]) -> Listed:
    """List the schedules that match all given filters, in the order of their ids or of their next firings. A schedule
    is `failing` if its last job failed or is being retried, or if it has consecutive failures. The cost of a page is
    bounded: if few schedules match, a page may be short, with `next` and `complete: false`."""
    list_name = f"{_LIST}-{query.order}"
    with refusing():
        found = await caller.scheduler.schedules.search(
            state=query.state,
            name=query.name,
            tag=query.tag,
            queue=query.queue,
            text=query.text,
            order=query.order,
            scope=caller.scope,
            limit=query.limit,
            after=await caller.open_cursor(list_name, query.cursor),
        )
    data = await _shown(caller, found.schedules, found.last_states)
    return Listed(data=data, next=await caller.seal_cursor(list_name, found.next), complete=found.complete)


@router.get("/coming", summary="Count the coming firings of all schedules")
async def count_coming_firings(caller: Viewer, query: Annotated[ComingIn, Query()]) -> Answer[ComingOut]:
    """Count the coming firings of all schedules in buckets, and name the schedules that fire most in each. Firings
    count at their nominal times. The bucket that contains the present counts from the current minute on, and earlier
    buckets are left out. The cost of a request is bounded: with thousands of schedules the first answers are not
    `complete`, and the next request continues. A schedule with the id `coming` can only be read from the list of
    schedules."""
    with refusing():
        found = await caller.scheduler.schedules.coming(
            query.start, query.end, query.step, heaviest=query.heaviest, scope=caller.scope
        )
    return Answer(data=ComingOut.of(found))


@router.post("/recent", summary="List the last firings of schedules")
async def list_recent_firings(body: RecentIn, caller: Viewer) -> Answer[list[RecentOut]]:
    """List the last firings of some schedules up to now, each with its outcome and the state of its job. Schedules that
    do not exist are left out. Firings that a calendar leaves out are only in the ledger."""
    found = await caller.scheduler.schedules.recent(body.ids, body.count, scope=caller.scope)
    return Answer(
        data=[
            RecentOut(id=id, firings=[RecentFiringOut.of_recent(one) for one in await _signed(caller, found[id])])
            for id in dict.fromkeys(body.ids)
            if id in found
        ]
    )


@router.post("/preview", summary="Show the firings of a rule")
async def preview_rule(body: PreviewIn, caller: Viewer) -> PreviewOut:
    """List the next firings of the schedule that `POST /api/jobs` would create from the same fields, each with the
    reason if it was moved, and describe its rule in words. `H` and `jitter` depend on the `id` that the schedule will
    have. If the body has an `endpoint`, a `name` or a `type`, the other fields are also checked, and `problems` lists
    those that would be refused. Nothing is stored."""
    with refusing(rule_field(body)):
        rule = _needed(rule_of(body, caller.service.settings.timezone))
        check_calendars(caller, rule)
    with refusing():
        firings = await caller.scheduler.schedules.preview(
            rule,
            body.count,
            start=body.start,
            schedule_id=body.id or "preview",
            start_at=body.start_at,
            end_at=body.end_at,
            max_runs=body.max_runs,
            jitter=body.jitter or 0,
        )
    return PreviewOut(
        data=[FiringOut.of(firing) for firing in firings],
        description=rule.describe(),
        text=rule_text(rule),
        zone=rule_zone(rule),
        problems=_problems(caller, body),
    )


def _problems(caller: Caller, body: PreviewIn) -> list[FieldProblem]:
    """The refusal that storing the schedule would meet, if the body says what the schedule does."""
    if body.endpoint is None and body.name is None and body.type is None:
        return []
    try:
        check_plan(caller, make_plan(body, caller.service.settings))
    except Problem as problem:
        return [FieldProblem(field=problem.field, detail=problem.detail)]
    return []


@router.post("/{schedule_id:path}/pause", summary="Pause a schedule")
async def pause_schedule(
    schedule_id: ScheduleId, caller: Operator, body: ReasonIn | None = None
) -> Answer[ScheduleOut]:
    """Pause a schedule: it does not fire until it is resumed. Its running jobs continue."""
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
    check_firings(caller, before)
    after = await caller.scheduler.schedules.resume(schedule_id)
    return await _changed(caller, "schedule.resume", before, after)


@router.post("/{schedule_id:path}/skip", summary="Skip the next firing", response_model=Answer[ScheduleOut])
async def skip_next_firing(
    schedule_id: ScheduleId, caller: Operator, once: Once, body: ReasonIn | None = None
) -> Response:
    """Skip the next firing: it makes no job. A second request also skips the firing after that; with an
    `Idempotency-Key`, a repeated request has no effect."""

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
    """Make a job now, in addition to the firings, even while the schedule is paused. If the overlap policy is "skip"
    and an earlier job of the schedule has not ended, the answer is 409. A schedule of a flow starts the flow; if the
    scope of the key does not include all its nodes, the answer is 403. The same applies to a backfill, a resume and a
    change."""
    asked = body or TriggerIn()

    async def make(job_id: str) -> Made:
        check_firings(caller, await caller.schedule(schedule_id))
        job = await caller.scheduler.schedules.trigger(
            schedule_id, overlap=asked.overlap, reason=asked.reason, actor=caller.actor, job_id=job_id
        )
        await caller.note("schedule.trigger", schedule_id, after={"job": job.id, "reason": asked.reason})
        return Made(Answer(data=JobOut.of(await seen_job(caller, job))))

    return await once.answer(caller, make)


@router.get("/{schedule_id:path}/upcoming", summary="List the next firings")
async def list_next_firings(
    schedule_id: ScheduleId, caller: Viewer, count: Annotated[int, Query(ge=1, le=1000)] = 10
) -> Answer[list[FiringOut]]:
    """List the next firings of a schedule, paused or not, each with the reason if it was moved."""
    await caller.schedule(schedule_id)
    return Answer(
        data=[FiringOut.of(firing) for firing in await caller.scheduler.schedules.upcoming(schedule_id, count)]
    )


@router.get("/{schedule_id:path}/ledger", summary="List firings and their outcomes")
async def list_firings(
    schedule_id: ScheduleId, caller: Viewer, window: Annotated[Window, Query()]
) -> Answer[list[EntryOut]]:
    """List the first `limit` firings between two instants, past and future, with their outcomes; with `latest`, the
    last ones up to now."""
    await caller.schedule(schedule_id)
    start, end = window.between(caller.service.now())
    entries = await caller.scheduler.schedules.ledger(schedule_id, start, end, limit=window.limit, latest=window.latest)
    return Answer(data=await _entries(caller, entries))


@router.post("/{schedule_id:path}/backfill", summary="Backfill past firings", response_model=Answer[BackfillOut])
async def backfill_schedule(schedule_id: ScheduleId, body: BackfillIn, caller: Operator, once: Once) -> Response:
    """Make the jobs of the firings in a past window. After an interruption, another request for the same window, with
    any `Idempotency-Key`, continues the backfill and makes no job twice. With `preview`, no job is made."""

    async def make(_: str) -> Made:
        # The request's id is not the backfill's: another request for the same window must continue this backfill.
        check_firings(caller, await caller.schedule(schedule_id))
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
    """Store a schedule under an id. An existing schedule with this id is replaced at once; an equal one stays
    unchanged. The body has the fields of `POST /api/jobs`."""
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


@router.patch("/{schedule_id:path}", summary="Change a schedule")
async def update_schedule(schedule_id: ScheduleId, body: Change, caller: Operator) -> Answer[ScheduleOut]:
    """Change the given fields and leave the others as they are. `enabled` pauses and resumes the schedule, a new rule
    applies from now on, and null removes startAt, endAt, maxRuns, jitter, startDeadline or pauseAfter."""
    before = await caller.schedule(schedule_id)
    after = await change_schedule(caller, before, body)
    return await _changed(caller, "schedule.update", before, after)


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


async def _changed(caller: Caller, action: str, before: Schedule | None, after: Schedule) -> Answer[ScheduleOut]:
    told = None if before is None else _told(caller, before)
    await caller.note(action, after.id, before=told, after=_told(caller, after))
    return await _answer(caller, after)


async def _answer(caller: Caller, schedule: Schedule) -> Answer[ScheduleOut]:
    states = await caller.backend.last_states([schedule], caller.scope)
    return Answer(data=(await _shown(caller, [schedule], states))[0])


async def _shown(caller: Caller, schedules: Sequence[Schedule], states: Mapping[str, str]) -> list[ScheduleOut]:
    """Schedules as the caller may see them, with the states of their last jobs."""
    return [ScheduleOut.of(one, states.get(one.id)) for one in await seen_schedules(caller, schedules)]


async def _entries(caller: Caller, entries: Sequence[Entry]) -> list[EntryOut]:
    """Firings as the caller may see them."""
    return [EntryOut.of(one) for one in await _signed(caller, entries)]


async def _signed(caller: Caller, firings: Sequence[F]) -> list[F]:
    """Firings with the actors and reasons that the caller may see. Those without an actor, such as an overlap, are
    Mainspring's own."""
    by_hand = iter(await signed(caller, [one for one in firings if one.actor is not None]))
    return [one if one.actor is None else next(by_hand) for one in firings]


def _told(caller: Caller, schedule: Schedule) -> Fields:
    """The audit entry of a schedule: all of its fields, redacted."""
    shown = ScheduleOut.of(caller.scheduler.privacy.shown(schedule))
    return shown.model_dump(mode="json", exclude_none=True)
