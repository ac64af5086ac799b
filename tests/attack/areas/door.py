"""The door of a service without a key: other hosts' names, other sites' pages, forms, and proxies."""

from __future__ import annotations

from typing import Any

from attack.asking import Client, send_raw, status_of
from attack.books import Row, probe
from attack.stage import Stage

_FOREIGN_HOSTS = r"""
evil.test evil.test:{port} localhost.evil.test 127.0.0.1.evil.test 127.0.0.1:{port}.evil.test evil-localhost
0.0.0.0 10.0.0.1 192.168.0.1 169.254.169.254 metadata.google.internal 2130706433 0x7f.0.0.1 127.1 0177.0.0.1 [::2]
[::ffff:10.0.0.1] [::1 ::1]evil localhost#evil.test evil.test@localhost localhost@evil.test localhost/evil
localhost?evil localhost\evil localhost,evil.test localhost%00.evil.test xn--lcalhost-54a ⓛⓞⓒⓐⓛⓗⓞⓢⓣ
"""
_OWN_HOSTS = ("localhost", "127.0.0.1", "[::1]", "LOCALHOST", "localhost:80")
_ORIGINS: tuple[dict[str, str], ...] = (
    {"Origin": "null"},
    {"Origin": "http://evil.test"},
    {"Origin": "https://evil.test:443"},
    {"Origin": "http://localhost.evil.test"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "http://localhost"},
    {"Origin": "file://"},
    {"Origin": "chrome-extension://abcdef"},
    {"Origin": "http://[::1"},
    {"Origin": ""},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    {"Sec-Fetch-Site": "nonsense"},
    {"Sec-Fetch-Site": "same-origin", "Origin": "http://evil.test"},
)
_TYPES = (
    "application/x-www-form-urlencoded",
    "application/x-www-form-urlencoded; charset=utf-8",
    "multipart/form-data; boundary=x",
    "multipart/mixed; boundary=x",
    "text/plain",
    "text/plain; application/json",
    "text/plain;charset=application/json",
    "text/html",
    "text/xml",
    "text/json",
    "application/xml",
    "application/jsonp",
    "application/jsonx",
    "application/octet-stream",
    "application/javascript",
    "application/msgpack",
    "application/bson",
    "image/svg+xml",
    "json",
    "/json",
    "*/*",
    "",
)
_FORWARDING = """
Forwarded Via X-Forwarded-For X-Forwarded-Host X-Forwarded-Proto X-Forwarded-Port X-Forwarded-Server X-Forwarded-By
X-Forwarded X-Real-IP X-Client-IP True-Client-IP CF-Connecting-IP X-Original-Forwarded-For Fastly-Client-IP
X-Envoy-External-Address X-Cluster-Client-IP Fly-Client-IP X-Azure-ClientIP X-Azure-SocketIP X-Original-Host
X-Remote-IP X-Remote-Addr X-ProxyUser-Ip WL-Proxy-Client-IP Proxy-Client-IP CDN-Loop CF-Ray X-Amz-Cf-Id
X-Amzn-Trace-Id X-Envoy-Original-Path X-Original-URL
"""
"""Headers by which a proxy, a tunnel or a content network shows itself."""


def _request(host: str, line: str = "GET /api/session HTTP/1.1", body: bytes = b"", **headers: str) -> bytes:
    """A request byte by byte: no library sends these."""
    lines = [line, f"Host: {host}", "Connection: close", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@probe("door", "Without a key, a name that another site points here is not answered (rebinding)", fast=True)
async def hosts(stage: Stage, row: Row) -> None:
    service = await stage.keyless()
    url = service.client.url
    port = url.rpartition(":")[2]
    for host in _OWN_HOSTS:
        said = await send_raw(url, _request(host))
        row.control(status_of(said) == 200, f"Host: {host} → {said[:200]!r}")
    for host in stage.some(_FOREIGN_HOSTS.split(), 10):
        request = _request(host.format(port=port))
        said = await send_raw(url, request)
        row.check(400 <= status_of(said) < 500 and b"admin" not in said, f"{request!r} → {said[:200]!r}")
    for request in (b"GET /api/session HTTP/1.0\r\n\r\n", b"GET /api/session HTTP/1.1\r\nConnection: close\r\n\r\n"):
        said = await send_raw(url, request)
        row.check(status_of(said) != 200, f"{request!r} → {said[:200]!r}")


@probe("door", "Without a key, pages of other sites can neither read nor change anything", fast=True)
async def origins(stage: Stage, row: Row) -> None:
    client = (await stage.keyless()).client
    own = {"Origin": client.url, "Sec-Fetch-Site": "same-origin"}
    row.control((await client.post("/api/jobs", None, _job("own"), headers=own)).ok, "a page of this origin")
    for headers in stage.some(_ORIGINS, 6):
        for method, body in (("GET", None), ("POST", _job("other site"))):
            answer = await client.ask(method, "/api/jobs", json=body, headers=headers)
            row.check(answer.status == 403, answer)
    listed = await client.get("/api/jobs?limit=100")
    row.check("other site" not in listed.text, f"a job of another site was made: {listed}")


@probe("door", "Bodies that a page can send to another site without asking are refused", fast=True)
async def body_types(stage: Stage, row: Row) -> None:
    client = (await stage.keyless()).client
    for kind in stage.some(_TYPES, 6):
        for body in (b'{"name": "plain", "data": {"by": "a form"}}', b""):
            if body or kind.startswith(("application/x-www", "multipart/form", "text/plain")):
                answer = await client.ask("POST", "/api/jobs", data=body, headers={"Content-Type": kind})
                row.check(answer.status == 415, answer)
    row.check("a form" not in (await client.get("/api/jobs?limit=100")).text, "a job was made by a form")


@probe("door", "Without a key, a request that a proxy or a tunnel has forwarded is not answered", fast=True)
async def forwarded(stage: Stage, row: Row) -> None:
    client = (await stage.keyless()).client
    row.control((await client.get("/api/session")).ok, "a request of this machine")
    for header in stage.some(_FORWARDING.split(), 8):
        for name in (header, header.lower()):
            answer = await client.get("/api/session", headers={name: "127.0.0.1"})
            row.check(answer.status in (401, 403), answer)


@probe("door", "A proxy that adds no header opens nothing: `serve` asks for a key")
async def bare_proxy(stage: Stage, row: Row) -> None:
    service = await stage.serve("serve", "--uri", stage.spare())
    port = service.client.url.rpartition(":")[2]
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", "localhost", "127.0.0.1"):
        for version in ("1.0", "1.1"):
            request = f"GET /api/session HTTP/{version}\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
            said = await send_raw(service.client.url, request)
            row.check(status_of(said) == 401, f"{request!r} → {said[:200]!r}")


_CHAINS: tuple[tuple[dict[str, str], str], ...] = (
    ({"X-Forwarded-For": "203.0.113.9"}, "203.0.113.9"),
    ({"X-Forwarded-For": "198.51.100.1, 203.0.113.9"}, "203.0.113.9"),
    ({"X-Forwarded-For": "127.0.0.1, 203.0.113.9, 10.0.0.7"}, "203.0.113.9"),
    ({"X-Forwarded-For": "203.0.113.9:4711"}, "203.0.113.9"),
    ({"X-Forwarded-For": "[2001:db8::9]:4711"}, "2001:db8::9"),
    ({"X-Forwarded-For": "::ffff:203.0.113.9"}, "203.0.113.9"),
    ({"X-Forwarded-For": "203.0.113.9, evil, 10.0.0.7"}, "10.0.0.7"),
    ({"X-Forwarded-For": "evil"}, "127.0.0.1"),
    ({"X-Forwarded-For": "203.0.113.9 <script>"}, "127.0.0.1"),
    ({"X-Forwarded-For": ""}, "127.0.0.1"),
    ({"X-Forwarded-For": ", ,"}, "127.0.0.1"),
    ({"X-Forwarded-For": "10.0.0.8"}, "10.0.0.8"),
    ({"X-Real-IP": "203.0.113.9"}, "127.0.0.1"),
    ({"Forwarded": "for=203.0.113.9"}, "127.0.0.1"),
    ({"X-Client-IP": "203.0.113.9"}, "127.0.0.1"),
    ({"True-Client-IP": "203.0.113.9"}, "127.0.0.1"),
    ({"CF-Connecting-IP": "203.0.113.9"}, "127.0.0.1"),
    ({"X-Forwarded-For": "203.0.113.9", "X-Real-IP": "198.51.100.1"}, "203.0.113.9"),
    ({"X-Forwarded-For": "1" * 3000}, "127.0.0.1"),
    ({"X-Forwarded-For": ",".join(["198.51.100.1"] * 300 + ["203.0.113.9"])}, "203.0.113.9"),
)
"""What a request claims, and the address that is the client's where this machine is a trusted proxy."""


@probe("door", "What a client says of its own address is believed from trusted proxies alone")
async def proxies(stage: Stage, row: Row) -> None:
    uri = stage.spare()
    trusting = await _with_key(stage, uri, "127.0.0.1,10.0.0.0/8")
    other = await _with_key(stage, uri, "10.0.0.0/8", trusting.keys["admin"])
    for headers, claimed in stage.some(_CHAINS, 6):
        for client, expected in ((trusting, claimed), (other, "127.0.0.1")):
            made = await client.post("/api/jobs", "admin", _job("proxied"), headers=headers)
            rows = (await client.get("/api/audit?limit=1", "admin")).data
            row.control(made.ok and rows, made)
            row.check(rows[0]["address"] == expected, f"{made.request} → the audit log has {rows[0]['address']}")
    for headers in ({}, {"X-Forwarded-For": "127.0.0.1"}, {"X-Forwarded-Proto": "https"}):
        answer = await trusting.get("/api/session", headers=headers)
        row.check(answer.status == 401, answer)


async def _with_key(stage: Stage, uri: str, trusted: str, key: str | None = None) -> Client:
    if key is None:
        made = stage.run("keys", "create", "ops", "--role", "admin", "--uri", uri)
        assert made.wait(60) == 0, made.output
        key = next(word for word in made.output.split() if word.startswith("ms_"))
    service = await stage.serve("serve", "--uri", uri, MAINSPRING_TRUSTED_PROXIES=trusted)
    service.client.keys["admin"] = key
    return service.client


def _job(note: str) -> dict[str, Any]:
    return {"name": "plain", "data": {"by": note}, "delay": "1h"}
