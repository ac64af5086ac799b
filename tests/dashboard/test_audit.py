"""The page of the audit log: filters in the address, values before and after, and the check of the chain."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from api.conftest import serving
from dashboard.conftest import Board, opened, picture
from mainspring import AuditEntry, Scheduler
from mainspring.client.service_backend import ServiceBackend

Make = Callable[..., Scheduler]
HOSTILE = "<img src=x onerror=alert(1)>\u202e'\"{{7*7}}" + "x" * 200


async def fill(board: Board, *entries: AuditEntry) -> None:
    await ServiceBackend(board.scheduler).note_change(*entries)


async def test_a_key_that_may_not_read_the_log_is_told_so_and_offered_nothing(
    browser: Browser, make_scheduler: Make
) -> None:
    scheduler = make_scheduler()
    key = await scheduler.api_keys.create("looker", "operator")
    async with serving(scheduler) as api, opened(browser, api) as board:
        board.expected = ("401",)
        page = board.page
        await page.goto(f"{api.url}/audit")
        await page.get_by_label("API key").fill(key.text)
        await page.get_by_role("button", name="Log in").click()
        await expect(page.get_by_role("heading", name="The audit log is for admins")).to_be_visible()
        await expect(page.get_by_role("button", name="Verify the chain")).to_have_count(0)


async def test_rows_are_filtered_and_the_filter_is_in_the_address(board: Board) -> None:
    await fill(
        board,
        AuditEntry("key:a1", "job.cancel", "job1", None, {"state": "pending"}, {"state": "cancelled"}),
        AuditEntry("key:b2", "schedule.pause", "nightly", None, {"state": "active"}, {"state": "paused"}),
        AuditEntry("key:b2", "job.retry", "job2"),
    )
    page = await board.open("/audit")
    rows = page.get_by_role("row")
    await expect(rows.filter(has_text="key:")).to_have_count(3)
    await page.get_by_label("Action").fill("job.*")
    await page.keyboard.press("Enter")
    await expect(rows.filter(has_text="key:")).to_have_count(2)
    await expect(page).to_have_url(re.compile(r"action=job"))
    await page.get_by_role("button", name="key:b2").click()
    await expect(rows.filter(has_text="key:")).to_have_count(1)
    await page.reload()
    await expect(rows.filter(has_text="key:")).to_have_count(1)
    await expect(page.get_by_label("Actor")).to_have_value("key:b2")
    await page.go_back()
    await expect(rows.filter(has_text="key:")).to_have_count(2)
    await page.get_by_role("button", name="Clear").click()
    await expect(rows.filter(has_text="schedule.pause")).to_contain_text("active → paused")


async def test_a_row_shows_its_values_before_and_after(board: Board) -> None:
    before = {"priority": 5, "retry": {"attempts": 3}, "same": 1}
    await fill(board, AuditEntry("key:a1", "job.update", "job1", "10.0.0.9", before, before | {"priority": 1}))
    page = await board.open("/audit")
    await page.get_by_role("button", name="Details of row 1").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.locator("del")).to_have_text(["5"])
    await expect(dialog.locator("ins")).to_have_text(["1"])
    await expect(dialog).to_contain_text("10.0.0.9")
    await expect(dialog).not_to_contain_text("attempts")


async def test_older_rows_are_loaded_on_request(board: Board) -> None:
    await fill(board, *(AuditEntry("key:a1", "job.run", f"job{number}") for number in range(120)))
    page = await board.open("/audit?actor=key:a1")
    rows = page.get_by_role("row").filter(has_text="job.run")
    await expect(rows).to_have_count(50)
    await page.get_by_role("button", name="Older rows").click()
    await expect(rows).to_have_count(100)
    await page.get_by_role("button", name="Older rows").click()
    await expect(rows).to_have_count(120)
    await expect(page.get_by_role("button", name="Older rows")).to_have_count(0)


async def test_a_rare_row_is_found_behind_many_that_do_not_match(board: Board) -> None:
    await fill(board, AuditEntry("key:a1", "secret.put", "token"))
    await fill(board, *(AuditEntry("key:a1", "job.run", f"job{number}") for number in range(2000)))
    page = await board.open("/audit?action=secret.*")
    await expect(page.get_by_role("row").filter(has_text="secret.put")).to_have_count(1)


async def test_the_chain_is_verified_in_parts_and_a_changed_row_is_named(board: Board) -> None:
    await fill(board, *(AuditEntry("key:a1", "job.run", f"job{number}") for number in range(1100)))
    page = await board.open("/audit")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/verify" in request.url else None)
    await page.get_by_role("button", name="Verify the chain").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name="Verify", exact=True).click()
    await expect(dialog.get_by_role("heading", name=re.compile(r"1,10\d rows in order"))).to_be_visible()
    await expect(dialog).to_contain_text("Not all of them are signed")
    assert len(asked) == 2 and "last=1000" in asked[0] and "first=1001" in asked[1]
    head = await dialog.locator("code").inner_text()
    rows = board.scheduler.client.get_default_database()["jobs.audit"]
    await rows.update_one({"_id": 1050}, {"$set": {"actor": "key:b2"}})
    await dialog.get_by_label(re.compile("A head that you kept")).fill(head)
    await dialog.get_by_role("button", name="Verify again").click()
    await expect(dialog.get_by_role("heading", name="Broken: row 1050 was changed")).to_be_visible()
    await dialog.get_by_label(re.compile("A head that you kept")).fill("no head")
    await expect(dialog.get_by_role("alert")).to_contain_text("ROW:HASH")


async def test_a_hostile_row_is_text_and_a_malformed_one_spoils_itself_alone(board: Board) -> None:
    await fill(board, AuditEntry(HOSTILE, HOSTILE, HOSTILE, HOSTILE, {HOSTILE: HOSTILE}, {"__proto__": HOSTILE}))
    await fill(board, AuditEntry("key:a1", "job.run", "job1"))
    rows = board.scheduler.client.get_default_database()["jobs.audit"]
    await rows.update_one({"_id": 2}, {"$set": {"at": "yesterday", "before": "{"}})
    await fill(board, AuditEntry("key:a1", "job.retry", "job1"))
    page = await board.open("/audit")
    page.on("dialog", lambda dialog: board.errors.append(f"a script was run: {dialog.message}"))
    await expect(page.get_by_role("row").filter(has_text="job.retry")).to_have_count(1)
    await expect(page.get_by_text(re.compile("Row 2 cannot be read"))).to_be_visible()
    await page.get_by_role("button", name="Details of row 1").click()
    await expect(page.get_by_role("dialog")).to_contain_text("onerror=alert(1)")
    await board.check_width()


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_the_page_is_accessible_and_fits_a_phone(board: Board, looks: Callable[..., Any], theme: str) -> None:
    await fill(board, AuditEntry("key:a1", "job.cancel", "job1", None, {"state": "pending"}, {"state": "cancelled"}))
    for phone in (False, True):
        async with looks(board, theme=theme, phone=phone) as other:
            page = await other.open("/audit")
            await expect(page.get_by_role("row").filter(has_text="job.cancel")).to_have_count(1)
            await other.check_accessibility()
            await other.check_width()
            await page.get_by_role("button", name="Details of row 1").click()
            await other.check_accessibility()
            if place := picture(f"audit-{theme}-{'phone' if phone else 'desk'}"):
                await page.screenshot(path=place)


async def test_the_log_is_absent_for_an_operator_and_for_a_key_with_a_scope(
    browser: Browser, make_scheduler: Make
) -> None:
    scheduler = make_scheduler()
    keys = [
        await scheduler.api_keys.create("all", "admin"),
        await scheduler.api_keys.create("op", "operator"),
        await scheduler.api_keys.create("part", "admin", queues=["billing"]),
    ]
    async with serving(scheduler, keyless=False) as api:
        for key, expected in zip(keys, (1, 0, 0), strict=True):
            async with opened(browser, api) as board:
                board.expected = ("401",)
                page = await board.open("/workers")
                await page.get_by_label("API key").fill(key.text)
                await page.get_by_role("button", name="Log in").click()
                await expect(page.get_by_role("heading", name="Workers", exact=True)).to_be_visible()
                await expect(page.get_by_role("link", name="Audit", exact=True)).to_have_count(expected)
