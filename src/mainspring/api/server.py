"""One HTTP server over a scheduler: bound to an address, answering, stopped. Used by the commands.

Only an address of this machine is bound while there is no API key. The server runs on the event loop of whoever starts
it, beside a worker or alone, and leaves signals and logs to the command.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import sys
from collections.abc import Iterator
from typing import Any

import uvicorn

from mainspring.api.app import make_app
from mainspring.api.principals import is_loopback
from mainspring.api.service import Service
from mainspring.api.settings import ServiceSettings
from mainspring.errors import ConfigurationError
from mainspring.scheduler import Scheduler

# How long requests that are under way may take when the server stops.
_GRACE = 10


class Server:
    """The server of one process."""

    def __init__(self, scheduler: Scheduler, settings: ServiceSettings) -> None:
        self._scheduler = scheduler
        self._settings = settings
        app = make_app(scheduler, settings)
        self._service: Service = app.state.service
        self._server = _Uvicorn(_configure(app))
        self._running: asyncio.Task[None] | None = None
        self.url = ""
        """Where it answers, once it is started."""
        self.keyed = False
        """Whether there was an API key when it was started."""

    async def start(self) -> None:
        """Connect, bind and answer; returns once that is so. ConfigurationError says what stands in the way."""
        await self._scheduler.connect()
        self.keyed = await self._scheduler.any_api_key()
        bound = _bind(self._settings.host, self._settings.port)
        try:
            self._check_open(bound)
        except ConfigurationError:
            bound.close()
            raise
        self.url = _url(bound)
        self._running = asyncio.create_task(self._server.serve(sockets=[bound]))
        answering = asyncio.create_task(self._server.answering.wait())
        await asyncio.wait({self._running, answering}, return_when=asyncio.FIRST_COMPLETED)
        answering.cancel()
        if self._running.done():
            await self._running

    async def stop(self) -> None:
        """Take no more connections, let requests finish, and end."""
        if self._running is not None:
            self._service.closing.set()
            self._server.should_exit = True
            await self._running

    def hurry(self) -> None:
        """Let the stop not wait for requests."""
        self._server.force_exit = True

    def _check_open(self, bound: socket.socket) -> None:
        if not self.keyed and not is_loopback(bound.getsockname()[0]):
            raise ConfigurationError(
                f"There is no API key yet, so that anybody who reaches {self._settings.host} could do anything here. "
                "Make one first: mainspring api-key create NAME --role admin (on the same database); or bind 127.0.0.1."
            )


class _Uvicorn(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.answering = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.answering.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the command's."""
        yield


def _configure(app: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        lifespan="on",
        ws="none",
        # It bounds the headers of a request, which the other one does not, and is as fast behind a database.
        http="h11",
        log_config=None,
        access_log=False,
        # What headers say about who connects is believed by `TrustedProxies` alone.
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE,
    )


def _bind(host: str, port: int) -> socket.socket:
    """A socket that is bound there; connections wait until somebody answers."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise ConfigurationError(
            f"{host!r} is no address of this machine; use --host 127.0.0.1 or a name of it."
        ) from None
    family, kind, protocol, _, address = sorted(found, key=lambda one: one[0] is not socket.AF_INET)[0]
    bound = socket.socket(family, kind, protocol)
    try:
        if sys.platform != "win32":
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen()
    except OSError as error:
        bound.close()
        raise ConfigurationError(_cannot_bind(error, host, port)) from None
    return bound


def _cannot_bind(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"Port {port} of {host} is taken by another program; choose another with --port, "
            "or --port 0 for any that is free."
        )
    if error.errno == errno.EACCES:
        return f"This user may not use port {port}; choose one from 1024 on with --port."
    return f"{host} port {port} cannot be used: {error.strerror}; choose others with --host and --port."


def _url(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
