"""The commands of the how-to are run as they are written there."""

from __future__ import annotations

import shlex

from api.commands.conftest import Run
from harness.pages import ROOT, blocks
from mainspring import Scheduler

PAGE = ROOT / "docs" / "howto" / "command-line.md"


async def test_the_commands_of_the_page_work(on_database: Run, scheduler: Scheduler) -> None:
    @scheduler.job("report")
    async def report(kind: str = "all") -> str:
        return kind

    async with scheduler:
        done = 0
        for block in blocks(PAGE):
            for line in block.text.splitlines() if block.mark == "command" else ():
                words = shlex.split(line)
                assert words[0] == "mainspring"
                ran = await on_database(*words[1:])
                assert ran.code == 0, (line, ran.err)
                done += 1
    assert done > 20
