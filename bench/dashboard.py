"""The dashboard with very much stored: what each request of its pages takes, and examines in the database.

The pages are opened in a browser before the service, so that a request that a page makes is measured without being
listed here. Then each request is made several times, one at a time, and once more beside the profiler. The service is a
process of its own. Jobs and schedules are stored in bulk, past the product; the counts of a month by its own verbs.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Iterator
from datetime import datetime, timedelta

import aiohttp

from bench.beside import fill
from bench.ground import Document, Ground, Place
from bench.options import Options
from bench.report import Bar, Row
from bench.service import serving
from bench.shelf import future, store, templates
from harness.browsing import DESK, PAGES, chromium, missing, reads_of
from harness.inside import inside
from harness.profiling import Spent
from harness.stored import NAMES, QUEUES, STATES, used_job
from mainspring import Scheduler
from mainspring.model.views.statistics import Counts, Kind
from mainspring.store.schema import BY_ID

_WORST_MS = Bar("worst", 200.0, at_most=True)
_KEYS = Bar("worst", 2_000.0, at_most=True)
_MONTH = timedelta(days=30)
_ID = re.compile(r"[0-9a-f]{24}")
_VARYING = re.compile(r"(?<=[?&])(cursor|start|end)=[^&]*")


def measure(ground: Ground, options: Options) -> list[Row]:
    """The rows for the dashboard."""
    if reason := missing():
        raise RuntimeError(f"the dashboard cannot be opened: {reason}")
    with ground.place() as place:
        asyncio.run(_stock(place, options))
        ground.settle()
        with serving(place) as url:
            reads = asyncio.run(_reads(place, url))
            rows = asyncio.run(_replayed(ground, place, url, reads, options.dashboard_asks))
    keys = [row.details["keys"] for row in rows]
    examined = Row("a request of the dashboard: examined", "keys", keys, bar=_KEYS)
    examined.note = f"{len(rows)} requests; {options.dashboard_jobs:,} jobs, {options.dashboard_schedules:,} schedules"
    return [examined, *rows]


# -- what is stored ----------------------------------------------------------------------------------------------------


async def _stock(place: Place, options: Options) -> None:
    """Fill a database with jobs, schedules, and the counts of a month."""
    fill(place, options.dashboard_jobs, stored_job)
    kinds = await templates(place, "name-1", {"n": 0})
    documents = future(place, kinds, options.dashboard_schedules)
    store(place, ({**document, "_id": f"schedule-{n}"} for n, document in enumerate(documents)))
    scheduler = await Scheduler(place.uri, database=place.name).connect()
    try:
        whole = await inside(scheduler).store()
        for at in _minutes(place.now()):
            await whole.statistics.add("past", list(_counts(at)))
        while await whole.statistics.roll_up():
            pass
    finally:
        await scheduler.stop()


def stored_job(template: Document, now: datetime) -> Document:
    """Any job of a database in use; ended ones ended within three days."""
    return used_job(template, now, random.randrange(10_000_000), timedelta(days=3))


def _minutes(now: datetime) -> Iterator[datetime]:
    """Every minute of the last hours, and one of each hour of the month before."""
    at = now.replace(second=0, microsecond=0)
    yield from (at - timedelta(minutes=n) for n in range(6 * 60))
    yield from (at - timedelta(hours=n) for n in range(6, _MONTH // timedelta(hours=1)))


def _counts(at: datetime) -> Iterator[tuple[Kind, Counts]]:
    for n in range(NAMES):
        counts = Counts()
        for _ in range(5):
            counts.began(random.randrange(400))
            counts.ended("failed" if random.random() < 0.03 else "completed", random.randrange(5_000))
        yield Kind(at, f"queue-{n % QUEUES}", f"name-{n}"), counts


# -- what is asked -----------------------------------------------------------------------------------------------------


async def _reads(place: Place, url: str) -> list[str]:
    """Every read of the API that any page makes."""
    ones = [place.jobs.find_one({"state": state}, {"_id": 1}, hint=BY_ID) for state in STATES]
    jobs = [f"/jobs/{one['_id']}" for one in ones if one is not None]
    async with chromium() as browser:
        page = await (await browser.new_context(viewport=DESK)).new_page()  # type: ignore[arg-type]
        return await reads_of(page, url, (*PAGES, *jobs))


async def _replayed(ground: Ground, place: Place, url: str, reads: list[str], asks: int) -> list[Row]:
    rows: dict[str, Row] = {}
    async with aiohttp.ClientSession() as session:
        for path in reads:
            name = "GET " + _VARYING.sub(r"\1=…", _ID.sub("ID", path))
            row = rows.setdefault(name, Row(name, "ms", [], bar=_WORST_MS, details={"keys": 0, "documents": 0}))
            row.samples += [await _ask(session, url + path) for _ in range(asks)]
            with ground.profiled(place.name) as spent:
                await _ask(session, url + path)
            _note(row, spent)
    return list(rows.values())


async def _ask(session: aiohttp.ClientSession, address: str) -> float:
    """The milliseconds until a request is answered in full."""
    started = time.perf_counter()
    async with session.get(address) as answer:
        await answer.read()
        answer.raise_for_status()
    return 1000 * (time.perf_counter() - started)


def _note(row: Row, spent: Spent) -> None:
    """Note the dearest of several requests of one name, such as the pages of a search."""
    keys, documents = max(spent.keys, row.details["keys"]), max(spent.documents, row.details["documents"])
    row.details |= {"keys": keys, "documents": documents}
    row.note = f"{keys:,} keys, {documents:,} documents"
    if spent.scans:
        raise RuntimeError(f"{row.name} scans a collection")
