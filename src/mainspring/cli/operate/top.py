"""`mainspring top`: the installation, live in the terminal: problems, queues and running jobs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from mainspring.cli.calls.api import Api
from mainspring.cli.calls.operating import Call, operating
from mainspring.cli.operate.queues import QUEUES, SPARE, read_queues
from mainspring.cli.operate.status import problem_lines, read_status, summary
from mainspring.cli.terminal.output import Columns, cell, fitting, print_text, table_lines, terminal_width
from mainspring.cli.terminal.times import ago
from mainspring.durations import duration_ms
from mainspring.errors import ConfigurationError
from mainspring.model.fields import Fields

_RUNNING: Columns = {
    "RUNNING JOB": lambda one: one["jobId"],
    "NAME": lambda one: one["name"],
    "QUEUE": lambda one: one["queue"],
    "SINCE": lambda one: ago(one["since"]),
    "WORKER": lambda one: one["worker"],
}
_MOST_JOBS = 15


@operating
def top(
    call: Call,
    every: Annotated[str, typer.Option("--every", help="How often to refresh, such as 2s.")] = "2s",
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after this many refreshes.")] = None,
) -> None:
    """Watch problems, queues and running jobs in the terminal; in a pipe, print them once. Ctrl-C stops.

    With --json, print one line per refresh.
    """
    pause = duration_ms(every, "--every", ConfigurationError) / 1000
    looks = count or (None if sys.stdout.isatty() or call.as_json else 1)
    try:
        if sys.stdout.isatty() and not call.as_json:
            _watch(call.api, pause, looks)
        else:
            _print(call, pause, looks)
    except KeyboardInterrupt:
        pass


def _watch(api: Api, pause: float, looks: int | None) -> None:
    with Live(console=Console(highlight=False), screen=looks is None, auto_refresh=False) as live:
        number = 0
        while looks is None or number < looks:
            if number:
                api.sleep(pause)
            live.update(Group(*_lines(_look(api))), refresh=True)
            number += 1


def _print(call: Call, pause: float, looks: int | None) -> None:
    number = 0
    while looks is None or number < looks:
        if number:
            call.api.sleep(pause)
        found = _look(call.api)
        if call.as_json:
            print(json.dumps(found), flush=True)
        else:
            for line in _lines(found):
                print_text(line)
        number += 1


def _look(api: Api) -> Fields:
    return {**read_status(api), "queues": read_queues(api)}


def _lines(found: Fields) -> list[Text]:
    told = [(name, value) for name, value in summary(found) if value is not None]
    lines = [Text.assemble((f"{name:12}", "dim"), cell(value)) for name, value in told]
    lines += problem_lines(found["overview"]["problems"])
    queues = sorted(found["queues"], key=lambda one: -(one["due"] + one["running"]))
    lines += [Text(), *_table(queues, QUEUES, SPARE)]
    slots = [
        {**slot, "worker": worker["id"]}
        for worker in found["health"]["workers"]
        if worker["live"]
        for slot in worker["slots"]
    ]
    slots.sort(key=lambda slot: slot["since"] or "")
    return [*lines, Text(), *_table(slots[:_MOST_JOBS], _RUNNING, ("QUEUE", "WORKER"))]


def _table(items: list[Any], columns: Columns, spare: Sequence[str]) -> list[Text]:
    width = terminal_width()
    kept = fitting(items, columns, spare, width)
    return table_lines(list(kept), [[cell(find(item)) for find in kept.values()] for item in items], width)
