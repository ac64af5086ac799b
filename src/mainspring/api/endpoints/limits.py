"""Controls of the flow of jobs at run time: pauses, overrides of limits, and breakers.

A key with a scope reaches the controls of its queues and of the job names that begin with its prefixes: no control that
would hold back jobs out of its reach.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path, Response

from mainspring.api.dependencies import Caller, Operator, Viewer
from mainspring.api.jobs.idempotency import Made, Once
from mainspring.api.jobs.resources import signed, with_signed
from mainspring.api.problems import Problem
from mainspring.api.wire.base import Answer, ListAnswer
from mainspring.api.wire.limits import (
    BreakerOut,
    CloseIn,
    LimitIn,
    LimitOut,
    OpenIn,
    OverrideOut,
    PausedOut,
    PauseIn,
    Place,
    TargetIn,
)
from mainspring.client.namespaces.limits import LimitControls
from mainspring.client.namespaces.queues import Queues
from mainspring.model.fields import Fields
from mainspring.model.limits.breaker import BreakerStatus
from mainspring.model.limits.controls import LimitOverride
from mainspring.model.limits.limits import NAME, QUEUE

router = APIRouter(prefix="/api")
Target = Annotated[str, Path(min_length=1, max_length=200, examples=["mail"])]


# -- pauses ------------------------------------------------------------------------------------------------------------


@router.get("/pauses", tags=["limits"], summary="List pauses")
async def list_pauses(caller: Viewer) -> ListAnswer[PausedOut]:
    """List every pause with its actor and reason."""
    found = await caller.scheduler.limits.pauses()
    reached = [one for one in found if is_reached(caller, one.scope, one.target)]
    shown = [PausedOut.of(one) for one in await signed(caller, reached)]
    return ListAnswer.of(found, shown, everything=caller.scope.everything)


@router.post(
    "/pauses",
    tags=["limits"],
    summary="Pause a queue or a job name",
    status_code=201,
    response_model=Answer[PausedOut],
)
async def pause_jobs(body: PauseIn, caller: Operator, once: Once) -> Response:
    """Pause a queue or a job name: workers start none of its jobs until it is resumed. With `key`, the pause applies
    only to jobs that have this value in their data. Running jobs continue. An existing pause is replaced."""

    async def make(_: str) -> Made:
        _check_target(caller, body)  # the target is the pause's id: the id for this request is not needed
        namespace, target = _paused(caller, body)
        made = await namespace.pause(target, key=body.key, reason=body.reason, actor=caller.actor)
        shown = PausedOut.of(made)
        await caller.note("pause.create", _named(body), after=shown.model_dump(mode="json"))
        return Made(Answer(data=shown))

    return await once.answer(caller, make)


@router.post("/pauses/resume", tags=["limits"], summary="End a pause")
async def resume_jobs(body: TargetIn, caller: Operator) -> Answer[PausedOut]:
    """End the pause of this queue or name, with this `key` if given, and return it. If there is none, the answer is
    404."""
    _check_target(caller, body)
    namespace, target = _paused(caller, body)
    paused = await namespace.resume(target, key=body.key)
    if paused is None:
        raise Problem(404, f"There is no pause of the {_in_words(body)}.")
    await caller.note("pause.resume", _named(body), before=PausedOut.of(paused).model_dump(mode="json"))
    (seen,) = await signed(caller, [paused])
    return Answer(data=PausedOut.of(seen))


# -- limits ------------------------------------------------------------------------------------------------------------


@router.get("/limits", tags=["limits"], summary="List limits")
async def list_limits(caller: Viewer) -> ListAnswer[LimitOut]:
    """List the limits that live workers declare in code or that are set at run time, and their current use: how many
    slots are taken, which jobs hold them, and how many jobs wait. For a limit with a key, the values that hold jobs
    back come first."""
    found = await caller.scheduler.limits.all()
    reached = [one for one in found if is_reached(caller, one.scope, one.target)]
    everything = caller.scope.everything
    shown = [LimitOut.of(one, everything=everything) for one in await with_signed(caller, reached, "override")]
    return ListAnswer.of(found, shown, everything=caller.scope.everything)


@router.put("/limits/{scope}/{target:path}", tags=["limits"], summary="Set the limits of a queue or a job name")
async def put_limit(scope: Place, target: Target, body: LimitIn, caller: Operator) -> Answer[OverrideOut]:
    """Override the limits that are declared in code until the override is removed. It applies within a second or
    two."""
    check_target(caller, scope, target)
    before = await _override(caller, scope, target)
    asked = {scope: target, **body.limits()}
    after = await caller.scheduler.limits.set(**asked, reason=body.reason, actor=caller.actor)
    await caller.note("limit.put", f"{scope}:{target}", before=_told(before), after=_told(after))
    return Answer(data=OverrideOut.of_override(after))


@router.delete("/limits/{scope}/{target:path}", tags=["limits"], summary="Restore the declared limits")
async def delete_limit(scope: Place, target: Target, caller: Operator) -> Answer[OverrideOut]:
    """Remove the override that was set at run time, and return it. If there is none, the answer is 404."""
    check_target(caller, scope, target)
    before = await caller.scheduler.limits.remove(**{scope: target})
    if before is None:
        raise Problem(404, "There is no such limit set at run time.")
    await caller.note("limit.delete", f"{scope}:{target}", before=_told(before))
    (seen,) = await signed(caller, [before])
    return Answer(data=OverrideOut.of_override(seen))


# -- breakers ----------------------------------------------------------------------------------------------------------


@router.get("/breakers", tags=["limits"], summary="List breakers")
async def list_breakers(caller: Viewer) -> ListAnswer[BreakerOut]:
    """List all breakers: those that live workers declare in code, and those that are stored."""
    found = await caller.scheduler.limits.breakers()
    reached = [one for one in found if is_reached(caller, one.scope, one.target, one.queue)]
    shown = [_shown(caller, one) for one in await signed(caller, reached)]
    return ListAnswer.of(found, shown, everything=caller.scope.everything)


@router.post("/breakers/{scope}/{target:path}/open", tags=["limits"], summary="Open a breaker")
async def open_breaker(
    scope: Place, target: Target, caller: Operator, body: OpenIn | None = None
) -> Answer[BreakerOut]:
    """Open the breaker of a queue or a job name: workers start none of its jobs until it is closed. With `openFor`, it
    becomes half-open after that time and lets single probes start."""
    asked = body or OpenIn()
    status = await caller.scheduler.limits.open_breaker(
        **_broken(caller, scope, target, asked),
        key=asked.key,
        open_for=asked.open_for,
        reason=asked.reason,
        actor=caller.actor,
    )
    return await _moved(caller, "breaker.open", status)


@router.post("/breakers/{scope}/{target:path}/close", tags=["limits"], summary="Close a breaker")
async def close_breaker(
    scope: Place, target: Target, caller: Operator, body: CloseIn | None = None
) -> Answer[BreakerOut]:
    """Close a breaker: workers start its jobs again, and it counts attempts from zero."""
    asked = body or CloseIn()
    status = await caller.scheduler.limits.close_breaker(
        **_broken(caller, scope, target, asked), key=asked.key, reason=asked.reason, actor=caller.actor
    )
    return await _moved(caller, "breaker.close", status)


# -- reach -------------------------------------------------------------------------------------------------------------


def is_reached(caller: Caller, scope: str, target: str, queue: str | None = None) -> bool:
    """Whether all jobs that a control may hold back are within the caller's reach; `queue` is that of a name's jobs."""
    return caller.scope.allows(target, None) if scope == QUEUE else caller.scope.allows(queue, target)


def check_target(caller: Caller, scope: str, target: str, queue: str | None = None) -> None:
    if not is_reached(caller, scope, target, queue):
        raise Problem(404, f"There is no such {'queue' if scope == QUEUE else 'job name'}.")


def _broken(caller: Caller, scope: Place, target: str, asked: CloseIn) -> dict[str, str]:
    """The name and the queue of a breaker, as arguments for the Scheduler."""
    if scope == QUEUE and asked.queue is not None:
        raise Problem(422, "The queue is in the path already; leave it out.", field="queue")
    check_target(caller, scope, target, asked.queue)
    inside = {} if asked.queue is None else {"queue": asked.queue}
    return {str(scope): target} | inside


def _check_target(caller: Caller, body: TargetIn) -> None:
    check_target(caller, QUEUE if body.name is None else NAME, body.queue or body.name or "")


def _paused(caller: Caller, body: TargetIn) -> tuple[Queues | LimitControls, str]:
    """The namespace that pauses a target, and the name of the queue or the job."""
    if body.queue is not None:
        return caller.scheduler.queues, body.queue
    return caller.scheduler.limits, body.name or ""


def _named(body: TargetIn) -> str:
    return f"queue:{body.queue}" if body.name is None else f"name:{body.name}"


def _in_words(body: TargetIn) -> str:
    target = f"queue {body.queue!r}" if body.name is None else f"name {body.name!r}"
    if body.key is None:
        return target
    return f"{target} with the key {json.dumps(body.key)}"


async def _override(caller: Caller, scope: str, target: str) -> LimitOverride | None:
    statuses = await caller.scheduler.limits.all()
    return next((one.override for one in statuses if (one.scope, one.target) == (scope, target)), None)


async def _moved(caller: Caller, action: str, status: BreakerStatus) -> Answer[BreakerOut]:
    told = BreakerOut.of(status).model_dump(mode="json")
    await caller.note(action, f"{status.scope}:{status.target}", after=told)
    (seen,) = await signed(caller, [status])
    return Answer(data=_shown(caller, seen))


def _shown(caller: Caller, status: BreakerStatus) -> BreakerOut:
    """A breaker; a key with a scope sees neither actors nor reasons of operators in its story."""
    if not caller.scope.everything:
        hidden = tuple(one if one.actor is None else replace(one, actor=None, reason="") for one in status.story)
        status = replace(status, story=hidden)
    return BreakerOut.of(status)


def _told(override: LimitOverride | None) -> Fields | None:
    return None if override is None else OverrideOut.of_override(override).model_dump(mode="json")
