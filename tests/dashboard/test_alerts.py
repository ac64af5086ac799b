"""The page of alert rules: one is made, tested, silenced and deleted, and what is hidden stays so."""

from __future__ import annotations

from collections.abc import Callable

from playwright.async_api import Browser, expect

from api.conftest import serving
from dashboard.conftest import opened
from harness.dead import dead_letter
from harness.inside import inside
from harness.sinks import Sink
from mainspring import Scheduler
from mainspring.engine.alerts.evaluation import evaluate

Make = Callable[..., Scheduler]


async def test_a_rule_is_made_tested_silenced_and_deleted(browser: Browser, make_scheduler: Make) -> None:
    async with Sink() as sink, serving(make_scheduler(), http_allow="127.0.0.1") as api, opened(browser, api) as board:
        page = await board.open("/alerts")
        await page.get_by_role("button", name="Create a rule").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Name", exact=True).fill("Ops <script>")
        await dialog.get_by_label("Problem").select_option("no_worker")
        await dialog.get_by_label("By", exact=True).select_option("chat")
        await dialog.get_by_label("URL", exact=True).fill(f"{sink.url}/services/canary")
        await dialog.get_by_role("button", name="Store the rule").click()
        row = page.get_by_role("row").filter(has_text="Ops <script>")
        await expect(row).to_contain_text("No worker is alive")
        assert "canary" not in await page.content()
        await board.check_accessibility()

        actions = row.get_by_role("button", name="Actions on the rule")
        await actions.click()
        await page.get_by_role("menuitem", name="Test").click()
        await dialog.get_by_role("button", name="Send a test message").click()
        await expect(dialog.get_by_role("status")).to_contain_text("arrived")
        assert sink.received[0].path == "/services/canary"
        await dialog.get_by_role("button", name="Cancel").click()

        await actions.click()
        await page.get_by_role("menuitem", name="Edit").click()
        await dialog.get_by_label("Tell again every").fill("4h")
        await dialog.get_by_role("button", name="Store the rule").click()
        await expect(dialog).to_have_count(0)
        (rule,) = await board.scheduler.alerts.all()
        assert rule.repeat_every == 4 * 3600 and rule.to[0].data["request"]["url"].endswith("/services/canary")

        await actions.click()
        await page.get_by_role("menuitem", name="Silence").click()
        await dialog.get_by_label("Reason").fill("a move")
        await dialog.get_by_role("button", name="Silence the rule").click()
        await expect(row).to_contain_text("silenced")

        await actions.click()
        await page.get_by_role("menuitem", name="Delete").click()
        await dialog.get_by_role("button", name="Delete the rule").click()
        await expect(page.get_by_text("No alert rule yet")).to_be_visible()


async def test_the_form_has_headers_and_thresholds_and_says_in_place_what_does_not_fit(
    browser: Browser, make_scheduler: Make
) -> None:
    async with serving(make_scheduler()) as api, opened(browser, api) as board:
        page = await board.open("/alerts")
        await page.get_by_role("button", name="Create a rule").click()
        dialog = page.get_by_role("dialog")
        store = dialog.get_by_role("button", name="Store the rule")
        await dialog.get_by_label("Name", exact=True).fill("Many")
        await dialog.get_by_label("By", exact=True).select_option("webhook")
        await dialog.get_by_label("URL", exact=True).fill("https://a.example/canary")
        await dialog.get_by_label("Headers").fill("X-Team")
        await expect(dialog.get_by_role("alert")).to_contain_text("has no colon")
        await expect(store).to_be_disabled()
        await dialog.get_by_label("Headers").fill("X-Team: billing\nX-Key: canary")
        await dialog.get_by_label("Dead letters with the same cause").fill("0")
        await expect(dialog.get_by_role("alert")).to_contain_text("from 1 to 150")
        await dialog.get_by_label("Dead letters with the same cause").fill("25")
        board.expected = ("422",)
        await dialog.get_by_label("Counted within").fill("soon")
        await store.click()
        within = dialog.get_by_label("Counted within")
        await expect(within).to_have_attribute("aria-invalid", "true")
        await expect(within).to_be_in_viewport()
        await within.fill("1h")
        await store.click()
        await expect(dialog).to_have_count(0)
        (rule,) = await board.scheduler.alerts.all()
        assert (rule.threshold, rule.within) == (25, 3600)

        await page.get_by_role("button", name="Actions on the rule").click()
        await page.get_by_role("menuitem", name="Edit").click()
        assert "canary" not in await page.content()
        await dialog.get_by_label("Headers").fill("X-Team: mail\nX-Key: [redacted]")
        await store.click()
        await expect(dialog).to_have_count(0)
        (rule,) = await board.scheduler.alerts.all()
        request = rule.to[0].data["request"]
        assert request["url"] == "https://a.example/canary"
        assert request["headers"] == {"X-Team": "mail", "X-Key": "canary"}
        await board.check_accessibility()


async def test_the_sentences_of_a_problem_are_readable_on_a_phone(browser: Browser, make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    async with serving(scheduler) as api, opened(browser, api, phone=True) as board:
        to = [{"type": "email", "to": ["operators@example.com"]}]
        await scheduler.alerts.create("Dead letters of the shop", "dead_letters", to)
        store = await inside(scheduler).store()
        await store.connection.jobs.insert_one(dead_letter(store.clock.now(), name="charge"))
        await evaluate(store)
        page = await board.open("/alerts")
        told = page.locator(".alert-subjects li").first
        await expect(told).to_contain_text("charge")
        box = await told.bounding_box()
        assert box is not None and box["width"] > 100 and box["height"] < 200
        await board.check_width()
