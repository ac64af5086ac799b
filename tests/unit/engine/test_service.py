"""The loops of a worker: how their tasks are ended."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

from mainspring.engine.service import cancel_task


async def test_an_error_of_the_driver_while_its_task_is_cancelled_is_not_reported_as_unread() -> None:
    reports: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    earlier = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, report: reports.append(report))

    async def connecting() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise RuntimeError("Lock is not acquired")

    task = asyncio.create_task(connecting())
    await asyncio.sleep(0)
    await cancel_task(task)
    del task
    gc.collect()
    await asyncio.sleep(0)
    loop.set_exception_handler(earlier)
    assert reports == []
