"""Headers that protect browsers, bounds on the size and form of requests, and the answer to unforeseen errors.

Plain ASGI, so that streams pass through untouched.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable
from traceback import extract_tb, format_list

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mainspring.api.middleware.proxies import path_of
from mainspring.api.problems import Problem, answer
from mainspring.engine.job_log import write

MOST_HEADERS = 16 * 1024
"""The largest first line and headers of a request, in bytes."""
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
PROTECTING = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
# The bytes of a header beside its name and value: the colon, the space and the end of the line.
_BETWEEN = 4
BUILT = "/static/dashboard/assets/"
"""The path of the dashboard's built files."""
_WITH_BODY = ("POST", "PUT", "PATCH")
# Content types that a page may send to another site without a preflight request.
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")


class SecurityHeaders:
    """Adds the headers to every response; caches must not keep the answers of the API."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        path = path_of(scope)  # a mounted application changes the scope

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in PROTECTING.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", _cache(path))
            await send(message)

        await self._app(scope, receive, with_headers)


def _cache(path: str) -> str:
    """How long browsers may keep an answer. The names of built files have a hash of their content."""
    if path.startswith(BUILT):
        return "public, max-age=31536000, immutable"
    return "no-cache" if path.startswith("/static/") else "no-store"


class Faults:
    """Answers 500 if the application raises an unforeseen error. It is inside of `SecurityHeaders`, so that this answer
    has the headers too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            if scope["type"] != "http" or started:
                raise  # closes the connection: the client must not take a part of the answer for the whole
            number = log_fault(route_of(scope), error)
            problem = Problem(
                500, f"This is an internal error; the service's log has its details under the number {number}."
            )
            await answer(problem)(scope, receive, send)


def log_fault(what: str, error: BaseException) -> str:
    """Log an error, and return the number under which it is logged. The message of an exception may quote a request or
    a document, so that only its type and its places in the code are logged."""
    number = secrets.token_hex(4)
    kind = type(error).__name__
    places = "".join(format_list(extract_tb(error.__traceback__)))
    write(logging.ERROR, f"{what} failed with {kind}, fault {number}", {"fault": number, "error_type": kind}, places)
    return number


def route_of(scope: Scope) -> str:
    """The requested endpoint, by its path template: the path itself may contain anything."""
    path = getattr(scope.get("route"), "path", None) or "a path that no endpoint has"
    return f"{scope['method']} {path}"


class CheckedHeaders:
    """Refuses requests whose headers are too large (431), or give the end of the body in two ways (400): a proxy in
    front might use the other one, and take the rest for another client's request. The connection is closed."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        problem = _unfit(scope) if scope["type"] == "http" else None
        if problem is None:
            await self._app(scope, receive, send)
        else:
            await answer(problem)(scope, receive, send)


def _unfit(scope: Scope) -> Problem | None:
    close = {"Connection": "close"}
    size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
    size += sum(len(name) + len(value) + _BETWEEN for name, value in scope["headers"])
    if size > MOST_HEADERS:
        return Problem(431, f"The path and the headers are larger than {MOST_HEADERS:,} bytes in all.", headers=close)
    if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}:
        return Problem(400, "Content-Length and Transfer-Encoding came together; send one of them.", headers=close)
    return None


class BoundedBodies:
    """Refuses bodies that are too large (413) or of another type than `types` (415), before they are read.

    A form that another site makes a browser send cannot have these types, even an empty one: this is one of the two
    defences against such forms, beside the check of the origin.
    """

    def __init__(self, app: ASGIApp, limit: int, types: Iterable[str], streams: Iterable[str]) -> None:
        self._app = app
        self._limit = limit
        self._types = tuple(types)
        self._streams = frozenset(streams)
        """The paths whose bodies the endpoint reads piece by piece and bounds itself."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in _WITH_BODY:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        problem = self._refusal(scope, headers)
        if problem is not None:
            await answer(problem)(scope, receive, send)
            return
        if path_of(scope) in self._streams:
            await self._app(scope, receive, send)
            return
        await self._bounded(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> Problem | None:
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        length = headers.get("content-length", "0")
        empty = length == "0" and "transfer-encoding" not in headers
        if kind not in self._types and (kind in _FORMS or not empty):
            return Problem(415, f"Send the body as {self._types[0]}: Content-Type says {kind or 'nothing'}.")
        if path_of(scope) not in self._streams and length.isdecimal() and int(length) > self._limit:
            return self._too_large()
        return None

    def _too_large(self) -> Problem:
        return Problem(413, f"The body is larger than {self._limit:,} bytes; MAINSPRING_MAX_BODY sets the limit.")

    async def _bounded(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body first and count its bytes up to the bound: a request may have no length."""
        body = bytearray()
        more = True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return  # the client has disconnected
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
