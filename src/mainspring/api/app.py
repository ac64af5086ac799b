"""The HTTP service as an ASGI application: endpoints, authentication, and the middleware."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from functools import cache
from http import HTTPStatus
from importlib.metadata import version

from fastapi import APIRouter, Depends, FastAPI, Request
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from mainspring.api import problems
from mainspring.api.dashboard import UnknownPages, add_dashboard
from mainspring.api.dependencies import Service, check_parameters
from mainspring.api.endpoints import ICS, LIVE, STREAMED, routers
from mainspring.api.metrics import PATH as METRICS
from mainspring.api.middleware.authentication import Principal, brings_key
from mainspring.api.middleware.hardening import BoundedBodies, CheckedHeaders, Faults, SecurityHeaders
from mainspring.api.middleware.proxies import Prefix, TrustedProxies, path_of
from mainspring.api.middleware.request_bounds import RateLimits, address_of
from mainspring.api.pages import add_pages, is_open
from mainspring.api.problems import Problem
from mainspring.api.settings import ServiceSettings
from mainspring.api.specification import operation_id
from mainspring.client.scheduler import Scheduler
from mainspring.errors import MainspringError
from mainspring.model.networks import read_proxies

_TYPES = ("application/json", "application/x-ndjson", ICS)
_ABOUT = (
    "A distributed job scheduler on MongoDB. Durations are text such as 5m, instants end in Z; every request that "
    "creates something accepts an Idempotency-Key."
)


class Authentication:
    """Authenticates the caller of each request by its headers alone, before the service reads any of its body."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._rates = RateLimits(service.settings.requests_per_minute)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._is_open(scope["method"], path_of(scope)):
            await self._app(scope, receive, send)
            return
        with ExitStack() as places:
            try:
                principal = await self._recognise(Request(scope))
                places.enter_context(self._place(principal, Request(scope)))
            except Problem as problem:
                await problems.answer(problem)(scope, receive, send)
                return
            except MainspringError as error:
                await problems.answer(problems.as_problem(error))(scope, receive, send)
                return
            scope.setdefault("state", {})["principal"] = principal
            await self._app(scope, receive, send)

    def _is_open(self, method: str, path: str) -> bool:
        opened = self._service.settings.metrics_open and path == METRICS and method in ("GET", "HEAD")
        return opened or is_open(method, path)

    def _place(self, principal: Principal, request: Request) -> AbstractContextManager[None]:
        return self._service.crowd.place(principal.actor, address_of(request), path_of(request.scope) in LIVE)

    async def _recognise(self, request: Request) -> Principal:
        """The caller of a request. Only refused requests are counted by address."""
        try:
            principal = await self._service.authenticator.recognise(request)
        except Problem as problem:
            with_key = brings_key(request)
            if with_key and problem.status == HTTPStatus.UNAUTHORIZED:
                await self._service.trail.note_refused_key(request)
            self._rates.count_refused(request, with_key)
            raise
        self._rates.check_actor(principal.actor)
        return principal


@cache
def _routes(subject: str | None) -> list[BaseRoute]:
    """The routes of the endpoints of a subject, or of all, shared by every application of this process: FastAPI
    prepares each at its first request, which takes a tenth of a second for all."""
    joined = APIRouter()
    for router in routers(subject):
        joined.include_router(
            router, dependencies=[Depends(check_parameters)], generate_unique_id_function=operation_id
        )
    return joined.routes


def make_app(
    scheduler: Scheduler,
    settings: ServiceSettings,
    *,
    keyless: bool = False,
    actor: str | None = None,
    subject: str | None = None,
) -> FastAPI:
    """Make the application that serves a scheduler. It connects by itself; it starts no worker. With `keyless`, this
    user on this machine needs no API key while there is none. With `actor`, every request is this actor's and may do
    everything: for a command that calls the application in its own process. Such an application must not be served.
    With `subject`, it has the endpoints of one subject only."""
    service = Service(scheduler, settings, keyless=keyless, actor=actor)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await scheduler.connect()
        async with service.kept():
            yield

    app = FastAPI(
        title="Mainspring",
        version=version("mainspring"),
        description=_ABOUT,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.state.service = service
    problems.add_handlers(app)
    app.router.routes.extend(_routes(subject))
    add_pages(app, scheduler)
    add_dashboard(app)
    # The last one added is the outermost.
    app.add_middleware(BoundedBodies, limit=settings.max_body, types=_TYPES, streams=STREAMED)
    app.add_middleware(Authentication, service=service)
    app.add_middleware(UnknownPages)
    app.add_middleware(CheckedHeaders)
    app.add_middleware(Faults)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(TrustedProxies, trusted=read_proxies(settings.trusted_proxies))
    app.add_middleware(Prefix, prefix=settings.prefix)
    return app
