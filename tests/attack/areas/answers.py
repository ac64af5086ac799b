"""Answers of targets that are meant to harm the worker: memory, time, and what it is made to believe."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from urllib.parse import quote

from bson import ObjectId

from attack import network
from attack.books import Row, probe
from attack.stage import Stage
from harness.mail import make_certificate
from harness.sinks import Sink, reply

T = TypeVar("T")
_BOMBS = ("/gzip", "/body/said", "/body/unsaid", "/chunks", "/headers", "/header", "/continue")
_SLOW = ("/slow/headers", "/slow/body", "/silent")
_ROOM = 64 * 1024 * 1024
"""How much memory a worker may take beyond what it had, whatever a target answers."""
_LATE = ("10000000000", "99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT", "-1", "0x10", "1e9", "nonsense")


async def watched(stage: Stage, work: Awaitable[T]) -> tuple[T, int]:
    """Do something, and tell by how many bytes the product's memory rose at most meanwhile."""
    before = peak = stage.service.memory
    task = asyncio.ensure_future(work)
    while not task.done():
        peak = max(peak, stage.service.memory)
        await asyncio.wait({task}, timeout=0.02)
    return task.result(), peak - before


@probe("answers", "No answer of a target makes a worker take more memory than it is allowed", fast=True)
async def bombs(stage: Stage, row: Row) -> None:
    _, job = await stage.hook("operator", endpoint=stage.targets.url("/warm"))
    row.control(job is not None and job.state == "completed", "a webhook to a public target")
    most = 0
    for path in stage.some(_BOMBS, 3):
        (answer, job), rose = await watched(
            stage, stage.hook("operator", endpoint=stage.targets.url(path), timeout="30s")
        )
        most = max(most, rose)
        row.check(job is not None and rose < _ROOM, f"{answer}: {rose / 1e6:.0f} MB more, {job and job.state}")
    row.note = f"{most / 1e6:.0f} MB at most"
    row.check(stage.service.command.process.poll() is None, "the worker ended")


@probe("answers", "A target that is slow, or silent, holds a job no longer than its timeout")
async def slowness(stage: Stage, row: Row) -> None:
    bodies = [{"endpoint": stage.targets.url(path), "timeout": "2s"} for path in _SLOW]
    answers = [await stage.create("operator", **body) for body in bodies]
    for answer in answers:
        row.control(answer.ok, answer)
        try:
            state = (await stage.end(answer.data["jobId"], 30)).state
        except TimeoutError:
            state = "running"
            await stage.client.post(f"/api/jobs/{answer.data['jobId']}/cancel", "operator", {})
        row.check(state == "failed", f"{answer}: {state} after 30 s")


@probe(
    "answers",
    "A target cannot put a job off beyond a day, nor leave a cookie, nor be anybody by its certificate",
    fast=True,
)
async def beliefs(stage: Stage, row: Row) -> None:
    for value in stage.some(_LATE, 3):
        made = await stage.made("operator", endpoint=stage.targets.url(f"/later/{quote(value)}"), retryAttempts=1)
        job = await _after_first_try(stage, made)
        latest = datetime.now(UTC) + timedelta(days=1, minutes=1)
        row.check(
            job["run_at"].replace(tzinfo=UTC) <= latest, f"Retry-After: {value} put the job off to {job['run_at']}"
        )
        await stage.client.post(f"/api/jobs/{made}/cancel", "operator", {})
    stage.targets.clear()
    for path in ("/cookies", "/after-cookies"):
        _, ended = await stage.hook("operator", endpoint=stage.targets.url(path))
        row.control(ended is not None and ended.state == "completed", path)
    row.check(all(one.header("Cookie") is None for one in stage.targets.received), "a cookie was kept and sent")
    await _certificate(stage, row)


async def _after_first_try(stage: Stage, job_id: str) -> dict[str, Any]:
    for _ in range(1000):
        found: dict[str, Any] | None = await stage.db.jobs.find_one({"_id": ObjectId(job_id)})
        if found is not None and (found.get("attempts") or found["state"] in ("failed", "completed")):
            return found
        await asyncio.sleep(0.02)
    raise AssertionError(f"no attempt at {job_id}")


async def _certificate(stage: Stage, row: Row) -> None:
    """A target that says it is another host, with a certificate of its own making."""
    _, context = make_certificate(stage.folder)
    heard = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal heard
        heard += 1
        writer.write(reply())
        writer.close()

    async with AsyncExitStack() as stack:
        server = await asyncio.start_server(serve, network.public(), 0, ssl=context)
        stack.callback(server.close)
        port = server.sockets[0].getsockname()[1]
        answer, job = await stage.hook("operator", endpoint=f"https://evil.test:{port}/", headers={"X-Secret": "s"})
        row.control(answer.ok, answer)
        row.check(job is not None and job.state == "failed" and heard == 0, f"{answer}: {job and job.state}")


@probe("answers", "Proxy settings of the environment are not used: targets are judged by their own address")
async def proxy_variables(stage: Stage, row: Row) -> None:
    async with Sink("127.0.0.1", 0) as proxy:
        names = ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
        service = await stage.serve("up", "target:scheduler", "--uri", stage.spare(), **dict.fromkeys(names, proxy.url))
        made = await service.client.post("/api/jobs", None, {"endpoint": stage.targets.url("/direct")})
        row.control(made.ok, made)
        waited = await service.client.get(f"/api/jobs/{made.data['jobId']}/wait?timeout=30s")
        row.control(waited.ok, waited)
        row.check(proxy.connections == 0 and stage.targets.at("/direct"), f"{made}: {proxy.connections} at the proxy")
        service.command.stop()
