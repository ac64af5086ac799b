"""A request of a command in its own process ends with the command, also where Ctrl-C interrupts it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mainspring.cli.calls.in_process import _Exchange

Send = Callable[[dict[str, Any]], Awaitable[None]]


@pytest.mark.parametrize("answered", [False, True], ids=["before its answer", "within its answer"])
async def test_an_interrupted_request_has_ended_when_the_interrupt_is_told(answered: bool) -> None:
    reached, left = asyncio.Event(), asyncio.Event()

    async def app(scope: object, receive: object, send: Send) -> None:
        if answered:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # as the rollback of a database call does
            left.set()

    async def call() -> None:
        exchange = _Exchange(app, "GET", "/api/overview", None)
        await exchange.begin()
        await exchange.rest()

    calling = asyncio.create_task(call())
    await reached.wait()
    await asyncio.sleep(0)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert left.is_set()
