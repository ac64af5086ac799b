"""A browser for the dashboard, and the requests that its pages make. The tests and the bench share it."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from playwright.async_api import Browser, Page, Request, async_playwright

from mainspring.api.dashboard import FOLDER

DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
_ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
)
PAGES = (
    *("/", "/?range=30d", "/jobs", "/jobs?state=failed", "/jobs?name=name-3", "/jobs?q=data.n%3A4", "/jobs/new"),
    *("/jobs?q=tag%3Atag-1", "/jobs?queue=queue-1", "/jobs?state=pending", "/jobs?state=completed"),
    *("/flows", "/flows?state=blocked", "/flows?name=flow-3", "/jobs?state=blocked"),
    *(
        "/operations",
        "/schedules",
        "/schedules?order=next",
        "/schedules/-/calendar",
        "/schedules/schedule-7",
        "/queues",
    ),
    *(
        "/schedules/-/new",
        "/schedules/schedule-7/edit",
        "/queues/queue-1",
        "/dead-letters",
        "/dead-letters?name=name-1",
    ),
    *("/workers", "/audit", "/settings", "/settings?tab=keys", "/settings?tab=secrets", "/schedules/-/calendars"),
)
"""The pages of a database with the jobs name-N in the queues queue-N and the schedules schedule-N. The pages of a job
and of a flow are opened beside them, since their addresses have ids."""


def missing() -> str | None:
    """Why the dashboard cannot be opened in a browser here."""
    if _place() is None:
        return "chromium is not installed (Debian: apt-get install chromium)"
    return None if (FOLDER / "index.html").is_file() else "make dashboard"


def _place() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Debian's chromium without a window."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=_place(), args=list(_ARGUMENTS))
        try:
            yield browser
        finally:
            await browser.close()


async def reads_of(page: Page, url: str, paths: Iterable[str]) -> list[str]:
    """Open pages of the dashboard at `url`, and return the reads of the API that they made, each once."""
    reads: dict[str, None] = {}

    def note(request: Request) -> None:
        path = request.url.removeprefix(url)
        if request.method == "GET" and path.startswith("/api/") and not path.startswith("/api/events"):
            reads[path] = None

    page.on("request", note)
    for path in paths:
        await page.goto(url + path)
        await page.locator("h1").first.wait_for()
        await page.locator(".skeleton").first.wait_for(state="detached")
        await page.wait_for_timeout(500)
    page.remove_listener("request", note)
    return list(reads)
