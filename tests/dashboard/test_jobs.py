"""The page of jobs: its filter, its still rows, its selection, and the operations that it makes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from api.conftest import serving
from dashboard.conftest import Board, opened, picture
from harness.inside import inside
from harness.operating import job, jobs
from harness.waiting import eventually
from mainspring import Scheduler

Make = Callable[..., Scheduler]
HOSTILE = '"><img src=x onerror=alert(1)>\u202e{{7*7}}' + "W" * 150
expect.set_options(timeout=45_000)
DECLINED = {"type": "CardDeclined", "message": "The bank said no.\nSecond line"}


async def stored(scheduler: Scheduler, *documents: dict[str, Any]) -> list[str]:
    """Store jobs past the scheduler; returns their ids."""
    await scheduler.connect()
    await inside(scheduler).open_store.connection.db.jobs.insert_many(list(documents))
    return [str(one["_id"]) for one in documents]


async def a_day(scheduler: Scheduler) -> list[str]:
    """Jobs in every state."""
    return await stored(
        scheduler,
        *jobs(3, "completed", name="report"),
        *(job("failed", n, name="charge", error=DECLINED, data={"customer": {"id": n}}) for n in range(4)),
        *jobs(2, "pending", name="later", tags=["vip"]),
        job("running", name="long", progress={"percent": 40, "note": "page 4 of 10"}),
        job("cancelled", name="stopped"),
    )


def rows(page: Page) -> Any:
    return page.locator("tbody tr")


async def test_enter_presses_what_has_the_focus_and_else_opens_the_current_job(board: Board) -> None:
    await a_day(board.scheduler)
    page = await board.open("/jobs")
    await expect(rows(page)).to_have_count(11)
    await page.keyboard.press("j")
    await expect(page.locator("tr[aria-current]")).to_have_count(1)
    await page.get_by_role("button", name="Add a condition").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_label("Field", exact=True)).to_be_focused()
    await page.keyboard.press("Escape")
    await page.get_by_role("navigation", name="Pages").get_by_role("link", name="Jobs").focus()
    await page.keyboard.press("Enter")
    await expect(rows(page)).to_have_count(11)
    await page.evaluate("document.activeElement.blur()")
    await page.keyboard.press("Enter")
    await page.wait_for_url(re.compile("/jobs/[0-9a-f]+$"))


async def test_the_focus_goes_to_the_operation_that_was_made_and_can_be_undone(board: Board) -> None:
    await a_day(board.scheduler)
    page = await board.open("/jobs?state=failed")
    await page.get_by_label("Select all jobs of this page").check()
    await page.get_by_role("button", name="Retry").click()
    await expect(page.get_by_role("dialog")).to_contain_text("are meant")
    await page.get_by_label("Reason").fill("The bank is back.")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("region", name="Operation under way")).to_be_focused()
    await expect(page.get_by_role("button", name=re.compile("^Undo"))).to_be_visible()
    for _ in range(2):  # its page, and undoing it
        await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("region", name="Operation under way")).to_contain_text("no job was changed")


async def test_the_arrow_keys_take_the_focus_to_the_tab_that_they_choose(board: Board) -> None:
    await a_day(board.scheduler)
    page = await board.open("/jobs")
    await page.get_by_role("tab", name="All").focus()
    for key, name in (("ArrowRight", "pending"), ("ArrowRight", "running"), ("ArrowLeft", "pending")):
        await page.keyboard.press(key)
        await expect(page.get_by_role("tab", name=name, selected=True)).to_be_focused()


async def test_a_filter_is_typed_with_completion_and_survives_reload_back_and_forward(board: Board) -> None:
    await a_day(board.scheduler)
    page = await board.open("/jobs")
    await expect(rows(page)).to_have_count(11)
    await page.keyboard.press("/")
    line = page.get_by_role("combobox", name="Filter of jobs")
    await expect(line).to_be_focused()
    await page.keyboard.type("na")
    await expect(page.get_by_role("option", name=re.compile("^name:"))).to_be_visible()
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await page.keyboard.type("cha")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await expect(line).to_have_value("name:charge ")
    await page.keyboard.type('error:"bank said" data.customer.id:2')
    await page.keyboard.press("Enter")
    await expect(rows(page)).to_have_count(1)
    await expect(rows(page)).to_contain_text("CardDeclined: The bank said no.")
    await expect(rows(page)).not_to_contain_text("Second line")
    assert "name=charge" in page.url and "data.customer.id=2" in page.url
    await page.reload()
    await expect(rows(page)).to_have_count(1)
    await page.get_by_role("button", name="Remove data.customer.id: 2").click()
    await expect(rows(page)).to_have_count(4)
    await page.go_back()
    await expect(rows(page)).to_have_count(1)
    await page.go_forward()
    await expect(rows(page)).to_have_count(4)
    await expect(page.get_by_role("tab", name=re.compile("failed 4"))).to_be_visible()
    await expect(page.get_by_role("tab", name=re.compile("completed 0"))).to_be_visible()


async def test_a_filter_is_picked_and_what_cannot_be_read_is_told(board: Board) -> None:
    await a_day(board.scheduler)
    page = await board.open("/jobs")
    await page.get_by_role("button", name="Add a condition").click()
    await page.get_by_label("Field").select_option("tag")
    await page.get_by_label("Value").fill("vip")
    await page.get_by_role("button", name="Add", exact=True).click()
    await expect(rows(page)).to_have_count(2)
    await page.get_by_role("tab", name=re.compile("^failed")).click()
    await expect(page.get_by_text("No job matches")).to_be_visible()
    line = page.get_by_role("combobox", name="Filter of jobs")
    await line.fill("state:sleeping")
    await line.press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("There is no state sleeping")
    await page.get_by_role("button", name="Show all jobs").click()
    await expect(rows(page)).to_have_count(11)


async def test_new_jobs_wait_behind_a_pill_and_no_row_moves(board: Board) -> None:
    await board.scheduler.schedule("first", delay=3600)
    page = await board.open("/jobs")
    await expect(rows(page)).to_have_count(1)
    for _ in range(3):
        await board.scheduler.schedule("second", delay=3600)
    await expect(page.get_by_role("button", name="3 new jobs")).to_be_visible()
    await expect(rows(page)).to_have_count(1)
    await page.get_by_role("button", name="3 new jobs").click()
    await expect(rows(page)).to_have_count(4)
    await page.get_by_role("checkbox", name=re.compile("^Select second")).first.check()
    await board.scheduler.schedule("third", delay=3600)
    # The digest of the last of the earlier jobs may arrive after the selection, and is counted too.
    await expect(page.get_by_role("button", name=re.compile(r"^[1-4] new jobs?$"))).to_be_visible()
    await expect(page.get_by_text("does not update while jobs are selected")).to_be_visible()
    await expect(rows(page)).to_have_count(4)


async def test_thousands_of_new_jobs_wait_behind_a_pill_that_does_not_understate_them(board: Board) -> None:
    await stored(board.scheduler, *jobs(2_000, name="first"))
    page = await board.open("/jobs")
    await expect(rows(page)).to_have_count(50)
    shown = await rows(page).all_text_contents()
    await stored(board.scheduler, *jobs(3_000, name="second"))
    pill = page.get_by_role("button", name="50 or more new jobs")
    await expect(pill).to_be_visible()
    assert [one.split()[0] for one in await rows(page).all_text_contents()] == [one.split()[0] for one in shown]
    await pill.click()
    await expect(page.get_by_role("checkbox", name=re.compile("^Select second"))).to_have_count(50)
    await expect(pill).to_have_count(0)
    await page.get_by_role("checkbox", name=re.compile("^Select second")).first.check()
    await stored(board.scheduler, *jobs(2_500, name="third"))
    # On a busy machine the last digests of the earlier jobs arrive after the selection, and are counted too.
    at_least = re.compile(r"^(2,[5-9]|[3-5],\d)\d\d new jobs$")
    await expect(page.get_by_role("button", name=at_least)).to_be_visible()
    await expect(page.get_by_role("checkbox", name=re.compile("^Select second"))).to_have_count(50)


async def test_an_operation_on_thousands_of_jobs_is_undone_within_ten_seconds_and_changes_none(board: Board) -> None:
    await stored(board.scheduler, *jobs(4_000, name="later"))
    await board.scheduler.start()
    page = await board.open("/jobs?name=later")
    await page.get_by_role("checkbox", name="Select all jobs of this page").check()
    await page.get_by_role("button", name=re.compile("Select all that match")).click()
    await page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Reason").fill("A mistake.")
    await dialog.get_by_role("button", name="Delete").click()
    undo = page.get_by_role("button", name=re.compile(r"^Undo \(\d+ s\)$"))
    await expect(undo).to_be_visible()
    await undo.click()
    await expect(page.get_by_text("Undone: no job was changed.")).to_be_visible()
    (operation,) = await board.scheduler.operations.all()
    assert (operation.state, operation.started_at, operation.progress.changed) == ("cancelled", None, 0)
    # A worker runs all the while: past the ten seconds it has still deleted nothing.
    await page.wait_for_timeout(max(0.0, (operation.starts_at - board.scheduler.now()).total_seconds() + 2) * 1000)
    assert await inside(board.scheduler).open_store.connection.db.jobs.count_documents({}, hint="_id_") == 4_000


async def test_selected_jobs_are_retried_as_an_operation_with_sample_reason_and_progress(board: Board) -> None:
    ids = await a_day(board.scheduler)
    page = await board.open("/jobs?state=failed")
    await expect(rows(page)).to_have_count(4)
    await page.keyboard.press("j")
    await page.keyboard.press("x")
    await page.keyboard.press("j")
    await page.keyboard.press("x")
    await expect(page.get_by_text("2 jobs selected")).to_be_visible()
    # What does nothing to failed jobs is not offered.
    await expect(page.get_by_role("region", name="Selection").get_by_role("button", name="Cancel")).to_have_count(0)
    await page.get_by_role("button", name="Retry", exact=True).click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("2 jobs are meant")
    await expect(dialog.get_by_role("link", name="charge")).to_have_count(2)
    await expect(dialog.get_by_role("button", name="Retry", exact=True)).to_be_disabled()
    await dialog.get_by_label("Reason").fill("The bank is back.")
    await dialog.get_by_role("button", name="Retry", exact=True).click()
    panel = page.get_by_role("region", name="Operation under way")
    await expect(panel).to_contain_text("Retrying 2 jobs")
    await expect(panel.get_by_role("button", name=re.compile("Undo"))).to_be_visible()
    board.scheduler.job("charge")(lambda **data: None)
    await board.scheduler.start()
    await expect(panel).to_contain_text("2 retried")
    await expect(panel).to_contain_text("completed")
    states = [(await board.scheduler.get_job(one)).state for one in ids[3:7]]
    assert states.count("failed") == 2
    (operation,) = await board.scheduler.operations.all()
    assert (operation.reason, operation.named) == ("The bank is back.", 2)


async def test_all_matching_jobs_are_meant_by_the_frozen_filter_and_it_can_be_undone(board: Board) -> None:
    await stored(board.scheduler, *jobs(130, "pending", name="later", label="Late report"))
    page = await board.open("/jobs?name=later")
    await expect(rows(page)).to_have_count(50)
    await page.get_by_role("checkbox", name="Select all jobs of this page").check()
    await page.get_by_role("button", name=re.compile("Select all that match .130 jobs")).click()
    await page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("130 jobs are meant")
    await expect(dialog.get_by_role("link", name="Late report")).to_have_count(5)
    await dialog.get_by_label("Reason").fill("A mistake.")
    await dialog.get_by_role("button", name="Delete").click()
    await page.get_by_role("button", name=re.compile("Undo")).click()
    await expect(page.get_by_role("region", name="Operation under way")).to_contain_text("cancelled")
    (operation,) = await board.scheduler.operations.all()
    assert operation.filter == {"name": "later"} and (operation.state, operation.started_at) == ("cancelled", None)
    await page.get_by_role("navigation").get_by_role("link", name="Operations").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Operations")
    await expect(rows(page)).to_contain_text("Delete 130 jobs")
    await page.get_by_role("link", name="Delete 130 jobs").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Delete 130 jobs")
    await expect(page.get_by_text("A mistake.")).to_be_visible()
    await board.check_accessibility()


async def test_priority_and_queue_are_changed_by_operations(board: Board) -> None:
    (one,) = await stored(board.scheduler, *jobs(1, "pending", name="later"))
    await board.scheduler.start()
    page = await board.open("/jobs?state=pending")
    for action, fill in (("Change priority", "New priority"), ("Move to a queue", "New queue")):
        await page.get_by_role("checkbox", name=re.compile("^Select later")).check()
        await page.get_by_role("button", name=action).click()
        dialog = page.get_by_role("dialog")
        if fill == "New priority":
            await dialog.get_by_label(fill).select_option("1")
        else:
            await dialog.get_by_label(fill).fill("slow")
        await dialog.get_by_label("Reason").fill("A test.")
        await dialog.get_by_role("button", name=action).click()
        await expect(page.get_by_role("dialog")).to_have_count(0)

    async def is_done() -> bool:
        now = await board.scheduler.get_job(one)
        return (now.priority, now.queue) == (1, "slow")

    await eventually(is_done, timeout=60)


async def test_pages_go_on_by_cursors_and_back(board: Board) -> None:
    ids = await stored(board.scheduler, *jobs(120, "completed"))
    page = await board.open("/jobs?state=completed")
    await expect(page.get_by_role("checkbox", name=f"Select work {ids[-1]}")).to_be_visible()
    await page.get_by_role("button", name="Next page").click()
    await expect(page.get_by_role("checkbox", name=f"Select work {ids[69]}")).to_be_visible()
    await page.get_by_role("button", name="Next page").click()
    await expect(rows(page)).to_have_count(20)
    await page.reload()
    await expect(rows(page)).to_have_count(20)
    await page.go_back()
    await expect(page.get_by_role("checkbox", name=f"Select work {ids[69]}")).to_be_visible()
    await page.get_by_role("button", name="First page").click()
    await expect(page.get_by_role("checkbox", name=f"Select work {ids[-1]}")).to_be_visible()


async def test_a_search_that_is_not_complete_says_how_far_it_came_and_goes_on(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.store.views.search.SCANNED", 10)
    await stored(board.scheduler, job("completed", name="rare"), *jobs(60, "completed"))
    page = await board.open("/jobs?state=completed&name=rare")
    await expect(page.get_by_text("Nothing found so far")).to_be_visible()
    await expect(page.get_by_text(re.compile("Completed jobs were searched back to"))).to_be_visible()
    await page.get_by_role("button", name="Search further").click()
    await expect(rows(page)).to_contain_text("rare")


async def test_columns_density_page_size_and_views_are_remembered(board: Board) -> None:
    await a_day(board.scheduler)
    page = await board.open("/jobs?name=charge")
    await page.get_by_role("button", name="Columns").click()
    await page.get_by_role("checkbox", name="Created").check()
    await page.get_by_role("checkbox", name="Queue").uncheck()
    await page.get_by_role("button", name="100 rows").click()
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Views").click()
    await page.get_by_label("Name of the view").fill("Declined cards")
    await page.get_by_role("button", name="Save").click()
    await page.goto(board.api.url + "/jobs")
    await expect(rows(page)).to_have_count(11)
    await expect(page.get_by_role("columnheader", name="Created")).to_be_visible()
    await expect(page.get_by_role("columnheader", name="Queue")).to_have_count(0)
    await page.get_by_role("button", name="Views").click()
    await page.get_by_role("button", name="Declined cards", exact=True).click()
    await expect(rows(page)).to_have_count(4)
    assert "name=charge" in page.url


async def test_the_filter_is_exported_and_its_call_is_shown(board: Board) -> None:
    await a_day(board.scheduler)
    page = await board.open("/jobs?state=failed")
    await page.get_by_role("button", name="Export").click()
    async with page.expect_download() as download:
        await page.get_by_role("menuitem", name="As CSV").click()
    text = (await (await download.value).path()).read_text()
    assert len(text.splitlines()) >= 5 and text.startswith("id,name,queue,state")
    await page.get_by_role("button", name="Show me the call").click()
    await expect(page.get_by_role("dialog")).to_contain_text("/api/jobs/search?state=failed&limit=50")
    await page.get_by_role("tab", name="Python").click()
    await expect(page.get_by_role("dialog")).to_contain_text('scheduler.search(state="failed", limit=50)')


async def test_what_a_viewer_may_not_do_is_absent(browser: Browser, make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    key = await scheduler.api_keys.create("looker", "viewer")
    async with serving(scheduler, keyless=False) as api:
        await a_day(scheduler)
        async with opened(browser, api, extra_http_headers={"Authorization": f"Bearer {key.text}"}) as board:
            page = await board.open("/jobs")
            await expect(rows(page)).to_have_count(11)
            await expect(page.get_by_role("checkbox")).to_have_count(0)
            await expect(page.get_by_role("link", name="New job")).to_have_count(0)
            await page.keyboard.press("j")
            await page.keyboard.press("x")
            await expect(page.get_by_text("selected")).to_have_count(0)


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_hostile_and_malformed_jobs_spoil_their_rows_only(
    board: Board, looks: Callable[..., Any], theme: str
) -> None:
    malformed = job("failed", name="odd", error="text", tags="x", priority="high", attempts=7, progress=[], data=3)
    hostile = {"type": HOSTILE, "message": HOSTILE}
    await a_day(board.scheduler)
    await stored(
        board.scheduler,
        malformed,
        job("failed", name=HOSTILE, queue=HOSTILE, tags=[HOSTILE], error=hostile, data={HOSTILE: HOSTILE}),
        job("running", name="w", worker=HOSTILE, progress={"percent": 1e9, "note": HOSTILE}),
    )
    for phone in (False, True):
        async with looks(board, theme=theme, phone=phone) as other:
            page = await other.open("/jobs")
            await expect(rows(page)).to_have_count(14)
            await expect(page.get_by_role("link", name="odd")).to_be_visible()
            await expect(page.get_by_role("link", name="charge").first).to_be_visible()
            await other.check_width()
            await other.check_accessibility()
            if (place := picture(f"jobs-{theme}-{'phone' if phone else 'desk'}")) is not None:
                await page.screenshot(path=place)


async def test_an_empty_list_teaches_the_first_command(board: Board) -> None:
    page = await board.open("/jobs")
    await expect(page.get_by_text("No job yet")).to_be_visible()
    await expect(page.get_by_text("scheduler.schedule(")).to_be_visible()
    await page.goto(board.api.url + "/operations")
    await expect(page.get_by_text("No operation yet")).to_be_visible()
