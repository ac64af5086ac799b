"""The client of a request: its address and scheme behind trusted proxies, the prefix that it used, signs of a proxy
that is not trusted, and whether the same user of this machine has sent it.

For a request from a trusted address, the client is the rightmost address in X-Forwarded-For that is not a trusted
proxy, since the client itself may have written everything left of it; the scheme comes from X-Forwarded-Proto. The
request is marked as forwarded, so that it is never taken for one of this machine. Other requests keep their own
address. uvicorn's own middleware would accept words that are not addresses, and ignore networks that it cannot read.

A mounted application finds its prefix in `root_path`, and the whole path in `path`. A proxy may pass the prefix on or
remove it; the setting MAINSPRING_PREFIX names it, and both ways are recognised.

Every user of this machine can connect over loopback: without a check of the user, a service without a key would answer
each of them, and each request that a proxy under its own account forwards without a trace. The diagnostics of the Linux
kernel know the owner of both ends of a connection (`ss` uses them, too). On other systems, and with a kernel without
diagnostics, every client on loopback is accepted.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import sys
from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from mainspring.model.networks import Address, Network, is_in, list_entries, parse_host, unmapped

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
# The numbers and structures of the kernel's socket diagnostics.
_SOCK_DIAG = 4
_BY_FAMILY, _REQUEST, _ERROR = 20, 1, 2
_ANY_STATE, _NO_COOKIE = 0xFFFFFFFF, 0xFFFFFFFF
_HEADER = struct.Struct("=IHHII")
_ASKED = struct.Struct("=BBBxI")
_PORTS = struct.Struct("!HH")
_REST = struct.Struct("=III")
_FOUND = struct.Struct("=4x48x4x4x4xII")
"""The user and the inode of the socket, in an answer of the kernel."""
_ROOT = 0


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


# -- the prefix ------------------------------------------------------------------------------------------------------


def path_of(scope: Scope) -> str:
    """The path of a request within the service."""
    path, root = str(scope["path"]), prefix_of(scope)
    if root and (path == root or path.startswith(f"{root}/")):
        return path[len(root) :] or "/"
    return path


def prefix_of(scope: Scope) -> str:
    """The prefix of a request, without a slash at its end."""
    return str(scope.get("root_path", "")).rstrip("/")


class Prefix:
    """Puts the prefix of a proxy into the scope of each request, as a mounted application has it."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._prefix:
            path, root = str(scope["path"]), self._prefix
            kept = path == root or path.startswith(f"{root}/")
            scope = {**scope, "root_path": root, "path": path if kept else root + path}
        await self._app(scope, receive, send)


# -- the user of a client on this machine ----------------------------------------------------------------------------


def is_own_process(client: tuple[str, int], server: tuple[str, int]) -> bool:
    """Whether a process of this user, or of root, which has all rights anyway, has made a connection. False, too, if
    the process has closed its end: then the owner is unknown."""
    if sys.platform != "linux":
        return True
    try:
        owner = _owner(client, server)
    except (OSError, struct.error):
        return True  # a kernel without socket diagnostics
    return owner in (os.geteuid(), _ROOT)


def _owner(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """The user that owns the client's end of a connection; None if that end is gone or has no owner."""
    family, source, target = _packed(client[0], server[0])
    asked = _ASKED.pack(family, socket.IPPROTO_TCP, 0, _ANY_STATE)
    ends = _PORTS.pack(client[1], server[1]) + source + target + _REST.pack(0, _NO_COOKIE, _NO_COOKIE)
    length = _HEADER.size + len(asked) + len(ends)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG) as kernel:
        kernel.send(_HEADER.pack(length, _BY_FAMILY, _REQUEST, 1, 0) + asked + ends)
        answer = kernel.recv(8192)
    if _HEADER.unpack_from(answer)[1] == _ERROR:
        return None
    user, inode = _FOUND.unpack_from(answer, _HEADER.size)
    # The kernel reports root as the owner of a socket that its process has closed, with no inode.
    return int(user) if inode else None


def _packed(*hosts: str) -> tuple[int, bytes, bytes]:
    """The family of two addresses, and each as the kernel reads it."""
    plain = [unmapped(ip_address(host)) for host in hosts]
    family = socket.AF_INET if plain[0].version == 4 else socket.AF_INET6
    source, target = (one.packed.ljust(16, b"\0") for one in plain)
    return family, source, target
