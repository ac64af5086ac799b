"""A Scheduler in the lifespan of a FastAPI application, and as a dependency of its endpoints."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI
from starlette.types import Message

import mainspring
from mainspring import ConfigurationError, Scheduler, Unavailable
from mainspring.integrations.fastapi import get_scheduler, lifespan
from mainspring.sync import Scheduler as BlockingScheduler


async def ask(app: Any, path: str) -> int:
    """The status of an answer, without a network."""
    said: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        said.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": [(b"host", b"localhost")]}
    await app({**scope, "http_version": "1.1", "scheme": "http", "server": ("localhost", 80)}, receive, send)
    return int(said[0]["status"])


def make_app(scheduler: Scheduler, **options: Any) -> tuple[FastAPI, list[Scheduler]]:
    app, given = FastAPI(lifespan=lifespan(scheduler, **options)), list[Scheduler]()

    @app.get("/")
    async def root(found: Annotated[Scheduler, Depends(get_scheduler)]) -> None:
        given.append(found)

    return app, given


@pytest.mark.parametrize("worker", [False, True])
async def test_endpoints_get_the_scheduler_of_the_lifespan(scheduler: Scheduler, worker: bool) -> None:
    app, given = make_app(scheduler, worker=worker)
    async with app.router.lifespan_context(app):
        assert scheduler.running is worker
        assert await ask(app, "/") == 200 and given == [scheduler]
    assert not scheduler.running


async def test_an_application_that_ends_by_an_error_closes_its_scheduler_too(scheduler: Scheduler) -> None:
    app, _ = make_app(scheduler, worker=True)
    with pytest.raises(LookupError):
        async with app.router.lifespan_context(app):
            raise LookupError
    assert not scheduler.running


async def test_a_wrong_uri_is_found_at_the_start_of_the_application(make_scheduler: Callable[..., Scheduler]) -> None:
    app, _ = make_app(make_scheduler("mongodb://127.0.0.1:1/x", operation_timeout=0.2))
    with pytest.raises(Unavailable):
        async with app.router.lifespan_context(app):
            pass


async def test_a_mounted_service_ends_with_the_application(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, _ = make_app(scheduler)
    service = mainspring.asgi(scheduler)
    app.mount("/jobs", service)
    inner, kept = service._app.state.service, list[str]()

    @asynccontextmanager
    async def beside_requests() -> AsyncIterator[None]:
        kept.append("began")
        yield
        kept.append("ended")

    monkeypatch.setattr(inner, "kept", beside_requests)
    async with app.router.lifespan_context(app):
        assert await ask(app, "/jobs/api/queues") == 401
        assert kept == ["began"] and not inner.closing.is_set()
    assert kept == ["began", "ended"] and inner.closing.is_set()


async def test_an_application_without_a_scheduler_is_told_the_cure() -> None:
    app = FastAPI()
    app.get("/")(lambda found=Depends(get_scheduler): None)  # noqa: B008
    with pytest.raises(ConfigurationError, match="lifespan"):
        await ask(app, "/")


@pytest.mark.parametrize("take", [lifespan, mainspring.asgi])
def test_a_blocking_scheduler_is_refused(take: Callable[[Any], object]) -> None:
    with pytest.raises(ConfigurationError, match=r"mainspring\.Scheduler, which is async, not a mainspring\.sync\.Sch"):
        take(BlockingScheduler("mongodb://127.0.0.1:1/x"))


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "mainspring.integrations.fastapi")
    monkeypatch.setitem(sys.modules, "starlette.requests", None)
    with pytest.raises(ConfigurationError, match=r"mainspring\[api\]"):
        __import__("mainspring.integrations.fastapi")
