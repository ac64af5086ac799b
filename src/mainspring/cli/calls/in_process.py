"""The HTTP API in the process of the command, on a database: the same application as that of `mainspring serve`.

So a command needs no second implementation for databases, and has the same answers, refusals and audit entries. The
actor of the audit entries is the user of the command. A program that can read and write the database needs no API key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, MutableMapping
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import unquote

from mainspring.cli.calls.door import Reply
from mainspring.cli.support.builtin_jobs import add_builtins, missing, read_settings
from mainspring.cli.support.database import actor
from mainspring.cli.support.either_scheduler import Face
from mainspring.cli.support.environment import worker_settings
from mainspring.cli.support.logs import without_loggers
from mainspring.client.namespaces.pauses import UNKNOWN_TARGETS
from mainspring.client.scheduler import Scheduler
from mainspring.config.settings import without_password
from mainspring.engine.handlers import UNKNOWN_HANDLERS
from mainspring.model.fields import Fields

T = TypeVar("T")
_READS = ("GET", "HEAD")


class InProcess:
    """A database, and the application that serves it."""

    keyed: bool | None = None

    def __init__(self, uri: str | None) -> None:
        try:
            from mainspring.api.app import make_app
        except ModuleNotFoundError as error:
            raise missing(error) from None
        settings = read_settings()
        self._scheduler = Scheduler(uri)
        self._scheduler.configure(**worker_settings())
        add_builtins(Face(self._scheduler), settings)
        self._make_app = partial(make_app, self._scheduler, settings, actor=actor())
        self._apps: dict[str, Any] = {}
        self._runner = asyncio.Runner()
        self._quiet = ExitStack()
        self._audit_checked = False
        self.place = without_password(self._scheduler.uri or "")

    def __enter__(self) -> Self:
        self._quiet.enter_context(without_loggers(UNKNOWN_TARGETS, UNKNOWN_HANDLERS))  # the commands print these notes
        try:
            self._run(self._scheduler.connect())
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def send(self, method: str, target: str, body: bytes | None, once: str | None = None) -> Reply:
        return self._run(self._send(method, target, body, once))

    def stream(self, target: str) -> tuple[Reply, Iterator[bytes]]:
        exchange = self._exchange("GET", target, None)
        status, kind = self._run(exchange.begin())
        if status != 200:
            return Reply(status, kind, self._run(exchange.rest())), iter(())
        return Reply(status, kind, b""), self._parts(exchange)

    def sleep(self, seconds: float) -> None:
        self._run(asyncio.sleep(seconds))

    async def _send(self, method: str, target: str, body: bytes | None, once: str | None) -> Reply:
        if method not in _READS and not self._audit_checked:
            await self._scheduler.audit.check()  # before a change that could not be written to the audit log
            self._audit_checked = True
        exchange = self._exchange(method, target, body, once)
        status, kind = await exchange.begin()
        return Reply(status, kind, await exchange.rest())

    def _exchange(self, method: str, target: str, body: bytes | None, once: str | None = None) -> _Exchange:
        from mainspring.api.endpoints import subject_of

        subject = subject_of(target)
        if subject not in self._apps:
            self._apps[subject] = self._make_app(subject=subject)
        return _Exchange(self._apps[subject], method, target, body, once)

    def _parts(self, exchange: _Exchange) -> Iterator[bytes]:
        """The lines of a stream."""
        begun = b""
        try:
            while part := self._run(exchange.part()):
                *lines, begun = (begun + part).split(b"\n")
                for line in lines:
                    yield line + b"\n"
        finally:
            self._run(exchange.end())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def _close(self) -> None:
        try:
            for app in self._apps.values():
                self._run(app.state.service.alerts.close())
            self._run(self._scheduler.stop())
        finally:
            self._runner.close()
            self._quiet.close()


class _Exchange:
    """One request to an ASGI application, and its answer part by part."""

    def __init__(self, app: Any, method: str, target: str, body: bytes | None, once: str | None = None) -> None:
        path, _, query = target.partition("?")
        self._scope = _scope(method, path, query, body, once)
        self._app = app
        self._body: bytes | None = body or b""
        self._gone = asyncio.Event()
        self._parts: asyncio.Queue[MutableMapping[str, Any] | None] = asyncio.Queue()
        self._answering: asyncio.Task[None] | None = None

    async def begin(self) -> tuple[int, str]:
        """Start the request; return the status and the media type of its answer. Where that is interrupted, such as by
        Ctrl-C, the request ends before the connection to the database is closed under it."""
        self._answering = asyncio.create_task(self._answer())
        try:
            head = await self._parts.get()
        except BaseException:
            await self.end()
            raise
        if head is None:
            await self._answering
            raise RuntimeError("The application has not answered.")
        found = {name.lower(): value for name, value in head["headers"]}
        kind: str = found.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip()
        return head["status"], kind

    async def part(self) -> bytes:
        """The next part of the answer; empty at its end."""
        while True:
            message = await self._parts.get()
            if message is None:
                return b""
            if body := message.get("body", b""):
                return bytes(body)

    async def rest(self) -> bytes:
        """All further parts."""
        parts = []
        try:
            while part := await self.part():
                parts.append(part)
        finally:
            await self.end()
        return b"".join(parts)

    async def end(self) -> None:
        """Leave, as a client does that closes its connection."""
        self._gone.set()
        if self._answering is not None:
            self._answering.cancel()
            await asyncio.wait({self._answering})
            if not self._answering.cancelled():
                self._answering.exception()  # an error before the end of the answer was reported by the application

    async def _answer(self) -> None:
        try:
            await self._app(self._scope, self._receive, self._parts.put)
        finally:
            self._parts.put_nowait(None)

    async def _receive(self) -> MutableMapping[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}


def _scope(method: str, path: str, query: str, body: bytes | None, once: str | None) -> Fields:
    headers = [(b"host", b"localhost")]
    if body is not None:
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if once is not None:
        headers.append((b"idempotency-key", once.encode()))
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": headers,
        "client": None,
        "server": None,
    }
