"""The demonstration's scheduler and its handlers. They only pretend to do something: nothing leaves this machine."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from typing import Any

from mainspring.client.scheduler import Scheduler
from mainspring.config.settings import DEFAULT_FOLDER, EMBEDDED
from mainspring.engine.run.context import BlockingJobContext, JobContext
from mainspring.model.fields import Fields
from mainspring.model.jobs.retry import Retry
from mainspring.model.limits.breaker import Breaker
from mainspring.model.limits.limits import Limit

# Never the database that the environment names: the demonstration must not write to it by accident.
scheduler = Scheduler(EMBEDDED + DEFAULT_FOLDER, keep_finished=86_400)

_DAILY_WORK = {
    # The work of schedules: its queue, and the seconds that it takes.
    "nightly-backup": ("maintenance", 4.0),
    "renew-certificates": ("maintenance", 1.0),
    "clean-sessions": ("maintenance", 0.4),
    "rebuild-search-index": ("maintenance", 6.0),
    "sync-inventory": ("sync", 1.5),
    "exchange-rates": ("sync", 0.5),
    "probe-health": ("sync", 0.2),
    "morning-digest": ("mail", 1.0),
    "weekly-report": ("reports", 3.0),
    "invoice-run": ("billing", 3.0),
    "quarter-close": ("reports", 5.0),
    "payroll-export": ("billing", 2.0),
}


class CardDeclined(Exception):
    """The bank refused a payment."""


class FeedError(Exception):
    """A supplier's feed cannot be read."""


class ShardError(Exception):
    """A part of a table cannot be read."""


class TotalsDiffer(Exception):
    """Two sources disagree."""


@scheduler.job("send-email", queue="mail", retry=Retry(attempts=3, delay=1), timeout=30)
async def send_email(ctx: JobContext, to: str, subject: str) -> str:
    """Pretends to send an email."""
    ctx.log(f"Connecting to the mail server for {to}")
    await asyncio.sleep(random.uniform(0.1, 0.6))
    return f"{subject!r} sent to {to}"


@scheduler.job("generate-report", queue="reports")
def generate_report(ctx: BlockingJobContext, kind: str) -> Fields:
    """A sync function, which runs in a thread and reports its progress."""
    for percent, note in ((25, "reading"), (50, "adding up"), (75, "drawing")):
        time.sleep(0.5)
        ctx.progress(percent, note)
    return {"kind": kind, "pages": 12}


@scheduler.job("retry-demo", retry=Retry(attempts=5, delay=0.5, backoff="exponential"))
async def retry_demo(ctx: JobContext, succeed_after_attempt: int = 3) -> str:
    """Fails until the attempt `succeed_after_attempt`."""
    if ctx.attempt < succeed_after_attempt:
        raise RuntimeError(f"this was attempt {ctx.attempt}, number {succeed_after_attempt} will work")
    return f"worked at attempt {ctx.attempt}"


@scheduler.job("crash-demo", isolation="process", retry=Retry(attempts=2, delay=1))
def crash_demo() -> None:
    """Kills its own process; the worker goes on, and the job becomes a dead letter after its last attempt."""
    os.kill(os.getpid(), signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)


@scheduler.job("resize-image", queue="media", concurrency=Limit(1, key="customer"), timeout=60)
async def resize_image(ctx: JobContext, customer: str, image: str) -> Fields:
    """One at a time for each customer: the others of the same customer wait."""
    for percent, size in ((0, 160), (33, 640), (66, 1280)):
        ctx.progress(percent, f"{size} pixels wide")
        await asyncio.sleep(random.uniform(2, 4))
    return {"customer": customer, "image": image, "sizes": [160, 640, 1280]}


@scheduler.job(
    "charge-card", queue="billing", retry=Retry(attempts=2, delay=5), breaker=Breaker(0.5, 300, 20, 600, key="gateway")
)
async def charge_card(ctx: JobContext, order: str, amount: str, gateway: str) -> Fields:
    """Each gateway has a breaker of its own."""
    ctx.log(f"Charging {amount} EUR for {order} through {gateway}")
    await asyncio.sleep(random.uniform(0.2, 1.2))
    if random.random() < 0.05:
        raise CardDeclined(f"order {order}: the bank answered 05, do not honour")
    return {"order": order, "amount": amount, "receipt": f"R-{random.randrange(10**8):08d}"}


@scheduler.job("import-feed", queue="sync", retry=Retry(attempts=2, delay=3))
async def import_feed(ctx: JobContext, supplier: str) -> None:
    """Fails always, so that its schedule has something to show."""
    ctx.log(f"Reading the feed of {supplier}")
    await asyncio.sleep(0.5)
    raise FeedError(f"line {random.randrange(200, 900)} of the feed of {supplier} has 7 columns instead of 9")


@scheduler.job("extract-rows", queue="pipeline", timeout=60)
async def extract_rows(ctx: JobContext, table: str) -> Fields:
    """The first step of the demonstration's flows."""
    ctx.log(f"Reading the table {table}")
    await asyncio.sleep(random.uniform(1, 2))
    return {"rows": 18_204, "shards": list(range(1, 9))}


@scheduler.job("aggregate-shard", queue="pipeline", retry=Retry(attempts=2, delay=1))
async def aggregate_shard(shard: int) -> dict[str, int]:
    """One shard is broken, which its map tolerates."""
    await asyncio.sleep(random.uniform(0.5, 3))
    if shard == 5:
        raise ShardError("shard 5 has no index")
    return {"shard": shard, "orders": random.randrange(200, 900)}


@scheduler.job("check-totals", queue="pipeline", retry=Retry(attempts=2, delay=2))
async def check_totals(ctx: JobContext, rows: int) -> None:
    """Fails always, so that its flow has a failed branch."""
    ctx.log(f"Comparing {rows} rows with the ledger")
    await asyncio.sleep(1)
    raise TotalsDiffer(f"the ledger has {rows + 7} rows, the table {rows}")


@scheduler.job("load-warehouse", queue="pipeline", timeout=60)
async def load_warehouse(ctx: JobContext, warehouse: str) -> str:
    """The last step of the demonstration's flows."""
    await asyncio.sleep(random.uniform(1, 3))
    return f"loaded into {warehouse}"


@scheduler.job("render-page", queue="pages", concurrency=2)
async def render_page(ctx: JobContext, category: str, part: int) -> str:
    """Two at a time, so that the map of these can be watched."""
    for percent in (0, 50):
        ctx.progress(percent, "drawing")
        await asyncio.sleep(random.uniform(4, 10))
    return f"/{category}/{part}.html"


@scheduler.job("approve-prices", queue="pipeline")
async def approve_prices(ctx: JobContext, rows: int) -> Any:
    """Waits for a person, and holds no slot of the worker meanwhile."""
    return await ctx.wait_for("approved")


def _add_daily_work(name: str, queue: str, seconds: float) -> None:
    async def work(ctx: JobContext, **data: Any) -> Fields:
        ctx.log("Started")
        await asyncio.sleep(seconds)
        return {"items": random.randrange(20, 400)}

    scheduler.job(name, queue=queue, timeout=300)(work)


for _name, (_queue, _seconds) in _DAILY_WORK.items():
    _add_daily_work(_name, _queue, _seconds)
