"""Queues, limits and breakers in the browser: what waits, and pausing, limiting and breaking with a reason."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from playwright.async_api import expect

from api.conftest import Api
from dashboard.conftest import Board, picture
from mainspring import Breaker, Limit, Scheduler

HOSTILE = "<img src=x onerror=alert(1)>"
LONG = "a-very-long-name-" * 12
Looks = Callable[..., Any]


async def held(scheduler: Scheduler) -> asyncio.Event:
    """A worker with jobs that run, wait at a limit, and fail until a breaker opens."""
    going = asyncio.Event()

    @scheduler.job("charge", queue="payments", concurrency=Limit(1, key="tenant"))
    async def charge(tenant: str) -> None:
        await going.wait()

    @scheduler.job("sync", queue="reports", retry=1, breaker=Breaker(errors=0.5, minimum=2, open_for=3600))
    async def sync() -> None:
        raise TimeoutError("no answer")

    await scheduler.start()
    for tenant in ("acme", "acme", "acme", "globex"):
        await scheduler.schedule("charge", {"tenant": tenant}, queue="payments")
    for _ in range(3):
        await scheduler.schedule("sync", queue="reports")
    for n in range(3):
        await scheduler.schedule(LONG[:200], queue=HOSTILE, delay=3600 + n)
    return going


async def test_a_queue_is_paused_with_a_reason_and_resumed(board: Board) -> None:
    await board.scheduler.schedule("x", queue="mail")
    page = await board.open("/queues")
    row = page.get_by_role("row", name="mail")
    await expect(row).to_contain_text("no worker")
    await page.get_by_role("button", name="Actions on the queue mail").click()
    await page.get_by_role("menuitem", name="Pause…").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Reason").fill("the relay is down")
    await dialog.get_by_role("button", name="Pause", exact=True).click()
    await expect(row).to_contain_text("paused")
    (pause,) = await board.scheduler.limits.pauses()
    assert (pause.target, pause.reason) == ("mail", "the relay is down")
    await row.get_by_role("link", name="mail").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Queue mail")
    await expect(page.get_by_text("the relay is down")).to_be_visible()
    await page.get_by_role("button", name="Resume").click()
    await expect(page.get_by_role("button", name="Pause…")).to_be_visible()
    assert await board.scheduler.limits.pauses() == []


async def test_a_limit_is_overridden_with_a_badge_and_the_override_removed(board: Board) -> None:
    board.expected = ("422",)  # the rate that cannot be read
    board.scheduler.queues.limit("mail", concurrency=5)
    await board.scheduler.schedule("x", queue="mail", delay=3600)
    page = await board.open("/queues?tab=limits")
    panel = page.locator(".panel", has_text="mail")
    await expect(panel).to_contain_text("5 at once")
    await panel.get_by_role("button", name="Override…").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Jobs at once").fill("2")
    await dialog.get_by_label("Starts").fill("100/fortnight")
    await dialog.get_by_role("button", name="Set the limits").click()
    await expect(dialog.get_by_role("alert").first).to_contain_text("A rate is text such as")
    await dialog.get_by_label("Starts").fill("100/minute")
    await dialog.get_by_label("Reason").fill("spare the relay")
    await dialog.get_by_role("button", name="Set the limits").click()
    await expect(panel).to_contain_text("2 at once, 100 per minute")
    await expect(panel.get_by_text("override", exact=True)).to_be_visible()
    await expect(panel).to_contain_text("spare the relay")
    await panel.get_by_role("button", name="Remove the override").click()
    await expect(panel.get_by_text("override", exact=True)).to_have_count(0)


async def test_saturated_keys_name_the_jobs_that_hold_them(board: Board) -> None:
    going = await held(board.scheduler)
    page = await board.open("/queues?tab=limits")
    row = page.get_by_role("row", name="acme")
    await expect(row).to_contain_text("2")
    await expect(page.get_by_text("key saturated").or_(page.get_by_text("keys saturated"))).to_be_visible()
    await row.get_by_role("link", name="charge").first.click()
    await page.wait_for_url("**/jobs/*")
    await board.open("/queues/payments")
    await expect(page.get_by_role("region", name="What waiting jobs wait for")).to_contain_text("tenant=acme")
    going.set()


async def test_a_breaker_tells_its_story_and_is_closed(board: Board) -> None:
    going = await held(board.scheduler)
    page = await board.open("/queues?tab=breakers")
    panel = page.locator(".panel", has_text="sync")
    await expect(panel).to_contain_text("Open")
    await expect(panel).to_contain_text("attempts of the last 60 s failed.")
    await expect(panel).to_contain_text("TimeoutError")
    await expect(panel).to_contain_text("The next probe is in")
    await panel.get_by_role("button", name="Close…").click()
    await page.get_by_role("dialog").get_by_label("Reason").fill("it is up")
    await page.get_by_role("dialog").get_by_role("button", name="Close it").click()
    await expect(panel).to_contain_text("Closed")
    await panel.get_by_text("Its story").click()
    await expect(panel.get_by_role("listitem").first).to_contain_text("it is up")
    going.set()


async def test_a_viewer_sees_and_changes_nothing(board: Board) -> None:
    await board.scheduler.schedule("x", queue="mail")
    await board.api.put("/api/limits/queue/mail", {"concurrency": 2})
    page = await board.open()
    board.expected = ("401", "403")  # from the first key on, a browser must log in
    key = (await board.scheduler.api_keys.create("eye", "viewer")).text
    await _log_in(board, key)
    for path in ("/queues", "/queues?tab=limits", "/queues/mail"):
        await board.open(path)
        await expect(page.get_by_text("mail").first).to_be_visible()
        for name in ("Pause…", "Override…", "Actions on the queue mail", "Remove the override"):
            await expect(page.get_by_role("button", name=name)).to_have_count(0)


async def _log_in(board: Board, key: str) -> None:
    await board.page.reload()
    await board.page.get_by_label("API key").fill(key)
    await board.page.get_by_role("button", name="Log in").click()
    await board.page.get_by_role("navigation").first.wait_for()


async def test_the_pages_are_readable_in_both_themes_and_on_a_phone(board: Board, looks: Looks) -> None:
    going = await held(board.scheduler)
    api: Api = board.api
    await api.post("/api/pauses", {"queue": HOSTILE, "reason": HOSTILE * 4})
    await api.put("/api/limits/queue/payments", {"concurrency": 9, "reason": LONG})
    for theme in ("light", "dark"):
        for phone in (False, True):
            async with looks(board, theme=theme, phone=phone) as look:
                for name, path, text in (
                    ("queues", "/queues", "payments"),
                    ("limits", "/queues?tab=limits", "acme"),
                    ("breakers", "/queues?tab=breakers", "sync"),
                    ("queue", "/queues/payments", "tenant=acme"),
                ):
                    page = await look.open(path)
                    await expect(page.get_by_text(text).first).to_be_visible()
                    await look.check_width()
                    await look.check_accessibility()
                    if (place := picture(f"{name}-{theme}{'-phone' if phone else ''}")) is not None:
                        await page.screenshot(path=place, full_page=True)
    going.set()


async def test_a_job_name_without_a_limit_gets_one_and_a_paused_name_is_resumed(board: Board) -> None:
    await board.scheduler.schedule("charge", queue="mail", delay=3600)
    await board.scheduler.limits.pause("charge", key={"tenant": "acme"}, reason="unpaid", actor="ada")
    page = await board.open("/queues")
    paused = page.get_by_role("row", name="tenant=acme")
    await expect(paused).to_contain_text("unpaid")
    await paused.get_by_role("button", name="Resume").click()
    await expect(paused).to_have_count(0)
    await page.get_by_role("tab", name="Limits").click()
    await page.get_by_role("button", name="Set a limit…").click()
    await page.get_by_role("dialog").get_by_label("Job name", exact=True).fill("charge")
    await page.get_by_role("dialog").get_by_role("button", name="Go on").click()
    await page.get_by_role("dialog").get_by_label("Jobs at once").fill("3")
    await page.get_by_role("dialog").get_by_role("button", name="Set the limits").click()
    await expect(page.locator(".panel", has_text="charge")).to_contain_text("3 at once")
    (limit,) = await board.scheduler.limits.all()
    assert limit.concurrency is not None and limit.concurrency.limit == 3
