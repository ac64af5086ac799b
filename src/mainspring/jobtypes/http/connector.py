"""The session of webhooks: the guard of `guard.py` checks its connections. Proxies of the environment are not used."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aiohttp import ClientConnectorError, ClientRequest, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

from mainspring.jobtypes.http.addresses import Allow
from mainspring.jobtypes.http.guard import RefusedAddress, SsrfGuard, TargetRefused, asked_host

_LOOKUPS = 8
_KEEP_ALIVE = 4.0
"""Seconds that an idle connection is kept: less than the five after which common servers close theirs."""


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
            raise RefusedAddress(refused)
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
        token = asked_host.set(req.url.raw_host or "")
        try:
            return await super().connect(req, traces, timeout)
        except ClientConnectorError as error:
            if isinstance(error.os_error, RefusedAddress):
                raise error.os_error.refused from None
            raise
        finally:
            asked_host.reset(token)

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
