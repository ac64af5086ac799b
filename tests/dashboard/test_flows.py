"""The pages of flows: the list, the graph, the table of a large flow, and what can be done there."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from playwright.async_api import Browser, Page, expect

from api.conftest import serving
from dashboard.conftest import Board, opened, picture
from harness.waiting import eventually
from mainspring import Fail, JobContext, Scheduler
from mainspring.client.namespaces.flows import Flow

Make = Callable[..., Scheduler]
HOSTILE = "\"'><img src=x onerror=\"document.title='owned'\">" + "W" * 120
SOON = 60


class Work:
    """Handlers that wait for the test, and fail until it allows them to succeed."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.go = asyncio.Event()
        self.well = False

        @scheduler.job("extract")
        async def extract() -> dict[str, Any]:
            return {"shards": [1, 2, 3, 4]}

        @scheduler.job("transform")
        async def transform(shard: int) -> int:
            if shard > 2:
                await self.go.wait()
            return shard

        @scheduler.job("check", retry=1)
        async def check() -> None:
            if not self.well:
                raise Fail("the totals differ")

        @scheduler.job("plain")
        async def plain() -> None: ...

        @scheduler.job("approve")
        async def approve(ctx: JobContext) -> Any:
            return await ctx.wait_for("approved")

        @scheduler.job("crawl")
        async def crawl(ctx: JobContext) -> None:
            await ctx.map("pages", "page", [{"n": n} for n in range(3)])

        @scheduler.job("page")
        async def page(ctx: JobContext, n: int) -> None:
            await ctx.call("fetch", "plain", {})


async def nightly(scheduler: Scheduler, name: str = "nightly") -> Flow:
    flow = scheduler.flow(name, {"day": "2026-12-24"})
    extract = flow.add("extract")
    transform = flow.map("transform", extract.result["shards"], item="shard", after=extract)
    flow.add("plain", after=transform, name="load")
    flow.add("plain", after="load", when="failure", name="alarm")
    return await flow.start()


async def shot(page: Page, name: str) -> None:
    place = picture(name)
    if place is not None:
        await page.screenshot(path=place, full_page=True)


def box(page: Page, name: str) -> Any:
    """The box of a node in the graph."""
    return page.locator(f'.graph-box[data-key="{name}"]')


async def test_the_list_shows_progress_filters_and_is_live(board: Board) -> None:
    page = await board.open("/flows")
    await expect(page.get_by_text("No flow yet")).to_be_visible()
    await expect(page.get_by_text('scheduler.flow("nightly")')).to_be_visible()
    await expect(page.get_by_text(re.compile("curl -X POST"))).to_be_visible()
    await board.check_accessibility()
    work = Work(board.scheduler)
    await board.scheduler.start()
    await nightly(board.scheduler)
    row = page.get_by_role("row").filter(has_text="nightly")
    await expect(row).to_contain_text("It waits for transform (2 of 4 left)")
    other = await _short(board.scheduler)
    await other.wait(SOON)
    await expect(page.get_by_role("row").filter(has_text="other")).to_contain_text("1 of 1 ended")
    await board.check_accessibility()
    await shot(page, "flows")
    await page.get_by_label("Name of the flow").fill("other")
    await page.get_by_role("button", name="Find", exact=True).click()
    await expect(row).to_have_count(0)
    assert "name=other" in page.url
    await page.get_by_role("button", name="All names").click()
    await page.get_by_role("tab", name="completed").click()
    await expect(page.get_by_role("row").filter(has_text="other")).to_be_visible()
    await expect(row).to_have_count(0)
    await page.reload()
    await expect(page.get_by_role("row").filter(has_text="other")).to_be_visible()
    assert "state=completed" in page.url
    work.go.set()
    await expect(row).to_be_visible()


async def _short(scheduler: Scheduler) -> Flow:
    flow = scheduler.flow("other")
    flow.add("plain")
    return await flow.start()


async def test_the_graph_tells_what_holds_a_step_back_and_leads_to_its_jobs(board: Board, looks: Any) -> None:
    work = Work(board.scheduler)
    await board.scheduler.start()
    flow = await nightly(board.scheduler)
    page = await board.open(f"/flows/{flow.id}")
    await expect(page.get_by_role("status", name="What matters")).to_contain_text(
        "It waits for transform (2 of 4 left)"
    )
    await expect(box(page, "transform")).to_contain_text("2 completed, 2 running")
    await expect(box(page, "load")).to_contain_text("It waits for 'transform'")
    await expect(page.locator(".graph-line-holds")).to_have_count(2)
    assert await page.title() == "nightly · flow · Mainspring"
    await board.check_accessibility()
    await shot(page, "flow-light")
    for theme, phone in (("dark", False), ("light", True), ("dark", True)):
        async with looks(board, theme=theme, phone=phone) as other:
            await other.open(f"/flows/{flow.id}?node=transform")
            await expect(box(other.page, "load")).to_be_visible()
            await expect(other.page.get_by_role("link", name="All jobs of this node")).to_be_visible()
            await other.check_accessibility()
            await other.check_width()
            await shot(other.page, f"flow-{theme}{'-phone' if phone else ''}")
    await box(page, "extract").focus()
    await page.keyboard.press("ArrowRight")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="transform")).to_be_visible()
    assert "node=transform" in page.url
    await page.get_by_role("link", name="2 completed").click()
    await page.wait_for_url(re.compile("/jobs"))
    await expect(page.get_by_role("row").filter(has_text="transform")).to_have_count(2)
    await page.go_back()
    await page.get_by_role("tab", name="Table").click()
    await expect(page.get_by_role("row", name="blocked load")).to_contain_text("It waits for 'transform'")
    await board.check_accessibility()
    await page.get_by_role("tab", name="Over time").click()
    await expect(page.locator(".gantt-row").first).to_contain_text("extract")
    await board.check_accessibility()
    await shot(page, "flow-time")
    work.go.set()
    await expect(page.get_by_role("status", name="What matters")).to_contain_text("The whole flow has completed.")
    await page.get_by_role("tab", name="Graph").click()
    await expect(box(page, "alarm")).to_contain_text("skipped")


async def test_children_made_at_run_time_are_in_the_graph_and_fold(board: Board) -> None:
    Work(board.scheduler)
    await board.scheduler.start()
    job = await board.scheduler.schedule("crawl")
    await board.scheduler.wait(job.id, SOON)
    page = await board.open(f"/flows/{job.id}")
    await expect(page.locator(".graph-box")).to_have_count(3)
    await expect(box(page, "pages/fetch")).to_contain_text("3 completed")
    await page.get_by_role("button", name="Fold 1 node below pages").click()
    await expect(page.locator(".graph-box")).to_have_count(2)
    await expect(box(page, "pages")).to_contain_text("6 completed")
    await page.get_by_role("button", name="Unfold 1 node below pages").click()
    await expect(page.locator(".graph-box")).to_have_count(3)
    await page.goto(f"{board.api.url}/jobs/{job.id}")
    await page.get_by_role("link", name="All of them as a flow").click()
    await expect(box(page, "pages")).to_be_visible()


async def test_more_than_three_hundred_nodes_are_a_table_and_a_chart(board: Board) -> None:
    flow = board.scheduler.flow("large")
    first = flow.add("plain", name="first")
    for number in range(300):
        flow.add("plain", after=first, name=f"node-{number}")
    started = await flow.start()
    page = await board.open(f"/flows/{started.id}")
    await expect(page.get_by_role("region", name="Nodes").get_by_role("row")).to_have_count(302)
    await expect(page.get_by_role("tab", name="Graph")).to_have_count(0)
    await page.get_by_role("tab", name="Over time").click()
    await expect(page.get_by_text("No job of it has been stored yet")).to_be_visible()


async def test_a_flow_is_cancelled_with_a_reason(board: Board) -> None:
    Work(board.scheduler)
    await board.scheduler.start()
    flow = await nightly(board.scheduler)
    page = await board.open(f"/flows/{flow.id}")
    await expect(page.get_by_role("button", name="Retry")).to_have_count(0)
    await page.get_by_role("button", name="Cancel flow").click()
    await page.get_by_label("Reason (optional)").fill("the source is broken")
    await page.get_by_role("button", name="Cancel it").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("cancelled")
    await expect(page.get_by_role("button", name="Cancel flow")).to_have_count(0)
    assert (await board.scheduler.flows.get(flow.id)).state == "cancelled"
    # The service refuses to retry it: the button is absent, and the page says what to do instead.
    await expect(page.get_by_role("button", name="Retry")).to_have_count(0)
    story = page.get_by_role("status", name="What matters")
    await expect(story).to_contain_text("A flow that was cancelled cannot be retried")


async def test_the_sample_of_an_operation_names_a_flow_by_its_label(board: Board) -> None:
    await nightly(board.scheduler)
    page = await board.open("/jobs")
    await page.get_by_role("checkbox", name=re.compile("^Select mainspring:flow")).check()
    await page.get_by_role("button", name="Cancel", exact=True).click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_role("link", name="nightly")).to_be_visible()
    await expect(dialog).not_to_contain_text("mainspring:flow")


async def test_a_failed_flow_tells_why_and_is_retried(board: Board) -> None:
    work = Work(board.scheduler)
    await board.scheduler.start()
    builder = board.scheduler.flow("checked")
    check = builder.add("check")
    builder.add("plain", after=check, name="load")
    flow = await builder.start()
    await flow.wait(SOON)
    page = await board.open(f"/flows/{flow.id}?node=load")
    await expect(page.get_by_role("heading", level=1)).to_contain_text("failed")
    await expect(page.get_by_text("Decided by the end of check")).to_be_visible()
    work.well = True
    await page.get_by_role("button", name="Retry").click()
    await expect(page.get_by_role("dialog")).to_contain_text("1 job that failed or expired run again")
    await page.get_by_role("button", name="Retry it").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("completed")
    await page.get_by_role("button", name="Show me the call").click()
    await expect(page.get_by_role("dialog")).to_contain_text(f"/api/flows/{flow.id}")


async def test_a_signal_is_sent_where_a_job_waits_for_it(board: Board) -> None:
    Work(board.scheduler)
    await board.scheduler.start()
    builder = board.scheduler.flow("release")
    approve = builder.add("approve")
    builder.add("plain", after=approve, name="publish")
    flow = await builder.start()
    page = await board.open(f"/flows/{flow.id}")
    form = page.get_by_role("form", name="Send the signal approved")
    await form.get_by_label("Payload of approved").fill("yes")
    await expect(form).to_contain_text("This is not JSON")
    await form.get_by_label("Payload of approved").fill('{"by": "Ada"}')
    await board.check_accessibility()
    await shot(page, "flow-signal")
    node = f"{flow.id}.approve"
    await page.goto(f"{board.api.url}/jobs/{node}")
    await expect(page.get_by_role("status", name="What matters")).to_contain_text("the signal 'approved'")
    await expect(page.get_by_role("link", name="approve", exact=True).first).to_have_attribute(
        "href", re.compile(f"/flows/{flow.id}.*node=approve")
    )
    await page.goto(f"{board.api.url}/flows/{flow.id}")
    await form.get_by_label("Payload of approved").fill('{"by": "Ada"}')
    await form.get_by_role("button", name="Send the signal").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("completed")
    await expect(form).to_have_count(0)
    assert (await board.scheduler.get_job(node)).result == {"by": "Ada"}


async def test_a_viewer_looks_and_changes_nothing(browser: Browser, make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    Work(scheduler)
    await scheduler.start()
    key = await scheduler.api_keys.create("looker", "viewer")
    builder = scheduler.flow("release")
    builder.add("approve")
    flow = await builder.start()

    async def waiting() -> bool:
        return (await flow.refresh()).node("approve").state == "blocked"

    await eventually(waiting, SOON)
    async with serving(scheduler, keyless=False) as api, opened(browser, api) as board:
        board.expected = ("401",)
        page = await board.open(f"/flows/{flow.id}")
        await page.get_by_label("API key").fill(key.text)
        await page.get_by_role("button", name="Log in").click()
        await expect(page.get_by_text("waits for approved")).to_be_visible()
        for name in ("Cancel flow", "Retry", "Send the signal"):
            await expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)


async def test_hostile_names_of_nodes_are_text(board: Board, looks: Any) -> None:
    hostile = HOSTILE.replace("/", "")
    builder = board.scheduler.flow(hostile)
    first = builder.add("plain", name=hostile)
    builder.add("plain", after=first, name="__proto__")
    flow = await builder.start()
    async with looks(board, phone=True) as other:
        for path in (
            "/flows",
            f"/flows/{flow.id}?node={quote(hostile)}",
            f"/flows/{flow.id}?view=table&node=__proto__",
        ):
            await other.open(path)
            await other.page.locator(".skeleton").first.wait_for(state="detached")
            await expect(other.page.get_by_text("img src=x").first).to_be_attached()
            await expect(other.page.locator("main img")).to_have_count(0)
            assert "owned" not in await other.page.title() or "img src" in await other.page.title()
            await other.check_width()
    board.expected = ("404",)
    page = await board.open("/flows/6890b1f2c7a4e1d2f3a4b5c6")
    await expect(page.get_by_role("alert")).to_contain_text("6890b1f2c7a4e1d2f3a4b5c6")
