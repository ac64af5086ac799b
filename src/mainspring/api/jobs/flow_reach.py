"""Refuses to change a flow, or to start it by its schedule, for a key that does not reach all of the jobs."""

from __future__ import annotations

from mainspring.api.dependencies import Caller
from mainspring.api.problems import Problem
from mainspring.client.namespaces.schedules import Schedule
from mainspring.model.access.reach import makes_beyond

_BEYOND = "This flow has jobs out of this key's scope; nothing was changed. Use a key that reaches all of them."


async def check_cancel(caller: Caller, job_id: str) -> None:
    """Raise a Problem of 403 if the cancellation of a job would cancel jobs out of the caller's scope."""
    if not caller.scope.everything and await caller.backend.cancels_beyond(job_id, caller.scope):
        raise Problem(403, _BEYOND)


def check_firings(caller: Caller, schedule: Schedule) -> None:
    """Raise a Problem of 403 if firings of the schedule start a flow with nodes out of the caller's scope."""
    if makes_beyond(caller.scope, schedule):
        raise Problem(403, _BEYOND)


async def check_retry_of_flow(caller: Caller, flow_id: str) -> None:
    """Raise a Problem of 403 if the retry of a flow would run jobs out of the caller's scope again."""
    if not caller.scope.everything and await caller.backend.retries_beyond(flow_id, caller.scope):
        raise Problem(403, _BEYOND)
