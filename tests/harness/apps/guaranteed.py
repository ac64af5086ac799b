"""Handlers with guarantees for processes of their own: they must be importable, so they live here."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from mainspring import JobContext, MainspringError
from mainspring.sync import JobContext as BlockingJobContext


def note_and_die(file: str) -> None:
    """Writes down that it was started, and kills its process."""
    with Path(file).open("a") as started:
        started.write("x")
    os.kill(os.getpid(), signal.SIGKILL)


def key_of(ctx: BlockingJobContext) -> str:
    return ctx.idempotency_key


async def commit(ctx: JobContext, number: int) -> None:
    async with ctx.transaction() as tx:
        await tx.db["effects"].insert_one({"_id": number}, session=tx.session)
        tx.result = os.getpid()


def commit_blocking(ctx: BlockingJobContext, number: int) -> None:
    with ctx.transaction() as tx:
        tx.db["effects"].insert_one({"_id": number}, session=tx.session)
        tx.result = os.getpid()


def commit_and_go_on(ctx: BlockingJobContext, file: str, seconds: float) -> None:
    """Completes its job, and writes a file much later."""
    with ctx.transaction():
        pass
    time.sleep(seconds)
    Path(file).write_text("done" if not ctx.is_cancelled else "told to stop")


def commit_twice(ctx: BlockingJobContext, file: str, seconds: float) -> None:
    """Completes its job, tries that again, and writes a file much later: how the second transaction was refused."""
    with ctx.transaction() as tx:
        tx.result = "first"
    said = "not refused"
    try:
        with ctx.transaction() as tx:
            tx.result = "second"
    except MainspringError as error:
        said = str(error)
    time.sleep(seconds)
    Path(file).write_text(said)


async def give_up_transactions(ctx: JobContext, seconds: float) -> str:
    """Rolls one transaction back, does not wait until another one is open, and goes on for long."""
    with suppress(ValueError):
        async with ctx.transaction():
            raise ValueError("rolled back")
    with suppress(TimeoutError):
        async with asyncio.timeout(0), ctx.transaction():
            raise AssertionError("nothing opens at once")
    await asyncio.sleep(seconds)
    return "without a transaction"


def forget(ctx: BlockingJobContext) -> str:
    """Does all its work, and commits nothing."""
    return "done"


async def swallow(ctx: JobContext) -> str:
    """Opens its transaction, and hides that it was rolled back."""
    try:
        async with ctx.transaction():
            raise ValueError("rolled back")
    except ValueError:
        return "done"


async def have_child(ctx: JobContext, fail: bool = False) -> None:
    """Schedules a child in its transaction, and another one that is the same."""
    async with ctx.transaction() as tx:
        options: dict[str, Any] = {"session": tx.session, "delay": 3600, "dedupe_key": "one"}
        child = await ctx.schedule("child", {"n": 1}, **options)
        again = await ctx.schedule("child", {"n": 2}, **options)
        tx.result = [child.id, again.id, again.deduplicated]
        if fail:
            raise ValueError("rolled back")


def have_child_blocking(ctx: BlockingJobContext) -> None:
    with ctx.transaction() as tx:
        tx.result = [ctx.schedule("child", {"n": 3}, session=tx.session, delay=3600).id]
