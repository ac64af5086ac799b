"""Webhooks through the real service and its worker never reach this machine or its network, whatever is asked for.

Canaries listen on the very port that all targets name. The whole is run once more in a network of its own, where the
addresses of cloud metadata and of private networks have canaries, too, if the machine allows to make one.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from harness import ssrf
from harness.commands import Command
from harness.naming import Names, naming
from harness.sinks import Sink, free_port, reply
from harness.waiting import eventually
from mainspring import Scheduler

Start = Callable[..., Command]
INSIDE = "TEST_SSRF_ADDRESSES"
GOOD = "127.0.0.3"
"""The one address that the service is allowed to call: what leads away from here, and shows that calls are made."""
PRIVATE = ("169.254.169.254", "10.0.0.1", "fd00:ec2::254")
CANARIES = ("127.0.0.1", "::1", *os.environ.get(INSIDE, "").split())
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
        """Nobody has so much as connected to a canary."""
        assert {canary.host: canary.connections for canary in self.canaries} == dict.fromkeys(CANARIES, 0)
        assert self.command.process.poll() is None, self.command.output


@pytest.fixture
async def stage(start: Start, uri: str, client: Scheduler) -> AsyncIterator[Stage]:
    port = free_port(GOOD, *CANARIES)
    async with AsyncExitStack() as stack:
        names = await stack.enter_async_context(naming(NAMES))
        good = await stack.enter_async_context(Sink(GOOD, port))
        canaries = [await stack.enter_async_context(Sink(host, port)) for host in CANARIES]
        up = start(
            *("up", "resolving:scheduler", "--port", "0", "--uri", uri),
            MAINSPRING_HTTP_ALLOW=GOOD,
            TEST_DNS_PORT=str(names.port),
        )
        url = await eventually(lambda: re.search(r"API +(http://127\.0\.0\.1:\d+)", up.output) or up.process.poll())
        assert isinstance(url, re.Match), up.output
        session = await stack.enter_async_context(aiohttp.ClientSession())
        yield Stage(url[1], session, client, up, good, canaries, names)


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
    later = await stage.created(endpoint=f"http://{GOOD}:{stage.port}/", delay=3_600_000)
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


@pytest.mark.timeout(300)
@pytest.mark.skipif(INSIDE in os.environ, reason="this is that network")
def test_the_same_holds_where_metadata_and_private_addresses_are_this_machines_own(tmp_path: Path) -> None:
    """In a network of its own, which has nothing but these addresses."""
    add = " && ".join(f"ip addr add {one}/{128 if ':' in one else 32} dev lo" for one in PRIVATE)
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        pytest.skip("unshare and ip are not there to make a network namespace with")
    inside = [
        "unshare",
        "--net",
        *([] if os.getuid() == 0 else ["--map-root-user"]),
        "sh",
        "-c",
        f'ip link set lo up && {add} && exec "$@"',
        "sh",
    ]
    if subprocess.run([*inside, "true"], capture_output=True).returncode != 0:
        pytest.skip("this machine does not let us make a network namespace")
    tests = [sys.executable, "-m", "pytest", str(Path(__file__)), "-p", "no:cacheprovider", f"--basetemp={tmp_path}/in"]
    ran = subprocess.run(
        [*inside, *tests],
        env=os.environ | {INSIDE: " ".join(PRIVATE)},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-1000:]
