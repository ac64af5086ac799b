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


@scheduler.job("send-email", queue="mail", retry=Retry(attempts=3, delay=1), timeout=30)
async def send_email(ctx: JobContext, to: str, subject: str) -> str:
    """Pretends to send an email."""
    ctx.log(f"Connecting to the mail server for {to}")
    await asyncio.sleep(random.uniform(0.1, 0.6))
    return f"{subject!r} sent to {to}"


@scheduler.job("generate-report", queue="reports")
def generate_report(ctx: BlockingJobContext, kind: str) -> dict[str, Any]:
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
async def resize_image(ctx: JobContext, customer: str, image: str) -> dict[str, Any]:
    """One at a time for each customer: the others of the same customer wait."""
    for percent, size in ((0, 160), (33, 640), (66, 1280)):
        ctx.progress(percent, f"{size} pixels wide")
        await asyncio.sleep(random.uniform(2, 4))
    return {"customer": customer, "image": image, "sizes": [160, 640, 1280]}


@scheduler.job(
    "charge-card", queue="billing", retry=Retry(attempts=2, delay=5), breaker=Breaker(0.5, 300, 20, 600, key="gateway")
)
async def charge_card(ctx: JobContext, order: str, amount: str, gateway: str) -> dict[str, Any]:
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


def _add_daily_work(name: str, queue: str, seconds: float) -> None:
    async def work(ctx: JobContext, **data: Any) -> dict[str, Any]:
        ctx.log("Started")
        await asyncio.sleep(seconds)
        return {"items": random.randrange(20, 400)}

    scheduler.job(name, queue=queue, timeout=300)(work)


for _name, (_queue, _seconds) in _DAILY_WORK.items():
    _add_daily_work(_name, _queue, _seconds)
