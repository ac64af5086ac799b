"""Dead letters in the browser: groups with their trend, the stack of the latest, and retrying or discarding a group."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from playwright.async_api import expect

from dashboard.conftest import Board, picture
from harness.dead import dead_letter
from harness.inside import inside
from harness.waiting import eventually

Looks = Callable[..., Any]
HOSTILE = "<script>alert(1)</script>"


async def failing(board: Board) -> dict[str, bool]:
    """A worker whose jobs fail while `up` is false."""
    now = {"up": False}

    @board.scheduler.job("charge", retry=1)
    async def charge(tenant: str) -> None:
        if not now["up"]:
            raise LookupError(f"the card of {tenant!r} was declined {HOSTILE}")

    await board.scheduler.start()
    for tenant, queue in (("a", "default"), ("b", "default"), ("c", "payments")):
        job = await board.scheduler.schedule("charge", {"tenant": tenant}, queue=queue)
        await board.scheduler.wait(job.id, 60)
    return now


async def test_a_group_is_run_again_with_a_reason(board: Board) -> None:
    now = await failing(board)
    page = await board.open("/dead-letters")
    row = page.get_by_role("row", name="LookupError")
    await expect(row).to_contain_text("3")
    await expect(row).to_contain_text("default, payments")
    await expect(row.get_by_role("img")).to_have_attribute("aria-label", re.compile("^3 failed in the last 24 hours"))
    await row.get_by_role("button", name="LookupError").click()
    await expect(page.locator(".dead-stack")).to_contain_text("raise LookupError")
    await expect(page.get_by_role("region", name="Dead letters of this group").get_by_role("row")).to_have_count(4)
    now["up"] = True
    await expect(page.locator(".dead-detail")).to_be_in_viewport()
    await row.get_by_role("button", name="Retry…").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("3 dead letters")
    await dialog.get_by_label("Reason").fill("the bank is back")
    await dialog.get_by_role("button", name="Retry them").click()
    await expect(page.get_by_text("There are no dead letters")).to_be_visible()
    redrives = page.get_by_role("region", name="The latest redrives")
    await expect(redrives).to_contain_text("3 of 3 dead letters run again.")
    await expect(redrives).to_contain_text("the bank is back")

    async def completed() -> bool:
        found = await board.scheduler.search(state="completed")
        return len(found.jobs) == 3

    await eventually(completed)


async def test_discarding_a_group_needs_a_reason(board: Board) -> None:
    await failing(board)
    page = await board.open("/dead-letters")
    await page.get_by_role("row", name="LookupError").get_by_role("button", name="Discard…").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_role("button", name="Discard them")).to_be_disabled()
    await dialog.get_by_label("Reason").fill("a test")
    await dialog.get_by_role("button", name="Discard them").click()
    await expect(page.get_by_text("There are no dead letters")).to_be_visible()
    assert await board.scheduler.dead_letters.groups() == []


async def test_a_filter_is_kept_in_the_address(board: Board) -> None:
    await failing(board)
    page = await board.open("/dead-letters")
    await page.get_by_label("Queue").fill("payments")
    await page.get_by_role("button", name="Filter").click()
    await page.wait_for_url("**/dead-letters?queue=payments")
    await expect(page.get_by_role("row", name="LookupError")).to_contain_text("1")
    await page.reload()
    await expect(page.get_by_label("Queue")).to_have_value("payments")
    await page.get_by_label("Queue").fill("nothing")
    await page.get_by_role("button", name="Filter").click()
    await expect(page.get_by_text("No dead letter matches")).to_be_visible()


async def test_the_page_is_readable_with_hostile_and_long_causes(board: Board, looks: Looks) -> None:
    await failing(board)
    store = await inside(board.scheduler).store()
    now = store.clock.now()
    error = {"type": HOSTILE * 6, "message": "x" * 3000, "stack": f"{HOSTILE}\n" * 50}
    odd = [dead_letter(now, name=HOSTILE * 6, error=error), dead_letter(now, finished_at=now, error={"type": 5})]
    await store.connection.jobs.insert_many(odd)
    for theme in ("light", "dark"):
        for phone in (False, True):
            async with looks(board, theme=theme, phone=phone) as look:
                page = await look.open("/dead-letters")
                await page.get_by_role("row", name="LookupError").get_by_role("button", name="LookupError").click()
                await expect(page.locator(".dead-stack")).to_be_visible()
                await look.check_width()
                await look.check_accessibility()
                if (place := picture(f"dead-letters-{theme}{'-phone' if phone else ''}")) is not None:
                    await page.screenshot(path=place, full_page=True)
