"""The dashboard: one page that the browser loads, and that reads everything over the HTTP API.

The page and its files hold no data and need no API key. They are built into `static/dashboard` by `make dashboard`, and
are part of every wheel.
"""

from __future__ import annotations

from functools import cache
from html import escape
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from starlette.routing import Match
from starlette.types import ASGIApp, Receive, Scope, Send

from mainspring.api.middleware.proxies import path_of, prefix_of

FOLDER = Path(__file__).parent / "static" / "dashboard"
SECTIONS = (
    *("jobs", "flows", "operations", "schedules", "queues", "dead-letters", "workers", "alerts", "audit", "settings"),
)
"""The first parts of the addresses of its pages. The page itself finds the rest, so that each address can be opened."""
_MISSING = (
    "<!doctype html><html lang=en><title>Mainspring</title><h1>The dashboard is not built</h1>"
    "<p>This is a checkout, and its dashboard was not built yet. <code>make dashboard</code> builds it; packages carry "
    "it built. The HTTP API works without it: <a href='{prefix}/docs'>its documentation</a>.</p>"
)


def is_page(path: str) -> bool:
    """Whether a path within the service is one of the dashboard's pages."""
    return path == "/" or path.split("/", 2)[1] in SECTIONS


@cache
def _template() -> str | None:
    index = FOLDER / "index.html"
    return index.read_text(encoding="utf-8") if index.is_file() else None


def page(prefix: str, status: int = 200) -> HTMLResponse:
    """The page for a service that is reached under a prefix."""
    template, place = _template(), escape(prefix, quote=True)
    if template is None:
        return HTMLResponse(_MISSING.format(prefix=place), 503)
    here = template.replace('="./', f'="{place}/static/dashboard/')
    based = here.replace('name="mainspring-base" content=""', f'name="mainspring-base" content="{place}"')
    return HTMLResponse(based, status)


def add_dashboard(app: FastAPI) -> None:
    """Add the pages of the dashboard to an app."""

    async def show(request: Request) -> HTMLResponse:
        return page(prefix_of(request.scope))

    for path in ("/", *(f"/{section}" for section in SECTIONS), *(f"/{section}/{{rest:path}}" for section in SECTIONS)):
        app.add_api_route(path, show, include_in_schema=False)


class UnknownPages:
    """Answers a browser that opens an address without a route: with 404 and the dashboard, which says so and links to
    its pages. Programs, and addresses of the API, get a problem as for every other error. It is outside of the
    authentication, as the dashboard's other pages need no API key."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _is_opened_in_a_browser(Request(scope)) and not _has_route(scope):
            await page(prefix_of(scope), 404)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _is_opened_in_a_browser(request: Request) -> bool:
    if request.method not in ("GET", "HEAD") or path_of(request.scope).startswith("/api/"):
        return False
    return "text/html" in request.headers.get("accept", "")


def _has_route(scope: Scope) -> bool:
    return any(route.matches(scope)[0] is not Match.NONE for route in scope["app"].router.routes)
