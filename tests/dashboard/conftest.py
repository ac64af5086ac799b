"""The dashboard in a real browser (Debian's chromium), before a real service, worker and MongoDB.

A test gets a `board`: a service in the test's own process with a page of the browser. At its end nothing may have been
written to the browser's console as an error, which includes every violation of the Content-Security-Policy.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, expect

from api.conftest import Api, serving
from harness.browsing import DESK, PHONE, chromium, missing
from harness.pages import ROOT
from mainspring import Scheduler

Make = Callable[..., Scheduler]
AXE = ROOT / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
# A busy machine is slow; nothing here is about speed.
expect.set_options(timeout=30_000)
_SERIOUS = ("serious", "critical")


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    if reason := missing():
        if os.environ.get("CI"):
            pytest.fail(f"The dashboard cannot be tested: {reason}")
        pytest.skip(reason)
    async with chromium() as one:
        yield one


@dataclass
class Board:
    """The dashboard of one service in one page of the browser."""

    page: Page
    api: Api
    scheduler: Scheduler
    errors: list[str] = field(default_factory=list)
    """Errors in the console that no test expects."""
    expected: tuple[str, ...] = ()
    """Parts of errors that the test provokes, such as a refused request."""

    async def open(self, path: str = "/") -> Page:
        """Open an address and wait until its heading is there."""
        await self.page.goto(self.api.url + path)
        await self.page.locator("h1").first.wait_for()
        return self.page

    async def theme(self, name: str) -> None:
        """Choose the theme, as the menu does."""
        await self.page.evaluate("name => localStorage.setItem('mainspring.theme', name)", name)

    async def check_accessibility(self) -> None:
        """Fail if axe finds something serious on the page."""
        await self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found: dict[str, Any] = await self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        bad = [
            f"{one['id']}: {one['help']}: {[node['html'][:150] for node in one['nodes'][:3]]}"
            for one in found["violations"]
            if one["impact"] in _SERIOUS
        ]
        assert not bad, "\n".join(bad)

    async def check_width(self) -> None:
        """Fail if the page itself scrolls sideways; tables scroll inside themselves."""
        wide = await self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"the page is {wide} px wider than the screen"

    def heard(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not any(one in message.text for one in self.expected):
            self.errors.append(f"{message.text} ({message.location.get('url', '')})")


@asynccontextmanager
async def opened(
    browser: Browser, api: Api, *, theme: str = "light", phone: bool = False, **options: Any
) -> AsyncIterator[Board]:
    """A page of its own, with an own storage and cookies."""
    size = PHONE if phone else DESK
    context = await browser.new_context(viewport=size, color_scheme=theme, locale="en-GB", **options)  # type: ignore[arg-type]
    page = await context.new_page()
    page.set_default_timeout(30_000)
    board = Board(page, api, api.scheduler)
    page.on("console", board.heard)
    page.on("pageerror", lambda error: board.errors.append(str(error)))
    try:
        yield board
        assert not board.errors, "\n".join(board.errors)
    finally:
        await context.close()


@pytest.fixture
async def board(browser: Browser, make_scheduler: Make) -> AsyncIterator[Board]:
    """The dashboard of a service that needs no key on this machine. The test starts the worker if it needs one."""
    async with serving(make_scheduler()) as api, opened(browser, api) as one:
        yield one


@pytest.fixture
async def looks(browser: Browser) -> AsyncIterator[Callable[..., Any]]:
    """Makes a further page of a service with another look: `async with looks(board, theme="dark", phone=True)`."""

    def look(board: Board, **options: Any) -> Any:
        return opened(browser, board.api, **options)

    yield look


def picture(name: str) -> Path | None:
    """Where a test stores a screenshot, if MAINSPRING_PICTURES names a folder."""
    folder = os.environ.get("MAINSPRING_PICTURES")
    if folder is None:
        return None
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder) / f"{name}.png"
