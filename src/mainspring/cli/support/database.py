"""Running one operation on the database from a command, and the actor of its audit entry."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mainspring.cli.support.logs import set_up_logs
from mainspring.client.scheduler import Scheduler

T = TypeVar("T")


def on_database(uri: str | None, work: Callable[[Scheduler], Awaitable[T]]) -> T:
    """Run one operation on a database, and close the connection."""
    set_up_logs("warning")

    async def run() -> T:
        scheduler = Scheduler(uri)
        try:
            return await work(scheduler)
        finally:
            await scheduler.stop()

    return asyncio.run(run())


def actor() -> str:
    """The actor of a command: the name of its user on this machine."""
    try:
        return f"cli:{getpass.getuser()}"
    except (OSError, KeyError, ImportError):
        return "cli"
