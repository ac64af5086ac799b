"""A server that webhooks are sent to: `python -m bench.sink` prints its port, and says yes to everything."""

from __future__ import annotations

import asyncio

from aiohttp import web

from bench.app import run, say


async def hook(request: web.Request) -> web.Response:
    await request.read()
    return web.Response(text="ok")


async def serve() -> None:
    app = web.Application()
    app.router.add_post("/hook", hook)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    say(str(runner.addresses[0][1]))
    await asyncio.Event().wait()


if __name__ == "__main__":
    run(serve())
