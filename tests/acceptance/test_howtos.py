"""The pages about schedules work as they are written: their snippets are run, and what they print is compared."""

from __future__ import annotations

import ast
import inspect
import types
from pathlib import Path
from typing import Any

import pytest

from harness.pages import ROOT, Block, blocks
from mainspring import Every, Scheduler

HOWTO = ROOT / "docs" / "howto"
PAGES = sorted(page for page in HOWTO.glob("*.md") if any(block.mark == "snippet" for block in blocks(page)))


async def run_snippet(block: Block, page: Path, names: dict[str, Any]) -> None:
    """Run a snippet, which may await at its top level."""
    code = compile(block.text, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    outcome = types.FunctionType(code, names)()
    if inspect.isawaitable(outcome):
        await outcome


async def follow(page: Path, scheduler: Scheduler, capsys: pytest.CaptureFixture[str]) -> int:
    """Run the snippets of a page in their order; returns how many outputs were compared."""
    names: dict[str, Any] = {"__name__": "howto", "scheduler": scheduler}
    printed, compared = "", 0
    for block in blocks(page):
        if block.mark == "snippet":
            await run_snippet(block, page, names)
            printed = capsys.readouterr().out
        elif block.mark == "prints":
            assert printed == block.text
            compared += 1
    return compared


def register_report(scheduler: Scheduler) -> None:
    @scheduler.job("report")
    async def report(kind: str = "all") -> str:
        return kind


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
async def test_the_snippets_of_a_page_run_in_their_order(
    page: Path, scheduler: Scheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    register_report(scheduler)
    await scheduler.schedule("report", repeat=Every("1h"), schedule_id="sales-report")
    await follow(page, scheduler, capsys)


async def test_the_preview_prints_what_its_page_says(scheduler: Scheduler, capsys: pytest.CaptureFixture[str]) -> None:
    assert await follow(HOWTO / "preview-firings.md", scheduler, capsys) == 1


async def test_the_declared_schedules_of_the_page_are_stored_at_the_start(
    scheduler: Scheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    await follow(HOWTO / "declare-schedules-in-code.md", scheduler, capsys)
    async with scheduler:
        stored = {schedule.id: schedule.name async for schedule in scheduler.schedules.find()}
    assert stored == {
        "clean_up": "clean_up",
        "poll_feeds": "poll_feeds",
        "greet-morning": "greet",
        "greet-evening": "greet",
    }
