"""Workers in the browser: what each slot runs, what differs, and draining one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

from playwright.async_api import Browser, expect

from api.conftest import serving
from dashboard.conftest import Board, opened, picture
from harness.inside import inside
from harness.waiting import eventually
from mainspring import Scheduler

Looks = Callable[..., Any]
Make = Callable[..., Scheduler]


async def busy(scheduler: Scheduler) -> asyncio.Event:
    going = asyncio.Event()

    @scheduler.job("render")
    async def render() -> None:
        await going.wait()

    await scheduler.start()
    await scheduler.schedule("render")
    return going


async def test_an_empty_page_teaches_the_command(board: Board) -> None:
    page = await board.open("/workers")
    await expect(page.get_by_text("mainspring worker myapp.jobs:scheduler")).to_be_visible()


async def test_the_release_of_a_workers_program_is_shown(browser: Browser, make_scheduler: Make) -> None:
    async with serving(make_scheduler(release="shop 2026.11.2")) as api, opened(browser, api) as board:
        await busy(board.scheduler)
        page = await board.open("/workers")
        await expect(page.get_by_title("The release of the program")).to_have_text("shop 2026.11.2")


async def test_a_slot_leads_to_its_job_and_the_worker_is_drained_after_a_question(board: Board) -> None:
    going = await busy(board.scheduler)
    page = await board.open("/workers")
    await expect(page.get_by_text("1 live worker with 10 slots, 1 of them in use.")).to_be_visible()
    await expect(page.locator(".slots-jobs").get_by_role("link", name="render")).to_be_visible()
    await expect(page.get_by_text(re.compile(r"^\d+ MB$"))).to_be_visible()
    await page.get_by_role("button", name="Drain…").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("finishes its 1 running job")
    await dialog.get_by_label("Reason").fill("new machine")
    await dialog.get_by_role("button", name="Drain it").click()
    await expect(page.get_by_text("draining, 1 job left")).to_be_visible()
    await expect(page.get_by_text("new machine")).to_be_visible()
    await page.get_by_role("button", name="Cancel the drain").click()
    await expect(page.get_by_role("button", name="Drain…")).to_be_visible()
    await page.get_by_role("button", name="Drain…").click()
    await page.get_by_role("dialog").get_by_role("button", name="Drain it").click()
    await expect(page.get_by_text("draining, 1 job left")).to_be_visible()
    going.set()
    await eventually(lambda: board.scheduler.workers.own_id is None)
    await expect(page.get_by_text("No worker is running")).to_be_visible()
    assert {row.action for row in await board.scheduler.audit.find()} >= {"worker.drain", "worker.cancel_drain"}


async def test_different_versions_and_hostile_workers_are_shown(board: Board, looks: Looks) -> None:
    going = await busy(board.scheduler)
    store = await inside(board.scheduler).store()
    now = store.clock.now()
    hostile = "<img src=x onerror=alert(1)>" * 6
    slots = [{"job": "x", "name": hostile, "queue": hostile, "since": now}]
    odd = {"_id": "odd", "beat_at": now.replace(year=2999), "host": hostile, "pid": 1, "concurrency": 200}
    odd |= {"running": 3, "version": "9.9.9", "slots": slots, "handlers": [hostile], "lag_ms": 4000, "memory": "much"}
    await store.connection.workers.insert_one(odd)
    for theme in ("light", "dark"):
        for phone in (False, True):
            async with looks(board, theme=theme, phone=phone) as look:
                page = await look.open("/workers")
                await expect(page.get_by_text("Workers run different versions of Mainspring")).to_be_visible()
                await expect(page.locator(".slots-jobs").get_by_role("link", name="render")).to_be_visible()
                await look.check_width()
                await look.check_accessibility()
                if (place := picture(f"workers-{theme}{'-phone' if phone else ''}")) is not None:
                    await page.screenshot(path=place, full_page=True)
    going.set()
