"""Pages of the dashboard that are open while ten thousand jobs change in every second: their CPU, and their memory.

A process of its own writes the changes straight into the collection: it stores jobs that have ended, in batches that
cost little to make, so that two cores suffice for it, MongoDB, the service and the browser. The pages are in a real
browser, each in a renderer process of its own, which the operating system meters. A follower of the digests, as the
pages are, counts the changes that the service has told of: on a small machine the service may fall behind the writer.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from typing import Any

import aiohttp
import bson
import psutil  # type: ignore[import-untyped]
from bson import ObjectId
from bson.raw_bson import RawBSONDocument
from playwright.async_api import Browser, CDPSession
from pymongo import MongoClient, WriteConcern

from bench.beside import fill, finished_job
from bench.dashboard import stored_job
from bench.ground import Document, Ground, Place
from bench.options import Options
from bench.report import Bar, Row
from bench.service import serving
from harness.browsing import DESK, chromium, missing
from harness.stored import NAMES, QUEUES

RATE = 10_000
_PAGES = ("/", "/jobs")
_BATCH = 1_000
_KINDS = 100
_LOOKS = 12
_SETTLE = 15.0
# Told of fewer changes a second than this, a page has nothing to do, and its figures say nothing.
_FED = 1_000
_TOLD = Bar("value", 0.97 * RATE)
_CPU = Bar("value", 5.0, at_most=True)
_FLAT = Bar("ratio", 1.25, at_most=True)


@dataclass
class _Watched:
    """One open page."""

    path: str
    session: CDPSession
    renderer: psutil.Process
    heap: list[float] = field(default_factory=list)
    cpu: float = 0.0
    reads: int = 0
    """The requests that the page has made while it was metered: a page that makes none is not live."""

    async def look(self) -> None:
        """Note the heap that is in use after a collection of garbage."""
        await self.session.send("HeapProfiler.collectGarbage")
        usage = await self.session.send("Runtime.getHeapUsage")
        self.heap.append(usage["usedSize"] / 1e6)

    def note_read(self) -> None:
        self.reads += 1

    def used(self) -> float:
        times = self.renderer.cpu_times()
        return float(times.user + times.system)


def measure(ground: Ground, options: Options) -> list[Row]:
    """The rows for pages that are open for long."""
    if reason := missing():
        raise RuntimeError(f"the dashboard cannot be opened: {reason}")
    with ground.place() as place:
        fill(place, options.soak_jobs, stored_job)
        ground.settle()
        with serving(place) as url:
            return asyncio.run(_soak(place, url, options.soak_seconds))


async def _soak(place: Place, url: str, seconds: float) -> list[Row]:
    async with chromium() as browser, aiohttp.ClientSession() as session:
        pages = [await _open(browser, url, path) for path in _PAGES]
        with _writing(place) as written:
            await asyncio.sleep(_SETTLE)
            async with _told(session, url) as told:
                began, before = time.perf_counter(), written.value
                took = await _watch(pages, seconds)
                wrote, heard = written.value - before, told.jobs
                wall = time.perf_counter() - began
    rates = Row("soak: changes of jobs written", "a second", [wrote / wall])
    rates.note = f"{RATE:,} a second were asked for, for {wall:.0f} s; {', '.join(_PAGES)} were open"
    digests = Row("soak: changes that the service told of", "a second", [heard / wall], "written", rates.samples, _TOLD)
    if heard / wall < _FED:
        raise RuntimeError(f"the pages were told of {heard / wall:,.0f} changes a second: the machine is too busy")
    return [rates, digests, *(row for page in pages for row in _rows(page, took))]


async def _watch(pages: list[_Watched], seconds: float) -> float:
    """Meter the pages for so long, and look at their heaps at even intervals. The looks are not metered."""
    took = 0.0
    for page in pages:
        await page.look()
        page.reads = 0
    for _ in range(_LOOKS):
        before, started = [page.used() for page in pages], time.perf_counter()
        await asyncio.sleep(seconds / _LOOKS)
        took += time.perf_counter() - started
        for page, used in zip(pages, before, strict=True):
            page.cpu += page.used() - used
            await page.look()
    return took


def _rows(page: _Watched, took: float) -> list[Row]:
    if not page.reads:
        raise RuntimeError(f"the page {page.path} has read nothing: it is not live")
    cpu = Row(f"soak: renderer of {page.path}: CPU", "% of a core", [100 * page.cpu / took], bar=_CPU)
    cpu.note = f"{page.reads / took:.2f} reads of the API a second"
    # The first looks are of a page that still fills its lists and charts.
    early, late = page.heap[1 : 1 + _LOOKS // 3], page.heap[-(_LOOKS // 3) :]
    heap = Row(f"soak: heap of {page.path}, last third", "MB", late, "first third", early, _FLAT)
    heap.note = "MB at even intervals: " + ", ".join(f"{one:.1f}" for one in page.heap)
    return [cpu, heap]


async def _open(browser: Browser, url: str, path: str) -> _Watched:
    """A page in a context of its own, and so with a stream and a renderer of its own."""
    known = {one.pid for one in _renderers()}
    context = await browser.new_context(viewport=DESK)  # type: ignore[arg-type]
    page = await context.new_page()
    await page.goto(url + path)
    await page.locator("h1").first.wait_for()
    session = await context.new_cdp_session(page)
    await session.send("HeapProfiler.enable")
    new = [one for one in _renderers() if one.pid not in known]
    watched = _Watched(path, session, max(new, key=lambda one: one.cpu_times().user))
    page.on("request", lambda _: watched.note_read())
    return watched


def _renderers() -> list[psutil.Process]:
    """The processes that render pages. The browser's own frame has renderers, too, and a spare one is idle."""
    commands = [(one, " ".join(one.cmdline())) for one in psutil.Process().children(recursive=True)]
    return [one for one, command in commands if "--type=renderer" in command and "--top-chrome-webui" not in command]


# -- the changes -------------------------------------------------------------------------------------------------------


@dataclass
class _Heard:
    """The changes that a follower of digests was told of."""

    jobs: int = 0


@asynccontextmanager
async def _told(session: aiohttp.ClientSession, url: str) -> AsyncIterator[_Heard]:
    heard = _Heard()

    async def follow() -> None:
        patience = aiohttp.ClientTimeout(total=None)
        async with session.get(f"{url}/api/events?digest=1s", timeout=patience) as answer:
            event = b""
            async for line in answer.content:
                name, _, value = line.strip().partition(b": ")
                event = value if name == b"event" else event
                if name == b"data" and event == b"digest":
                    heard.jobs += json.loads(value)["jobs"]

    task = asyncio.ensure_future(follow())
    try:
        yield heard
    finally:
        task.cancel()
        await asyncio.wait({task})


class _Count:
    """A number that another process raises."""

    def __init__(self) -> None:
        self.shared = multiprocessing.get_context("spawn").Value("q", 0)

    @property
    def value(self) -> int:
        return int(self.shared.value)


@contextmanager
def _writing(place: Place) -> Iterator[_Count]:
    context, count = multiprocessing.get_context("spawn"), _Count()
    stop = context.Event()
    given = (place.uri, place.name, place.documents(1)[0], stop, count.shared)
    writer = context.Process(target=_write, args=given, daemon=True)
    writer.start()
    try:
        yield count
    finally:
        stop.set()
        writer.join(30)


def _write(uri: str, database: str, template: Document, stop: Event, count: object) -> None:
    """Store jobs, a batch at a time, as often as was asked for."""
    kinds = [_Kind.of(template, number) for number in range(_KINDS)]
    with MongoClient[Mapping[str, Any]](uri) as client:
        jobs = client[database].get_collection("jobs", write_concern=WriteConcern(1, j=False))
        began, written = time.perf_counter(), 0
        while not stop.is_set():
            jobs.insert_many([kinds[number % _KINDS].job() for number in range(_BATCH)], ordered=False)
            written += _BATCH
            count.value = written  # type: ignore[attr-defined]
            time.sleep(max(0.0, began + written / RATE - time.perf_counter()))


@dataclass(frozen=True)
class _Kind:
    """The encoded document of a job around its id, of which a job with another id is made without encoding it anew."""

    before: bytes
    after: bytes

    @classmethod
    def of(cls, template: Document, number: int) -> _Kind:
        document = finished_job(template, template["created_at"])
        document |= {"name": f"name-{number % NAMES}", "queue": f"queue-{number % QUEUES}"}
        before, after = bson.encode(document).split(document["_id"].binary, 1)
        return cls(before, after)

    def job(self) -> RawBSONDocument:
        return RawBSONDocument(self.before + ObjectId().binary + self.after)
