"""The guard against server-side request forgery (SSRF): it decides on the address that a webhook connects to.

A name is looked up once per connection, the guard checks every address that the resolver returns, and the sockets are
made for exactly these addresses; a name that resolves differently the next time changes nothing. `make_socket` decides
last, since every connection passes it: literal addresses are never looked up, and a resolver may be wrong. It has no
state and cannot be switched off: it refuses every address that it cannot check. Proxies of the environment are not
used.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

from aiohttp import ClientConnectorError, ClientRequest, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.connector import AddrInfoType, Connection
from aiohttp.tracing import Trace
from yarl import URL

from mainspring.errors import ConfigurationError
from mainspring.jobtypes.http.addresses import ALLOW_VARIABLE, Allow, refusal
from mainspring.jobtypes.http.urls import split_url
from mainspring.model.networks import parse_address

_LOCAL_NAMES = ("localhost", "metadata.google.internal")
_LOOKUPS = 8
_KEEP_ALIVE = 4.0
"""Seconds that an idle connection is kept: less than the five after which common servers close theirs."""

_asked: ContextVar[str] = ContextVar("_asked", default="")
"""The host that the current connection is for; the socket factory does not receive it."""


class TargetRefused(ConfigurationError):
    """A target that is neither public nor allowed by the operator."""


class _Refused(OSError):
    """A TargetRefused as an OSError: the layers that make connections pass on no other errors."""

    def __init__(self, refused: TargetRefused) -> None:
        super().__init__(str(refused))
        self.refused = refused


class SsrfGuard:
    """Checks targets against the operator's list and the rules for addresses."""

    def __init__(self, allow: Allow | None = None) -> None:
        self.allow = allow or Allow()

    def check_url(self, url: str) -> None:
        """Refuse a URL that can never be called, before its name is looked up."""
        origin, _ = split_url(url)
        self.check_origin(origin)

    def check_origin(self, origin: URL) -> None:
        """Refuse the origin of a parsed URL; the addresses of a name are checked later."""
        host, port = origin.raw_host or "", origin.port or 0
        if origin.scheme not in ("http", "https"):
            raise TargetRefused("Only http and https targets are called.")
        name = host.lower().removesuffix(".")
        if parse_address(host) is not None:
            self.check_address(host, port, host)
        elif (name in _LOCAL_NAMES or name.endswith(".localhost")) and not self._may_allow(host, port):
            raise _refused(host, port, "a name of this machine or its cloud")

    def _may_allow(self, host: str, port: int) -> bool:
        return bool(self.allow.networks) or self.allow.allows_name(host, port)

    def check_address(self, address: str, port: int, host: str) -> None:
        """Refuse an address that a connection to `host` is about to use."""
        parsed = parse_address(address)
        if parsed is None:
            raise _refused(host, port, "something other than a plain address")
        if getattr(parsed, "scope_id", None) is not None:
            raise _refused(host, port, "an address with a zone")
        if self.allow.allows_address(parsed, port) or self.allow.allows_name(host, port):
            return
        reason = refusal(parsed)
        if reason is not None:
            raise _refused(host, port, reason)

    def make_socket(self, info: AddrInfoType) -> socket.socket:
        """Check an address and make a socket for it. Every connection passes here."""
        family, kind, protocol, _, place = info
        address, port = str(place[0]), int(place[1])
        host = _asked.get() or address
        try:
            if any(place[2:]):  # the number of a zone, or of a flow
                raise _refused(host, port, "an address with a zone")
            self.check_address(address, port, host)
        except TargetRefused as refused:
            raise _Refused(refused) from None
        return socket.socket(family, kind, protocol)


def _refused(host: str, port: int, reason: str) -> TargetRefused:
    """The error for a target, without the address of a name: an author of webhooks must not map the network."""
    shown = f"[{host}]" if ":" in host else host
    return TargetRefused(
        f"The target {shown} is, or leads to, {reason}; only public ones are called. If it is meant, the operator of "
        f"Mainspring can allow it: {ALLOW_VARIABLE}={shown}:{port}"
    )


class SystemResolver(AbstractResolver):
    """Looks names up as the system does, in threads of its own, so that a slow lookup delays no other work."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_LOOKUPS, "mainspring-lookup")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await asyncio.get_running_loop().run_in_executor(
            self._pool, lambda: socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
        )
        return [_result(host, family, protocol, place) for family, _, protocol, _, place in found]

    async def close(self) -> None:
        """End the threads; a thread that still waits for an answer ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _result(host: str, family: int, protocol: int, place: tuple[Any, ...]) -> ResolveResult:
    zone = f"%{place[3]}" if len(place) > 3 and place[3] else ""  # kept, for the guard to refuse
    return ResolveResult(hostname=host, host=f"{place[0]}{zone}", port=place[1], family=family, proto=protocol, flags=0)


class _JudgedResolver(AbstractResolver):
    """Checks every address that a resolver returns, and passes on the allowed ones."""

    def __init__(self, guard: SsrfGuard, inner: AbstractResolver) -> None:
        self._guard = guard
        self._inner = inner

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        if not found:
            raise OSError("The name has no address.")
        good: list[ResolveResult] = []
        refused: TargetRefused | None = None
        for one in found:
            try:
                self._guard.check_address(one["host"], one["port"], host)
                good.append(one)
            except TargetRefused as error:
                refused = error
        if refused is not None and not good:
            raise _Refused(refused)
        return good

    async def close(self) -> None:
        await self._inner.close()


class GuardedConnector(TCPConnector):
    """Makes only connections that the guard has checked; through no proxy."""

    def __init__(self, guard: SsrfGuard, resolver: AbstractResolver | None = None) -> None:
        self._guard = guard
        self._lookups = resolver or SystemResolver()
        super().__init__(
            resolver=_JudgedResolver(guard, self._lookups),
            socket_factory=guard.make_socket,
            use_dns_cache=False,
            keepalive_timeout=_KEEP_ALIVE,
            limit=0,  # the worker's own limits bound what runs at a time
        )

    async def connect(self, req: ClientRequest, traces: list[Trace], timeout: ClientTimeout) -> Connection:
        if req.proxy is not None:
            raise TargetRefused("Webhooks are not sent through proxies, behind which no address can be judged.")
        self._guard.check_origin(req.url)
        token = _asked.set(req.url.raw_host or "")
        try:
            return await super().connect(req, traces, timeout)
        except ClientConnectorError as error:
            if isinstance(error.os_error, _Refused):
                raise error.os_error.refused from None
            raise
        finally:
            _asked.reset(token)

    async def close(self, *, abort_ssl: bool = False) -> None:
        await super().close(abort_ssl=abort_ssl)
        await self._lookups.close()


def open_session(allow: Allow | None = None, resolver: AbstractResolver | None = None) -> ClientSession:
    """The one session of a worker. Close it with `await session.close()`."""
    return ClientSession(
        connector=GuardedConnector(SsrfGuard(allow), resolver),
        trust_env=False,
        cookie_jar=DummyCookieJar(),
        auto_decompress=False,
        timeout=ClientTimeout(total=None, sock_connect=10.0),
    )
