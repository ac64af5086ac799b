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
    """Do something on a database, and let go of it."""
    set_up_logs("warning")

    async def run() -> T:
        scheduler = Scheduler(uri)
        try:
            return await work(scheduler)
        finally:
            await scheduler.stop()

    return asyncio.run(run())


def actor() -> str:
    """The user of the command, by the name that the user has on this machine."""
    try:
        return f"cli:{getpass.getuser()}"
    except (OSError, KeyError, ImportError):
        return "cli"
