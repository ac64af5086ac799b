"""What is answered without a key: the documentation, the probes, and where guessed paths lead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.conftest import Api, serving
from mainspring import Scheduler
from mainspring.model.views.health import unreachable

Make = Callable[..., Scheduler]


@pytest.fixture
async def keyed_api(api: Api) -> Api:
    """The service once there is a key, asked without it."""
    await api.scheduler.api_keys.create("ops", "admin")
    return api


@pytest.mark.parametrize("path", ["/docs", "/openapi.json", "/livez", "/readyz", "/static/docs.css"])
@pytest.mark.slow
async def test_a_browser_and_a_probe_need_no_key(keyed_api: Api, path: str) -> None:
    reply = await keyed_api.get(path, headers={"X-Forwarded-For": "203.0.113.9"})
    assert reply.status in (200, 404) and (reply.status == 200 or path.startswith("/static"))


async def test_the_probes_say_no_more_than_ok(keyed_api: Api) -> None:
    for path in ("/livez", "/readyz", "/health", "/healthz"):
        reply = await keyed_api.get(path)
        assert (reply.status, reply.body) == (200, {"status": "ok"}), path


async def test_a_service_that_does_not_reach_mongodb_lives_and_is_not_ready(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make_scheduler()
    async with serving(scheduler) as api:

        async def away() -> Any:
            return unreachable(scheduler.now(), "MongoDB cannot be reached: 10.0.0.7:27017")

        monkeypatch.setattr(scheduler.monitor, "health", away)
        assert (await api.get("/livez")).status == 200
        reply = await api.get("/readyz")
        assert (reply.status, reply.body) == (503, {"status": "not ok", "reason": "database"})


async def test_probes_ask_the_database_at_most_once_a_second(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler, asked = make_scheduler(), 0
    health = scheduler.monitor.health

    async def counted() -> Any:
        nonlocal asked
        asked += 1
        return await health()

    monkeypatch.setattr(scheduler.monitor, "health", counted)
    monkeypatch.setattr("mainspring.api.pages._FRESH", 3600.0)
    async with serving(scheduler) as api:
        assert [(await api.get("/readyz")).status for _ in range(5)] == [200] * 5
    assert asked == 1


@pytest.mark.parametrize(("path", "place"), [("/api", "/docs"), ("/health", "/readyz")])
async def test_a_guessed_path_leads_somewhere_useful(keyed_api: Api, path: str, place: str) -> None:
    reply = await keyed_api.get(path, allow_redirects=False)
    assert (reply.status, reply.headers["location"]) == (307, place)


async def test_nothing_of_the_jobs_is_told_without_a_key(keyed_api: Api) -> None:
    for path in ("/api/jobs", "/api/observability/health", "/api/session", "/api/", "/docs/x", "/readyz/x"):
        assert (await keyed_api.get(path)).status == 401, path
