"""What proxies tell of the requests that they forward, believed from those alone that the settings trust.

A request that comes from a trusted address has its client taken from X-Forwarded-For, the rightmost address there that
is no trusted proxy, since everything left of it is what the client says himself; and its scheme from X-Forwarded-Proto.
It is marked as forwarded, so that it never counts as one of this machine. From anybody else nothing is believed. A
middleware of the server's own would take words that are no addresses for clients, and not notice networks that it
cannot read.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
FORWARDED = "mainspring.forwarded"
"""The key in the scope of a request that has come through a trusted proxy."""
_SCHEMES = ("http", "https")


class TrustedProxies:
    """Puts the client and the scheme that a trusted proxy tells in the place of the proxy's own."""

    def __init__(self, app: ASGIApp, trusted: tuple[Network, ...]) -> None:
        self._app = app
        self._trusted = trusted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._trusted:
            self._believe(scope)
        await self._app(scope, receive, send)

    def _believe(self, scope: Scope) -> None:
        peer = _address((scope.get("client") or ("",))[0])
        if peer is None or not self._trusts(peer):
            return
        headers = Headers(scope=scope)
        scope[FORWARDED] = True
        scope["client"] = (str(self._client(peer, _words(headers, "x-forwarded-for"))), 0)
        schemes = _words(headers, "x-forwarded-proto")
        if schemes and schemes[-1].lower() in _SCHEMES:
            scope["scheme"] = schemes[-1].lower()

    def _client(self, peer: Address, hops: list[str]) -> Address:
        """The last address, going back from the nearest, up to which every one is a trusted proxy's."""
        client = peer
        for hop in reversed(hops):
            address = _address(_without_port(hop))
            if address is None:
                break  # the proxy that wrote this is as far as anything is known
            client = address
            if not self._trusts(address):
                break
        return client

    def _trusts(self, address: Address) -> bool:
        return any(address in network for network in self._trusted)


def read_proxies(text: str) -> tuple[Network, ...]:
    """The addresses and networks in a list with commas; ValueError says which of them is none."""
    return tuple(_network(word) for word in (part.strip() for part in text.split(",")) if word)


def _network(word: str) -> Network:
    try:
        network = ip_network(word)
    except ValueError:
        raise ValueError(
            f"{word!r:.100} is no address and no network; write them as 10.0.0.5,10.1.0.0/16,fd00::/8"
        ) from None
    if network.prefixlen == 0:
        raise ValueError(f"{word!r:.100} is every address, so that anybody could claim to be anybody; name the proxies")
    return network


def _words(headers: Headers, name: str) -> list[str]:
    """The words of a header that may come several times, in their order."""
    return [word.strip() for word in ",".join(headers.getlist(name)).split(",") if word.strip()]


def _address(text: str) -> Address | None:
    """An address; an IPv4 one in IPv6 clothes is the same address."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def _without_port(hop: str) -> str:
    """`192.0.2.1:4711` and `[2001:db8::1]:4711` without their ports."""
    if hop.startswith("["):
        host, closed, _ = hop[1:].partition("]")
        return host if closed else ""
    return hop.partition(":")[0] if hop.count(":") == 1 else hop
