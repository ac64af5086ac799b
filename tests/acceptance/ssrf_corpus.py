"""Webhooks through the real service and its worker never reach this machine or its network, whatever is asked for.

Canaries listen on the very port that all targets name. `test_ssrf.py` runs these tests.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import re
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from acceptance.conftest import APPS
from harness import ssrf
from harness.commands import MAINSPRING, Command
from harness.naming import Names, naming
from harness.servers import Servers
from harness.sinks import Sink, free_port, reply
from harness.waiting import eventually
from mainspring import Scheduler

ADDRESSES = "TEST_SSRF_ADDRESSES"
"""The variable with the addresses that are this machine's own, besides loopback."""
GOOD = "127.0.0.3"
"""The one address that the service is allowed to call: what leads away from here, and shows that calls are made."""
CANARIES = ("127.0.0.1", "::1", *os.environ.get(ADDRESSES, "").split())
TURNS = [[GOOD], ["127.0.0.1"], [], ["127.0.0.1"], [GOOD, "::1"], ["::1"], ["10.0.0.1"], ["169.254.169.254"]]


def is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text


NAMES: dict[str, list[list[str]]] = {
    name: [[one for one in addresses if is_address(one)] or ["127.0.0.1"]] for name, addresses in ssrf.NAMES.items()
} | {"turn.example": TURNS, "good.example": [[GOOD]]}


@dataclass
class Stage:
    """The running service, who may be called, and who must not be."""

    url: str
    session: aiohttp.ClientSession
    client: Scheduler
    command: Command
    good: Sink
    canaries: list[Sink]
    names: Names

    @property
    def port(self) -> int:
        return self.good.port

    async def create(self, **body: Any) -> tuple[int, Any]:
        async with self.session.post(f"{self.url}/api/jobs", json={"retryAttempts": 0, **body}) as answer:
            return answer.status, await answer.json(content_type=None)

    async def created(self, **body: Any) -> str:
        status, answer = await self.create(**body)
        assert status == 201, answer
        job_id: str = answer["data"]["jobId"]
        return job_id

    async def ends(self, ids: Sequence[str]) -> list[str]:
        return [(await self.client.wait(one, timeout=60)).state for one in ids]

    def check_silence(self) -> None:
        """No client has so much as connected to a canary."""
        assert {canary.host: canary.connections for canary in self.canaries} == dict.fromkeys(CANARIES, 0)
        assert self.command.process.poll() is None, self.command.output

    def begin(self) -> None:
        """Count from here on."""
        for sink in (self.good, *self.canaries):
            sink.connections = 0
        self.good.answers = [reply()]
        self.names.asked.clear()


@pytest.fixture(scope="module")
async def running(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    uri = servers.uri(f"t_{secrets.token_hex(4)}")
    port = free_port(GOOD, *CANARIES)
    async with AsyncExitStack() as stack:
        names = await stack.enter_async_context(naming(NAMES))
        good = await stack.enter_async_context(Sink(GOOD, port))
        canaries = [await stack.enter_async_context(Sink(host, port)) for host in CANARIES]
        up = Command(
            (*MAINSPRING, "up", "resolving:scheduler", "--port", "0", "--uri", uri),
            cwd=APPS,
            log=tmp_path_factory.mktemp("up") / "output",
            MAINSPRING_HTTP_ALLOW=GOOD,
            TEST_DNS_PORT=str(names.port),
        )
        stack.callback(up.stop)
        url = await eventually(lambda: re.search(r"API +(http://127\.0\.0\.1:\d+)", up.output) or up.process.poll())
        assert isinstance(url, re.Match), up.output
        session = await stack.enter_async_context(aiohttp.ClientSession())
        client = Scheduler(uri)
        stack.push_async_callback(client.stop)
        yield Stage(url[1], session, client, up, good, canaries, names)


@pytest.fixture
def stage(running: Stage) -> Stage:
    running.begin()
    return running


async def test_the_canaries_hear_and_the_service_calls_what_it_may(stage: Stage) -> None:
    for canary in stage.canaries:
        _, writer = await asyncio.open_connection(canary.host, canary.port)
        writer.close()
    await eventually(lambda: [canary.connections for canary in stage.canaries] == [1] * len(CANARIES))
    ids = [await stage.created(endpoint=f"http://{host}:{stage.port}/") for host in (GOOD, "good.example")]
    assert await stage.ends(ids) == ["completed"] * 2
    assert (stage.good.connections, stage.names.asked["good.example"]) == (2, 1)


async def test_no_target_of_the_corpus_is_connected_to_whoever_creates_the_job(stage: Stage) -> None:
    ids: list[str] = []
    refused = 0
    for url in ssrf.urls(stage.port):
        status, answer = await stage.create(endpoint=url)
        assert status in (201, 400, 422), answer
        refused += status != 201
        ids += [answer["data"]["jobId"]] if status == 201 else []
        # And by a program that writes to the database without asking the service.
        data = {"request": {"url": url}, "target": "x"}
        ids.append((await stage.client.schedule("mainspring:http", data, queue="http", retry=1)).id)
    assert set(await stage.ends(ids)) == {"failed"}
    assert refused > 30 and len(ids) > 130
    stage.check_silence()
    assert stage.good.connections == 0


async def test_no_template_leads_to_a_target_of_the_corpus(stage: Stage) -> None:
    ids: list[str] = []
    shapes = ("http://{{data.x}}:%d/", "http://good.example:%d@{{data.x}}/", "{{data.x}}", "http://{{data.x}}/")
    for host in ssrf.HOSTS:
        for shape in shapes:
            status, answer = await stage.create(
                endpoint=shape % stage.port if "%d" in shape else shape, data={"x": host}
            )
            assert status in (400, 422), answer
        status, answer = await stage.create(
            endpoint=f"http://{GOOD}:{stage.port}/{{{{data.x}}}}?q={{{{data.x}}}}",
            query={"next": "{{data.x}}"},
            headers={"X-Next": "{{data.x}}"},
            data={"x": f"@{host}:{stage.port}"},
        )
        ids += [answer["data"]["jobId"]] if status == 201 else []
    assert len(ids) > 50
    assert set(await stage.ends(ids)) <= {"completed", "failed"}
    assert stage.good.connections > 50
    stage.check_silence()


async def test_no_redirect_leads_to_a_target_of_the_corpus(stage: Stage) -> None:
    places = ssrf.urls(stage.port)
    good = [place for place in places if place.isascii() and place.isprintable()]
    for status in (302, 307, 308):
        stage.good.answers = [reply(status, Location=place) for place in good]
        endpoint = f"http://{GOOD}:{stage.port}/"
        ids = [await stage.created(endpoint=endpoint, redirects=3) for _ in good]
        assert set(await stage.ends(ids)) <= {"completed", "failed"}
    assert stage.good.connections >= 3 * len(good)
    stage.check_silence()


async def test_no_change_of_mind_of_a_dns_server_leads_to_this_machine(stage: Stage) -> None:
    endpoint = f"http://turn.example:{stage.port}/"
    ids = [await stage.created(endpoint=endpoint, retryAttempts=2, retryDelay=0) for _ in range(60)]
    assert set(await stage.ends(ids)) == {"completed", "failed"}
    assert stage.names.asked["turn.example"] > 60
    assert 0 < stage.good.connections < len(ids)
    stage.check_silence()


async def test_neither_a_change_nor_a_schedule_nor_running_it_again_leads_there(stage: Stage) -> None:
    endpoint = f"http://rebound.example:{stage.port}/latest/"
    later = await stage.created(endpoint=f"http://{GOOD}:{stage.port}/", delay="1h")
    async with stage.session.put(f"{stage.url}/api/jobs/{later}", json={"endpoint": endpoint}) as answer:
        assert answer.status == 200, await answer.text()
    await stage.client.run_now(later)
    assert await stage.ends([later]) == ["failed"]
    await stage.client.retry(later)
    assert await stage.ends([later]) == ["failed"]
    schedule = await stage.created(endpoint=endpoint, every=1000)

    async def fired() -> bool:
        return len([job async for job in stage.client.jobs(schedule_id=schedule) if job.state == "failed"]) >= 2

    await eventually(fired)
    stage.check_silence()
