"""The demonstration that `mainspring up` runs without an application: handlers, and jobs for them now and then."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator
from typing import Any

from mainspring.client.scheduler import Scheduler
from mainspring.config.settings import DEFAULT_FOLDER, EMBEDDED
from mainspring.engine.run.context import BlockingJobContext, JobContext
from mainspring.model.jobs.retry import Retry

# Never the database that the environment names: the demonstration must not write to it by accident.
scheduler = Scheduler(EMBEDDED + DEFAULT_FOLDER, keep_finished=86_400)

_SAMPLES: tuple[dict[str, Any], ...] = (
    {"name": "send-email", "data": {"to": "user@example.com", "subject": "Welcome"}},
    {"name": "generate-report", "data": {"kind": "finance"}},
    {"name": "retry-demo", "data": {"succeed_after_attempt": 3}},
    {"name": "send-email", "data": {"to": "admin@example.com", "subject": "System alert"}, "priority": 1},
    {"name": "crash-demo", "data": {}},
    {"name": "send-email", "data": {"to": "later@example.com", "subject": "As planned"}, "delay": 3},
)
FIRST_SAMPLE = _SAMPLES[0]


def samples() -> Iterator[dict[str, Any]]:
    """Yield jobs to schedule: each kind once, then random ones without end."""
    yield from _SAMPLES
    while True:
        yield random.choice(_SAMPLES)


@scheduler.job("send-email", retry=Retry(attempts=3, delay=1), timeout=30)
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
