"""The dashboard is served without a key, under any prefix, and tells nothing by itself."""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import Callable

import aiohttp
import pytest
import uvicorn
from fastapi import FastAPI

import mainspring
from api.conftest import Api, serving
from harness.waiting import eventually
from mainspring import Scheduler
from mainspring.api.dashboard import FOLDER, SECTIONS

Make = Callable[..., Scheduler]

built = pytest.mark.skipif(not (FOLDER / "index.html").is_file(), reason="make dashboard builds it")


@built
@pytest.mark.parametrize(
    "path", ["/", *(f"/{one}" for one in SECTIONS), "/jobs/507f1f77bcf86cd799439011", "/queues/a%2Fb"]
)
async def test_every_address_of_a_page_can_be_opened_without_a_key(api: Api, path: str) -> None:
    await api.scheduler.api_keys.create("ops", "admin")
    reply = await api.get(path)
    assert reply.status == 200 and reply.headers["content-type"].startswith("text/html")
    assert reply.headers["cache-control"] == "no-store"
    assert 'src="/static/dashboard/assets/' in reply.text and 'content=""' in reply.text


@built
@pytest.mark.parametrize("path", ["/nothing/here", "/jobss", "/api/nothing"])
async def test_an_unknown_address_is_a_page_for_browsers_and_a_problem_for_programs(api: Api, path: str) -> None:
    key = await api.scheduler.api_keys.create("ops", "admin")
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    page = await api.get(path, headers=browser)
    assert (page.status, "mainspring-base" in page.text) == ((401, False) if path.startswith("/api") else (404, True))
    refused = await api.get(path)
    told = await api.get(path, headers={"X-API-Key": key.text})
    assert (refused.status, told.status) == (401, 404)
    assert told.headers["content-type"].startswith("application/problem+json")
    assert (await api.post(path, {}, headers=browser)).status == 401


@built
async def test_the_built_files_are_kept_by_browsers_and_compressed(api: Api) -> None:
    page = (await api.get("/")).text
    script = page.split('src="')[1].split('"')[0]
    reply = await api.get(script, headers={"Accept-Encoding": "gzip"})
    assert reply.status == 200 and "immutable" in reply.headers["cache-control"]
    assert reply.headers["content-encoding"] == "gzip"


@built
def test_the_first_page_loads_less_than_250_kilobytes_of_scripts() -> None:
    index = (FOLDER / "index.html").read_text(encoding="utf-8")
    named = set(re.findall(r"assets/[\w.-]+\.js", index))
    named |= {f"assets/{one.name}" for one in (FOLDER / "assets").glob("OverviewPage-*.js")}
    for one in list(named):  # what these import at once
        text = (FOLDER / one).read_text(encoding="utf-8")
        named |= {f"assets/{name}" for name in re.findall(r'from"\./([\w.-]+\.js)"', text)}
    sizes = {one: len(gzip.compress((FOLDER / one).read_bytes())) for one in named}
    assert len(sizes) > 2 and sum(sizes.values()) < 250_000, sizes


@pytest.mark.slow
async def test_the_policy_of_the_page_has_no_unsafe_exception(api: Api) -> None:
    policy = (await api.get("/")).headers["content-security-policy"]
    assert "unsafe" not in policy and "default-src 'none'" in policy and "*" not in policy


@built
@pytest.mark.parametrize("kept", [True, False])
async def test_behind_a_proxy_with_a_prefix_the_page_finds_its_files_and_the_api(
    make_scheduler: Make, kept: bool
) -> None:
    async with serving(make_scheduler(), prefix="/tools/jobs") as api:
        front = "/tools/jobs" if kept else ""
        page = await api.get(f"{front}/")
        assert 'content="/tools/jobs"' in page.text and '="/tools/jobs/static/dashboard/assets/' in page.text
        script = page.text.split('src="/tools/jobs')[1].split('"')[0]
        assert (await api.get(front + script)).status == 200
        assert (await api.get(f"{front}/api/queues")).status == 200
        assert (await api.get(f"{front}/livez")).status == 200
        docs = await api.get(f"{front}/api", allow_redirects=False)
        assert docs.headers["location"] == "/tools/jobs/docs"


@built
async def test_an_application_mounts_the_service_under_a_prefix(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    service = mainspring.asgi(scheduler)
    app = FastAPI()
    app.mount("/jobs", service)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="on"))
    running = asyncio.create_task(server.serve())
    try:
        await eventually(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        async with aiohttp.ClientSession() as session:
            api = Api(f"http://127.0.0.1:{port}", session, scheduler)
            page = await api.get("/jobs/")
            assert 'content="/jobs"' in page.text
            assert (await api.get("/jobs/api/queues")).status == 401  # closed: there is no key yet
            key = await scheduler.api_keys.create("ops", "admin")
            assert (await api.with_key(key.text).get("/jobs/api/queues")).status == 200
            assert (await api.get("/jobs/jobs/new")).status == 200
    finally:
        await service.aclose()
        server.should_exit = True
        await running


async def test_a_wrong_prefix_is_refused_with_the_name_of_its_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_PREFIX", "jobs/")
    with pytest.raises(mainspring.ConfigurationError, match="MAINSPRING_PREFIX is wrong"):
        mainspring.asgi(Scheduler("mongodb://127.0.0.1:1/x"))
