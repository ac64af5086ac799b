"""What steers the flow of jobs at run time: pauses, limits in place of the declared ones, and breakers.

A key with a scope reaches what is for one of its queues, or for a name that begins as it may: nothing that would hold
back the jobs of others.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response

from mainspring.api.idempotency import Made, Once
from mainspring.api.problems import Problem
from mainspring.api.service import Caller, Operator, Viewer
from mainspring.api.wire.base import Answer
from mainspring.api.wire.flow import (
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
from mainspring.model.breaker import BreakerStatus
from mainspring.model.controls import LimitOverride
from mainspring.model.limits import NAME, QUEUE

router = APIRouter(prefix="/api")
Target = Annotated[str, Path(min_length=1, max_length=200, examples=["mail"])]


# -- pauses ------------------------------------------------------------------------------------------------------------


@router.get("/pauses", tags=["flow"], summary="List pauses")
async def list_pauses(caller: Viewer) -> Answer[list[PausedOut]]:
    """All that is paused now, by whom and why."""
    found = await caller.scheduler.pauses()
    return Answer(data=[PausedOut.of(one) for one in found if is_reached(caller, one.scope, one.target)])


@router.post(
    "/pauses",
    tags=["flow"],
    summary="Pause a queue or a job name",
    status_code=201,
    response_model=Answer[PausedOut],
)
async def pause(body: PauseIn, caller: Operator, once: Once) -> Response:
    """Start no more jobs of a queue or of a name until it is resumed; with `key`, only none of those that have this
    value in their data. What runs goes on. A pause that is there already is replaced."""

    async def make(_: str) -> Made:
        _check_target(caller, body)  # what is paused is the pause's id
        shown = PausedOut.of(await caller.scheduler.pause(**body.given(), reason=body.reason, actor=caller.actor))
        await caller.note("pause.create", _named(body), after=shown.model_dump(mode="json"))
        return Made(Answer(data=shown))

    return await once.answer(caller, make)


@router.post("/pauses/resume", tags=["flow"], summary="End a pause")
async def resume(body: TargetIn, caller: Operator) -> Answer[PausedOut]:
    """End a pause that was made for the same. The answer is what it was; where there was none, this is a 404."""
    _check_target(caller, body)
    paused = await caller.scheduler.resume(**body.given())
    if paused is None:
        raise Problem(404, "There is no such pause.")
    shown = PausedOut.of(paused)
    await caller.note("pause.resume", _named(body), before=shown.model_dump(mode="json"))
    return Answer(data=shown)


# -- limits ------------------------------------------------------------------------------------------------------------


@router.get("/limits", tags=["flow"], summary="List limits")
async def list_limits(caller: Viewer) -> Answer[list[LimitOut]]:
    """The limits that live workers declare in their code or that are set at run time, and how they are used now."""
    found = await caller.scheduler.limits()
    return Answer(data=[LimitOut.of(one) for one in found if is_reached(caller, one.scope, one.target)])


@router.put("/limits/{scope}/{target:path}", tags=["flow"], summary="Set the limits of a queue or a job name")
async def put_limit(scope: Place, target: Target, body: LimitIn, caller: Operator) -> Answer[OverrideOut]:
    """Let other limits count than those declared in code, until that is removed. In force within a second or two."""
    check_target(caller, scope, target)
    before = await _override(caller, scope, target)
    asked = {scope: target, **body.limits()}
    after = await caller.scheduler.override_limit(**asked, reason=body.reason, actor=caller.actor)
    await caller.note("limit.put", f"{scope}:{target}", before=_told(before), after=_told(after))
    return Answer(data=OverrideOut.of_override(after))


@router.delete("/limits/{scope}/{target:path}", tags=["flow"], summary="Let the declared limits count again")
async def delete_limit(scope: Place, target: Target, caller: Operator) -> Answer[OverrideOut]:
    """Remove what was set at run time. The answer is what it was; where nothing was set, this is a 404."""
    check_target(caller, scope, target)
    before = await caller.scheduler.remove_override(**{scope: target})
    if before is None:
        raise Problem(404, "There is no such limit set at run time.")
    await caller.note("limit.delete", f"{scope}:{target}", before=_told(before))
    return Answer(data=OverrideOut.of_override(before))


# -- breakers ----------------------------------------------------------------------------------------------------------


@router.get("/breakers", tags=["flow"], summary="List breakers")
async def list_breakers(caller: Viewer) -> Answer[list[BreakerOut]]:
    """All breakers: those that live workers declare in their code, and those that are stored."""
    found = await caller.scheduler.breakers()
    return Answer(data=[BreakerOut.of(one) for one in found if is_reached(caller, one.scope, one.target)])


@router.post("/breakers/{scope}/{target:path}/open", tags=["flow"], summary="Open a breaker")
async def open_breaker(
    scope: Place, target: Target, caller: Operator, body: OpenIn | None = None
) -> Answer[BreakerOut]:
    """Start no more jobs of a queue or a name until its breaker is closed, or for `openFor` milliseconds, after which
    single probes are let through."""
    check_target(caller, scope, target)
    asked = body or OpenIn()
    length = None if asked.open_for is None else asked.open_for / 1000
    status = await caller.scheduler.open_breaker(
        **{scope: target}, key=asked.key, open_for=length, reason=asked.reason, actor=caller.actor
    )
    return await _moved(caller, "breaker.open", status)


@router.post("/breakers/{scope}/{target:path}/close", tags=["flow"], summary="Close a breaker")
async def close_breaker(
    scope: Place, target: Target, caller: Operator, body: CloseIn | None = None
) -> Answer[BreakerOut]:
    """Let the jobs be started again; the breaker begins to count anew."""
    check_target(caller, scope, target)
    asked = body or CloseIn()
    status = await caller.scheduler.close_breaker(
        **{scope: target}, key=asked.key, reason=asked.reason, actor=caller.actor
    )
    return await _moved(caller, "breaker.close", status)


# -- reach -------------------------------------------------------------------------------------------------------------


def is_reached(caller: Caller, scope: str, target: str) -> bool:
    """Whether all that a control may hold back is within the caller's reach."""
    queue, name = (target, None) if scope == QUEUE else (None, target)
    return caller.principal.scope.allows(queue, name)


def check_target(caller: Caller, scope: str, target: str) -> None:
    if not is_reached(caller, scope, target):
        raise Problem(404, f"There is no such {'queue' if scope == QUEUE else 'job name'}.")


def _check_target(caller: Caller, body: TargetIn) -> None:
    check_target(caller, QUEUE if body.name is None else NAME, body.queue or body.name or "")


def _named(body: TargetIn) -> str:
    return f"queue:{body.queue}" if body.name is None else f"name:{body.name}"


async def _override(caller: Caller, scope: str, target: str) -> LimitOverride | None:
    statuses = await caller.scheduler.limits()
    return next((one.override for one in statuses if (one.scope, one.target) == (scope, target)), None)


async def _moved(caller: Caller, action: str, status: BreakerStatus) -> Answer[BreakerOut]:
    shown = BreakerOut.of(status)
    await caller.note(action, f"{status.scope}:{status.target}", after=shown.model_dump(mode="json"))
    return Answer(data=shown)


def _told(override: LimitOverride | None) -> dict[str, Any] | None:
    return None if override is None else OverrideOut.of_override(override).model_dump(mode="json")
