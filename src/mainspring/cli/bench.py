"""`mainspring bench`: measures Mainspring on the user's own MongoDB, beside raw inserts, in a database of its own."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from mainspring.cli.support.logs import set_up_logs, without_loggers
from mainspring.cli.support.service_options import Data, Uri, place
from mainspring.cli.terminal.output import print_table
from mainspring.client.benchmarking import PREFIX, Figure, measure
from mainspring.engine.handlers import UNKNOWN_HANDLERS


def bench(
    jobs: Annotated[int, typer.Option("--jobs", min=1, max=1_000_000, help="How many jobs.")] = 5000,
    probes: Annotated[int, typer.Option("--probes", min=1, max=10_000, help="How many single calls to measure.")] = 30,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    data: Data = None,
    uri: Uri = None,
) -> None:
    """Measure enqueue, drain and latency against raw inserts, in a database that is dropped at the end."""
    set_up_logs("warning")

    def tell(part: str) -> None:
        if not as_json:
            sys.stderr.write(f"mainspring: {part}\n")

    with without_loggers(UNKNOWN_HANDLERS):  # the first part stores jobs before this process works on them
        figures = asyncio.run(measure(place(data, uri), jobs=jobs, probes=probes, tell=tell))
    if as_json:
        print(json.dumps([asdict(figure) for figure in figures]))
        return
    print_table(("FIGURE", "VALUE", "UNIT", "TO THE FLOOR"), [_row(figure) for figure in figures])
    print(f"Compare ratios, not rates. The database {PREFIX}… of this run has been dropped.")


def _row(figure: Figure) -> tuple[str, str, str, str]:
    ratio = "-" if figure.ratio is None else f"{figure.ratio:.2f}"
    value = f"{figure.value:,.0f}" if figure.value >= 100 else f"{figure.value:.2f}"
    return figure.name, value, figure.unit, ratio
