"""`mainspring worker`: run the jobs of an application in worker processes, and keep them alive."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated, Any

import typer

from mainspring.cli.logs import set_up_logs
from mainspring.cli.target import load
from mainspring.errors import ConfigurationError


def worker(
    target: Annotated[
        str, typer.Argument(metavar="MODULE:SCHEDULER", help="Where your Scheduler is, such as myapp.jobs:scheduler.")
    ],
    processes: Annotated[int, typer.Option("--processes", "-p", min=1, help="How many worker processes.")] = 1,
    concurrency: Annotated[
        int | None,
        typer.Option("--concurrency", "-c", help="Jobs at once in each process, instead of the Scheduler's."),
    ] = None,
    queues: Annotated[
        str | None, typer.Option("--queues", "-q", help="Only these queues, separated by commas.")
    ] = None,
    grace: Annotated[
        float | None, typer.Option("--grace", help="Seconds that running jobs get to finish when stopping.")
    ] = None,
) -> None:
    """Run jobs in worker processes; replace the ones that die.

    SIGTERM or Ctrl-C stops: running jobs finish within the grace time. A second signal gives them back at once.
    """
    if sys.platform == "win32":
        raise ConfigurationError("Windows lacks the signals that this command needs; run scheduler.start() instead.")
    from mainspring.cli.supervisor import Supervisor

    options = chosen(concurrency=concurrency, queues=split_names(queues), grace=grace)
    face = load(target)
    face.inner.configure(**options)
    set_up_logs()

    async def supervise() -> int:
        return await Supervisor(face.inner, target, options, processes).run()

    raise typer.Exit(asyncio.run(supervise()))


def split_names(names: str | None) -> list[str] | None:
    """Names separated by commas, as a list."""
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]


def chosen(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}
