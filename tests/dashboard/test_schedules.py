"""The pages of schedules in a browser: the list with its strips, one schedule, the editor, and the calendar."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.async_api import Browser, Page, Route, expect
from pymongo import AsyncMongoClient

from api.conftest import serving
from dashboard.conftest import Board, opened, picture
from harness.firing import document_of, end_run
from harness.looking import Database
from mainspring import Cron, Every, Scheduler

Make = Callable[..., Scheduler]
HOSTILE = "<img src=x onerror=alert(1)>{{7*7}}'\"; --"


async def some_schedules(scheduler: Scheduler, db: Database) -> None:
    """A believable few: failing, paused, spread, hourly herds."""
    await scheduler.schedule(
        "send-report", {"to": "team", "password": "hunter2"}, repeat=Cron("0 9 * * MON-FRI", "Asia/Tokyo"),
        schedule_id="daily-report", tags=["reports"], queue="mail",
    )  # fmt: skip
    await scheduler.schedule("charge", repeat=Every("1h"), schedule_id="charge-cards", overlap="skip")
    await scheduler.schedule("sync", repeat=Cron("H * * * *"), schedule_id="sync-orders", jitter=30)
    await scheduler.schedule("clean", repeat=Cron("30 2 * * *", "Europe/Paris"), schedule_id="clean-up")
    await scheduler.schedules.pause("clean-up", "the disk is being replaced", actor="key:ops")
    for number in range(12):
        await scheduler.schedule("invoice", repeat=Cron("0 * * * *"), schedule_id=f"invoice-{number:02}")
    for state in ("completed", "completed", "failed"):
        job = await scheduler.schedules.trigger("charge-cards")
        await end_run(db, job.id, state, why="CardDeclined: no money left" if state == "failed" else "")
    await db["jobs.schedules"].update_one(
        {"_id": "charge-cards"}, {"$set": {"last": {"at": datetime.now(UTC), "job": job.id}}}
    )


@pytest.fixture
def db(side_client: AsyncMongoClient[dict[str, Any]], uri: str) -> Database:
    """The test's database, seen from beside the service."""
    return side_client[uri.rpartition("/")[2].partition("?")[0]]


def row(page: Page, id: str) -> Any:
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=id, exact=True))


async def choose(page: Page, id: str, action: str) -> None:
    await page.get_by_role("button", name=f"Actions of {id}").click()
    await page.get_by_role("menuitem", name=action).click()


async def test_a_row_says_when_in_words_and_in_cron_and_a_mark_says_why(board: Board, db: Database) -> None:
    await some_schedules(board.scheduler, db)
    page = await board.open("/schedules")
    report = row(page, "daily-report")
    await expect(report).to_contain_text("at 09:00, Monday to Friday, in Asia/Tokyo")
    await expect(report).to_contain_text("0 9 * * MON-FRI")
    await expect(report).to_contain_text(re.compile(r"in \d+"))
    await expect(row(page, "clean-up")).to_contain_text("the disk is being replaced · by key:ops")
    charge = row(page, "charge-cards")
    await expect(charge).to_contain_text("failing")
    await expect(charge.get_by_role("list")).to_have_accessible_name("The last 3 firings: 2 completed, 1 failed")
    await charge.get_by_role("button", name=re.compile("^failed")).click()
    why = page.get_by_role("dialog", name="Why")
    await expect(why).to_contain_text("its job has failed")
    await expect(why).to_contain_text("CardDeclined: no money left")
    await expect(why.get_by_role("link", name="Open its job")).to_be_visible()


async def test_filters_and_order_are_in_the_address_and_stay(board: Board, db: Database) -> None:
    await some_schedules(board.scheduler, db)
    page = await board.open("/schedules")
    await page.get_by_role("button", name="paused", exact=True).click()
    await page.wait_for_url("**state=paused*")
    await expect(page.get_by_role("row")).to_have_count(2)
    await page.get_by_role("button", name="all", exact=True).click()
    await page.get_by_label("Part of the id or name").fill("CHARGE")
    await page.wait_for_url("**text=CHARGE*")
    await expect(page.get_by_role("row")).to_have_count(2)
    await page.reload()
    await expect(page.get_by_label("Part of the id or name")).to_have_value("CHARGE")
    await expect(page.get_by_role("row")).to_have_count(2)
    await page.get_by_label("Part of the id or name").fill("nothing like this")
    await expect(page.get_by_text("No schedule matches")).to_be_visible()
    await page.get_by_label("Part of the id or name").fill("")
    await page.get_by_label("Order").select_option("next")
    await page.wait_for_url("**order=next*")
    await expect(page.get_by_text("without those that have no next firing")).to_be_visible()
    await expect(row(page, "clean-up")).to_have_count(0)


async def test_a_schedule_is_paused_resumed_triggered_skipped_and_deleted_in_the_list(
    board: Board, db: Database
) -> None:
    await some_schedules(board.scheduler, db)
    page = await board.open("/schedules")
    await choose(page, "sync-orders", "Pause")
    await page.get_by_label("Reason (optional)").fill("holidays")
    await page.get_by_role("button", name="Pause", exact=True).click()
    await expect(row(page, "sync-orders")).to_contain_text("holidays · by local")
    await choose(page, "sync-orders", "Resume")
    await expect(row(page, "sync-orders")).to_contain_text("active")
    before = (await board.scheduler.schedules.get("sync-orders")).next_at
    await choose(page, "sync-orders", "Skip the next firing")
    await page.get_by_role("button", name="Skip it").click()
    await expect(page.get_by_text("The next firing of sync-orders makes no job")).to_be_visible()
    after = (await board.scheduler.schedules.get("sync-orders")).next_at
    assert before is not None and after is not None and after > before
    await choose(page, "sync-orders", "Trigger now")
    await page.get_by_role("button", name="Trigger", exact=True).click()
    await expect(page.get_by_text("A job of sync-orders was made")).to_be_visible()
    assert (await document_of(db, "sync-orders"))["runs"] == 0
    await choose(page, "sync-orders", "Delete")
    await page.get_by_role("button", name="Delete", exact=True).click()
    await expect(row(page, "sync-orders")).to_have_count(0)


async def test_a_schedule_that_is_deleted_on_its_own_page_is_not_read_again(board: Board, db: Database) -> None:
    await some_schedules(board.scheduler, db)
    page = await board.open("/schedules/charge-cards")
    await expect(page.get_by_role("table", name="The next firings").get_by_role("row")).to_have_count(11)
    await page.wait_for_load_state("networkidle")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(f"{request.method} {request.url.removeprefix(board.api.url)}"))
    await page.get_by_role("button", name="More actions").click()
    await page.get_by_role("menuitem", name="Delete").click()
    await page.get_by_role("button", name="Delete", exact=True).click()
    await page.wait_for_url("**/schedules")
    await expect(row(page, "daily-report")).to_be_visible()
    await expect(row(page, "charge-cards")).to_have_count(0)
    deleted = asked.index("DELETE /api/schedules/charge-cards")
    assert not [one for one in asked[deleted + 1 :] if "/schedules/charge-cards" in one]


async def test_a_refusal_is_told_in_the_dialog_that_asked_and_is_gone_when_it_is_opened_again(
    board: Board, db: Database
) -> None:
    await some_schedules(board.scheduler, db)
    board.expected = ("503",)
    page = await board.open("/schedules/charge-cards")
    answer = {"status": 503, "json": {"detail": "There is no primary."}}
    await page.route("**/api/schedules/charge-cards/pause", lambda route: route.fulfill(**answer))
    await page.get_by_role("button", name="Pause", exact=True).click()
    dialog = page.get_by_role("dialog", name="Pause charge-cards?")
    await dialog.get_by_role("button", name="Pause", exact=True).click()
    await expect(dialog.get_by_role("alert")).to_have_text("There is no primary.")
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Pause", exact=True).click()
    await expect(dialog).to_be_visible()
    await expect(dialog.get_by_role("alert")).to_have_count(0)


async def test_a_schedule_that_cannot_be_deleted_stays_live_on_its_page(board: Board, db: Database) -> None:
    await some_schedules(board.scheduler, db)
    board.expected = ("503",)
    page = await board.open("/schedules/charge-cards")

    async def refuse(route: Route) -> None:
        if route.request.method == "DELETE":
            await route.fulfill(status=503, json={"detail": "There is no primary."})
        else:
            await route.fallback()

    await page.route("**/api/schedules/charge-cards", refuse)
    await page.get_by_role("button", name="More actions").click()
    await page.get_by_role("menuitem", name="Delete").click()
    await page.get_by_role("button", name="Delete", exact=True).click()
    await expect(page.get_by_text("There is no primary.")).to_be_visible()
    await board.scheduler.schedules.pause("charge-cards", "the bank is closed", actor="key:ops")
    await expect(page.get_by_text("the bank is closed · by key:ops")).to_be_visible()


async def test_a_schedule_has_its_firings_its_ledger_its_jobs_and_its_policies(board: Board, db: Database) -> None:
    await some_schedules(board.scheduler, db)
    page = await board.open("/schedules/charge-cards")
    await expect(page.get_by_text("Skip: no new run while one is going.")).to_be_visible()
    await expect(page.get_by_text("missed firings get one run together")).to_be_visible()
    ledger = page.get_by_role("table", name=re.compile("^The ledger"))
    await expect(ledger.get_by_role("row")).to_have_count(4)
    await expect(ledger).to_contain_text("Triggered by hand")
    jobs = page.get_by_role("table", name="The newest jobs of this schedule")
    await expect(jobs).to_contain_text("CardDeclined")
    await expect(page.get_by_role("table", name="The next firings").get_by_role("row")).to_have_count(11)
    await expect(page.get_by_role("link", name="Its rows in the audit log")).to_be_visible()


async def test_the_call_behind_a_view_is_shown(board: Board, db: Database) -> None:
    await some_schedules(board.scheduler, db)
    page = await board.open("/schedules?state=paused")
    await page.get_by_role("button", name="Show me the call").click()
    await expect(page.get_by_role("dialog")).to_contain_text("/api/schedules?state=paused&limit=40")
    await page.get_by_role("tab", name="Python").click()
    await expect(page.get_by_role("dialog")).to_contain_text('scheduler.schedules.search(state="paused", limit=40)')


async def test_a_backfill_says_how_many_jobs_it_makes_before_it_makes_them(board: Board, db: Database) -> None:
    await board.scheduler.schedule("work", repeat=Every("1h"), schedule_id="hourly")
    long_ago = datetime.now(UTC) - timedelta(hours=5, minutes=30)
    paused = {"at": long_ago, "reason": ""}
    rule = {"kind": "every", "period": "1h", "anchor": long_ago.isoformat()}
    await db["jobs.schedules"].update_one(
        {"_id": "hourly"},
        {"$set": {"paused": paused, "rule": rule, "since": long_ago, "cursor": long_ago, "created_at": long_ago}},
    )
    page = await board.open("/schedules/hourly")
    await page.get_by_role("button", name="More actions").click()
    await page.get_by_role("menuitem", name="Backfill").click()
    await expect(page.get_by_role("dialog")).to_contain_text("5 jobs will be made")
    await page.get_by_role("button", name="Make 5 jobs").click()
    await expect(page.get_by_text("The backfill made 5 jobs")).to_be_visible()
    assert len([job async for job in board.scheduler.jobs(schedule_id="hourly")]) == 5


# -- the editor --------------------------------------------------------------------------------------------------------


async def test_the_editor_shows_firings_in_both_zones_and_errors_while_one_types(
    board: Board, looks: Callable[..., Any]
) -> None:
    async with looks(board, timezone_id="America/New_York") as other:
        other.expected = ("422",)
        page = await other.open("/schedules/-/new")
        await page.get_by_role("button", name="Run a handler", exact=True).click()
        await page.get_by_label("Handler").fill("report")
        await page.get_by_label("Id", exact=True).fill("nightly")
        await page.get_by_label("Cron expression").fill("30 2 * *")
        await expect(page.locator(".field-error").first).to_contain_text("field")
        await page.get_by_label("Cron expression").fill("30 2 * * *")
        await page.get_by_label("Time zone").fill("Europe/Pariss")
        await expect(page.locator(".field-error").first).to_contain_text("Did you mean 'Europe/Paris'")
        await page.get_by_label("Time zone").fill("Europe/Paris")
        await expect(page.get_by_text("Fires at 02:30, every day, in Europe/Paris.")).to_be_visible()
        firings = page.get_by_role("table", name="The next firings")
        await expect(firings.get_by_role("row")).to_have_count(11)
        await expect(firings.get_by_role("columnheader")).to_have_text(["Europe/Paris", "America/New_York", "From now"])
        await expect(firings.get_by_role("row").nth(1)).to_contain_text("02:30:00 +0")
        await page.get_by_label("Data (JSON)").fill("{nonsense")
        await expect(page.get_by_text("This is not valid JSON")).to_be_visible()
        await page.get_by_label("Data (JSON)").fill('{"to": "team", "password": "hunter2"}')
        await page.get_by_label("Not after").fill("2001-01-01T00:00:00Z")
        await expect(page.get_by_text("It has no further firing.")).to_be_visible()
        await page.get_by_label("Not after").fill("")
        await page.get_by_role("button", name="Make the schedule").click()
        await page.wait_for_url("**/schedules/nightly")
    stored = await board.scheduler.schedules.get("nightly")
    assert (stored.name, stored.rule) == ("report", Cron("30 2 * * *", "Europe/Paris"))
    assert stored.data == {"to": "team", "password": "hunter2"}


async def test_a_refused_form_leads_to_the_field_that_it_is_about(board: Board) -> None:
    page = await board.open("/schedules/-/new")
    await page.get_by_role("button", name="Run a handler", exact=True).click()
    await page.get_by_role("button", name="Make the schedule").click()
    await expect(page.get_by_text("The name of a handler is missing.")).to_be_in_viewport()
    await expect(page.get_by_label("Handler", exact=True)).to_be_focused()


async def test_a_webhook_is_made_from_a_template_and_a_wrong_url_is_told_beside_the_firings(board: Board) -> None:
    board.expected = ("422",)
    page = await board.open("/schedules/-/new")
    await page.get_by_role("button", name="Call a URL on workdays at nine").click()
    await page.get_by_label("URL").fill("ftp://example.com/")
    await expect(page.locator(".field-error").first).to_contain_text("http")
    await expect(page.get_by_role("table", name="The next firings").get_by_role("row")).to_have_count(11)
    await page.get_by_label("URL").fill("https://example.com/hook")
    await page.get_by_label("Id", exact=True).fill("hook")
    await expect(page.locator(".field-error")).to_have_count(0)
    await page.get_by_role("button", name="Make the schedule").click()
    await page.wait_for_url("**/schedules/hook")
    stored = await board.scheduler.schedules.get("hook")
    assert stored.data["request"]["url"] == "https://example.com/hook"


async def test_an_edit_changes_what_was_changed_and_keeps_what_is_hidden(board: Board, db: Database) -> None:
    await some_schedules(board.scheduler, db)
    page = await board.open("/schedules/daily-report/edit")
    await expect(page.get_by_role("button", name="Save the changes")).to_be_disabled()
    await expect(page.get_by_label("Data (JSON)")).to_have_value(re.compile("redacted"))
    for policy in ("While a run is going", "Missed firings"):  # a change cannot take a policy away
        assert all("Usual" not in one for one in await page.get_by_label(policy).locator("option").all_inner_texts())
    data = json.loads(await page.get_by_label("Data (JSON)").input_value())
    await page.get_by_label("Data (JSON)").fill(json.dumps({**data, "to": "all"}))
    await page.get_by_label("Cron expression").fill("15 10 * * MON-FRI")
    await page.get_by_role("button", name="Save the changes").click()
    await page.wait_for_url("**/schedules/daily-report")
    stored = await board.scheduler.schedules.get("daily-report")
    assert stored.rule == Cron("15 10 * * MON-FRI", "Asia/Tokyo")
    assert (stored.data, stored.tags, stored.queue) == ({"to": "all", "password": "hunter2"}, ("reports",), "mail")


async def test_an_edit_of_the_interval_keeps_the_grid_and_the_end_of_a_pause_after_failures(board: Board) -> None:
    grid = datetime(2026, 1, 1, tzinfo=UTC)
    await board.scheduler.schedule("sync", repeat=Every("15m", anchor=grid), schedule_id="sync", pause_after=3)
    page = await board.open("/schedules/sync/edit")
    await page.get_by_label("Interval").fill("20m")
    await expect(page.get_by_text("Fires every 20 minutes, from 2026-01-01 00:00 UTC.")).to_be_visible()
    await page.get_by_label("Pause after failures in a row").fill("")
    await page.get_by_role("button", name="Save the changes").click()
    await page.wait_for_url("**/schedules/sync")
    stored = await board.scheduler.schedules.get("sync")
    assert (stored.rule, stored.pause_after) == (Every("20m", anchor=grid), None)


async def test_cancel_leaves_a_form_that_is_the_first_page_of_its_tab(board: Board) -> None:
    await board.scheduler.schedule("sync", repeat=Every("15m"), schedule_id="sync")
    page = await board.open("/schedules/sync/edit")
    await page.get_by_role("button", name="Cancel").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("sync")
    await page.get_by_role("button", name="Edit").click()
    await page.get_by_role("button", name="Cancel").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("sync")
    await board.open("/schedules/-/new")
    await page.get_by_role("button", name="Cancel").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Schedules")


# -- the calendar ------------------------------------------------------------------------------------------------------


async def test_schedules_whose_ids_are_words_of_addresses_are_opened_and_edited(board: Board) -> None:
    ids = ["new", "calendar", "calendars", "-", "-/new", "edit"]
    for id in ids:
        await board.scheduler.schedule("report", repeat=Cron("0 9 * * *"), schedule_id=id)
    for id in ids:
        page = await board.open("/schedules")
        await row(page, id).get_by_role("link", name=id, exact=True).click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(id)
        await expect(page.get_by_text("0 9 * * *").first).to_be_visible()
        await page.get_by_role("button", name="Edit").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(f"Edit {id}")
        await expect(page.get_by_label("Cron expression")).to_have_value("0 9 * * *")


async def test_the_calendar_shows_herds_and_a_click_lists_the_heaviest(board: Board, db: Database) -> None:
    await some_schedules(board.scheduler, db)
    page = await board.open("/schedules/-/calendar")
    await expect(page.get_by_text(re.compile(r"firings of 16 schedules; 1 of them is paused"))).to_be_visible()
    cells = page.get_by_role("button", name=re.compile("a herd$"))
    await expect(cells.last).to_be_visible()
    await cells.last.click()
    await page.wait_for_url("**hour=*")
    await expect(page.get_by_role("img", name=re.compile("The busiest minute is :00"))).to_be_visible()
    heaviest = page.get_by_role("table", name="The schedules that fire most in this hour")
    await expect(heaviest).to_contain_text("invoice-00")
    await page.get_by_role("button", name="14 days").click()
    await expect(page.locator(".heat tbody tr")).to_have_count(14)


async def test_the_calendar_marks_a_night_on_which_clocks_change(board: Board, db: Database) -> None:
    await some_schedules(board.scheduler, db)
    words = "02:00 becomes 03:00 in Europe/Paris: the times between do not exist on this day"

    async def add_change(route: Route) -> None:
        # There is such a night twice a year only: the service's answer gets one for tomorrow.
        answer = await route.fetch()
        body = await answer.json()
        at = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%dT%H:00:00.000Z")
        body["data"]["clockChanges"] = [
            {"at": at, "zone": "Europe/Paris", "byMs": 3_600_000, "words": words, "schedules": 1}
        ]
        await route.fulfill(response=answer, json=body)

    await board.page.route("**/api/schedules/coming?*", add_change)
    page = await board.open("/schedules/-/calendar")
    await expect(page.get_by_text("◐ clocks change")).to_be_visible()
    await expect(page.get_by_text(words)).to_be_visible()


@pytest.mark.parametrize("width", [1024, 1280])
async def test_the_actions_and_the_health_of_schedules_are_in_sight_on_a_laptop(
    board: Board, db: Database, width: int
) -> None:
    await some_schedules(board.scheduler, db)
    for _ in range(20):
        await board.scheduler.schedules.trigger("sync-orders")
    page = board.page
    await page.set_viewport_size({"width": width, "height": 900})
    await board.open("/schedules")
    await expect(row(page, "sync-orders").get_by_role("list")).to_have_accessible_name(
        re.compile("^The last 20 firings")
    )
    table = page.get_by_role("region", name="Schedules")
    assert await table.evaluate("it => it.scrollWidth <= it.clientWidth"), "a part of the table is out of sight"


async def test_the_list_of_a_phone_shows_the_actions_and_the_health_of_each_schedule(
    board: Board, db: Database, looks: Callable[..., Any]
) -> None:
    await some_schedules(board.scheduler, db)
    async with looks(board, phone=True) as other:
        page = await other.open("/schedules")
        charge = row(page, "charge-cards")
        strip = charge.get_by_role("list", name="The last 3 firings: 2 completed, 1 failed")
        await expect(strip).to_be_in_viewport(ratio=1)
        await expect(charge.get_by_role("button", name="Actions of charge-cards")).to_be_in_viewport(ratio=1)


# -- every page --------------------------------------------------------------------------------------------------------

ADDRESSES = {
    "schedules": "/schedules",
    "schedule": "/schedules/charge-cards",
    "schedule-edit": "/schedules/daily-report/edit",
    "schedule-new": "/schedules/-/new",
    "calendar": "/schedules/-/calendar",
}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("phone", [False, True], ids=["desk", "phone"])
async def test_the_pages_are_accessible_and_fit(
    board: Board, db: Database, looks: Callable[..., Any], theme: str, phone: bool
) -> None:
    await some_schedules(board.scheduler, db)
    async with looks(board, theme=theme, phone=phone) as other:
        for name, address in ADDRESSES.items():
            page = await other.open(address)
            await page.wait_for_load_state("networkidle")
            await other.check_accessibility()
            await other.check_width()
            place = picture(f"{name}-{theme}-{'phone' if phone else 'desk'}")
            if place is not None:
                await page.screenshot(path=place, full_page=True)


async def test_a_viewer_sees_and_may_not_touch(browser: Browser, make_scheduler: Make, db: Database) -> None:
    scheduler = make_scheduler()
    await some_schedules(scheduler, db)
    key = await scheduler.api_keys.create("looker", "viewer", queues=["mail"])
    async with serving(scheduler, keyless=False) as api, opened(browser, api) as board:
        board.expected = ("401",)
        page = await board.open("/schedules")
        await page.get_by_label("API key").fill(key.text)
        await page.get_by_role("button", name="Log in").click()
        await expect(row(page, "daily-report")).to_be_visible()
        await expect(page.get_by_role("row")).to_have_count(2)
        await expect(page.get_by_role("link", name="New schedule")).to_have_count(0)
        await expect(page.get_by_role("button", name=re.compile("^Actions of"))).to_have_count(0)
        await board.open("/schedules/-/new")
        await expect(page.get_by_text("Not allowed")).to_be_visible()
        await board.open("/schedules/-/calendar")
        await expect(page.get_by_text(re.compile("firings? of 1 schedule"))).to_be_visible()


async def test_hostile_texts_are_texts_and_a_malformed_schedule_spoils_its_row_alone(
    board: Board, db: Database
) -> None:
    long = "x" * 200
    await board.scheduler.schedule(HOSTILE, {"a": HOSTILE}, repeat=Every("1h"), schedule_id="../<b>bold</b>?#%2F/é")
    await board.scheduler.schedule(long, repeat=Every("1h"), schedule_id=long)
    await board.scheduler.schedules.pause(long, HOSTILE * 10, actor=HOSTILE)
    await board.scheduler.schedule("work", repeat=Every("1h"), schedule_id="good")
    await board.scheduler.schedule("work", repeat=Every("1h"), schedule_id="malformed")
    await db["jobs.schedules"].update_one(
        {"_id": "malformed"}, {"$set": {"rule": HOSTILE, "cursor": 5, "last": [], "job.queue": {"a": 1}, "runs": "x"}}
    )
    page = await board.open("/schedules")
    await expect(page.get_by_role("row")).to_have_count(5)
    await expect(row(page, "good")).to_contain_text("every 1h")
    await board.check_width()
    await page.get_by_role("link", name="../<b>bold</b>?#%2F/é", exact=True).click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("../<b>bold</b>?#%2F/é")
    await expect(page.get_by_text("every 1h", exact=True)).to_be_visible()
    board.expected = ("409", "404")
    await board.open("/schedules/malformed")
    await expect(page.get_by_text("Its document is malformed")).to_be_visible()
    await board.open("/schedules/-/calendar")
    await expect(page.get_by_text(re.compile("firings of 4 schedules"))).to_be_visible()
