"""The pages that need no API key: the documentation, liveness and readiness, and the files of the dashboard.

Probes and browsers have no key. These pages show nothing of jobs: the documentation is the same for every service of
this version, and the probes answer whether the service is ok, and with the kind of the reason if it is not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse
from starlette.middleware.gzip import GZipMiddleware
from starlette.staticfiles import StaticFiles

from mainspring.api.dashboard import is_page
from mainspring.api.middleware.proxies import prefix_of
from mainspring.api.specification import specification
from mainspring.client.scheduler import Scheduler
from mainspring.clock import monotonic
from mainspring.errors import MainspringError

STATIC = Path(__file__).parent / "static"
_LIVE, _READY, _DOCS, _OPENAPI = "/livez", "/readyz", "/docs", "/openapi.json"
_ELSEWHERE = {"/api": _DOCS, "/health": _READY, "/healthz": _LIVE}
"""Redirects for paths that clients guess."""
_OPEN = frozenset({_LIVE, _READY, _DOCS, _OPENAPI, *_ELSEWHERE})
_FRESH = 1.0
"""For how many seconds an answer of the database is reused, so that probes cost one query a second at most."""


def is_open(method: str, path: str) -> bool:
    """Whether a request is answered without an API key. It can only read, so that its body is never read."""
    return method in ("GET", "HEAD") and (path in _OPEN or path.startswith("/static/") or is_page(path))


class Readiness:
    """Checks whether the database can be reached: once for all requests within a second."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._asking = asyncio.Lock()
        self._asked_at: float | None = None
        self._ready = False

    async def check(self) -> bool:
        async with self._asking:
            if self._asked_at is None or monotonic() - self._asked_at >= _FRESH:
                self._ready = await self._ask()
                self._asked_at = monotonic()
            return self._ready

    async def _ask(self) -> bool:
        try:
            return (await self._scheduler.monitor.health()).clock_known
        except MainspringError:
            return False


def add_pages(app: FastAPI, scheduler: Scheduler) -> None:
    """Add the pages to an app."""
    readiness = Readiness(scheduler)
    app.mount("/static", GZipMiddleware(StaticFiles(directory=STATIC), minimum_size=1000), name="static")

    @app.get(_DOCS, include_in_schema=False)
    async def docs() -> FileResponse:
        return FileResponse(STATIC / "docs.html")

    @app.get(_OPENAPI, include_in_schema=False)
    async def openapi() -> JSONResponse:
        return JSONResponse(specification(app))

    @app.get(_LIVE, include_in_schema=False)
    async def live() -> JSONResponse:
        """Answer that this process is alive."""
        return JSONResponse({"status": "ok"})

    @app.get(_READY, include_in_schema=False)
    async def ready() -> JSONResponse:
        """Answer whether this process is ready: whether it reaches the database."""
        if await readiness.check():
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "not ok", "reason": "database"}, 503)

    for path, place in _ELSEWHERE.items():
        app.add_api_route(path, _leader(place), include_in_schema=False)


def _leader(place: str) -> Callable[[Request], Awaitable[RedirectResponse]]:
    async def lead(request: Request) -> RedirectResponse:
        return RedirectResponse(prefix_of(request.scope) + place)

    return lead
