"""Without an API key: which requests count as this user's on this machine, and when none does."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from pymongo import AsyncMongoClient

from api.conftest import Api, serving
from harness.looking import Database
from harness.other_user import as_nobody, as_root
from mainspring import ConfigurationError, Scheduler
from mainspring.api.middleware import proxies
from mainspring.api.server import Server
from mainspring.api.settings import service_settings
from mainspring.client.service_backend import ServiceBackend

Make = Callable[..., Scheduler]
OF_PROXIES = [
    *("Forwarded", "X-Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port"),
    *("X-Forwarded-Server", "X-Forwarded-By", "X-Forwarded-Prefix", "X-Forwarded-User", "X-Forwarded-Client-Cert"),
    *("X-Original-Forwarded-For", "Forwarded-For", "Via", "X-Via", "X-BlueCoat-Via", "Max-Forwards"),
    *("Proxy-Connection", "Proxy-Authorization", "Proxy-Client-IP", "WL-Proxy-Client-IP", "X-Real-IP", "X-RealIP"),
    *("X-Client-IP", "Client-IP", "X-Cluster-Client-IP", "True-Client-IP", "X-Remote-IP", "X-Remote-Addr"),
    *("X-Originating-IP", "X-Original-URL", "X-Original-URI", "X-Original-Host", "X-Original-Method"),
    *("X-Rewrite-URL", "X-ProxyUser-Ip", "X-Remote-User", "Remote-User", "X-Scheme", "X-URL-Scheme"),
    *("Front-End-Https", "Early-Data", "X-Request-Start", "X-Host", "X-Script-Name", "X-SSL-Client-Cert"),
    *("X-Client-Cert", "Client-Cert", "SSL-Client-Verify", "X-SSL-Client-DN", "X-Ingress-Path", "X-Gateway-Id"),
    *("CF-Connecting-IP", "CF-Connecting-IPv6", "CF-Ray", "CF-Visitor", "CF-IPCountry", "CF-Access-Jwt-Assertion"),
    *("CDN-Loop", "Fastly-Client-IP", "Fastly-FF", "Fly-Client-IP", "Fly-Forwarded-Port", "Fly-Region"),
    *("X-Azure-ClientIP", "X-Azure-SocketIP", "X-Azure-Ref", "X-ARR-LOG-ID", "X-ARR-SSL", "X-WAWS-Unencoded-URL"),
    *("DISGUISED-HOST", "X-MS-CLIENT-PRINCIPAL", "X-Amzn-Trace-Id", "X-Amz-Cf-Id", "CloudFront-Viewer-Address"),
    *("X-Appengine-User-IP", "X-AppEngine-Country", "X-Cloud-Trace-Context", "X-Goog-Authenticated-User-Email"),
    *("X-Vercel-Id", "X-Vercel-Forwarded-For", "X-Nf-Client-Connection-Ip", "X-Ngrok-Trace", "Ngrok-Auth-User-Email"),
    *("Tailscale-User-Login", "Tailscale-User-Name", "X-Zrok-Share", "Zrok-Interstitial", "X-Tunnel-Id"),
    *("X-Envoy-External-Address", "X-Envoy-Internal", "X-Envoy-Expected-Rq-Timeout-Ms", "X-Istio-Attributes"),
    *("L5d-Client-Id", "X-Kong-Proxy-Latency", "X-Varnish", "Akamai-Origin-Hop", "X-Akamai-Edgescape"),
    *("Incap-Client-IP", "X-Sucuri-ClientIP", "Ali-Cdn-Real-Ip", "EO-Connecting-IP", "DO-Connecting-IP", "Rndr-Id"),
    *("X-Heroku-Queue-Depth", "X-Railway-Request-Id", "X-Auth-Request-Email", "X-Authentik-Username"),
    *("X-Pomerium-Claim-Email", "X-Replit-User-Id", "X-Inlets-Id"),
]
OF_CLIENTS = [
    *("Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "User-Agent", "Cache-Control", "Pragma"),
    *("Connection", "Keep-Alive", "Content-Type", "Referer", "DNT", "Sec-GPC", "Sec-CH-UA", "Sec-CH-UA-Mobile"),
    *("Sec-CH-UA-Platform", "Sec-Fetch-Mode", "Sec-Fetch-Dest", "Sec-Fetch-User", "Upgrade-Insecure-Requests"),
    *("Priority", "Purpose", "X-Purpose", "TE", "Range", "If-None-Match", "If-Modified-Since", "Last-Event-ID"),
    *("X-Requested-With", "X-Request-Id", "X-Correlation-Id", "Idempotency-Key", "X-Csrf-Token", "Traceparent"),
    *("Tracestate", "Baggage", "B3", "X-B3-TraceId", "Sentry-Trace", "X-Datadog-Trace-Id", "Postman-Token"),
    *("X-Edge-Shopping-Flag", "Save-Data", "From", "Prefer"),
]


async def spoken(api: Api, request: str) -> tuple[int, str]:
    """The status and the text of an answer to a request that is sent as it is."""
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(api.url).port)
    writer.write(request.replace("\n", "\r\n").encode())
    await writer.drain()
    answer = (await reader.read()).decode()
    writer.close()
    return int(answer.split()[1]), answer


@pytest.fixture
def db(side_client: AsyncMongoClient[dict[str, Any]], uri: str) -> Database:
    """The test's database, as another program sees it."""
    return side_client[uri.rpartition("/")[2].partition("?")[0]]


async def test_a_request_with_a_header_of_a_proxy_or_tunnel_needs_a_key(api: Api) -> None:
    answers = {header: await api.get("/api/session", headers={header: "127.0.0.1"}) for header in OF_PROXIES}
    assert [header for header, reply in answers.items() if reply.status != 401] == []
    for header, reply in answers.items():
        assert f"it has the header {header.title()}." in reply.body["detail"]


async def test_the_headers_of_curl_browsers_and_libraries_need_none(api: Api) -> None:
    assert [
        header for header in OF_CLIENTS if (await api.get("/api/session", headers={header: "none"})).status != 200
    ] == []


async def test_what_nginx_sends_for_a_bare_proxy_pass_needs_a_key(api: Api) -> None:
    host = urlsplit(api.url).netloc
    status, answer = await spoken(api, f"GET /api/session HTTP/1.0\nHost: {host}\nConnection: close\n\n")
    assert status == 401 and "HTTP/1.0" in answer.partition("\r\n\r\n")[2]
    status, _ = await spoken(api, f"GET /api/session HTTP/1.1\nHost: {host}\nConnection: close\n\n")
    assert status == 200


async def test_http_1_0_is_answered_to_a_key(api: Api) -> None:
    key = (await api.scheduler.api_keys.create("ops", "admin")).text
    status, _ = await spoken(api, f"GET /api/session HTTP/1.0\nAuthorization: Bearer {key}\n\n")
    assert status == 200


async def test_a_host_that_is_more_than_a_name_and_a_port_is_not_this_machine(api: Api) -> None:
    for host in (
        *("localhost#evil", "evil@localhost", "localhost/evil", "localhost?evil", "localhost\\evil", "localhost,evil"),
        *("evil:80@127.0.0.1", "[::1]evil", "::1", "localhost:3000:80", "localhost:x", "localhost%00", ""),
    ):
        status, answer = await spoken(api, f"GET /api/session HTTP/1.1\nHost: {host}\nConnection: close\n\n")
        assert status == 403 and "does not name this machine" in answer, host


async def test_a_name_of_this_machine_is_taken_in_every_spelling(api: Api) -> None:
    for host in ("localhost", "LOCALHOST.:3000", "127.0.0.1:1", "127.9.9.9", "[::1]", "[::1]:3000"):
        assert (await api.get("/api/session", headers={"Host": host})).status == 200, host


# -- other users of the machine --------------------------------------------------------------------------------------


def _is_told() -> bool:
    """Whether the system tells whose a connection is."""
    try:
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4).close()
    except (AttributeError, OSError):
        return False
    return True


told = pytest.mark.skipif(not _is_told(), reason="this system does not tell whose a connection is")


def make_key(port: int) -> str:
    """What a request for a new key is answered."""
    body = '{"name": "mine", "role": "admin"}'
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rw", newline="") as stream:
        stream.write("POST /api/keys HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n")
        stream.write(f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}")
        stream.flush()
        return stream.read()


def connect_and_hang_up(port: int) -> str:
    socket.create_connection(("127.0.0.1", port)).close()
    return "done"


@as_root
@told
async def test_another_user_of_the_machine_needs_a_key(api: Api) -> None:
    port = urlsplit(api.url).port
    answer = await asyncio.to_thread(as_nobody, lambda: make_key(port or 0))
    assert answer.startswith("HTTP/1.1 401") and "another user" in answer
    assert await api.scheduler.api_keys.all() == []


@told
def test_a_process_that_has_let_go_of_its_end_is_not_known() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        place = listening.getsockname()
        with socket.create_connection(place) as mine:
            accepted, client = listening.accept()
            assert proxies.is_own_process(client, place)
            mine.close()
            assert not proxies.is_own_process(client, place), "the kernel tells it as root's"
            accepted.close()


@as_root
@told
def test_another_user_is_not_taken_for_root_by_hanging_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        place = listening.getsockname()
        assert as_nobody(lambda: connect_and_hang_up(place[1])) == "done"
        accepted, client = listening.accept()
        assert not proxies.is_own_process(client, place)
        accepted.close()


def test_where_the_system_cannot_tell_every_client_on_loopback_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("Protocol not supported")

    monkeypatch.setattr(proxies, "_owner", refuse)
    assert proxies.is_own_process(("127.0.0.1", 1), ("127.0.0.1", 2))


@told
def test_the_ends_of_a_connection_over_ipv6_are_known_too() -> None:
    try:
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("there is no IPv6 here")
    with server as listening:
        place = listening.getsockname()[:2]
        with socket.create_connection(place):
            accepted, client = listening.accept()
            assert proxies.is_own_process(client[:2], place)
            assert not proxies.is_own_process((client[0], client[1] ^ 1), place)
            accepted.close()


# -- a service that is closed ----------------------------------------------------------------------------------------


async def test_a_closed_service_does_not_start_without_a_key(make_scheduler: Make) -> None:
    with pytest.raises(ConfigurationError, match="There is no API key yet"):
        await Server(make_scheduler(), service_settings(port=0)).start()


async def test_a_closed_service_stays_closed_when_its_keys_vanish(make_scheduler: Make, db: Database) -> None:
    scheduler = make_scheduler()
    await scheduler.api_keys.create("ops", "admin")
    async with serving(scheduler, keyless=False) as api:
        await db["jobs.access"].delete_many({}, hint="_id_")
        assert not await ServiceBackend(scheduler).any_api_key()
        assert (await api.get("/api/session")).status == 401


async def test_a_keyless_service_is_closed_for_good_by_the_first_key(api: Api, db: Database) -> None:
    assert (await api.get("/api/session")).status == 200
    await api.scheduler.api_keys.create("ops", "admin")
    assert (await api.get("/api/session")).status == 401
    await db["jobs.access"].delete_many({}, hint="_id_")
    assert (await api.get("/api/session")).status == 401
