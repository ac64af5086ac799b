"""The HTTP service: creating jobs over HTTP beside the raw insert, and webhook jobs beside a bare loop of requests.

The service, the worker and the sink that is called are processes of their own. The client is this very
process, so that on a small machine the figures have the client's share of the cores in them.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import aiohttp

from bench import floor
from bench.app import WEBHOOKS, run
from bench.crew import PATIENCE, Crew, used
from bench.ground import Document, Ground, Place
from bench.options import Options
from bench.report import Row
from mainspring.client.outgoing.builtin_jobs import webhook_data
from mainspring.clock import truncate
from mainspring.jobtypes.http.webhook import parse_request, target_of
from mainspring.model.jobs.draft import Draft
from mainspring.model.jobs.job import COMPLETED, DEFAULT_PRIORITY, RUNNING
from mainspring.model.jobs.reserved_names import HTTP, QUEUES
from mainspring.store.schema import CLAIM, FINISHED_INDEX, LEASE, LINE

CONNECTIONS = 50
# As many requests as one target gets at once by default.
AT_ONCE = 20
_BODY = {"event": "scheduled_task", "at": "2026-01-01T00:00:00Z"}
_LOOK_EVERY = 0.02
_HEAD_START = 4.0
_GIVE_UP = 300.0
_UNLIMITED = "1000000000"


def measure(ground: Ground, options: Options) -> list[Row]:
    """The rows for the service."""
    return [*_creates(ground, options), _webhooks(ground, options)]


# -- creating --------------------------------------------------------------------------------------------------------


def _creates(ground: Ground, options: Options) -> list[Row]:
    single = Row("create over HTTP, 1 connection", "jobs/s", [], "raw insert_one")
    many = Row(f"create over HTTP, {CONNECTIONS} connections", "jobs/s", [], "raw insert_one")
    bulk = Row("create over HTTP, in bulk", "jobs/s", [], "raw insert_many of 1,000")
    for _ in range(options.repeat):
        with ground.place() as place:
            inserted = floor.insert_one_rate(place, place.documents(options.single_jobs))
            single.floor_samples.append(inserted)
            many.floor_samples.append(inserted)
            bulk.floor_samples.append(floor.insert_rate(place, place.documents(options.bulk_jobs)))
        with ground.place() as place, serving(place) as url:
            single.samples.append(asyncio.run(_rate(url, options.single_jobs, 1)))
            many.samples.append(asyncio.run(_rate(url, options.single_jobs * 10, CONNECTIONS)))
            bulk.samples.append(asyncio.run(_bulk(url, options.bulk_jobs)))
    return [single, many, bulk]


@contextmanager
def serving(place: Place) -> Iterator[str]:
    """`mainspring serve` on a database, in a process of its own."""
    command = [sys.executable, "-m", "mainspring", "serve", "--open", "--port", "0"]
    environment = os.environ | {"MAINSPRING_URI": _uri(place), "MAINSPRING_REQUESTS_PER_MINUTE": _UNLIMITED}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        yield _address(process)
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"http://127\.0\.0\.1:\d+", line):
            return found[0]
    raise RuntimeError(f"the service ended before it told where it answers, with code {process.wait(PATIENCE)}")


def _uri(place: Place) -> str:
    return urlsplit(place.uri)._replace(path=f"/{place.name}").geturl()


async def _rate(url: str, count: int, connections: int) -> float:
    """Creates a second, each in a request of its own."""
    connector = aiohttp.TCPConnector(limit=connections)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def create(n: int) -> None:
            async with session.post(f"{url}/api/jobs", json={"name": "noop", "data": {"n": n}}) as answer:
                await answer.read()
                answer.raise_for_status()

        await create(-1)
        return await _spread(create, count, connections)


async def _spread(act: Callable[[int], Awaitable[None]], count: int, at_once: int) -> float:
    """How often a second something is done, by so many who do it one after another."""
    numbers = iter(range(count))

    async def go_on() -> None:
        for n in numbers:
            await act(n)

    started = time.perf_counter()
    await asyncio.gather(*(go_on() for _ in range(at_once)))
    return count / (time.perf_counter() - started)


async def _bulk(url: str, count: int) -> float:
    """Creates a second, all in one request."""
    lines = "".join(json.dumps({"name": "noop", "data": {"n": n}}) + "\n" for n in range(count)).encode()
    headers = {"Content-Type": "application/x-ndjson"}
    async with aiohttp.ClientSession() as session:
        started = time.perf_counter()
        async with session.post(f"{url}/api/jobs/bulk", data=lines, headers=headers) as answer:
            await answer.read()
            answer.raise_for_status()
        return count / (time.perf_counter() - started)


# -- webhooks --------------------------------------------------------------------------------------------------------


def _webhooks(ground: Ground, options: Options) -> Row:
    row = Row("webhook jobs, 1 process", "jobs/s", [], f"bare aiohttp loop, {AT_ONCE} at once")
    shares: list[tuple[float, float]] = []
    for _ in range(options.repeat):
        with _sink() as url:
            row.floor_samples.append(_bare(url, options.webhooks))
            with ground.place() as place:
                rate, workers, mongod = _called(ground, place, url, options.webhooks)
        row.samples.append(rate)
        shares.append((workers, mongod))
    workers, mongod = (sum(part) / len(shares) for part in zip(*shares, strict=True))
    row.note = f"{workers:.0%} of a core in the worker, {mongod:.0%} in mongod"
    return row


@contextmanager
def _sink() -> Iterator[str]:
    process = subprocess.Popen([sys.executable, "-m", "bench.sink"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/hook"
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _bare(url: str, count: int) -> float:
    """Requests a second without a scheduler."""
    rates: list[float] = []

    async def ask() -> None:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def post(n: int) -> None:
                async with session.post(url, json=_BODY) as answer:
                    await answer.read()

            rates.append(await _spread(post, count, AT_ONCE))

    run(ask())
    return rates[0]


def _called(ground: Ground, place: Place, url: str, count: int) -> tuple[float, float, float]:
    """Webhook jobs a second of one worker, and how much of a core it and MongoDB took meanwhile."""
    os.environ[WEBHOOKS] = "127.0.0.1"
    try:
        with Crew(place, 1, AT_ONCE) as crew:
            due = _load(ground, place, url, count)
            crew.go()
            time.sleep(max(0.0, (due - place.now()).total_seconds()))
            before = crew.cpu(), used(ground.mongod)
            wall = _wait(place, due)
            after = crew.cpu(), used(ground.mongod)
    finally:
        del os.environ[WEBHOOKS]
    done = place.jobs.count_documents({"state": COMPLETED}, hint=FINISHED_INDEX)
    if done != count:
        raise RuntimeError(f"{done:,} of {count:,} webhooks went well")
    return count / wall, (after[0] - before[0]) / wall, (after[1] - before[1]) / wall


def _load(ground: Ground, place: Place, url: str, count: int) -> datetime:
    data = webhook_data(parse_request({"url": url, "body": _BODY}), None, target_of(url))
    due = truncate(place.now() + timedelta(seconds=_HEAD_START))
    drafts = (Draft(HTTP, data, QUEUES[HTTP], DEFAULT_PRIORITY, run_at=due) for _ in range(count))
    place.load([place.store.inserts.document(draft) for draft in drafts])
    ground.settle()
    return due


def _wait(place: Place, due: datetime) -> float:
    """Seconds from the due instant until nothing waits or runs."""
    ready: Document = {"ready": True, "queue": QUEUES[HTTP], "priority": DEFAULT_PRIORITY, "run_at": due}
    looks: list[tuple[Document, str]] = [(ready, CLAIM), ({"state": RUNNING}, LEASE), ({"line": {"$gt": ""}}, LINE)]
    while any(place.jobs.find_one(wanted, {"_id": 1}, hint=index) for wanted, index in looks):
        if (place.now() - due).total_seconds() > _GIVE_UP:
            raise RuntimeError("the webhooks were not sent in time")
        time.sleep(_LOOK_EVERY)
    return (place.now() - due).total_seconds()
