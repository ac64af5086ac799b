"""Hostile data in every field of every collection: no page executes it, breaks, or hides the good rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.async_api import Browser
from pymongo import AsyncMongoClient

from api.conftest import serving
from api.contract.test_hostile_documents import COLLECTIONS, World
from dashboard.conftest import Board, opened
from harness.hostile import Document, paths_in, with_value
from mainspring import Scheduler

Make = Callable[..., Scheduler]
ATTACK = (
    "\"'><img src=x onerror=\"window.attacked='img'\"><script>window.attacked='script'</script>"
    "<svg onload=\"window.attacked='svg'\"></svg>javascript:window.attacked='link'//\u202e\x00" + "W" * 200
)
PAGES = (
    *(
        "/",
        "/?range=30d",
        "/jobs",
        "/jobs?state=failed",
        "/jobs/new",
        "/flows",
        "/operations",
        "/schedules",
        "/schedules/-/new",
    ),
    *("/schedules/-/calendar", "/queues", "/dead-letters", "/workers", "/audit", "/settings", "/settings?tab=keys"),
    *("/settings?tab=secrets", "/schedules/-/calendars"),
)


class Attack(World):
    """A world whose malformed copies have texts with markup in the places of texts."""

    async def attack(self) -> list[str]:
        """Store copies of every good document, each with the text in all places that hold a text; return the ids of
        the jobs."""
        ids = []
        for name in COLLECTIONS:
            for number, document in enumerate(self.good[name]):
                copy = document
                for path in paths_in(document, levels=4):
                    if isinstance(_value(document, path), str) and path not in _KEPT:
                        copy = with_value(copy, path, ATTACK)
                copy = {**copy, "_id": _id(document["_id"], number)}
                if name == "jobs":
                    ids.append(str(copy["_id"]))
                await self.collection(name).insert_one(copy)
        return ids


# What a document is found by; with another value it would be on no page at all.
_KEPT = {("state",), ("kind",), ("type",), ("scope",)}


def _value(document: Any, path: Any) -> Any:
    for key in path:
        document = document[key]
    return document


def _id(identity: Any, number: int) -> Any:
    if isinstance(identity, dict):
        return {**identity, "name": f"{ATTACK}{number}"}
    if isinstance(identity, int):
        return 5000 + number
    return type(identity)() if not isinstance(identity, str) else f"{identity}{ATTACK}{number}"


@pytest.mark.slow
@pytest.mark.parametrize("malformed", [False, True], ids=["markup", "malformed"])
async def test_no_page_executes_hostile_data_or_is_broken_by_it(
    browser: Browser,
    make_scheduler: Make,
    uri: str,
    side_client: AsyncMongoClient[Document],
    malformed: bool,
) -> None:
    db = side_client[uri.rpartition("/")[2].partition("?")[0]]
    scheduler = make_scheduler(keys={"k": "A" * 43 + "="})
    async with serving(scheduler, requests_per_minute=1_000_000) as api:
        world = Attack(api, db)
        await world.fill()
        jobs = world.places["job_id"]
        if malformed:
            for name in COLLECTIONS:
                await world.insert(name, 0)
        else:
            jobs = [*jobs, *await world.attack()]
        async with opened(browser, world.api, extra_http_headers=world.api.headers) as board:
            # A document that cannot be read may be refused by its own address, and by nothing else.
            board.expected = ("404", "422")
            for path in (*PAGES, *(f"/jobs/{one}" for one in jobs), "/schedules/good-schedule"):
                await _look(board, path)


async def _look(board: Board, path: str) -> None:
    page = await board.open(path)
    await page.wait_for_load_state("load")
    await page.locator(".skeleton").first.wait_for(state="detached")
    assert await page.evaluate("window.attacked") is None, path
    assert await page.get_by_role("heading", level=1).count() >= 1, path
    assert await page.locator("h2:text-is('This page is broken')").count() == 0, path
    shown = await page.locator("main").inner_text()
    assert "This part cannot be shown" not in shown, (path, shown[-2000:])
