"""The overview: problems with their links and cures, charts whose range filters what is below, and the parts."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Page, expect

from dashboard.conftest import Board, opened, picture
from harness.inside import inside
from harness.profiling import profiled
from mainspring import Cron, Fail, Scheduler
from mainspring.model.views.statistics import Counts, Kind

expect.set_options(timeout=30_000)
HOSTILE = '<img src=x onerror="alert(1)">' + "\u202e" + "n" * 200
MINUTE = timedelta(minutes=1)
NAMES = (
    ("mail", "mail.send", 20, 180, 0.01),
    ("billing", "billing.charge", 6, 900, 0.3),
    ("default", "resize", 8, 60, 0),
)


async def count(scheduler: Scheduler, minutes: int = 60, *, days_before: int = 0) -> None:
    """Counts as a worker would have stored them, in each of the last minutes."""
    store = await inside(scheduler).store()
    now = (scheduler.now() - timedelta(days=days_before)).replace(second=0, microsecond=0)
    chance = random.Random(1)
    rows = []
    for minute in range(minutes):
        for queue, name, rate, ms, bad in NAMES:
            counts = Counts()
            for _ in range(chance.randint(1, rate)):
                counts.began(int(chance.expovariate(1 / 300)))
                outcome = "failed" if chance.random() < bad / (1 + days_before) else "completed"
                counts.ended(outcome, int(chance.expovariate(1 / ms) * (1 if days_before else 2)))
            rows.append((Kind(now - minute * MINUTE, queue, name), counts))
    await store.statistics.add("w", rows)
    for minute in range(0, minutes, 2):
        age = {"mail": timedelta(seconds=chance.expovariate(1 / 8))}
        await store.statistics.note_oldest(now - minute * MINUTE, age)


async def trouble(scheduler: Scheduler) -> None:
    """One problem of most kinds."""

    @scheduler.job("billing.charge", queue="billing", retry=1)
    async def charge() -> None:
        raise Fail("declined")

    await scheduler.queues.pause("imports", reason="the partner is down", actor="ana")
    await scheduler.limits.open_breaker(name="bank.transfer", reason="12 of 20 attempts failed.", actor="ana")
    await scheduler.schedule("report", repeat=Cron("0 3 * * *"), schedule_id="nightly")
    await scheduler.schedule("report", repeat=Cron("0 4 * * 1"), schedule_id="weekly")
    await scheduler.schedules.pause("weekly", "waits for the new template", actor="ana")
    await scheduler.start()
    for job in [await scheduler.schedule("billing.charge") for _ in range(4)]:
        await scheduler.wait(job.id, timeout=60)
    await scheduler.schedule("video.encode")


def problem(page: Page, text: str) -> Any:
    return page.locator(".problem").filter(has_text=text)


async def test_without_a_problem_the_page_proves_that_all_is_well(board: Board) -> None:
    await board.scheduler.start()
    page = await board.open()
    await expect(page.get_by_text("All is well")).to_be_visible()
    await expect(page.get_by_text("One worker is alive.")).to_be_visible()
    await expect(page.get_by_text("No attempts in this time")).to_be_visible()
    await board.check_accessibility()


@pytest.mark.core
async def test_problems_lead_to_their_proof_and_are_ended_by_their_cures(board: Board) -> None:
    await trouble(board.scheduler)
    page = await board.open()
    await expect(problem(page, "The queue 'imports' is paused.")).to_contain_text("the partner is down")
    link = problem(page, "attempts of 'billing.charge' failed").get_by_role("link")
    assert re.search(r"/jobs\?name=billing\.charge&state=failed", str(await link.get_attribute("href")))
    for text, verb in (
        ("The queue 'imports' is paused.", "Resume"),
        ("The schedule 'weekly' is paused.", "Resume"),
        ("The breaker of the job 'bank.transfer'", "Close the breaker"),
    ):
        await problem(page, text).get_by_role("button", name=verb).click()
        await page.get_by_role("dialog").get_by_role("button", name=verb).click()
        await expect(problem(page, text)).to_have_count(0)
    await problem(page, "billing.charge").get_by_role("button", name="Retry its dead letters").click()
    await page.get_by_role("dialog").get_by_role("button", name="Retry its dead letters").click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    assert await board.scheduler.limits.pauses() == []
    assert (await board.scheduler.schedules.get("weekly")).paused is None
    (redrive,) = await board.scheduler.dead_letters.redrives()
    assert redrive.matched == 4


async def test_a_viewer_sees_problems_without_cures(board: Board, browser: Any) -> None:
    await board.scheduler.queues.pause("mail", reason="a deploy", actor="ana")
    key = await board.scheduler.api_keys.create("viewer", "viewer")
    async with opened(browser, board.api) as other:
        other.expected = ("401", "403")
        await other.page.goto(board.api.url + "/")
        await other.page.get_by_label("API key").fill(key.text)
        await other.page.keyboard.press("Enter")
        await expect(problem(other.page, "The queue 'mail' is paused.")).to_be_visible()
        await expect(other.page.get_by_role("button", name="Resume")).to_have_count(0)


async def test_a_range_dragged_on_a_chart_filters_what_is_below_and_stays_in_the_address(board: Board) -> None:
    await count(board.scheduler)
    page = await board.open("/?range=1h")
    await expect(page.get_by_role("status", name="Loading")).to_have_count(0)  # what loads above moves the chart
    plot = page.locator(".chart .u-over").first
    await plot.scroll_into_view_if_needed()
    box = await plot.bounding_box()
    assert box is not None
    await page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 40)
    await page.mouse.down()
    await page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 45, steps=4)
    await page.mouse.up()
    await page.wait_for_url(re.compile(r"from=.*to="))
    await expect(page.get_by_role("button", name="Clear the range")).to_be_visible()
    names = page.get_by_role("region", name="Most failing names")
    link = names.get_by_role("link", name="billing.charge")
    await expect(link).to_have_attribute("href", re.compile(r"name=billing\.charge.*since=.*until=.*state=failed"))
    here = page.url
    await page.reload()
    await expect(page.get_by_role("button", name="Clear the range")).to_be_visible()
    assert page.url == here
    await page.get_by_role("button", name="Zoom in").click()
    await page.wait_for_url(re.compile("zoom=1"))
    await page.get_by_role("button", name="Clear the range").click()
    await page.wait_for_url(re.compile(r"\?range=1h$"))


async def test_a_range_on_a_chart_is_chosen_and_cleared_by_the_keyboard(board: Board) -> None:
    await count(board.scheduler)
    page = await board.open("/?range=1h")
    chart = page.get_by_role("slider", name="Attempts per minute: choose a range")
    await chart.focus()
    await expect(page.get_by_text("with Shift mark a range").first).to_be_visible()
    await page.keyboard.press("Home")
    await page.keyboard.press("ArrowRight")
    await expect(chart).to_have_attribute("aria-valuetext", re.compile(r"^\d.*: .*completed \d+$"))
    await page.keyboard.press("Enter")
    await page.wait_for_url(re.compile(r"from=.*to="))
    one = page.url
    assert _minutes(one) == 1
    for _ in range(9):
        await page.keyboard.press("Shift+ArrowRight")
    await expect(chart).to_have_attribute("aria-valuetext", re.compile("is marked$"))
    await expect(page.locator(".chart").first.locator(".u-select")).to_have_css("left", re.compile(r"^[1-9]"))
    await page.keyboard.press("Enter")
    await page.wait_for_url(lambda url: url != one)
    assert _minutes(page.url) == 10
    link = page.get_by_role("region", name="Most failing names").get_by_role("link", name="billing.charge")
    await expect(link).to_have_attribute("href", re.compile(r"name=billing\.charge.*since=.*until=.*state=failed"))
    await expect(chart).to_be_focused()
    await board.check_accessibility()
    await page.keyboard.press("Escape")
    await page.wait_for_url(re.compile(r"\?range=1h$"))
    await expect(page.get_by_role("button", name="Clear the range")).to_have_count(0)


def _minutes(url: str) -> float:
    part = parse_qs(urlsplit(url).query)
    return (datetime.fromisoformat(part["to"][0]) - datetime.fromisoformat(part["from"][0])) / MINUTE


async def test_ranges_and_queues_are_chosen_and_kept_in_the_address(board: Board) -> None:
    await count(board.scheduler, 20)
    await count(board.scheduler, 20, days_before=7)
    await board.scheduler.queues.pause("mail")
    page = await board.open()
    for range in ("15m", "6h", "24h", "7d", "30d"):
        await page.get_by_role("button", name=range, exact=True).click()
        await page.wait_for_url(re.compile(f"range={range}"))
        await expect(page.locator(".chart")).to_have_count(3)
    await page.get_by_label("Queue", exact=True).select_option("mail")
    await page.wait_for_url(re.compile("queue=mail"))
    slow = page.get_by_role("region", name="Slowest names")
    await expect(slow.get_by_role("link")).to_have_text(["mail.send"])
    await expect(slow).to_contain_text("%")


async def test_the_page_follows_changes(board: Board) -> None:
    await board.scheduler.start()
    page = await board.open()
    await expect(page.get_by_text("All is well")).to_be_visible()
    await board.scheduler.queues.pause("mail", reason="a deploy", actor="ana")
    await expect(problem(page, "The queue 'mail' is paused.")).to_be_visible()


async def test_hostile_names_are_shown_and_nothing_executes(board: Board) -> None:
    scheduler = board.scheduler
    plain = HOSTILE.replace("\u202e", "")
    await scheduler.queues.pause(plain[:190], reason=plain, actor="ana")
    await scheduler.schedule("report", repeat=Cron("0 3 * * *"), schedule_id=plain[:180])
    db = scheduler.client.get_default_database()
    await db["jobs.controls"].update_one(
        {"kind": "pause"}, {"$set": {"reason": HOSTILE, "actor": HOSTILE}}, hint="_id_"
    )
    store = await inside(scheduler).store()
    counts = Counts(started=9, failed=9)
    counts.ended("failed", 10)
    await store.statistics.add("w", [(Kind(scheduler.now(), "default", HOSTILE[:200]), counts)])
    page = await board.open()
    await expect(page.locator(".problem")).to_have_count(3)
    await expect(page.locator("img")).to_have_count(0)
    await board.check_width()


@pytest.mark.parametrize("phone", [False, True], ids=["desk", "phone"])
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_the_page_is_readable(board: Board, looks: Callable[..., Any], theme: str, phone: bool) -> None:
    await trouble(board.scheduler)
    await count(board.scheduler)
    await count(board.scheduler, days_before=7)
    store = await inside(board.scheduler).store()
    await store.statistics.note_versions(["Mainspring 0.2.0"], board.scheduler.now())
    await store.statistics.note_versions(["Mainspring 0.3.0"], board.scheduler.now() - 22 * MINUTE)
    await store.statistics.note_versions(["shop 2026.11.2"], board.scheduler.now() - 9 * MINUTE)
    async with looks(board, theme=theme, phone=phone) as other:
        page = await other.open()
        await expect(page.locator(".chart")).to_have_count(3)
        await expect(page.get_by_role("region", name="Slowest names").get_by_role("link").first).to_be_visible()
        await other.check_accessibility()
        await other.check_width()
        if (place := picture(f"overview-{theme}-{'phone' if phone else 'desk'}")) is not None:
            await page.screenshot(path=place, full_page=True)


@pytest.mark.fresh_database  # an array that an earlier test stored keeps an index from sorting
async def test_no_request_of_the_page_examines_many_keys(board: Board) -> None:
    """The reads of one visit, with many jobs stored; the full size is in the bench."""
    scheduler = board.scheduler
    await scheduler.connect()
    await count(scheduler)
    db: Any = scheduler.client.get_default_database()
    now = scheduler.now()
    fields = {"v": 1, "data": {}, "created_at": now, "rev": 0, "token": 0, "tries": 0, "priority": 5}
    states: list[dict[str, Any]] = [
        {"state": "pending", "ready": True, "run_at": now - MINUTE},
        {"state": "failed", "finished_at": now, "error": {"type": "E"}, "fingerprint": "f", "run_at": now},
        {"state": "completed", "finished_at": now, "run_at": now},
    ]
    await db.jobs.insert_many(
        [{**fields, **states[n % 3], "name": f"n{n % 20}", "queue": f"q{n % 4}"} for n in range(20_000)], ordered=False
    )
    for path in ("/api/overview", "/api/stats", "/api/stats/names?order=slowest", "/api/stats/names?order=failing"):
        async with profiled(db) as spent:
            assert (await board.api.get(path)).status == 200
        assert spent.keys <= 2000 and spent.documents <= 2000 and not spent.scans, (path, vars(spent))
