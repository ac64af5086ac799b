"""What webhooks are sent to: no target, redirect or answer of a DNS server leads to this machine or its network."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

from attack import network
from attack.asking import Answer
from attack.books import Row, probe
from attack.stage import Stage
from attack.targets import OTHER, PORTS
from harness import ssrf
from mainspring import Job

_AT_ONCE = 16
_REDIRECTS = (301, 302, 303, 307, 308)


def corpus(stage: Stage) -> list[str]:
    """All the ways to write a target that must not be called, for a port that is listened on."""
    found = ssrf.urls(stage.targets.port)
    if network.inside():
        hosts = ("127.0.0.1", "169.254.169.254", "10.0.0.1", "[::1]", "[fd00:ec2::254]")
        found += [f"http://{host}:{port}/" for host in hosts for port in PORTS]
    return found


async def create_all(stage: Stage, by: str, bodies: Iterable[dict[str, Any]]) -> list[Answer]:
    """Create many jobs, some at a time; the answers in this order."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def create(body: dict[str, Any]) -> Answer:
        async with gate:
            return await stage.create(by, **body)

    return list(await asyncio.gather(*(create(body) for body in bodies)))


async def run_all(stage: Stage, by: str, bodies: Sequence[dict[str, Any]]) -> list[tuple[Answer, Job | None]]:
    """Create many jobs and let those that were not refused end."""
    answers = await create_all(stage, by, bodies)
    ended = dict(
        zip(
            [one.data["jobId"] for one in answers if one.ok],
            await stage.ends([one.data["jobId"] for one in answers if one.ok]),
            strict=True,
        )
    )
    return [(one, ended[one.data["jobId"]] if one.ok else None) for one in answers]


async def _control(stage: Stage, row: Row) -> None:
    """The listeners hear, and what may be called is called."""
    _, job = await stage.hook("operator", endpoint=stage.targets.url("/control"))
    row.control(job is not None and job.state == "completed", f"a webhook to a public target: {job}")
    before = len(stage.targets.strays)
    host = "10.0.0.1" if network.inside() else "127.0.0.1"
    _, writer = await asyncio.open_connection(host, stage.targets.port)
    writer.close()
    for sink in stage.targets.sinks:
        while sink.connections != len(sink.places):
            await asyncio.sleep(0.01)
    for _ in range(500):
        if len(stage.targets.strays) > before:
            break
        await asyncio.sleep(0.01)
    row.control(len(stage.targets.strays) == before + 1, "a listener hears a connection to a private address")
    for sink in stage.targets.sinks:
        if host in sink.places:
            sink.places.remove(host)
            return


@probe("calls", "No target of the corpus is connected to, created over HTTP or written into the database", fast=True)
async def targets(stage: Stage, row: Row) -> None:
    await _control(stage, row)
    before = len(stage.targets.strays)
    urls = stage.some(corpus(stage), 12)
    for answer, job in await run_all(stage, "operator", [{"endpoint": url} for url in urls]):
        row.check(answer.status in (400, 422) or (job is not None and job.state == "failed"), f"{answer} {job}")
    for url in urls:
        data = {"request": {"url": url}, "target": "x"}
        made = await stage.scheduler.schedule("mainspring:http", data, queue="http", retry=1)
        job = await stage.end(made.id)
        row.check(job.state == "failed", f"a raw job to {url!r} ended as {job.state}")
    _silent(stage, row, before)


def _silent(stage: Stage, row: Row, before: int) -> None:
    strays = stage.targets.strays[before:]
    row.check(not strays, f"connections were made to {strays[:10]}")


@probe("calls", "A name that changes its address between two tries is refused at the second (rebinding)", fast=True)
async def rebinding(stage: Stage, row: Row) -> None:
    before = len(stage.targets.strays)
    public, inner = [network.public()], ["127.0.0.1"]
    many = 5 if stage.quick else 100
    turns = {f"turn-{n}.example": [public, inner] for n in range(many)}
    turns |= {f"late-{n}.example": [[], inner] for n in range(many // 2)}
    turns |= {f"mixed-{n}.example": [[network.public(), "127.0.0.1"], ["10.0.0.1"]] for n in range(many // 10)}
    stage.targets.turns.update(turns)
    options = {"retryAttempts": 1, "retryDelay": 0, "retryOn": ["all"]}
    bodies = [{"endpoint": stage.targets.url("/status/500", name), **options} for name in turns]
    for name, (answer, job) in zip(turns, await run_all(stage, "operator", bodies), strict=True):
        row.check(job is not None and job.state == "failed", f"{answer} {job}")
        row.control(stage.targets.asked(name) >= 2, f"{name} was looked up {stage.targets.asked(name)} times")
    _silent(stage, row, before)


@probe("calls", "No redirect leads to a target of the corpus", fast=True)
async def redirects(stage: Stage, row: Row) -> None:
    before = len(stage.targets.strays)
    places = [one for one in corpus(stage) if one.isascii() and one.isprintable()]
    chosen = stage.dice.sample(places, 4 if stage.quick else 40)
    bodies = [
        {"endpoint": stage.targets.url(f"/to/{status}?place={quote(place, safe='')}"), "redirects": 3}
        for place in chosen
        for status in (_REDIRECTS if not stage.quick else (302, 307))
    ]
    for answer, job in await run_all(stage, "operator", bodies):
        row.check(job is not None and job.state in ("failed", "completed"), f"{answer} {job}")
    _silent(stage, row, before)


@probe("calls", "A redirect to another host takes no credential along", fast=True)
async def redirected_credentials(stage: Stage, row: Row) -> None:
    stage.targets.clear()
    place = stage.targets.url("/second", OTHER)
    headers = {"Authorization": "Bearer zqcredential", "X-Api-Key": "zqcredential", "Cookie": "a=zqcredential"}
    endpoints = [stage.targets.url(f"/to/{status}?place={quote(place, safe='')}") for status in _REDIRECTS]
    for endpoint in endpoints:
        _, job = await stage.hook("operator", endpoint=endpoint, headers=headers, redirects=2)
        row.control(job is not None, endpoint)
    seen = stage.targets.at("/second")
    row.control(seen, "a redirect to another public host is followed")
    for one in seen:
        row.check("zqcredential" not in repr(one.headers), f"the second host received {one.headers}")
    row.check(all("zqcredential" in repr(one.headers) for one in stage.targets.at("/to/")), "the first host's headers")
