"""FastAPI and Starlette: a lifespan that opens and closes a Scheduler, and a dependency that gives it to endpoints.

    scheduler = Scheduler()
    app = FastAPI(lifespan=lifespan(scheduler))
    app.mount("/jobs", mainspring.asgi(scheduler))


    @app.post("/orders")
    async def order(scheduler: Annotated[Scheduler, Depends(get_scheduler)]) -> …

The scheduler is that of the application, under `app.state.mainspring`. It needs the extra `api`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from mainspring.client.scheduler import Scheduler, check_async
from mainspring.errors import ConfigurationError

try:
    from starlette.requests import HTTPConnection

    from mainspring.api.mounted import MountedService
except ModuleNotFoundError as error:
    raise ConfigurationError(f"FastAPI needs the extra 'api': pip install \"mainspring[api]\" ({error}).") from None

Lifespan = Callable[[Any], AbstractAsyncContextManager[None]]


def lifespan(scheduler: Scheduler, *, worker: bool = False) -> Lifespan:
    """The lifespan of an application: it connects the scheduler at the start and closes it at the end, with a mounted
    `mainspring.asgi(scheduler)`. With `worker`, jobs run in the application's own process as well. A lifespan of your
    own enters it: `async with lifespan(scheduler)(app): yield`."""
    check_async(scheduler, "lifespan()")

    @asynccontextmanager
    async def run(app: Any) -> AsyncIterator[None]:
        await (scheduler.start() if worker else scheduler.connect())
        app.state.mainspring = scheduler
        try:
            yield
        finally:
            await _close_mounted(app)
            await scheduler.stop()

    return run


async def _close_mounted(app: Any) -> None:
    """End the services that are mounted: an application does not pass its end on to them."""
    for route in getattr(app, "routes", ()):
        if isinstance(getattr(route, "app", None), MountedService):
            await route.app.aclose()


def get_scheduler(connection: HTTPConnection) -> Scheduler:
    """The scheduler of the application, for `Depends(get_scheduler)`, in endpoints of HTTP and of WebSockets."""
    found = getattr(connection.app.state, "mainspring", None)
    if not isinstance(found, Scheduler):
        raise ConfigurationError(
            "This application has no scheduler: make it with FastAPI(lifespan=lifespan(scheduler)). A mounted "
            "application has a state of its own: set its state.mainspring to the scheduler."
        )
    return found
