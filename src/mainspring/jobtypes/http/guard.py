"""The guard against server-side request forgery (SSRF): it decides on the address that a webhook connects to.

A name is looked up once per connection, the guard checks every address that the resolver returns, and the sockets are
made for exactly these addresses; a name that resolves differently the next time changes nothing. `make_socket` decides
last, since every connection passes it: literal addresses are never looked up, and a resolver may be wrong. It has no
state and cannot be switched off: it refuses every address that it cannot check. `connector.py` makes the connections.
"""

from __future__ import annotations

import socket
from contextvars import ContextVar
from typing import TYPE_CHECKING

from yarl import URL

from mainspring.errors import ConfigurationError
from mainspring.jobtypes.http.addresses import ALLOW_VARIABLE, Allow, refusal
from mainspring.jobtypes.http.urls import split_url
from mainspring.model.networks import parse_address

if TYPE_CHECKING:
    from aiohttp.connector import AddrInfoType

_LOCAL_NAMES = ("localhost", "metadata.google.internal")

asked_host: ContextVar[str] = ContextVar("asked_host", default="")
"""The host that the current connection is for; the socket factory does not receive it."""


class TargetRefused(ConfigurationError):
    """A target that is neither public nor allowed by the operator."""


class RefusedAddress(OSError):
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
        host = asked_host.get() or address
        try:
            if any(place[2:]):  # the number of a zone, or of a flow
                raise _refused(host, port, "an address with a zone")
            self.check_address(address, port, host)
        except TargetRefused as refused:
            raise RefusedAddress(refused) from None
        return socket.socket(family, kind, protocol)


def _refused(host: str, port: int, reason: str) -> TargetRefused:
    """The error for a target, without the address of a name: an author of webhooks must not map the network."""
    shown = f"[{host}]" if ":" in host else host
    return TargetRefused(
        f"The target {shown} is, or leads to, {reason}; only public ones are called. If it is meant, the operator of "
        f"Mainspring can allow it: {ALLOW_VARIABLE}={shown}:{port}"
    )
