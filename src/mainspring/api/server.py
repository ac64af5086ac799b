"""The HTTP server of a scheduler: it binds an address, answers requests, and stops. The commands use it.

While there is no API key, it binds only a loopback address. The server runs on the event loop of the code that starts
it, beside a worker or alone, and leaves signals and logs to the command.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import uvicorn

from mainspring.api.app import make_app
from mainspring.api.dependencies import Service
from mainspring.api.middleware.connections import ConnectionLimits, GuardedConfig
from mainspring.api.settings import ServiceSettings
from mainspring.client.scheduler import Scheduler
from mainspring.errors import ConfigurationError
from mainspring.model.networks import is_loopback, read_proxies

# How many seconds the running requests may take when the server stops.
GRACE = 10


class Server:
    """The server of one process. With `keyless`, this user on this machine needs no API key while there is none."""

    def __init__(self, scheduler: Scheduler, settings: ServiceSettings, *, keyless: bool = False) -> None:
        self._scheduler = scheduler
        self._settings = settings
        self._keyless = keyless
        app = make_app(scheduler, settings, keyless=keyless)
        self._service: Service = app.state.service
        self._server = _Uvicorn(_configure(app, settings))
        self._running: asyncio.Task[None] | None = None
        self.url = ""
        """The URL at which it answers, once it is started."""
        self.keyed = False
        """Whether there was an API key when it was started."""

    async def start(self, make_key: Callable[[], Awaitable[object]] | None = None) -> None:
        """Connect, bind, and return once the server answers requests. Raise ConfigurationError if it cannot.
        `make_key` makes the first API key, if one is needed and there is none."""
        await self._scheduler.connect()
        bound = _bind(self._settings.host, self._settings.port)
        try:
            standing = await self._service.trail.check()  # before `make_key`, which adds a row to the audit log
            await self._see_to_key(bound, make_key)
        except BaseException:
            bound.close()
            raise
        self._service.trail.warn(standing)
        self.url = _url(bound)
        self._running = asyncio.create_task(self._server.serve(sockets=[bound]))
        answering = asyncio.create_task(self._server.answering.wait())
        await asyncio.wait({self._running, answering}, return_when=asyncio.FIRST_COMPLETED)
        answering.cancel()
        if self._running.done():
            await self._running

    async def stop(self) -> None:
        """Accept no more connections, let running requests finish, and end."""
        if self._running is not None:
            self._service.closing.set()
            self._server.should_exit = True
            await self._running

    def stop_now(self) -> None:
        """Stop without waiting for running requests."""
        self._server.force_exit = True

    async def _see_to_key(self, bound: socket.socket, make_key: Callable[[], Awaitable[object]] | None) -> None:
        """Make sure that there is an API key, unless the server is `keyless` and bound to loopback."""
        self.keyed = await self._service.backend.any_api_key()
        if self.keyed or (self._keyless and is_loopback(bound.getsockname()[0])):
            return
        if self._keyless or make_key is None:
            raise ConfigurationError(
                f"There is no API key yet, and without one only this machine may be served, not {self._settings.host}. "
                "Make one first: mainspring keys create NAME --role admin (on the same database); or bind 127.0.0.1."
            )
        await make_key()
        self.keyed = True


class _Uvicorn(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.answering = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.answering.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none: the command handles signals."""
        yield


def _configure(app: Any, settings: ServiceSettings) -> uvicorn.Config:
    guard = ConnectionLimits(
        settings.connections,
        settings.connections_per_address,
        settings.header_seconds,
        settings.body_seconds,
        read_proxies(settings.trusted_proxies),
    )
    return GuardedConfig(
        app,
        guard,
        lifespan="on",
        ws="none",
        log_config=None,
        access_log=False,
        # Only `TrustedProxies` reads the client's address from headers.
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE,
    )


def _bind(host: str, port: int) -> socket.socket:
    """A socket that is bound to this address; connections wait until the server accepts them."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise ConfigurationError(
            f"{host!r} is not an address of this machine; use --host 127.0.0.1 or a name of it."
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
