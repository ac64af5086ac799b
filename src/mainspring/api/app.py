"""The HTTP service as an ASGI application: endpoints, who may call them, and what surrounds every request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from mainspring.api import problems
from mainspring.api.armor import BoundedBodies, SecurityHeaders
from mainspring.api.endpoints import ROUTERS, STREAMED
from mainspring.api.principals import Principal, key_in
from mainspring.api.problems import Problem
from mainspring.api.proxies import TrustedProxies, read_proxies
from mainspring.api.rates import RateLimits
from mainspring.api.service import Service
from mainspring.api.settings import ServiceSettings
from mainspring.api.specification import specification
from mainspring.errors import MainspringError
from mainspring.scheduler import Scheduler

STATIC = Path(__file__).parent / "static"
OPEN_PATHS = ("/healthz",)
"""What is answered without knowing who asks."""
_TYPES = ("application/json", "application/x-ndjson")
_ABOUT = (
    "Jobs that run once, on time, survive any crash, and explain themselves. "
    "Durations are milliseconds, instants end in Z; every create takes an Idempotency-Key."
)


class Door:
    """Recognises who makes each request before any endpoint is reached, and keeps count of his requests."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._rates = RateLimits(service.settings.requests_a_minute)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS or scope["path"].startswith("/static/"):
            await self._app(scope, receive, send)
            return
        try:
            principal = await self._recognise(Request(scope))
        except Problem as problem:
            await problems.answer(problem)(scope, receive, send)
            return
        except MainspringError as error:
            await problems.answer(problems.as_problem(error))(scope, receive, send)
            return
        scope.setdefault("state", {})["principal"] = principal
        await self._app(scope, receive, send)

    async def _recognise(self, request: Request) -> Principal:
        with_key = key_in(request) is not None
        self._rates.check_address(request, with_key)
        try:
            principal = await self._service.doorkeeper.recognise(request)
        except Problem as problem:
            if with_key and problem.status == HTTPStatus.UNAUTHORIZED:
                self._rates.count_wrong_key(request)
            raise
        self._rates.check_actor(principal.actor)
        return principal


def make_app(scheduler: Scheduler, settings: ServiceSettings) -> FastAPI:
    """The application that serves a scheduler. It connects by itself; whoever runs a worker beside it starts that."""
    service = Service(scheduler, settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await scheduler.connect()
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
    for router in ROUTERS:
        app.include_router(router)
    _add_pages(app)
    app.add_middleware(Door, service=service)
    app.add_middleware(BoundedBodies, limit=settings.max_body, types=_TYPES, streams=STREAMED)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(TrustedProxies, trusted=read_proxies(settings.trusted_proxies))
    return app


def _add_pages(app: FastAPI) -> None:
    app.mount("/static", StaticFiles(directory=STATIC), name="static")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> FileResponse:
        return FileResponse(STATIC / "docs.html")

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> JSONResponse:
        return JSONResponse(specification(app))

    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> JSONResponse:
        """Whether this process answers at all."""
        return JSONResponse({"status": "alive"})
