"""The page of settings and keys: what is in force, and making, rotating, revoking, storing and deleting."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, Page, Route, expect

from api.conftest import Api, serving
from dashboard.conftest import Board, opened, picture
from mainspring import Calendar, Cron, Except, Scheduler

Make = Callable[..., Scheduler]
HOSTILE = "<script>alert(1)</script>'\"" + "x" * 150
ICS = b"BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\nDTSTART;VALUE=DATE:20301224\nEND:VEVENT\nEND:VCALENDAR\n"


@pytest.fixture
async def keyed(browser: Browser, make_scheduler: Make) -> AsyncIterator[Board]:
    """The dashboard of a service with keys, logged in as an admin."""
    scheduler = make_scheduler(keys={"2026a": b"k" * 32})
    admin = await scheduler.api_keys.create("the-admin", "admin")
    async with serving(scheduler, keyless=False) as api, opened(browser, api) as board:
        board.expected = ("401",)
        await log_in(board, admin.text, "/settings")
        board.api = api.with_key(admin.text)
        yield board


async def log_in(board: Board, key: str, path: str) -> Page:
    page = await board.open(path)
    await page.get_by_label("API key").fill(key)
    await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_role("navigation")).to_be_visible()
    return page


def works(api: Api, key: str) -> Any:
    return api.with_key(key).get("/api/session")


async def test_the_settings_in_force_are_shown_with_their_sources(keyed: Board) -> None:
    page = keyed.page
    await expect(page.get_by_text("replica set")).to_be_visible()
    await expect(page.get_by_text(re.compile(r"all \d+ present"))).to_be_visible()
    await expect(page.get_by_role("row").filter(has_text="session_hours")).to_contain_text("MAINSPRING_SESSION_HOURS")
    port = page.get_by_role("row").filter(has_text=re.compile("^port"))
    await expect(port).to_contain_text("program")
    await expect(page.locator("dl").first).to_contain_text("2026a")
    await expect(page.get_by_role("row").filter(has_text="smtp_url")).to_contain_text("not set")
    await expect(page.get_by_role("row").filter(has_text=re.compile("^prefix"))).to_contain_text("an empty text")


async def test_a_key_is_created_shown_once_rotated_and_revoked(keyed: Board) -> None:
    page = keyed.page
    await page.get_by_role("tab", name="API keys").click()
    await page.get_by_role("button", name="Create a key").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name", exact=True).fill("deploys")
    await dialog.get_by_label(re.compile("Queues")).fill("billing, mail")
    await dialog.get_by_role("button", name="Create the key").click()
    first = await page.get_by_test_id("once").inner_text()
    assert (await works(keyed.api, first)).status == 200
    await page.get_by_role("button", name="I have stored it").click()
    row = page.get_by_role("row").filter(has_text="deploys")
    await expect(row).to_contain_text("queues billing, mail")
    assert first not in await page.content()

    await row.get_by_role("button", name="Actions on the key deploys").click()
    await page.get_by_role("menuitem", name="Rotate").click()
    await dialog.get_by_label("The old secret ends").select_option("1h")
    await dialog.get_by_role("button", name="Make a new secret").click()
    second = await page.get_by_test_id("once").inner_text()
    assert second != first and (await works(keyed.api, second)).status == (await works(keyed.api, first)).status == 200
    await page.get_by_role("button", name="I have stored it").click()
    await expect(row).to_contain_text("old secret ends")

    await row.get_by_role("button", name="Actions on the key deploys").click()
    await page.get_by_role("menuitem", name="Revoke").click()
    await dialog.get_by_role("button", name="Revoke the key").click()
    await expect(row).to_contain_text("revoked")
    assert (await works(keyed.api, second)).status == 401
    await expect(row.get_by_role("button", name="Actions on the key deploys")).to_have_count(0)


async def test_the_first_key_logs_the_page_in_that_made_it(board: Board) -> None:
    board.expected = ("401",)  # a request may be under way while the first key ends the access without one
    page = await board.open("/settings?tab=keys")
    await page.get_by_role("button", name="Create a key").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("every request needs a key")
    await dialog.get_by_label("Name", exact=True).fill("first")
    await dialog.get_by_role("button", name="Create the key").click()
    text = await page.get_by_test_id("once").inner_text()
    await page.get_by_role("button", name="I have stored it").click()
    await expect(page.get_by_role("row").filter(has_text="first")).to_contain_text("admin")
    await expect(page.get_by_role("button", name=re.compile("first · admin"))).to_be_visible()
    assert (await board.api.get("/api/session")).status == 401
    assert (await works(board.api, text)).status == 200


async def test_a_key_is_created_only_once_it_is_known_whether_it_is_the_first(board: Board) -> None:
    known = asyncio.Event()

    async def late(route: Route) -> None:
        await known.wait()
        await route.continue_()

    page = board.page
    await page.route(re.compile(r"/api/keys"), late)
    await board.open("/settings?tab=keys")
    await expect(page.get_by_role("heading", name="API keys")).to_be_visible()
    await expect(page.get_by_role("button", name="Create a key")).to_have_count(0)
    known.set()
    await page.get_by_role("button", name="Create a key").click()
    await expect(page.get_by_role("dialog").get_by_label("Role")).to_have_value("admin")


async def test_a_refused_key_says_why_beside_the_form(keyed: Board) -> None:
    keyed.expected = ("401", "422")
    page = keyed.page
    await page.get_by_role("tab", name="API keys").click()
    await page.get_by_role("button", name="Create a key").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name", exact=True).fill("late")
    await dialog.get_by_label(re.compile("Ends")).fill("2020-01-01T10:00")
    await dialog.get_by_role("button", name="Create the key").click()
    await expect(dialog.get_by_role("alert").first).to_be_visible()
    await expect(dialog.get_by_label("Name", exact=True)).to_have_value("late")


async def test_a_secret_is_stored_made_and_deleted_and_its_value_is_never_read(keyed: Board) -> None:
    page = keyed.page
    await page.get_by_role("tab", name="Secrets").click()
    await page.get_by_role("button", name="Store a secret").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name", exact=True).fill("billing-token")
    await dialog.get_by_label("Value", exact=True).fill("canary-value")
    await dialog.get_by_label(re.compile("Origins")).fill("https://api.example.com\nhttps://b.example.com")
    await dialog.get_by_label(re.compile("Queues")).fill("billing")
    await dialog.get_by_role("button", name="Store it").click()
    row = page.get_by_role("row").filter(has_text="billing-token")
    await expect(row).to_contain_text("https://api.example.com, https://b.example.com")
    await expect(row).to_contain_text("queue billing")
    assert "canary-value" not in await page.content()
    assert await keyed.scheduler.secrets.value("billing-token") == "canary-value"

    await row.get_by_role("button", name="Actions on the secret billing-token").click()
    await page.get_by_role("menuitem", name="New value").click()
    await dialog.get_by_role("button", name="Make a signing secret").click()
    await dialog.get_by_role("button", name="Store it").click()
    await expect(page.get_by_test_id("once")).to_have_text(re.compile("^whsec_"))
    await page.get_by_role("button", name="I have stored it").click()
    await expect(row).to_contain_text("2")

    await row.get_by_role("button", name="Actions on the secret billing-token").click()
    await page.get_by_role("menuitem", name="Delete").click()
    await dialog.get_by_role("button", name="Delete the secret").click()
    await expect(row).to_have_count(0)


async def test_without_an_encryption_key_the_page_says_how_to_make_one(board: Board) -> None:
    page = await board.open("/settings?tab=secrets")
    await expect(page.get_by_text("mainspring generate-key")).to_be_visible()
    await expect(page.get_by_role("button", name="Store a secret")).to_have_count(0)


@pytest.mark.parametrize("role", ["viewer", "operator"])
async def test_keys_that_are_no_admins_reach_the_calendars_and_no_settings(
    browser: Browser, make_scheduler: Make, role: Literal["viewer", "operator"]
) -> None:
    scheduler = make_scheduler()
    await scheduler.calendars.put("holidays", Calendar(yearly=["12-25"]))
    key = await scheduler.api_keys.create(role, role)
    async with serving(scheduler, keyless=False) as api, opened(browser, api) as board:
        board.expected = ("401",)
        page = await log_in(board, key.text, "/schedules")
        await page.get_by_role("link", name="Calendars").click()
        row = page.get_by_role("row").filter(has_text="holidays")
        await expect(row).to_contain_text("every year 12-25")
        may = 1 if role == "operator" else 0
        await expect(page.get_by_role("button", name="Store a calendar")).to_have_count(may)
        await expect(row.get_by_role("button", name="Actions on the calendar holidays")).to_have_count(may)
        await expect(page.get_by_role("link", name="Settings and keys")).to_have_count(0)
        await board.open("/settings?tab=calendars")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Calendars")
        await board.open("/settings")
        await expect(page.get_by_role("main")).to_contain_text(
            f"has the role {role}. Log in with a key of the role admin"
        )


async def test_a_calendar_is_stored_edited_and_deleted_unless_a_schedule_needs_it(board: Board) -> None:
    board.expected = ("409",)
    page = await board.open("/schedules/-/calendars")
    await page.get_by_role("button", name="Store a calendar").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name", exact=True).fill("holidays")
    await dialog.get_by_label("Days", exact=True).fill("2031-05-05")
    await dialog.get_by_label("Ranges").fill("2031-12-24 to 2032-01-01")
    await dialog.get_by_label("Weekdays").fill("SAT, SUN")
    await dialog.get_by_role("button", name="Store it").click()
    row = page.get_by_role("row").filter(has_text="holidays")
    await expect(row).to_contain_text("SAT, SUN; 2031-12-24 to 2032-01-01; 2031-05-05")
    await row.get_by_role("button", name="Actions on the calendar holidays").click()
    await page.get_by_role("menuitem", name="Edit").click()
    await dialog.get_by_label("Days of every year").fill("12-25")
    await dialog.get_by_role("button", name="Store it").click()
    await expect(row).to_contain_text("every year 12-25")
    stored = (await board.scheduler.calendars.get("holidays")).calendar
    assert stored.yearly == ((12, 25),) and len(stored.ranges) == 1

    await board.scheduler.schedule("work", repeat=Except(Cron("0 9 * * *"), "holidays"), schedule_id="daily")
    await row.get_by_role("button", name="Actions on the calendar holidays").click()
    await page.get_by_role("menuitem", name="Delete").click()
    await dialog.get_by_role("button", name="Delete the calendar").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("daily")
    await board.scheduler.schedules.delete("daily")
    await dialog.get_by_role("button", name="Delete the calendar").click()
    await expect(row).to_have_count(0)


async def test_a_calendar_is_stored_from_a_chosen_file_and_a_file_that_is_none_is_refused(board: Board) -> None:
    board.expected = ("422",)
    page = await board.open("/schedules/-/calendars")
    await page.get_by_role("button", name="Store a calendar").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("holidays")
    await dialog.get_by_role("button", name="An .ics file").click()
    await expect(dialog.get_by_role("button", name="Store it")).to_be_disabled()
    await dialog.get_by_label("File").set_input_files(
        {"name": "a.ics", "mimeType": "text/calendar", "buffer": b"garbage"}
    )
    await dialog.get_by_role("button", name="Store it").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("This .ics file cannot be read")
    await dialog.get_by_label("File").set_input_files({"name": "a.ics", "mimeType": "text/calendar", "buffer": ICS})
    if (place := picture("settings-calendar-file")) is not None:
        await page.screenshot(path=place)
    await dialog.get_by_role("button", name="Store it").click()
    await expect(page.get_by_role("row", name=re.compile("holidays"))).to_contain_text("2030-12-24")
    assert [str(day) for day in (await board.scheduler.calendars.get("holidays")).calendar.days] == ["2030-12-24"]


async def test_a_hostile_calendar_and_key_are_text(board: Board) -> None:
    await board.scheduler.calendars.put(HOSTILE, Calendar(weekdays=["SAT"], description=HOSTILE))
    page = await board.open("/schedules/-/calendars")
    page.on("dialog", lambda dialog: board.errors.append(f"a script was run: {dialog.message}"))
    await expect(page.get_by_role("row").filter(has_text="alert(1)")).to_have_count(1)
    await board.check_width()


async def test_an_admin_with_a_scope_sees_its_keys_alone(browser: Browser, make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    await scheduler.api_keys.create("all", "admin")
    part = await scheduler.api_keys.create("part", "admin", queues=["billing"])
    async with serving(scheduler, keyless=False) as api, opened(browser, api) as board:
        board.expected = ("401",)
        page = await log_in(board, part.text, "/settings")
        await expect(page.get_by_role("tab")).to_have_text(["API keys"])
        await expect(page.get_by_role("row").filter(has_text="part")).to_have_count(1)
        await expect(page.get_by_role("row").filter(has_text="all")).to_have_count(0)


async def test_a_session_that_ends_returns_to_the_login_and_then_to_the_same_place(keyed: Board) -> None:
    page = await keyed.open("/settings?tab=secrets")
    await expect(page.get_by_role("tab", name="Secrets", selected=True)).to_be_visible()
    other = await keyed.scheduler.api_keys.create("other", "admin")
    (mine,) = [key for key in await keyed.scheduler.api_keys.all() if key.name == "the-admin"]
    await keyed.scheduler.api_keys.revoke(mine.id)
    await page.get_by_role("tab", name="API keys").click()
    await page.get_by_role("textbox", name="API key").fill(other.text)
    await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_role("tab", name="API keys", selected=True)).to_be_visible()
    await expect(page.get_by_role("row").filter(has_text="the-admin")).to_contain_text("revoked")


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_every_tab_is_accessible_and_fits_a_phone(board: Board, looks: Callable[..., Any], theme: str) -> None:
    await board.scheduler.calendars.put("holidays", Calendar(yearly=["12-25"], description="closed"))
    for phone in (False, True):
        async with looks(board, theme=theme, phone=phone) as other:
            for path in ("/settings", "/settings?tab=keys", "/settings?tab=secrets", "/schedules/-/calendars"):
                page = await other.open(path)
                await expect(page.get_by_role("status", name="Loading")).to_have_count(0)
                await other.check_accessibility()
                await other.check_width()
                if place := picture(f"{re.split('[/=]', path)[-1]}-{theme}-{'phone' if phone else 'desk'}"):
                    await page.screenshot(path=place)
