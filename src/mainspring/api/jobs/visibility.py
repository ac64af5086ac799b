"""Jobs, schedules, pauses and overrides as a caller may see them: without workers, actors and jobs out of its scope."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any, Protocol, TypeVar

from mainspring.api.dependencies import Caller
from mainspring.client.namespaces.schedules import Schedule
from mainspring.model.access.api_keys import KEY_ACTOR
from mainspring.model.access.reach import job_within, relatives_of, schedule_within, with_relatives_among
from mainspring.model.jobs.job import Job
from mainspring.model.schedules.schedule import SYSTEM


class Signed(Protocol):
    """Something that an actor has set, perhaps with a reason."""

    @property
    def actor(self) -> str | None: ...


S = TypeVar("S", bound=Signed)
T = TypeVar("T")
_SIGNATURE = {"actor": None, "reason": ""}


def shown(caller: Caller, job: Job) -> Job:
    """A job as the caller may see it, apart from the jobs that it names, which `seen_jobs` checks."""
    return job_within(caller.scope, caller.scheduler.privacy.shown(job))


def shown_schedule(caller: Caller, schedule: Schedule) -> Schedule:
    """A schedule as the caller may see it, apart from the actor of its pause, which `with_signed` checks."""
    return schedule_within(caller.scope, caller.scheduler.privacy.shown(schedule))


async def seen_jobs(caller: Caller, jobs: Iterable[Job]) -> list[Job]:
    """Jobs as the caller may see them, each with its parent, its flow and the cause of its end only if they are within
    reach."""
    found = [shown(caller, job) for job in jobs]
    named = {one for job in found for one in relatives_of(job)}
    if caller.scope.everything or not named:
        return found
    reached = await caller.backend.jobs_within(named, caller.scope)
    return [with_relatives_among(reached, job) for job in found]


async def seen_job(caller: Caller, job: Job) -> Job:
    return (await seen_jobs(caller, [job]))[0]


async def signed(caller: Caller, things: Iterable[S]) -> list[S]:
    """Things as the caller may see them: with actor and reason only if the actor is the caller itself, a key that it
    reaches, or Mainspring."""
    found = list(things)
    if caller.scope.everything:
        return found
    known = {actor for actor in {one.actor for one in found} if await _knows(caller, actor)}
    return [one if one.actor in known else _unsigned(one) for one in found]


async def with_signed(caller: Caller, things: Iterable[T], part: str) -> list[T]:
    """Things as the caller may see them: the part with this name, if a thing has it, is shown like `signed` does."""
    found = list(things)
    parts = iter(await signed(caller, [there for one in found if (there := getattr(one, part)) is not None]))
    return [one if getattr(one, part) is None else replace(one, **{part: next(parts)}) for one in found]  # type: ignore[type-var]


async def _knows(caller: Caller, actor: str | None) -> bool:
    if actor in (caller.actor, SYSTEM):
        return True
    if actor is None or not actor.startswith(KEY_ACTOR):
        return False
    key = await caller.scheduler.api_keys.get(actor.removeprefix(KEY_ACTOR))
    return key is not None and caller.scope.covers(key.scope)


def _unsigned(thing: Any) -> Any:
    names = {field.name for field in fields(thing)}
    return replace(thing, **{name: blank for name, blank in _SIGNATURE.items() if name in names})
