"""The commands of the how-to are run as they are written there."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import pytest

from api.commands.conftest import Run
from api.conftest import serving
from harness.pages import ROOT, blocks
from mainspring import Scheduler

PAGE = ROOT / "docs" / "howto" / "command-line.md"


@pytest.mark.slow
async def test_the_commands_of_the_page_work(bare: Run, make_scheduler: Callable[..., Scheduler]) -> None:
    scheduler = make_scheduler()

    @scheduler.job("report")
    async def report(kind: str = "all") -> str:
        return kind

    async with scheduler, serving(make_scheduler()) as api:
        done = 0
        for block in blocks(PAGE):
            for line in block.text.splitlines() if block.mark == "command" else ():
                words = shlex.split(line)
                assert words[0] == "mainspring"
                ran = await bare(*words[1:], "--url", api.url)
                assert ran.code == 0, (line, ran.err)
                done += 1
    assert done > 20
