"""The page of alert rules: one is made, tested, silenced and deleted, and what is hidden stays so."""

from __future__ import annotations

from collections.abc import Callable

from playwright.async_api import Browser, expect

from api.conftest import serving
from dashboard.conftest import opened
from harness.sinks import Sink
from mainspring import Scheduler

Make = Callable[..., Scheduler]


async def test_a_rule_is_made_tested_silenced_and_deleted(browser: Browser, make_scheduler: Make) -> None:
    async with Sink() as sink, serving(make_scheduler(), http_allow="127.0.0.1") as api, opened(browser, api) as board:
        page = await board.open("/alerts")
        await page.get_by_role("button", name="Create a rule").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Name", exact=True).fill("Ops <script>")
        await dialog.get_by_label("Problem").select_option("no_worker")
        await dialog.get_by_label("Destinations").fill(f"chat {sink.url}/services/canary")
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
        await dialog.get_by_role("button", name="Confirm").click()
        await expect(row).to_contain_text("silenced")

        await actions.click()
        await page.get_by_role("menuitem", name="Delete").click()
        await dialog.get_by_role("button", name="Delete the rule").click()
        await expect(page.get_by_text("No alert rule yet")).to_be_visible()
