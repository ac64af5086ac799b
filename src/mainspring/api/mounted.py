"""The service inside another ASGI application: `app.mount("/jobs", mainspring.asgi(scheduler))`.

An application that mounts another does not pass its start and its end on, so the service starts with its first request.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from starlette.types import Receive, Scope, Send

from mainspring.api import problems
from mainspring.api.app import make_app
from mainspring.api.settings import ServiceSettings
from mainspring.client.scheduler import Scheduler, check_async
from mainspring.errors import MainspringError


class MountedService:
    """The HTTP service and the dashboard of a scheduler as an ASGI application, to be mounted or served by itself.
    Every request needs an API key, or a session that was opened with one."""

    def __init__(self, scheduler: Scheduler, settings: ServiceSettings) -> None:
        check_async(scheduler, "asgi()")
        self._scheduler = scheduler
        self._app = make_app(scheduler, settings)
        self._starting = asyncio.Lock()
        self._started = False
        self._stack = AsyncExitStack()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            self._started = True  # served by itself: the application starts and ends with the server
        elif scope["type"] == "http" and not self._started:
            try:
                await self._start()
            except MainspringError as error:
                await problems.answer(problems.as_problem(error))(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _start(self) -> None:
        async with self._starting:
            if not self._started:
                await self._scheduler.connect()
                await self._stack.enter_async_context(self._app.state.service.kept())
                self._started = True

    async def aclose(self) -> None:
        """End what the first request has started. The application that mounts the service calls it at its own end, so
        that the last rows of the audit log are written and open streams end."""
        self._app.state.service.closing.set()
        await self._stack.aclose()
