"""Authentication: the caller of a request and its rights, by an API key or by a session that stands for one; or, if the
service was started so and while there is no key yet, by being the same user on this machine. A key is read by its id
(`store/access/api_keys.py`), and `verify` in `model/access/api_keys.py` compares the hash of its secret.

The last is for trying things out. Such a request must not come from another origin (another site in the same browser),
its Host header must name this machine (another site may point a name at it), its client must belong to the same user,
and it must show no sign of a proxy or a tunnel.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from hashlib import sha256
from typing import Protocol
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from mainspring.api.middleware.proxies import is_own_process, sign_of_proxy
from mainspring.api.problems import Problem
from mainspring.clock import monotonic
from mainspring.model.access.api_keys import ADMIN, EVERYTHING, ROLES, Key, Scope, actor_of, secret_hash
from mainspring.model.access.sessions import Session, csrf_matches, csrf_token, open_session, read_session
from mainspring.model.networks import is_loopback

COOKIE = "mainspring_session"
BY_KEY, BY_SESSION, BY_PLACE = "key", "session", "local"
CSRF_HEADER = "x-csrf-token"
KEY_HEADER = "x-api-key"
_SAFE = ("GET", "HEAD", "OPTIONS")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(?::[0-9]*)?", re.ASCII)
_HOW = (
    "Send an API key: Authorization: Bearer ms_…; make one with: mainspring keys create NAME --role admin, "
    "on the machine that reaches the database."
)
# The refused keys that are remembered, and for how many seconds.
_MOST_REFUSED, _REFUSED_FOR = 1000, 10.0


class Lapse(Enum):
    """The reason why an authenticated caller is no longer valid."""

    REVOKED = "This API key was revoked or deleted."
    EXPIRED = "This API key, or the session that stands for it, has expired."
    ROTATED = "This API key was rotated, and its old secret has expired."
    CHANGED = "The role or the scope of this API key was changed."
    CLOSED = "This session was closed; log in again with an API key."
    KEYED = "The service has an API key now; every request needs one."


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of a request."""

    actor: str
    role: str
    scope: Scope
    way: str
    """How the caller was authenticated: by a key, by a session, or by being on this machine."""
    key: Key | None = None
    session: Session | None = None
    secret: str | None = field(default=None, repr=False)
    """The hash of the secret, if the request has the key itself."""

    @property
    def outdated(self) -> bool:
        """Whether the request uses the old secret of a rotated key in its grace time, or a session opened with it."""
        if self.key is None:
            return False
        if self.session is not None:
            return self.key.rotated_at is not None and self.session.issued_at < self.key.rotated_at
        return self.secret != self.key.hash

    def may(self, role: str) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)


class Keys(Protocol):
    """The verbs of the scheduler that authentication needs."""

    async def check_api_key(self, text: str) -> Key | None: ...

    async def get_api_key(self, key: str) -> Key | None: ...

    async def any_api_key(self) -> bool: ...

    async def session_is_closed(self, session: str) -> bool: ...

    def now(self) -> datetime: ...


class UnknownKeys:
    """The last texts that were refused: the same text is refused again without a read of the database.

    A secret is random and never issued twice, so that an unknown text does not become a key; a refusal expires after a
    short time all the same, in case an operator restores a key by hand. Hashes are kept, never texts, and only of the
    last refusals: lookups of texts that all differ are batched by group commit (`store/group_commit.py`).
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._until: OrderedDict[bytes, float] = OrderedDict()

    def __contains__(self, text: str) -> bool:
        return self._until.get(_digest(text), 0.0) > self._clock()

    def add(self, text: str) -> None:
        digest = _digest(text)
        self._until[digest] = self._clock() + _REFUSED_FOR
        self._until.move_to_end(digest)
        while len(self._until) > _MOST_REFUSED:
            self._until.popitem(last=False)


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


class Authenticator:
    """Finds the caller of a request."""

    def __init__(
        self, keys: Keys, hosts: frozenset[str], secret: bytes, *, keyless: bool = False, actor: str | None = None
    ) -> None:
        self._keys = keys
        self._hosts = hosts
        self._secret = secret
        """The secret that signs sessions."""
        self._unknown = UnknownKeys()
        self._own = None if actor is None else Principal(actor, ADMIN, EVERYTHING, BY_PLACE)
        """The only caller of an application that the process of the caller itself runs."""
        self.keyless = keyless
        """Whether this user on this machine needs no key. It becomes False for good once a key exists."""

    async def recognise(self, request: HTTPConnection) -> Principal:
        """Find the caller of a request, or raise a Problem of 401 or 403 with the cure."""
        if self._own is not None:
            return self._own
        text = key_in(request)
        if text is not None:
            return await self._by_key(text)
        cookie = request.cookies.get(cookie_name(request))
        if cookie is None:
            return await self._by_place(request, "An API key is needed.")
        session = await self._by_session(request, cookie)
        # An ended session must not lock out a caller that would be accepted without it.
        return session or await self._by_place(request, "This session has expired; log in again with an API key.")

    @property
    def in_process(self) -> bool:
        """Whether the caller is the process that runs the application: a command that has the database itself."""
        return self._own is not None

    def open_session(self, key: Key, lasts: timedelta) -> tuple[str, Session]:
        """Open a session that stands for a key. Return its text for the cookie, and its content."""
        now = self._keys.now()
        text = open_session(self._secret, key.id, now, lasts)
        session = read_session([self._secret], text, now)
        assert session is not None
        return text, session

    def csrf_token(self, session: str) -> str:
        """The token that a session must send with each change."""
        return csrf_token(self._secret, session)

    def session_in(self, request: HTTPConnection) -> Session | None:
        """The session in the cookie of a request, closed or not."""
        cookie = request.cookies.get(cookie_name(request))
        return None if cookie is None else read_session([self._secret], cookie, self._keys.now())

    async def lapse(self, principal: Principal) -> Lapse | None:
        """The reason why an authenticated caller is no longer valid, or no longer has the same rights; None while it
        is."""
        if self._own is not None:
            return None
        if principal.key is None:
            return Lapse.KEYED if await self._is_keyed() else None
        key = await self._keys.get_api_key(principal.key.id)
        if key is None or key.revoked_at is not None:
            return Lapse.REVOKED
        now, session = self._keys.now(), principal.session
        if not key.is_live(now) or (session is not None and now >= session.expires_at):
            return Lapse.EXPIRED
        counts = key.counts(principal.secret or "", now) if session is None else key.honours(session.issued_at, now)
        if not counts:
            return Lapse.ROTATED
        if (key.role, key.scope) != (principal.role, principal.scope):
            return Lapse.CHANGED
        closed = session is not None and await self._keys.session_is_closed(session.id)
        return Lapse.CLOSED if closed else None

    async def _is_keyed(self) -> bool:
        """Whether every request needs a key."""
        self.keyless = self.keyless and not await self._keys.any_api_key()
        return not self.keyless

    async def _by_key(self, text: str) -> Principal:
        key = await self._look_up(text)
        if key is None:
            raise unknown("Unknown, expired or revoked API key.")
        return Principal(actor_of(key.id), key.role, key.scope, BY_KEY, key, secret=secret_hash(text))

    async def _look_up(self, text: str) -> Key | None:
        if text in self._unknown:
            return None
        key = await self._keys.check_api_key(text)
        if key is None:
            self._unknown.add(text)
        return key

    async def _by_session(self, request: HTTPConnection, cookie: str) -> Principal | None:
        now = self._keys.now()
        session = read_session([self._secret], cookie, now)
        key = None if session is None else await self._keys.get_api_key(session.key_id)
        if session is None or key is None or not key.honours(session.issued_at, now):
            return None
        if await self._keys.session_is_closed(session.id):
            return None
        check_same_site(request)
        if _method(request) not in _SAFE and not csrf_matches([self._secret], cookie, request.headers.get(CSRF_HEADER)):
            raise Problem(403, f"A change by a session needs its token in the header {CSRF_HEADER.title()}.")
        return Principal(actor_of(key.id), key.role, key.scope, BY_SESSION, key, session)

    async def _by_place(self, request: HTTPConnection, why: str) -> Principal:
        if await self._is_keyed():
            raise unknown(why)
        if reason := _stranger(request):
            raise unknown(f"Without an API key, only requests from this very machine are answered; {reason}.")
        if not self.is_ours(request.headers.get("host", "")):
            raise Problem(403, "The Host header does not name this machine; use 127.0.0.1 or localhost.")
        check_same_site(request)
        return Principal("local", ADMIN, EVERYTHING, BY_PLACE)

    def is_ours(self, host: str) -> bool:
        """Whether the Host header of a request names this machine, or a configured host."""
        name = _host_name(host)
        return name in self._hosts or _names_this_machine(name)


def cookie_name(request: HTTPConnection) -> str:
    """The name of a session's cookie. If it may be sent over TLS only, it has the prefix with which browsers refuse a
    cookie that another host of the same domain has set, or that was set without TLS."""
    return f"__Host-{COOKIE}" if needs_tls(request) else COOKIE


def needs_tls(request: HTTPConnection) -> bool:
    """Whether a cookie may be sent over TLS only: always, except on this machine itself if no trusted proxy reports
    TLS."""
    local = _names_this_machine(_host_name(request.headers.get("host", "")))
    return not local or request.scope.get("scheme") == "https"


def _names_this_machine(name: str) -> bool:
    return name == "localhost" or is_loopback(name)


def _host_name(host: str) -> str:
    """The name in a Host header; empty if the header is not a name or an address with an optional port."""
    found = _HOST.fullmatch(host)
    return "" if found is None else found[1].strip("[]").rstrip(".").lower()


def _stranger(request: HTTPConnection) -> str | None:
    """The reason why a request is not one of this user on this machine; None if it is."""
    client, server = request.client, request.scope.get("server")
    if client is None or not is_loopback(client.host):
        return "this one comes from another"
    if sign := sign_of_proxy(request):
        return f"this one was forwarded: {sign}"
    if server and server[1] and not is_own_process((client.host, client.port), (server[0], server[1])):
        return "this one comes from another user of it"
    return None


def check_same_site(request: HTTPConnection) -> None:
    """Refuse a request that a page of another origin makes the browser send."""
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
    """The API key in the headers of a request."""
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    if kind:
        if kind.lower() != "bearer":
            raise unknown("Authorization must be: Bearer ms_…")
        return text.strip()
    return request.headers.get(KEY_HEADER)


def brings_key(request: HTTPConnection) -> bool:
    """Whether a request has an API key, in any form."""
    return "authorization" in request.headers or KEY_HEADER in request.headers


def unknown(why: str) -> Problem:
    """The answer to a caller that is not authenticated."""
    return Problem(401, f"{why} {_HOW}", headers={"WWW-Authenticate": 'Bearer realm="mainspring"'})
