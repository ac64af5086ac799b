"""The frame of every page: navigation, login, the palette, the help, the pause, themes, and what a role may not do."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from api.conftest import serving
from dashboard.conftest import Board, opened
from mainspring import Scheduler

Make = Callable[..., Scheduler]
PAGES = [
    *("Overview", "Jobs", "Flows", "Schedules", "Queues and limits", "Dead letters", "Workers", "Alerts", "Operations"),
    *("Audit", "Settings and keys"),
]
_NOTHING = ["/jobs/none", "/flows/none", "/operations/none", "/schedules/none", "/schedules/none/edit"]


@pytest.mark.core
async def test_the_navigation_leads_to_every_page(board: Board) -> None:
    page = await board.open()
    for title in PAGES:
        await page.get_by_role("navigation").get_by_role("link", name=title, exact=True).click()
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        await expect(page.get_by_role("navigation").locator("[aria-current=page]")).to_have_text(title)


@pytest.mark.parametrize("path", _NOTHING)
async def test_a_page_of_nothing_that_is_stored_has_a_heading_and_says_so(board: Board, path: str) -> None:
    board.expected = ("404",)
    page = await board.open(path)
    await expect(page.get_by_role("alert")).to_contain_text("Not found")
    assert await page.title() != "Mainspring"


async def test_the_palette_leads_to_pages_and_ids(board: Board) -> None:
    page = await board.open()
    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox", name="A page, an id or a name").fill("dead l")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/dead-letters")
    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox", name="A page, an id or a name").fill("Job 507f1f77bcf86cd799439011")
    await expect(page.get_by_role("option").first).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)


async def test_the_help_lists_the_shortcuts_and_they_work(board: Board) -> None:
    page = await board.open()
    await page.get_by_role("button", name="Keyboard shortcuts and help").click()
    await expect(page.get_by_role("dialog")).to_contain_text("g j")
    await page.keyboard.press("Escape")
    await page.keyboard.press("g")
    await page.keyboard.press("w")
    await page.wait_for_url("**/workers")


async def test_live_updates_can_be_paused(board: Board) -> None:
    page = await board.open()
    await expect(page.get_by_role("button", name=re.compile("^Live"))).to_be_visible()
    await page.keyboard.press("p")
    await expect(page.get_by_role("button", name=re.compile("Paused"))).to_be_visible()


async def test_a_lost_service_is_told_with_the_age_of_what_is_shown(board: Board) -> None:
    board.expected = ("ERR_FAILED",)
    lost = re.compile("/api/events")
    await board.page.route(lost, lambda route: route.abort())
    page = await board.open()
    await expect(page.get_by_role("button", name=re.compile(r"^Disconnected, \d+ m?s old"))).to_be_visible()
    await page.unroute(lost)
    await expect(page.get_by_role("button", name=re.compile("^Live"))).to_be_visible()


async def test_the_theme_is_chosen_and_kept(board: Board) -> None:
    page = await board.open()
    await page.get_by_role("button", name=re.compile("^Theme")).click()
    await page.get_by_role("menuitem", name="Dark").click()
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    await page.reload()
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")


async def test_a_browser_logs_in_with_a_key_and_returns_to_its_place(browser: Browser, make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    key = await scheduler.api_keys.create("looker", "viewer")
    async with serving(scheduler, keyless=False) as api, opened(browser, api) as board:
        board.expected = ("401",)
        page = await board.open("/workers")
        await page.get_by_label("API key").fill("ms_wrong")
        await page.get_by_role("button", name="Log in").click()
        await expect(page.get_by_role("alert")).to_be_visible()
        await page.get_by_label("API key").fill(key.text)
        await page.get_by_role("button", name="Log in").click()
        await expect(page.get_by_role("heading", name="Workers", exact=True)).to_be_visible()
        # A viewer has no pages of admins.
        await expect(page.get_by_role("link", name="Settings and keys")).to_have_count(0)
        await page.get_by_role("button", name=re.compile("looker")).click()
        await page.get_by_role("menuitem", name="Log out").click()
        await expect(page.get_by_label("API key")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_the_frame_is_accessible_and_fits_a_phone(board: Board, looks: Callable[..., Any], theme: str) -> None:
    async with looks(board, theme=theme, phone=True) as other:
        await other.open()
        await other.check_accessibility()
        await other.check_width()


async def test_the_navigation_of_a_phone_shows_the_open_page(board: Board, looks: Callable[..., Any]) -> None:
    async with looks(board, phone=True) as other:
        page = await other.open("/audit")
        await expect(page.get_by_role("link", name="Audit", exact=True)).to_be_in_viewport(ratio=1)


async def test_a_key_with_a_scope_is_offered_no_page_that_refuses_it(browser: Browser, make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    part = await scheduler.api_keys.create("part", "admin", queues=["billing"])
    async with serving(scheduler, keyless=False) as api, opened(browser, api) as board:
        board.expected = ("401",)
        page = await board.open("/")
        await page.get_by_label("API key").fill(part.text)
        await page.get_by_role("button", name="Log in").click()
        links = page.get_by_role("navigation").get_by_role("link")
        await expect(links).to_have_text([one for one in PAGES if one not in ("Workers", "Audit")])


async def test_an_address_without_a_page_is_told_with_links(board: Board) -> None:
    board.expected = ("404",)
    answer = await board.page.goto(board.api.url + "/nothing/here")
    assert answer is not None and answer.status == 404
    await expect(board.page.get_by_role("heading", name="There is no such page")).to_be_visible()
    await expect(board.page.get_by_text("/nothing/here")).to_be_visible()
    await board.check_accessibility()
    await board.page.get_by_role("main").get_by_role("link", name="Jobs").click()
    await expect(board.page.get_by_role("heading", level=1)).to_have_text("Jobs")


async def test_a_page_whose_file_is_gone_after_an_update_is_loaded_again(board: Board) -> None:
    board.expected = ("404", "dynamically imported module")
    page = await board.open("/jobs")
    gone = "**/assets/AuditPage-*.js"
    await page.route(gone, lambda route: route.fulfill(status=404))
    await page.get_by_role("link", name="Audit").click()
    await expect(page.get_by_text("The service was updated while this page was open")).to_be_visible()
    await page.unroute(gone)
    await page.get_by_role("button", name="Load it again").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Audit")
