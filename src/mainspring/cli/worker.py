"""`mainspring worker`: run the jobs of an application in worker processes, and keep them alive."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from mainspring.cli.supervision.metrics_port import METRICS, metrics_address
from mainspring.cli.support.builtin_jobs import open_target
from mainspring.cli.support.environment import worker_settings
from mainspring.cli.support.logs import set_up_logs
from mainspring.cli.support.service_options import Data, Uri, chosen, place
from mainspring.errors import ConfigurationError


def worker(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODULE:SCHEDULER]",
            help="Your Scheduler, such as myapp.jobs:scheduler; without it, only webhooks and email run.",
        ),
    ] = None,
    processes: Annotated[int, typer.Option("--processes", "-p", min=1, help="The number of worker processes.")] = 1,
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency", "-c", help="How many jobs run at once in each process; overrides the Scheduler's setting."
        ),
    ] = None,
    queues: Annotated[
        str | None, typer.Option("--queues", "-q", help="Serve only these queues, separated by commas.")
    ] = None,
    grace: Annotated[
        float | None, typer.Option("--grace", help="How many seconds running jobs get to finish when the worker stops.")
    ] = None,
    lease: Annotated[
        str | None,
        typer.Option("--lease", help="How long until the jobs of a dead worker are rescued, such as 15m."),
    ] = None,
    start_within: Annotated[
        str | None, typer.Option("--start-within", help="How late a job may start, such as 30m; a later one expires.")
    ] = None,
    poll_interval: Annotated[
        str | None,
        typer.Option("--poll-interval", help="How long an idle worker sleeps between two polls, such as 30s."),
    ] = None,
    field_map: Annotated[
        str | None,
        typer.Option(
            "--field-map", help="Run jobs stored in another program's format: status-lock, or a field map as JSON."
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            metavar="HOST:PORT",
            help="Serve /metrics, /livez and /readyz at this address; each further process uses the next port. "
            f"(default: off; {METRICS})",
        ),
    ] = None,
    max_jobs: Annotated[
        int | None,
        typer.Option(
            "--max-jobs", min=1, help="Replace each process after this many jobs; its running jobs finish first."
        ),
    ] = None,
    reload: Annotated[
        bool, typer.Option("--reload", help="For development: restart when a file of the application changes.")
    ] = False,
    data: Data = None,
    uri: Uri = None,
) -> None:
    """Run jobs in worker processes, and replace processes that die.

    Without your own Scheduler it runs webhooks and email. If MongoDB is not up yet, the command waits for it. SIGTERM
    or Ctrl-C stops it: running jobs finish within the grace time. A second signal releases them at once.
    """
    if sys.platform == "win32":
        raise ConfigurationError("Windows lacks the signals that this command needs; run scheduler.start() instead.")
    from mainspring.cli.supervision.supervisor import Supervisor

    named = place(data, uri)
    given = chosen(
        concurrency=concurrency,
        queues=split_names(queues),
        grace=grace,
        lease=lease,
        start_within=start_within,
        poll_interval=poll_interval,
        field_map=field_map,
    )
    options = {**worker_settings(), **given}
    face = open_target(target)
    face.inner.configure(named, **options)
    set_up_logs()
    address = metrics_address(metrics, processes)

    async def supervise() -> int:
        supervisor = Supervisor(
            face.inner, target, options, processes, named, address, max_jobs=max_jobs, reload=reload
        )
        return await supervisor.run()

    raise typer.Exit(asyncio.run(supervise()))


def split_names(names: str | None) -> list[str] | None:
    """Names separated by commas, as a list."""
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]
