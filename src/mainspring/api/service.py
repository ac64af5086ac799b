"""What the endpoints are given: the scheduler, the settings, and who makes the request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from fastapi import Depends, Request

from mainspring.api.principals import Doorkeeper, Principal
from mainspring.api.problems import Problem
from mainspring.api.settings import ServiceSettings
from mainspring.model.access import ADMIN, OPERATOR, VIEWER
from mainspring.model.audit import Entry
from mainspring.model.sessions import new_session_secret
from mainspring.scheduler import Scheduler

_ROWS = 200
"""How far back the row of a request that has come before is looked for."""


class Service:
    """One running service."""

    def __init__(self, scheduler: Scheduler, settings: ServiceSettings) -> None:
        self.scheduler = scheduler
        self.settings = settings
        hosts = {name.strip().lower() for name in settings.hosts.split(",") if name.strip()}
        secret = settings.session_secret
        # Without one of the settings, sessions end with this process.
        signing = new_session_secret() if secret is None else secret.get_secret_value().encode()
        self.doorkeeper = Doorkeeper(scheduler, frozenset(hosts), signing)
        self.closing = asyncio.Event()
        """Set when the server is about to stop: streams that would go on for ever end then."""
        self.streams = 0
        """How many streams of events are open."""

    def now(self) -> datetime:
        """The database's clock, as far as it is known."""
        return self.scheduler.now()


@dataclass(slots=True)
class Caller:
    """A request that may be answered: by which service, for whom."""

    service: Service
    principal: Principal
    address: str | None
    request_id: str | None = None
    """Of a request that may come twice: its own, the same however often it comes."""
    again: bool = False
    """Whether it has come before."""

    @property
    def scheduler(self) -> Scheduler:
        return self.service.scheduler

    @property
    def actor(self) -> str:
        return self.principal.actor

    def check_reach(self, queue: str | None, name: str | None, what: str = "job") -> None:
        """Refuse what is out of a key's scope, as if it were not there: that it is there is nobody else's business."""
        if not self.principal.scope.allows(queue, name):
            raise Problem(404, f"There is no such {what}.")

    def check_everything(self) -> None:
        """Refuse a key with a scope what concerns more than its jobs."""
        if not self.principal.scope.everything:
            raise Problem(403, "This key reaches some queues or names only; this needs one that reaches everything.")

    async def note(self, action: str, target: str, *, before: Any = None, after: Any = None) -> None:
        """Write a change down in the audit log; once, however often the request comes."""
        if not self.again or not await self._is_noted(target):
            await self.scheduler.note_change(
                Entry(self.actor, action, target, self.address, before, after, self.request_id)
            )

    async def _is_noted(self, target: str) -> bool:
        rows = await self.scheduler.changes(target=target, limit=_ROWS)
        return any(row.id == self.request_id for row in rows)


def caller(role: str) -> Callable[[Request], Any]:
    """The dependency of an endpoint that needs a role."""

    async def known(request: Request) -> Caller:
        service: Service = request.app.state.service
        principal: Principal = request.state.principal
        if not principal.may(role):
            raise Problem(403, f"This needs the role {role}; this key has the role {principal.role}.")
        address = None if request.client is None else request.client.host
        return Caller(service, principal, address)

    return known


Viewer = Annotated[Caller, Depends(caller(VIEWER))]
Operator = Annotated[Caller, Depends(caller(OPERATOR))]
Admin = Annotated[Caller, Depends(caller(ADMIN))]
