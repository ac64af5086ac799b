"""The client's address and scheme, taken from the headers of trusted proxies.

For a request from a trusted address, the client is the rightmost address in X-Forwarded-For that is not a trusted
proxy, since the client itself may have written everything left of it; the scheme comes from X-Forwarded-Proto. The
request is marked as forwarded, so that it is never taken for one of this machine. Other requests keep their own
address. uvicorn's own middleware would accept words that are not addresses, and ignore networks that it cannot read.
"""

from __future__ import annotations

import re

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from mainspring.model.networks import Address, Network, is_in, list_entries, parse_host

FORWARDED = "mainspring.forwarded"
"""The key in the ASGI scope that marks a request of a trusted proxy."""
_SCHEMES = ("http", "https")
# Headers that proxies, tunnels and platforms add, by the words that such names are made of …
_WORDS = {
    *("forwarded", "forwards", "via", "proxy", "proxied", "proxyuser", "tunnel", "ingress", "gateway", "upstream"),
    *("cdn", "originating", "varnish", "zrok", "ngrok", "tailscale", "cloudflare", "envoy", "istio", "traefik"),
    "haproxy",
}
_PARTS = re.compile(
    r"(client|real|connecting|remote|user|source|peer)-?(ip|addr|address|connection-ip)\b"
    r"|remote-?(host|user|port)|original-?(url|uri|host|method|path)|(client|ssl|tls|mtls)-?(cert|verify|dn|subject)"
)
# … by the names of the products that add them …
_PREFIXES = (
    *("cf-", "cloudfront-", "x-amz-cf-", "x-amzn-", "fastly-", "fly-", "x-azure-", "x-arr-", "x-waws-", "x-appengine-"),
    *("x-goog-", "x-vercel-", "x-nf-", "x-netlify-", "x-heroku-", "x-railway-", "x-render-", "rndr-", "x-koyeb-"),
    *("akamai-", "x-akamai-", "incap-", "x-sucuri-", "x-kong-", "l5d-", "x-auth-request-", "x-authentik-"),
    *("x-pomerium-", "x-ms-client-principal", "x-replit-", "x-gitpod-", "x-inlets-", "x-pagekite-", "x-ssl-"),
)
# … and the remaining names.
_NAMES = {
    *("x-cloud-trace-context", "disguised-host", "front-end-https", "x-scheme", "x-url-scheme", "x-rewrite-url"),
    *("x-request-start", "early-data", "x-script-name", "x-host"),
}


def sign_of_proxy(request: HTTPConnection) -> str | None:
    """The sign that a proxy or a tunnel has forwarded a request, in a few words, or None. nginx adds no header unless
    it is configured to, but has long used HTTP/1.0, which curl and browsers do not."""
    if request.scope.get(FORWARDED, False):
        return "it comes from a trusted proxy"
    if request.scope.get("http_version") == "1.0":
        return "it is in HTTP/1.0, as proxies send it"
    name = next((name for name in request.headers if _is_of_proxy(name)), None)
    return None if name is None else f"it has the header {name.title():.100}"


def _is_of_proxy(name: str) -> bool:
    return (
        name in _NAMES
        or name.startswith(_PREFIXES)
        or not _WORDS.isdisjoint(name.split("-"))
        or _PARTS.search(name) is not None
    )


class TrustedProxies:
    """Replaces the client and the scheme of a trusted proxy's request by those that the proxy reports."""

    def __init__(self, app: ASGIApp, trusted: tuple[Network, ...]) -> None:
        self._app = app
        self._trusted = trusted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._trusted:
            self._believe(scope)
        await self._app(scope, receive, send)

    def _believe(self, scope: Scope) -> None:
        peer = parse_host((scope.get("client") or ("",))[0])
        if peer is None or not is_in(peer, self._trusted):
            return
        headers = Headers(scope=scope)
        scope[FORWARDED] = True
        scope["client"] = (str(self._client(peer, _words(headers, "x-forwarded-for"))), 0)
        schemes = _words(headers, "x-forwarded-proto")
        if schemes and schemes[-1].lower() in _SCHEMES:
            scope["scheme"] = schemes[-1].lower()

    def _client(self, peer: Address, hops: list[str]) -> Address:
        """The first address, from the nearest hop on, that is not a trusted proxy; otherwise the farthest one."""
        client = peer
        for hop in reversed(hops):
            address = parse_host(_without_port(hop))
            if address is None:
                break  # the proxy that wrote this word is the last known address
            client = address
            if not is_in(address, self._trusted):
                break
        return client


def _words(headers: Headers, name: str) -> list[str]:
    """The entries of a header that may occur several times, in their order."""
    return list_entries(",".join(headers.getlist(name)))


def _without_port(hop: str) -> str:
    """`192.0.2.1:4711` and `[2001:db8::1]:4711` without their ports."""
    if hop.startswith("["):
        host, closed, _ = hop[1:].partition("]")
        return host if closed else ""
    return hop.partition(":")[0] if hop.count(":") == 1 else hop
