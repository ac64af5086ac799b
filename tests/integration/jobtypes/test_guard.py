"""The guard against requests to this machine and its network: canaries listen there, and are never called."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress

import dns.asyncresolver
import dns.message
import dns.rrset
import pytest
from aiohttp import ClientConnectorError, ClientError, ClientSession, TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from harness.sinks import Sink, free_port, reply
from harness.ssrf import HOSTS, Book, urls
from harness.webhooks import Answers, call, local_session
from mainspring import InvalidJob
from mainspring.jobtypes.http.addresses import Allow
from mainspring.jobtypes.http.connector import GuardedConnector, open_session
from mainspring.jobtypes.http.guard import SsrfGuard, TargetRefused
from mainspring.jobtypes.http.webhook import WebhookFailed, WebhookRejected


@pytest.fixture
async def canaries() -> AsyncIterator[list[Sink]]:
    """Listeners on one port of 127.0.0.1 and ::1."""
    port = free_port("127.0.0.1", "::1")
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(Sink(host, port)) for host in ("127.0.0.1", "::1")]


def calls(canaries: list[Sink]) -> int:
    return sum(canary.connections for canary in canaries)


async def test_no_spelling_of_a_local_target_is_ever_connected_to(canaries: list[Sink]) -> None:
    port = canaries[0].port
    assert len(urls(port)) > 120
    async with open_session(resolver=Book([])) as session:
        for url in urls(port):
            with pytest.raises((InvalidJob, WebhookRejected)):
                await call(session, url)
    assert calls(canaries) == 0


async def test_the_session_itself_refuses_what_nobody_has_checked_before(canaries: list[Sink]) -> None:
    port = canaries[0].port
    async with open_session(resolver=Book([])) as session:
        for host in HOSTS:
            with pytest.raises((TargetRefused, ClientError, ValueError)):
                await session.get(f"http://{host}:{port}/")
            with pytest.raises((TargetRefused, ClientError, ValueError)):
                await session.get(f"https://{host}:{port}/")
    assert calls(canaries) == 0


async def test_the_canaries_are_there_to_be_called(canaries: list[Sink]) -> None:
    async with local_session() as session:
        for canary in canaries:
            assert (await call(session, canary.url)).status == 200
    assert calls(canaries) == 2


async def test_a_socket_is_refused_whatever_a_resolver_said(canaries: list[Sink]) -> None:
    connector = TCPConnector(resolver=Answers(["127.0.0.1", "::1"]), socket_factory=SsrfGuard().make_socket)
    async with ClientSession(connector=connector) as session:
        for url in (f"http://name.example:{canaries[0].port}", canaries[0].url, canaries[1].url):
            with pytest.raises(ClientConnectorError):
                await session.get(url)
    assert calls(canaries) == 0


class Blind(SsrfGuard):
    """A guard that sees nothing in URLs."""

    def check_origin(self, origin: URL) -> None:
        pass


async def test_an_address_is_refused_at_the_socket_where_its_url_was_not(canaries: list[Sink]) -> None:
    async with ClientSession(connector=GuardedConnector(Blind())) as session:
        for canary in canaries:
            with pytest.raises(TargetRefused):
                await session.get(canary.url)
    assert calls(canaries) == 0


async def test_the_system_resolver_is_judged_too(canaries: list[Sink]) -> None:
    async with open_session(Allow.parse("10.1.0.0/16")) as session:
        with pytest.raises(WebhookRejected, match="loopback"):
            await call(session, f"http://localhost:{canaries[0].port}")
    assert calls(canaries) == 0


async def test_a_name_that_answers_differently_the_next_time_is_judged_each_time() -> None:
    port = free_port("127.0.0.2", "127.0.0.1")
    resolver = Answers(["127.0.0.2"], ["127.0.0.1"], [], ["127.0.0.1"], ["127.0.0.1", "127.0.0.2"], ["127.0.0.1"])
    async with Sink("127.0.0.2", port) as good, Sink("127.0.0.1", port) as canary:
        async with open_session(Allow.parse("127.0.0.2"), resolver) as session:
            url = f"http://name.example:{port}/"
            assert (await call(session, url)).status == 200
            with pytest.raises(WebhookRejected, match="loopback"):
                await call(session, url)
            with pytest.raises(WebhookFailed, match="no such name"):
                await call(session, url)
            with pytest.raises(WebhookRejected, match="loopback"):
                await call(session, url)
            assert (await call(session, url)).status == 200
            with pytest.raises(WebhookRejected, match="loopback"):
                await call(session, url)
        assert (good.connections, canary.connections) == (2, 0)


class Rebinding(asyncio.DatagramProtocol):
    """A DNS server on loopback that changes its mind with each question, with no time to live."""

    def __init__(self) -> None:
        self.asked = 0
        self.transport: asyncio.DatagramTransport | None = None

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        question = dns.message.from_wire(data)
        answer = dns.message.make_response(question)
        address = ("127.0.0.2", "127.0.0.1")[self.asked % 2]
        self.asked += 1
        answer.answer.append(dns.rrset.from_text(question.question[0].name, 0, "IN", "A", address))
        assert self.transport is not None
        self.transport.sendto(answer.to_wire(), addr)


class Asking(AbstractResolver):
    """Asks a DNS server."""

    def __init__(self, port: int) -> None:
        self._resolver = dns.asyncresolver.Resolver(configure=False)
        self._resolver.nameservers = ["127.0.0.1"]
        self._resolver.port = port

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        answer = await self._resolver.resolve(host, "A")
        return [
            ResolveResult(hostname=host, host=one.address, port=port, family=socket.AF_INET, proto=0, flags=0)
            for one in answer
        ]

    async def close(self) -> None:
        pass


@pytest.mark.slow
async def test_a_rebinding_dns_server_never_gets_a_request_to_this_machine() -> None:
    port = free_port("127.0.0.2", "127.0.0.1")
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(Rebinding, ("127.0.0.1", 0))
    server.transport = transport
    try:
        resolver = Asking(transport.get_extra_info("sockname")[1])
        async with Sink("127.0.0.2", port) as good, Sink("127.0.0.1", port) as canary:
            async with open_session(Allow.parse("127.0.0.2"), resolver) as session:
                for _ in range(200):
                    with suppress(WebhookRejected):
                        await call(session, f"http://rebinding.example:{port}/")
            assert server.asked == 200
            assert (good.connections, canary.connections) == (100, 0)
    finally:
        transport.close()


async def test_an_allowed_name_may_lead_anywhere_and_only_on_its_port(canaries: list[Sink]) -> None:
    port = canaries[0].port
    async with open_session(Allow.parse(f"internal.example:{port}"), Answers(["127.0.0.1"])) as session:
        assert (await call(session, f"http://Internal.Example:{port}")).status == 200
        for url in (f"http://internal.example:{port + 1}", f"http://other.example:{port}", canaries[0].url):
            with pytest.raises(WebhookRejected):
                await call(session, url)
    assert calls(canaries) == 1


async def test_a_refusal_says_what_to_set_and_not_what_a_name_leads_to(canaries: list[Sink]) -> None:
    async with open_session(resolver=Answers(["10.11.12.13"])) as session:
        with pytest.raises(WebhookRejected) as caught:
            await call(session, "https://intranet.example/path?key=canary")
    assert "MAINSPRING_HTTP_ALLOW=intranet.example:443" in str(caught.value)
    assert "10.11.12.13" not in str(caught.value)
    assert "canary" not in str(caught.value)


async def test_proxies_of_the_environment_are_not_used(canaries: list[Sink], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, canaries[0].url)
    async with Sink() as sink:
        async with open_session(Allow.parse(f"127.0.0.1:{sink.port}")) as session:
            assert (await call(session, sink.url)).status == 200
            with pytest.raises(TargetRefused, match="proxies"):
                await session.get(sink.url, proxy=canaries[0].url)
        assert sink.connections == 1
    assert calls(canaries) == 0


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_leads_to_where_no_request_may_go(canaries: list[Sink], status: int) -> None:
    port = canaries[0].port
    places = [f"http://{host}:{port}/" for host in HOSTS if host.isprintable()] + [
        f"//127.0.0.1:{port}/",
        f"http://127.0.0.1:{port}#@good.example",
        "file:///etc/passwd",
        "http://",
        "",
    ]
    async with Sink("127.0.0.2") as sink, open_session(Allow.parse(f"127.0.0.2:{sink.port}"), Book([])) as session:
        for place in places:
            sink.answers = [reply(status, Location=place)]
            with pytest.raises(WebhookRejected):
                await call(session, sink.url, redirects=3)
    assert calls(canaries) == 0


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST.", "db.localhost", "metadata.google.internal"])
async def test_a_name_of_this_machine_or_its_cloud_is_refused_before_anybody_is_asked_for_it(host: str) -> None:
    resolver = Answers(["192.0.2.1"])
    async with open_session(resolver=resolver) as session:
        with pytest.raises(WebhookRejected, match="a name of this machine or its cloud"):
            await call(session, f"http://{host}/")
    assert resolver.asked == []
