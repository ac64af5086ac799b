"""Who a request comes from, and what he may do: by an API key, by a session that stands for one, or by being on this
machine while there is no key yet.

The last is for trying things out. It is guarded against other sites in the same browser (the request must not come from
another origin) and against names that other sites point at this machine (the host asked for must be this machine's); a
request that a proxy has forwarded is nobody's own.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from mainspring.api.problems import Problem
from mainspring.api.proxies import FORWARDED
from mainspring.model.access import ADMIN, EVERYTHING, ROLES, Key, Scope
from mainspring.model.sessions import Session, csrf_matches, csrf_token, open_session, read_session

COOKIE = "mainspring_session"
BY_KEY, BY_SESSION, BY_PLACE = "key", "session", "local"
CSRF_HEADER = "x-csrf-token"
KEY_HEADER = "x-api-key"
_SAFE = ("GET", "HEAD", "OPTIONS")
_FORWARDED = ("forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip")
_FORWARDED_PREFIX = "x-forwarded"
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
    way: str
    """How he was recognised: by a key, by a session, or by being on this machine."""
    key: Key | None = None
    session: Session | None = None

    def may(self, role: str) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)


class Keys(Protocol):
    """What is asked of the scheduler here."""

    async def check_api_key(self, text: str) -> Key | None: ...

    async def get_api_key(self, key: str) -> Key | None: ...

    async def any_api_key(self) -> bool: ...

    def now(self) -> datetime: ...


class Doorkeeper:
    """Tells who makes a request."""

    def __init__(self, keys: Keys, hosts: frozenset[str], secret: bytes) -> None:
        self._keys = keys
        self._hosts = hosts
        self._secret = secret
        """What sessions are signed with."""
        self._keyed = False
        """Whether there is a key: once there was one, there always is."""

    async def recognise(self, request: HTTPConnection) -> Principal:
        """Who makes a request; a Problem of 401 or 403 where nobody does, saying what to do."""
        text = key_in(request)
        if text is not None:
            return await self._by_key(text)
        cookie = request.cookies.get(cookie_name(request))
        if cookie is None:
            return await self._by_place(request, "An API key is needed.")
        session = await self._by_session(request, cookie)
        # What is left of a session must not lock out whoever would be let in without it.
        return session or await self._by_place(request, "This session is over; log in again with an API key.")

    def open_session(self, key: Key, lasts: timedelta) -> tuple[str, Session]:
        """A new session that stands for a key: its text for the cookie, and what is in it."""
        now = self._keys.now()
        text = open_session(self._secret, key.id, now, lasts)
        session = read_session([self._secret], text, now)
        assert session is not None
        return text, session

    def csrf_token(self, session: str) -> str:
        """What the changes of a session have to bring along."""
        return csrf_token(self._secret, session)

    async def _by_key(self, text: str) -> Principal:
        key = await self._keys.check_api_key(text)
        if key is None:
            raise unknown("This API key is not known, or does not count any more.")
        return _principal(key, BY_KEY)

    async def _by_session(self, request: HTTPConnection, cookie: str) -> Principal | None:
        now = self._keys.now()
        session = read_session([self._secret], cookie, now)
        key = None if session is None else await self._keys.get_api_key(session.key_id)
        if session is None or key is None or not key.honours(session.issued_at, now):
            return None
        check_same_site(request)
        if _method(request) not in _SAFE and not csrf_matches([self._secret], cookie, request.headers.get(CSRF_HEADER)):
            raise Problem(403, f"A change by a session needs its token in the header {CSRF_HEADER.title()}.")
        return _principal(key, BY_SESSION, session)

    async def _by_place(self, request: HTTPConnection, why: str) -> Principal:
        self._keyed = self._keyed or await self._keys.any_api_key()
        if self._keyed:
            raise unknown(why)
        if not _is_local(request):
            raise unknown("Without an API key, only requests from this very machine are answered.")
        if not self.is_ours(request.headers.get("host", "")):
            raise Problem(403, "This host's name is not one of this machine's; use 127.0.0.1 or localhost.")
        check_same_site(request)
        return Principal("local", ADMIN, EVERYTHING, BY_PLACE)

    def is_ours(self, host: str) -> bool:
        """Whether the host that a request asks for is this machine, or one that was configured."""
        name = _host_name(host)
        return name in self._hosts or _names_this_machine(name)


def cookie_name(request: HTTPConnection) -> str:
    """What the cookie of a session is called. Where it is to be sent over TLS alone, it has the prefix that makes
    browsers refuse one that was set by another host of the same domain, or without TLS."""
    return f"__Host-{COOKIE}" if needs_tls(request) else COOKIE


def needs_tls(request: HTTPConnection) -> bool:
    """Whether a cookie is to be sent over TLS alone: on this machine itself it may do without, unless a proxy in front
    has said that TLS is spoken."""
    local = _names_this_machine(_host_name(request.headers.get("host", "")))
    return not local or request.scope.get("scheme") == "https"


def _names_this_machine(name: str) -> bool:
    return name == "localhost" or is_loopback(name)


def _host_name(host: str) -> str:
    """The name in a Host header; empty where that is nonsense."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".").lower()
    except ValueError:
        return ""


def is_loopback(address: str) -> bool:
    """Whether an address is this machine's own."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _is_local(request: HTTPConnection) -> bool:
    client = request.client
    forwarded = request.scope.get(FORWARDED, False) or any(
        name in _FORWARDED or name.startswith(_FORWARDED_PREFIX) for name in request.headers
    )
    return client is not None and is_loopback(client.host) and not forwarded


def check_same_site(request: HTTPConnection) -> None:
    """Refuse what a page of another origin makes the browser send."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    foreign = site is not None and site not in ("same-origin", "none")
    if origin is not None:
        foreign |= _place_of(origin) != request.headers.get("host", "").lower()
    if foreign:
        raise Problem(403, "This request comes from another site; nothing was done.")


def _place_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _method(request: HTTPConnection) -> str:
    method: str = request.scope.get("method", "GET")
    return method


def key_in(request: HTTPConnection) -> str | None:
    """The API key that a request brings along."""
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    if kind:
        if kind.lower() != "bearer":
            raise unknown("Authorization must be: Bearer ms_…")
        return text.strip()
    return request.headers.get(KEY_HEADER)


def _principal(key: Key, way: str, session: Session | None = None) -> Principal:
    return Principal(f"key:{key.id}", key.role, key.scope, way, key, session)


def unknown(why: str) -> Problem:
    """The answer to whoever is not recognised."""
    return Problem(401, f"{why} {_HOW}", headers={"WWW-Authenticate": 'Bearer realm="mainspring"'})
