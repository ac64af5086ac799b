"""The page of a job and the form of a new one: what they tell, what can be done there, and what a role may not do."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from playwright.async_api import Browser, Page, expect
from pydantic import BaseModel

from api.conftest import serving
from api.jobs.test_executions import running as serving_webhooks
from dashboard.conftest import Board, opened, picture
from harness.sinks import Sink, reply
from mainspring import JobContext, RetryAfter, Scheduler

Make = Callable[..., Scheduler]
HOSTILE = "<img src=x onerror=\"document.title='owned'\">"


class Address(BaseModel):
    city: str
    zip: int


def handlers(scheduler: Scheduler) -> None:
    @scheduler.job("shop.charge", retry=2)
    def charge(ctx: JobContext, amount: int, to: Address, note: str = "", password: str = "") -> dict[str, Any]:
        """Charge a card."""
        ctx.log("charging\n  a card")
        ctx.log(f"in {to.city}")
        if amount > 100:
            if ctx.attempt == 1:
                raise RetryAfter(0.01, "the bank is busy")
            raise ValueError(f"too much: {note}")
        return {"charged": amount}

    @scheduler.job("later", queue="idle")
    def later(n: int, tags: list[str] | None = None) -> None: ...


async def done(board: Board, amount: int, **more: Any) -> str:
    data = {"amount": amount, "to": {"city": "Oslo", "zip": 1}, **more}
    job = await board.scheduler.schedule("shop.charge", data)
    return (await board.scheduler.wait(job.id, 60)).id


async def test_a_job_is_shown_among_the_latest_of_its_name_with_the_time_that_each_took(board: Board) -> None:
    handlers(board.scheduler)
    await board.scheduler.start()
    good, bad = await done(board, 5), await done(board, 500)
    page = await board.open(f"/jobs/{bad}")
    bars = page.locator(".same-name-bar")
    await expect(bars).to_have_count(2)
    await expect(bars.last).to_have_attribute("aria-current", "page")
    await expect(bars.last).to_have_attribute("aria-label", re.compile(r"^This job: failed in \d+"))
    await expect(page.get_by_text("2 jobs: 1 completed, 1 failed.")).to_be_visible()
    await board.check_accessibility()
    await bars.first.click()
    await page.wait_for_url(f"**/jobs/{good}")
    await board.open("/jobs?state=completed")
    await expect(page.get_by_role("columnheader", name="Took")).to_be_visible()
    await expect(page.get_by_role("row").filter(has_text="shop.charge")).to_contain_text(re.compile(r"\d+ m?s"))
    found = (await board.api.get("/api/jobs/search?name=shop.charge")).data
    detail = (await board.api.get(f"/api/jobs/{good}/detail")).data
    assert all(one["duration"] >= 0 for one in [*found, detail]) and len(found) == 2


async def shot(page: Page, name: str) -> None:
    place = picture(name)
    if place is not None:
        await page.screenshot(path=place, full_page=True)


async def test_an_edit_of_one_option_leaves_the_others_as_they_are_stored(board: Board) -> None:
    job = await board.scheduler.schedule("charge", delay=3600, tags=["Smith, Jones"], priority=5)
    page = await board.open(f"/jobs/{job.id}")
    await page.get_by_role("button", name="Edit", exact=True).click()
    dialog = page.get_by_role("dialog", name="Edit this job")
    await dialog.get_by_label("Priority").select_option("3")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog).to_have_count(0)
    after = await board.scheduler.get_job(job.id)
    assert (after.priority, tuple(after.tags), after.run_at) == (3, ("Smith, Jones",), job.run_at)


async def test_a_change_without_an_answer_is_not_said_to_be_repeated(board: Board) -> None:
    job = await board.scheduler.schedule("charge", delay=3600)
    board.expected = ("ERR_FAILED",)
    page = await board.open(f"/jobs/{job.id}")
    await page.route("**/run", lambda route: route.abort())
    await page.get_by_role("button", name="Run now").click()
    told = page.locator(".toast")
    await expect(told).to_contain_text("it is not known whether this was done")
    await expect(told).not_to_contain_text("automatically")


async def test_a_failed_job_tells_its_story_in_both_themes_and_on_a_phone(board: Board, looks: Any) -> None:
    handlers(board.scheduler)
    await board.scheduler.start()
    good = await done(board, 5, password="tell-no-one")
    bad = await done(board, 9007199254740993, note=HOSTILE, password="tell-no-one-else")
    page = await board.open(f"/jobs/{bad}")
    await expect(page.get_by_role("status", name="What matters")).to_contain_text("ValueError: too much: <img src=x")
    await expect(page.get_by_role("status", name="What matters")).to_contain_text("after 2 attempts")
    await expect(page.locator("svg.life")).to_have_attribute(
        "aria-label", re.compile("Attempt 1: retried.*Attempt 2: failed")
    )
    await expect(page.locator(".attempt").first).to_contain_text("charging\n  a card\nin Oslo")
    await expect(page.locator(".attempts").first).to_contain_text("Attempt 1")
    data = page.locator(".json").first
    await expect(data).to_contain_text("9007199254740993")
    await expect(data.locator(".json-hidden")).to_have_text("[redacted]")
    differences = page.get_by_role("region", name="Differences")
    await expect(differences).to_contain_text("data.amount")
    await expect(differences).to_contain_text("hidden, not compared")
    await expect(page.get_by_role("link", name="shop.charge", exact=True).first).to_be_visible()
    assert "tell-no-one" not in await page.content()
    assert await page.title() == "shop.charge · job · Mainspring"
    await board.check_accessibility()
    await shot(page, "job-failed-light")
    for theme, phone in (("dark", False), ("light", True), ("dark", True)):
        async with looks(board, theme=theme, phone=phone) as other:
            await other.open(f"/jobs/{bad}")
            await expect(other.page.get_by_role("region", name="Differences")).to_be_visible()
            await other.check_accessibility()
            await other.check_width()
            await shot(other.page, f"job-failed-{theme}{'-phone' if phone else ''}")
    await page.goto(f"{board.api.url}/jobs/{good}")
    await expect(page.get_by_role("status", name="What matters")).to_contain_text("Completed in")


async def test_a_running_job_shows_its_log_its_progress_and_its_stack(board: Board) -> None:
    go = asyncio.Event()

    @board.scheduler.job("slow")
    async def slow(ctx: JobContext) -> None:
        ctx.log("begun")
        ctx.progress(40, "halfway, almost")
        await wait_for_it()

    async def wait_for_it() -> None:
        await go.wait()

    await board.scheduler.start()
    job = await board.scheduler.schedule("slow")
    page = await board.open(f"/jobs/{job.id}")
    await expect(page.get_by_role("status", name="What matters")).to_contain_text("halfway, almost")
    await expect(page.locator(".attempt").first).to_contain_text("begun")
    await page.get_by_role("button", name="Where is it now?").click()
    await expect(page.get_by_label("stack", exact=True)).to_contain_text("in wait_for_it")
    await board.check_accessibility()
    await shot(page, "job-running")
    go.set()
    await board.scheduler.wait(job.id, 60)
    await expect(page.get_by_text("stale: that run has ended")).to_be_visible()
    await expect(page.get_by_role("status", name="What matters")).to_contain_text("Completed")


async def test_a_pending_job_explains_itself_and_is_edited_run_and_cancelled(board: Board) -> None:
    handlers(board.scheduler)
    await board.scheduler.start()
    job = await board.scheduler.schedule("later", {"n": 1}, delay=3600)
    page = await board.open(f"/jobs/{job.id}")
    await expect(page.get_by_role("status", name="What matters")).to_contain_text("due")
    await page.get_by_role("button", name="Edit", exact=True).click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("n *").fill("many")
    await expect(dialog.get_by_text("n must be a whole number.")).to_be_visible()
    await expect(dialog.get_by_role("button", name="Save")).to_be_disabled()
    await dialog.get_by_label("n *").fill("12345678901234567")
    await dialog.get_by_label("Priority").select_option("2")
    await dialog.get_by_role("button", name="JSON").click()
    await expect(dialog.get_by_label("Data as JSON")).to_have_value(re.compile("12345678901234567"))
    await shot(page, "job-edit")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog).to_have_count(0)
    changed = await board.scheduler.get_job(job.id)
    assert (changed.data, changed.priority) == ({"n": 12345678901234567}, 2)
    await page.get_by_role("button", name="Cancel job").click()
    await page.get_by_label("Reason (optional)").fill("not needed")
    await page.get_by_role("button", name="Cancel it").click()
    await expect(page.get_by_role("status", name="What matters")).to_contain_text("Cancelled: not needed")
    await page.get_by_role("button", name="Retry").click()
    await expect(page.get_by_role("status", name="What matters")).to_contain_text("Completed")
    await page.get_by_role("button", name="More actions").click()
    await page.get_by_role("menuitem", name="Delete this job").click()
    await page.get_by_role("button", name="Delete it").click()
    await page.wait_for_url("**/jobs")


async def test_a_dialog_begins_in_its_field_and_the_call_above_it_is_closed_alone(board: Board) -> None:
    handlers(board.scheduler)
    await board.scheduler.start()
    job = await board.scheduler.schedule("later", {"n": 1}, delay=3600)
    page = await board.open(f"/jobs/{job.id}")
    await page.get_by_role("button", name="Run again, edited").click()
    await page.get_by_label("n *").fill("7")
    await page.get_by_role("button", name="Show me the call").last.click()
    await expect(page.get_by_role("dialog", name="The call behind this")).to_contain_text('{"data":{"n":7}')
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog", name="The call behind this")).to_have_count(0)
    await expect(page.get_by_label("n *")).to_have_value("7")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(page.get_by_role("button", name="Run again, edited")).to_be_focused()
    await page.get_by_role("button", name="Cancel job").click()
    await expect(page.get_by_label("Reason (optional)")).to_be_focused()


async def test_a_job_is_run_again_with_edited_data_and_hidden_values_are_asked_for(board: Board) -> None:
    handlers(board.scheduler)
    await board.scheduler.start()
    bad = await done(board, 500, password="tell-no-one")
    page = await board.open(f"/jobs/{bad}")
    await page.get_by_role("button", name="Run again, edited").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("amount *").fill("7")
    await expect(dialog.get_by_text("is hidden here; enter the value again.")).to_be_visible()
    await expect(dialog.get_by_role("button", name="Run with this data")).to_be_disabled()
    await dialog.get_by_label("password").fill("new")
    await dialog.get_by_role("button", name="Run with this data").click()
    await page.wait_for_url(lambda url: "/jobs/" in url and bad not in url)
    await expect(page.get_by_role("status", name="What matters")).to_contain_text("Completed")
    made = await board.scheduler.get_job(page.url.rpartition("/")[2])
    assert made.data["amount"] == 7 and made.data["password"] == "new"


async def test_a_webhook_shows_its_exchange_and_is_copied_as_curl_without_secrets(
    browser: Browser, make_scheduler: Make
) -> None:
    async with Sink(answers=[reply(404, b"no such thing")]) as sink, serving_webhooks(make_scheduler()) as api:
        body = {"endpoint": f"{sink.url}/hook", "headers": {"Authorization": "Bearer tell-no-one"}, "body": {"a": 1}}
        made = (await api.post("/api/jobs", {**body, "retryAttempts": 0})).data
        await api.scheduler.wait(made["jobId"], 60)
        async with opened(browser, api, permissions=["clipboard-read", "clipboard-write"]) as board:
            page = await board.open(f"/jobs/{made['jobId']}")
            await expect(page.get_by_role("heading", level=1)).to_contain_text("Webhook")
            await expect(page.locator(".attempt").first).to_contain_text("Answered 404")
            await expect(page.get_by_label("body", exact=True)).to_have_text("no such thing")
            await page.get_by_role("button", name="Copy as curl").click()
            copied = await page.evaluate("navigator.clipboard.readText()")
            assert copied.startswith(f"curl -X POST {sink.url}/hook") and '-H "Authorization: $HIDDEN"' in copied
            assert "tell-no-one" not in await page.content()


async def test_the_request_of_a_pending_webhook_is_edited_and_hidden_values_stay(board: Board) -> None:
    headers = {"Authorization": "Bearer tell-no-one", "X-Old": "1"}
    body = {"endpoint": "https://example.com/hook", "headers": headers, "body": {"id": 9007199254740993}}
    made = (await board.api.post("/api/jobs", {**body, "delay": "1h"})).data
    page = await board.open(f"/jobs/{made['jobId']}")
    await page.get_by_role("button", name="Edit", exact=True).click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_label("Body")).to_have_value(re.compile("9007199254740993"))
    await dialog.get_by_label("Method").select_option("PUT")
    lines = await dialog.get_by_label("Headers").input_value()
    assert "tell-no-one" not in lines
    await dialog.get_by_label("Headers").fill(lines.replace("X-Old: 1", "X-New: 2"))
    await shot(page, "job-edit-webhook")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog).to_have_count(0)
    request = (await board.scheduler.get_job(made["jobId"])).data["request"]
    assert (request["method"], request["body"]) == ("PUT", {"id": 9007199254740993})
    assert request["headers"] == {"Authorization": "Bearer tell-no-one", "X-New": "2"}


async def test_a_webhook_is_run_again_with_another_request_and_a_refusal_is_told(
    browser: Browser, make_scheduler: Make
) -> None:
    async with Sink(answers=[reply(404), reply(200)]) as sink, serving_webhooks(make_scheduler()) as api:
        body = {"endpoint": f"{sink.url}/old", "body": {"a": 1}, "retryAttempts": 0}
        made = (await api.post("/api/jobs", body)).data
        await api.scheduler.wait(made["jobId"], 60)
        async with opened(browser, api) as board:
            board.expected = ("422",)
            page = await board.open(f"/jobs/{made['jobId']}")
            await page.get_by_role("button", name="Run again, edited").click()
            dialog = page.get_by_role("dialog")
            await expect(dialog.get_by_role("button", name="Run with the same data")).to_be_visible()
            await dialog.get_by_label("URL *").fill("http://user:pass@x/")
            await dialog.get_by_role("button", name="Run with this data").click()
            await expect(dialog.get_by_role("alert").first).to_be_visible()
            await dialog.get_by_label("URL *").fill(f"{sink.url}/new")
            await dialog.get_by_label("Body").fill('{"a": 2}')
            await dialog.get_by_role("button", name="Run with this data").click()
            await page.wait_for_url(lambda url: "/jobs/" in url and made["jobId"] not in url)
            await expect(page.get_by_role("status", name="What matters")).to_contain_text("Completed")
            again = await api.scheduler.get_job(page.url.rpartition("/")[2])
            assert again.data["request"]["url"].endswith("/new") and again.data["request"]["body"] == {"a": 2}


async def test_a_pending_mail_is_edited_and_its_other_fields_stay(board: Board) -> None:
    mail = {"to": ["ada@example.com", "bob@example.com"], "subject": "Hello", "text": "Hi", "html": "<p>Hi</p>"}
    made = (await board.api.post("/api/jobs", {"type": "email", "data": mail, "delay": "1h"})).data
    page = await board.open(f"/jobs/{made['jobId']}")
    await page.get_by_role("button", name="Edit", exact=True).click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_label("To *")).to_have_value("ada@example.com, bob@example.com")
    await dialog.get_by_label("Subject").fill("Good day")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog).to_have_count(0)
    assert (await board.scheduler.get_job(made["jobId"])).data == {**mail, "subject": "Good day"}


async def test_a_new_job_is_made_from_a_form_of_its_handlers_schema(board: Board, looks: Any) -> None:
    handlers(board.scheduler)
    await board.scheduler.start()
    page = await board.open("/jobs/new?handler=shop.charge")
    await expect(page.get_by_label("Handler")).to_have_value("shop.charge")
    await expect(page.get_by_text("Still to be filled in: amount, to.city, to.zip.")).to_be_visible()
    await expect(page.get_by_role("button", name="Make the job")).to_be_disabled()
    await page.get_by_label("amount *").fill("12")
    await page.get_by_label("city *").fill("Oslo")
    await page.get_by_label("zip *").fill("far")
    await expect(page.get_by_text("zip must be a whole number.")).to_be_visible()
    await expect(page.get_by_role("button", name="Make the job")).to_be_disabled()
    await page.get_by_label("zip *").fill("150")
    await page.get_by_label("Priority").select_option("3")
    await expect(page.get_by_label("The call")).to_contain_text('"zip":150},"amount":12}')
    await page.get_by_role("tab", name="Python").click()
    await expect(page.get_by_label("The call")).to_contain_text("priority=3")
    await board.check_accessibility()
    await shot(page, "new-job-light")
    await page.get_by_role("button", name="Make the job").click()
    await page.wait_for_url(re.compile("/jobs/[0-9a-f]{24}"))
    await expect(page.get_by_role("status", name="What matters")).to_contain_text("Completed")
    job = await board.scheduler.get_job(page.url.rpartition("/")[2])
    assert (job.data["to"], job.priority) == ({"city": "Oslo", "zip": 150}, 3)
    async with looks(board, theme="dark", phone=True) as other:
        await other.open("/jobs/new?handler=shop.charge")
        await expect(other.page.get_by_label("amount *")).to_be_visible()
        await other.check_accessibility()
        await other.check_width()
        await shot(other.page, "new-job-dark-phone")


async def test_a_new_webhook_is_made_and_no_handlers_teach_the_next_command(board: Board) -> None:
    page = await board.open("/jobs/new")
    await expect(page.get_by_text("No live worker has a handler")).to_be_visible()
    await page.get_by_role("button", name="Call a webhook").click()
    await page.get_by_label("URL *").fill("https://example.com/hook")
    await page.get_by_label("Body").fill('{"id": 9007199254740993}')
    await page.get_by_label("When").select_option("delay")
    await page.get_by_label("Delay").fill("1h")
    await page.get_by_role("button", name="Make the job").click()
    await page.wait_for_url(re.compile("/jobs/[0-9a-f]{24}"))
    job = await board.scheduler.get_job(page.url.rpartition("/")[2])
    assert job.data["request"]["body"] == {"id": 9007199254740993}


async def test_a_viewer_has_no_actions_and_no_stack(browser: Browser, make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    key = await scheduler.api_keys.create("looker", "viewer")
    job = await scheduler.schedule("later", {"n": 1}, delay=3600)
    async with serving(scheduler, keyless=False) as api, opened(browser, api) as board:
        board.expected = ("401",)
        page = await board.open(f"/jobs/{job.id}")
        await page.get_by_label("API key").fill(key.text)
        await page.get_by_role("button", name="Log in").click()
        await expect(page.get_by_role("status", name="What matters")).to_be_visible()
        for name in ("Run now", "Edit", "Cancel job", "Run again, edited", "More actions"):
            await expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)
        await page.goto(api.url + "/jobs/new")
        await expect(page.get_by_text("Not allowed")).to_be_visible()


async def test_a_job_that_does_not_exist_and_a_hostile_one_spoil_nothing(board: Board) -> None:
    board.expected = ("404",)
    page = await board.open("/jobs/6890b1f2c7a4e1d2f3a4b5c6")
    await expect(page.get_by_role("alert")).to_contain_text("6890b1f2c7a4e1d2f3a4b5c6")
    jobs = board.scheduler.client.get_default_database().jobs
    odd = {
        "_id": HOSTILE,
        "v": 1,
        "name": HOSTILE * 4,
        "queue": 5,
        "state": "failed",
        "data": {HOSTILE: [HOSTILE, {"a": None}]},
        "attempts": "x",
        "error": {"type": HOSTILE, "message": 7, "stack": ["x"]},
        "created_at": "yesterday",
        "tags": [1, HOSTILE],
        "steps": {"a": 1},
        "stack": {"at": "x", "text": 5},
        "snoozes": [5, {"at": "x"}],
        "progress": "x",
    }
    await jobs.insert_one(json.loads(json.dumps(odd)))
    await page.goto(f"{board.api.url}/jobs/{quote(HOSTILE, safe='')}")
    await expect(page.get_by_role("heading", name="Data")).to_be_visible()
    await expect(page.locator("img")).to_have_count(0)
    assert await page.title() != "owned"
    await board.check_width()
