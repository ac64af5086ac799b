"""`mainspring workers`: looks at the worker processes, and drains them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mainspring.cli.calls.api import path
from mainspring.cli.calls.operating import Call, operating
from mainspring.cli.operate.choices import Reason, suggesting
from mainspring.cli.terminal.output import Columns, many
from mainspring.cli.terminal.times import ago

workers = typer.Typer(help="Worker processes.", no_args_is_help=True)

WorkerId = Annotated[str, typer.Argument(metavar="WORKER", help="The id of the worker, as shown by `list`.")]


def _state(worker: Any) -> str:
    if not worker["live"]:
        return "gone"
    return "draining" if worker["drain"] else "live"


WORKERS: Columns = {
    "ID": lambda one: one["id"],
    "STATE": _state,
    "RUNNING": lambda one: f"{one['running']}/{one['concurrency']}",
    "STARTED": lambda one: ago(one["startedAt"]),
    "BEAT": lambda one: ago(one["beatAt"]),
    "MEMORY": lambda one: None if one["memoryBytes"] is None else f"{one['memoryBytes'] / 2**20:.0f} MB",
    "QUEUES": lambda one: one["queues"] or "all",
    "HANDLERS": lambda one: "all" if one["handlers"] is None else one["handlers"],
}
_SPARE = ("QUEUES", "MEMORY", "STARTED")


@workers.command("list")
@operating
def list_workers(call: Call) -> None:
    """List the live workers, and those that ended within the last hour."""
    empty = "No worker: mainspring worker MODULE:SCHEDULER"
    call.table(call.api.get("/api/workers")["data"], WORKERS, empty, _SPARE)


@workers.command()
@operating
def drain(
    call: Call,
    worker_id: WorkerId,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel the drain: the worker claims jobs again.")] = False,
    reason: Reason = "",
) -> None:
    """Let a worker finish its running jobs, claim no more, and end."""
    where = path("workers", worker_id, "drain")
    with suggesting(worker_id, lambda: [one["id"] for one in call.api.get("/api/workers")["data"]]):
        found = call.api.delete(where) if cancel else call.api.post(where, {"reason": reason})
    worker = found["data"]
    sentence = "claims jobs again" if cancel else f"drains; it runs {many(worker['running'], 'job')} now"
    call.done(worker, f"The worker {worker['id']} {sentence}.")
