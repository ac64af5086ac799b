"""What surrounds every request: headers that protect browsers, and bounds on what a request may bring.

Plain ASGI, so that streams pass through untouched.
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mainspring.api.problems import Problem, answer

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_WITH_BODY = ("POST", "PUT", "PATCH")
# What a page may send to another site without asking it first.
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")


class SecurityHeaders:
    """Adds the headers to every response; what the API says is not to be kept by caches."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                if not scope["path"].startswith("/static/"):
                    headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, with_headers)


class BoundedBodies:
    """Refuses bodies that are too large (413) or not what the API reads (415), before anybody reads them.

    A form that another site makes a browser send cannot be of these types, which is half of what keeps it out; even
    an empty one is of its own.
    """

    def __init__(self, app: ASGIApp, limit: int, types: Iterable[str], streams: Iterable[str]) -> None:
        self._app = app
        self._limit = limit
        self._types = tuple(types)
        self._streams = frozenset(streams)
        """The paths whose bodies are read piece by piece, and have bounds of their own."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in _WITH_BODY:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        problem = self._refusal(scope, headers)
        if problem is not None:
            await answer(problem)(scope, receive, send)
            return
        if scope["path"] in self._streams:
            await self._app(scope, receive, send)
            return
        await self._bounded(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> Problem | None:
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        length = headers.get("content-length", "0")
        empty = length == "0" and "transfer-encoding" not in headers
        if kind not in self._types and (kind in _FORMS or not empty):
            return Problem(415, f"Send the body as {self._types[0]}: Content-Type says {kind or 'nothing'}.")
        if scope["path"] not in self._streams and length.isdecimal() and int(length) > self._limit:
            return self._too_large()
        return None

    def _too_large(self) -> Problem:
        return Problem(413, f"The body is larger than {self._limit:,} bytes; MAINSPRING_MAX_BODY sets the limit.")

    async def _bounded(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body first, as far as it may go: whoever sends no length is counted."""
        body = bytearray()
        more = True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return  # the client is gone
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self._limit:
                await answer(self._too_large())(scope, receive, send)
                return
        handed_over = False

        async def replay() -> Message:
            nonlocal handed_over
            if handed_over:
                return await receive()
            handed_over = True
            return {"type": "http.request", "body": bytes(body), "more_body": False}

        await self._app(scope, replay, send)
