"""The dependencies of the endpoints: the scheduler, the settings, the caller of the request, and the check of its query
parameters.

The app adds `check_parameters` to every router, so that it covers a new endpoint without further code.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from pydantic import BaseModel

from mainspring.api.audit.sampling import Sampler
from mainspring.api.audit.trail import Trail
from mainspring.api.jobs.sealed_cursors import SECRET, Sealing
from mainspring.api.metrics import ServiceMetrics
from mainspring.api.middleware.authentication import Authenticator, Principal
from mainspring.api.middleware.request_bounds import Crowd
from mainspring.api.middleware.revalidation import Revalidation
from mainspring.api.problems import Problem
from mainspring.api.settings import ServiceSettings
from mainspring.client.alerts.watch import AlertWatch
from mainspring.client.namespaces.schedules import Schedule
from mainspring.client.scheduler import Scheduler
from mainspring.client.service_backend import ServiceBackend
from mainspring.model.access.api_keys import ADMIN, OPERATOR, VIEWER, Scope
from mainspring.model.access.audit import Entry
from mainspring.model.access.sessions import new_session_secret
from mainspring.model.jobs.job import Job
from mainspring.spelling import meant_by

_ROWS = 200
"""How many rows of the audit log are searched for the row of a repeated request."""
_LONGEST = 100
"""The most characters of an unknown parameter that the answer repeats."""


class Service:
    """One running service."""

    def __init__(
        self, scheduler: Scheduler, settings: ServiceSettings, *, keyless: bool = False, actor: str | None = None
    ) -> None:
        self.scheduler = scheduler
        self.backend = ServiceBackend(scheduler)
        self.settings = settings
        hosts = {name.strip().lower() for name in settings.hosts.split(",") if name.strip()}
        secret = settings.session_secret
        # Without a session secret in the settings, sessions end with this process.
        signing = new_session_secret() if secret is None else secret.get_secret_value().encode()
        self.authenticator = Authenticator(self.backend, frozenset(hosts), signing, keyless=keyless, actor=actor)
        self.trail = Trail(scheduler)
        self.metrics = ServiceMetrics(scheduler)
        self.alerts = AlertWatch(scheduler, settings)
        self.closing = asyncio.Event()
        """Set when the server is about to stop: endless streams end then."""
        self._sealing: Sealing | None = None
        self.standing = Revalidation(self.authenticator)
        self.crowd = Crowd(settings)

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Run the tasks of the service beside its requests: the reports of the audit log, and the alert rules."""
        async with self.trail.kept(), self.alerts.kept():
            yield

    async def sealing(self) -> Sealing:
        """The sealing of cursors and of places in streams."""
        if self._sealing is None:
            self._sealing = Sealing(await self.backend.service_secret(SECRET))
        return self._sealing

    def now(self) -> datetime:
        """The database's time, as far as it is known."""
        return self.scheduler.now()


@dataclass(slots=True)
class Caller:
    """The caller of a request that has the needed role, and the service that answers."""

    service: Service
    principal: Principal
    address: str | None
    request_id: str | None = None
    """The id of a request with an idempotency key; a repeated request has the same one."""
    again: bool = False
    """Whether the request was sent before with the same idempotency key."""

    @property
    def scheduler(self) -> Scheduler:
        return self.service.scheduler

    @property
    def backend(self) -> ServiceBackend:
        return self.service.backend

    @property
    def actor(self) -> str:
        return self.principal.actor

    @property
    def scope(self) -> Scope:
        return self.principal.scope

    async def job(self, job_id: str) -> Job:
        """A job within the caller's reach. The error for any other is the same as for one that does not exist."""
        return await self.scheduler.get_job(job_id, scope=self.scope)

    async def schedule(self, schedule_id: str) -> Schedule:
        """A schedule within the caller's reach, as with jobs."""
        return await self.scheduler.schedules.get(schedule_id, scope=self.scope)

    async def seal_cursor(self, list_name: str, cursor: str | None) -> str | None:
        """Seal a cursor before a caller gets it: it may name a document out of the caller's reach."""
        return None if cursor is None else (await self.service.sealing()).seal(list_name, cursor.encode())

    async def open_cursor(self, list_name: str, text: str | None) -> str | None:
        """Open a cursor that a caller sends back."""
        if text is None:
            return None
        opened = (await self.service.sealing()).open(list_name, text)
        if opened is None:
            raise Problem(422, "This cursor belongs to another list; start again without one.", field="cursor")
        return opened.decode()

    def check_everything(self) -> None:
        """Refuse a key with a scope: the request concerns more than the jobs within a scope."""
        if not self.principal.scope.everything:
            raise Problem(403, "This key has a scope; the request needs a key without one.")

    def check_current(self) -> None:
        """Refuse the old secret of a rotated key: the effect of the request would outlast the secret's grace time."""
        if self.principal.outdated:
            raise Problem(403, "This API key was rotated; use its new secret, or a session that was opened since.")

    async def note(self, action: str, target: str, *, before: Any = None, after: Any = None) -> None:
        """Write a change to the audit log; a repeated request adds no second row."""
        if not self.again or not await self._is_noted(target):
            await self.backend.note_change(
                Entry(self.actor, action, target, self.address, before, after, self.request_id)
            )

    async def note_sampled(self, sampler: Sampler, action: str, target: str, *, after: Any = None) -> None:
        """Write a read, or an action that any caller can repeat at will, to the audit log, unless there are many such
        rows. A command that has the database itself could read it without leaving a row, and leaves none."""
        if not self.service.authenticator.in_process and sampler.admits(self.actor):
            await self.note(action, target, after=after)

    async def _is_noted(self, target: str) -> bool:
        rows = await self.scheduler.audit.find(target=target, limit=_ROWS)
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


# -- query parameters ------------------------------------------------------------------------------------------------


class Prefixed:
    """A dependency: all query parameters whose names begin with a prefix, without it, in the order of the request."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def __call__(self, request: Request) -> list[tuple[str, str]]:
        query = request.query_params.multi_items()
        return [(name.removeprefix(self.prefix), text) for name, text in query if name.startswith(self.prefix)]


async def check_parameters(request: Request) -> None:
    """Refuse a query parameter that the request's path does not take."""
    if not request.query_params:
        return
    names, prefixes = taken_by(request.scope["route"])
    for name in request.query_params:
        if name not in names and not name.startswith(prefixes):
            raise Problem(422, _refusal(name[:_LONGEST], sorted(names)), field=f"query.{name[:_LONGEST]}")


def taken_by(route: Any) -> tuple[frozenset[str], tuple[str, ...]]:
    """The query parameters that a route takes, and the prefixes of those whose names the caller chooses."""
    dependants = list(_all(route.dependant))
    names = frozenset(name for one in dependants for name in _names(one))
    return names, tuple(one.call.prefix for one in dependants if isinstance(one.call, Prefixed))


def _all(dependant: Dependant) -> Iterator[Dependant]:
    yield dependant
    for one in dependant.dependencies:
        yield from _all(one)


def _names(dependant: Dependant) -> Iterator[str]:
    for parameter in dependant.query_params:
        kind = parameter.field_info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from (field.alias or name for name, field in kind.model_fields.items())
        else:
            yield parameter.alias


def _refusal(name: str, known: list[str]) -> str:
    if not known:
        return f"There is no parameter {name!r}; this path takes none."
    meant = meant_by(name, known)
    hint = f"did you mean {meant!r}?" if meant else f"this path takes {', '.join(known)}."
    return f"There is no parameter {name!r}; {hint}"
