"""Who a request comes from, and what he may do: by an API key, by a session that stands for one, or by being on this
machine while there is no key yet.

The last is for trying things out. It is guarded against other sites in the same browser (the request must not come from
another origin) and against names that other sites point at this machine (the host asked for must be this machine's); a
request that a proxy has forwarded is nobody's own.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from mainspring.api.problems import Problem
from mainspring.model.access import ADMIN, EVERYTHING, ROLES, Key, Scope
from mainspring.model.sessions import csrf_matches, read_session

COOKIE = "mainspring_session"
CSRF_HEADER = "x-csrf-token"
KEY_HEADER = "x-api-key"
_SAFE = ("GET", "HEAD", "OPTIONS")
_FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
_HOW = (
    "Send an API key: Authorization: Bearer ms_…; make one with: mainspring api-key create NAME --role admin, "
    "on the machine that reaches the database."
)


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever makes a request."""

    actor: str
    role: str
    scope: Scope
    key: Key | None = None

    def may(self, role: str) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)


class Keys(Protocol):
    """What is asked of the scheduler here."""

    async def check_api_key(self, text: str) -> Key | None: ...

    async def get_api_key(self, key: str) -> Key | None: ...

    async def any_api_key(self) -> bool: ...

    async def session_secret(self) -> bytes: ...


class Doorkeeper:
    """Tells who makes a request."""

    def __init__(self, keys: Keys, hosts: frozenset[str]) -> None:
        self._keys = keys
        self._hosts = hosts
        self._keyed = False
        """Whether there is a key: once there was one, there always is."""

    async def recognise(self, request: HTTPConnection) -> Principal:
        """Who makes a request; a Problem of 401 or 403 where nobody does, saying what to do."""
        text = _key_in(request)
        if text is not None:
            return await self._by_key(text)
        cookie = request.cookies.get(COOKIE)
        if cookie is not None:
            return await self._by_session(request, cookie)
        return await self._by_place(request)

    async def _by_key(self, text: str) -> Principal:
        key = await self._keys.check_api_key(text)
        if key is None:
            raise _unknown("This API key is not known, or does not count any more.")
        return _principal(key)

    async def _by_session(self, request: HTTPConnection, cookie: str) -> Principal:
        secrets = [await self._keys.session_secret()]
        now = request.app.state.service.now()
        session = read_session(secrets, cookie, now)
        key = None if session is None else await self._keys.get_api_key(session.key_id)
        if session is None or key is None or not key.honours(session.issued_at, now):
            raise _unknown("This session is over; log in again with an API key.")
        _check_same_site(request)
        if _method(request) not in _SAFE and not csrf_matches(secrets, cookie, request.headers.get(CSRF_HEADER)):
            raise Problem(403, f"A change by a session needs its token in the header {CSRF_HEADER.title()}.")
        return _principal(key)

    async def _by_place(self, request: HTTPConnection) -> Principal:
        self._keyed = self._keyed or await self._keys.any_api_key()
        if self._keyed:
            raise _unknown("An API key is needed.")
        if not _is_local(request):
            raise _unknown("Without an API key, only requests from this very machine are answered.")
        if not self.is_ours(request.headers.get("host", "")):
            raise Problem(403, "This host's name is not one of this machine's; use 127.0.0.1 or localhost.")
        _check_same_site(request)
        return Principal("local", ADMIN, EVERYTHING)

    def is_ours(self, host: str) -> bool:
        """Whether the host that a request asks for is this machine, or one that was configured."""
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".").lower()
        return name == "localhost" or name in self._hosts or is_loopback(name)


def is_loopback(address: str) -> bool:
    """Whether an address is this machine's own."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _is_local(request: HTTPConnection) -> bool:
    client = request.client
    forwarded = any(name in request.headers for name in _FORWARDED)
    return client is not None and is_loopback(client.host) and not forwarded


def _check_same_site(request: HTTPConnection) -> None:
    """Refuse what a page of another origin makes the browser send."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    foreign = site is not None and site not in ("same-origin", "none")
    if origin is not None:
        foreign |= urlsplit(origin).netloc.lower() != request.headers.get("host", "").lower()
    if foreign:
        raise Problem(403, "This request comes from another site; nothing was done.")


def _method(request: HTTPConnection) -> str:
    method: str = request.scope.get("method", "GET")
    return method


def _key_in(request: HTTPConnection) -> str | None:
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    if kind:
        if kind.lower() != "bearer":
            raise _unknown("Authorization must be: Bearer ms_…")
        return text.strip()
    return request.headers.get(KEY_HEADER)


def _principal(key: Key) -> Principal:
    return Principal(f"key:{key.id}", key.role, key.scope, key)


def _unknown(why: str) -> Problem:
    return Problem(401, f"{why} {_HOW}", headers={"WWW-Authenticate": 'Bearer realm="mainspring"'})
