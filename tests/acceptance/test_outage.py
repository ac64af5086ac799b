"""MongoDB killed and started again under load, below a real service with its worker.

While it is away, requests are answered with 503 and told when to come back; what was acknowledged is run to its end,
what was asked for again under its key is there once, and streams go on where they were. Nothing is restarted.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from harness.commands import Command
from harness.servers import Servers
from harness.waiting import eventually
from mainspring import Scheduler

Start = Callable[..., Command]
CLIENTS = 4


@dataclass
class Load:
    """Clients of one service, and what they were told."""

    url: str
    session: aiohttp.ClientSession
    statuses: list[int] = field(default_factory=list)
    problems: list[tuple[str, str, str]] = field(default_factory=list)
    """Of each 503: its type, when to come back, and what it says."""
    made: dict[str, str] = field(default_factory=dict)
    """The ids that were acknowledged, by their keys."""
    listening: asyncio.Event = field(default_factory=asyncio.Event)
    events: list[tuple[str, str]] = field(default_factory=list)
    """The ids of events, and of the jobs that they say were created."""
    cut_off: bool = False
    """Whether the service has ended the stream."""

    async def create(self, key: str) -> None:
        """Ask until it is acknowledged, as a client does that knows nothing but what it is told."""
        while key not in self.made:
            headers = {"Idempotency-Key": key}
            async with self.session.post(f"{self.url}/api/jobs", json={"name": "work"}, headers=headers) as answer:
                body = await answer.json(content_type=None)
                self.statuses.append(answer.status)
                if answer.status == 201:
                    self.made[key] = body["data"]["jobId"]
                    return
                said = (answer.content_type, answer.headers.get("Retry-After", ""), body["detail"])
                self.problems.append(said)
                await asyncio.sleep(0.1)

    async def keep_creating(self, client: int) -> None:
        number = 0
        while True:
            await self.create(f"{client}-{number}")
            number += 1

    async def listen(self) -> None:
        """One stream from the beginning to the end; it is never opened anew, and must not end by itself."""
        async with self.session.get(f"{self.url}/api/events", timeout=aiohttp.ClientTimeout(None)) as answer:
            self.listening.set()
            place = ""
            async for line in answer.content:
                name, _, value = line.decode().strip().partition(": ")
                if name == "id":
                    place = value
                elif name == "data" and json.loads(value)["change"] == "created":
                    self.events.append((place, json.loads(value)["id"]))
        self.cut_off = True

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self.listen())]
        await asyncio.wait_for(self.listening.wait(), 60)
        tasks += [asyncio.create_task(self.keep_creating(client)) for client in range(CLIENTS)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def own_servers() -> Iterator[Servers]:
    with Servers(1, name="away") as servers:
        yield servers


@pytest.fixture
async def load(start: Start, own_servers: Servers) -> AsyncIterator[Load]:
    up = start("up", "quick:scheduler", "--port", "0", "--uri", own_servers.uri("away"))
    found = await eventually(lambda: re.search(r"API +(http://127\.0\.0\.1:\d+)", up.output) or up.process.poll(), 60)
    assert isinstance(found, re.Match), up.output
    async with aiohttp.ClientSession() as session:
        yield Load(found[1], session)
    assert up.process.poll() is None, up.output
    # The driver prints by itself that it could not close a cursor on a server that was away.
    faults = [text for text in up.output.split("Traceback")[1:] if "_process_kill_cursors" not in text]
    assert faults == [], up.output


async def go_away_and_come_back(servers: Servers, load: Load) -> None:
    before = len(load.made)
    servers.nodes[0].kill()
    await eventually(lambda: len(load.problems) >= 2 * CLIENTS, 60)
    assert await health(load) == 503
    servers.nodes[0].start()
    await eventually(lambda: len(load.made) > before + 40, 60)


async def health(load: Load) -> int:
    async with load.session.get(f"{load.url}/api/observability/health") as answer:
        return answer.status


async def test_the_service_outlives_an_outage_under_load_and_loses_nothing(own_servers: Servers, load: Load) -> None:
    async with load.running():
        await eventually(lambda: len(load.made) > 20)
        for _ in range(2):
            await go_away_and_come_back(own_servers, load)
        made = dict(load.made)
        await eventually(lambda: load.cut_off or set(made.values()) <= {job for _, job in load.events}, 60)
        assert not load.cut_off
    assert set(load.statuses) == {201, 503}
    assert {(kind, int(wait) > 0) for kind, wait, _ in load.problems} == {("application/problem+json", True)}
    assert all("MongoDB" in said for _, _, said in load.problems)
    assert len(load.events) == len({place for place, _ in load.events}) == len({job for _, job in load.events})
    client = Scheduler(own_servers.uri("away"))
    try:
        states = [(await client.wait(job, timeout=60)).state for job in made.values()]
        assert set(states) == {"completed"} and len(set(made.values())) == len(made)
        stored = [job async for job in client.jobs()]
        # Of each client, the last request may have been under way when the test was over.
        assert len(stored) - len(load.made) in range(CLIENTS + 1)
    finally:
        await client.stop()
    await eventually(lambda: is_well(load), 60)


async def is_well(load: Load) -> bool:
    return await health(load) == 200


class Bulk:
    """A bulk that goes on for as long as it is given lines, and what it was answered so far."""

    def __init__(self, load: Load) -> None:
        self.answers: list[dict[str, Any]] = []
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()
        self.sending = asyncio.create_task(self._send(load))

    def give(self, number: int) -> None:
        for _ in range(number):
            self._lines.put_nowait(b'{"name": "work"}\n')

    async def end(self) -> None:
        self._lines.put_nowait(b"")
        await asyncio.wait_for(self.sending, 60)

    async def answered(self, number: int) -> None:
        await eventually(lambda: len(self.answers) == number, 60)

    async def _body(self) -> AsyncIterator[bytes]:
        while line := await self._lines.get():
            yield line

    async def _send(self, load: Load) -> None:
        headers = {"Content-Type": "application/x-ndjson"}
        async with load.session.post(f"{load.url}/api/jobs/bulk", data=self._body(), headers=headers) as answer:
            assert answer.status == 200
            async for line in answer.content:
                self.answers.append(json.loads(line))


async def test_bulks_that_an_outage_interrupts_are_answered_line_by_line_to_their_ends(
    own_servers: Servers, load: Load
) -> None:
    ending, going_on = Bulk(load), Bulk(load)
    for bulk in (ending, going_on):
        bulk.give(100)
        await bulk.answered(100)
    own_servers.nodes[0].kill()
    for bulk in (ending, going_on):
        bulk.give(5)
        await bulk.answered(105)
    await ending.end()
    own_servers.nodes[0].start()
    await eventually(lambda: is_well(load), 60)
    going_on.give(5)
    await going_on.end()
    for bulk in (ending, going_on):
        assert [one["line"] for one in bulk.answers] == list(range(1, len(bulk.answers) + 1))
        assert {one["error"]["status"] for one in bulk.answers[100:105]} == {503}
    stored = [one["jobId"] for one in (*ending.answers[:100], *going_on.answers[:100], *going_on.answers[105:])]
    client = Scheduler(own_servers.uri("away"))
    try:
        assert {(await client.wait(job, timeout=60)).state for job in stored} == {"completed"}
        assert len(set(stored)) == 205
    finally:
        await client.stop()
