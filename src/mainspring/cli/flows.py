"""`mainspring flows`: looks at flows, cancels and retries them, and signals their jobs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.text import Text

from mainspring.cli.calls.api import path
from mainspring.cli.calls.operating import Call, operating
from mainspring.cli.operate.body import one_of, read_json
from mainspring.cli.operate.choices import Limit, Reason
from mainspring.cli.support.exit_codes import say
from mainspring.cli.terminal.output import Columns, print_items, print_sentence, print_text
from mainspring.cli.terminal.times import ago
from mainspring.model.jobs.job import BLOCKED, STATES
from mainspring.model.printable import printable

flows = typer.Typer(help="Flows: jobs that wait for other jobs.", no_args_is_help=True)

FlowId = Annotated[str, typer.Argument(metavar="FLOW", help="The id of the flow (the id of its root job).")]
_LIST: Columns = {
    "ID": lambda one: one["id"],
    "NAME": lambda one: one["name"],
    "KIND": lambda one: one["kind"],
    "STATE": lambda one: one["state"],
    "QUEUE": lambda one: one["queue"],
    "CREATED": lambda one: ago(one["createdAt"]),
}
_SPARE = ("KIND", "QUEUE")
_NODES: Columns = {
    "NODE": lambda one: one["name"],
    "STATE": lambda one: "skipped" if one["skipped"] else one["state"],
    "JOBS": lambda one: f"{'at least ' if one['atLeast'] else ''}{_counts(one['counts'])}" if one["counts"] else None,
    "AFTER": lambda one: one["after"],
    "NOTE": lambda one: one["holding"] or one["error"],
}


@flows.command("list")
@operating
def list_flows(
    call: Call,
    name: Annotated[str | None, typer.Option("--name", help="Only flows with this name.")] = None,
    state: Annotated[str | None, typer.Option("--state", help=f"Only flows that are {', '.join(STATES)}.")] = None,
    limit: Limit = 50,
) -> None:
    """List the newest flows."""
    wanted = one_of(state, STATES, "--state")
    empty = "No flow matches." if name or wanted else "There are no flows yet."
    call.first(call.api.items("/api/flows", limit, name=name, state=wanted), limit, _LIST, empty, _SPARE)


@flows.command()
@operating
def show(call: Call, flow_id: FlowId) -> None:
    """Show a flow: its nodes with their states and job counts, and what each node waits for."""
    call.document(call.api.get(path("flows", flow_id))["data"], _show)


@flows.command()
@operating
def cancel(call: Call, flow_id: FlowId, reason: Reason = "") -> None:
    """Cancel a flow with all its jobs. Waiting jobs are cancelled at once; running jobs are asked to stop."""
    flow = call.api.post(path("flows", flow_id, "cancel"), {"reason": reason})["data"]
    call.document(flow, _show)
    if flow["cancelRequested"] and flow["finishedAt"] is None and not call.as_json:
        say("Jobs that run are asked to stop.")


@flows.command()
@operating
def retry(call: Call, flow_id: FlowId) -> None:
    """Run the failed and expired jobs of a flow again, and the jobs that were cancelled because of them."""
    call.document(call.api.post(path("flows", flow_id, "retry"))["data"], _show)


@flows.command()
@operating
def signal(
    call: Call,
    job_id: Annotated[str, typer.Argument(metavar="JOB", help="The id of the job whose handler waits.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the signal.")],
    payload: Annotated[
        str, typer.Option("--payload", metavar="JSON", help="The payload as JSON; text needs quotes: '\"yes\"'.")
    ] = "null",
    signal_id: Annotated[
        str | None,
        typer.Option("--id", help="A text of your choice: a second signal with the same text has no effect."),
    ] = None,
) -> None:
    """Send a signal to a job. Its handler receives it with ctx.wait_for(NAME)."""
    value = read_json(payload, "--payload")
    job = call.api.post(path("jobs", job_id, "signals", name), {"payload": value}, once=signal_id)["data"]
    call.done(job, f"The signal is stored; the job {job['id']} is {job['state']}.")


def _show(flow: Mapping[str, Any]) -> None:
    print_text(
        f"{printable(flow['name'])} ({flow['kind']}) is {flow['state']}: {_counts(flow['counts']) or 'no jobs yet'}"
    )
    if flow["error"] is not None:
        print_sentence(Text(printable(flow["error"])))
    print_items(flow["nodes"], _NODES, spare=("AFTER",))
    if flow["state"] == BLOCKED and flow["kind"] == "dynamic":
        job_id = shlex.quote(flow["id"])
        say(
            f"Its handler waits: mainspring jobs explain {job_id} tells what for, and mainspring flows signal {job_id} "
            "NAME sends a signal."
        )
    if not flow["complete"]:
        say("Not all jobs were counted: these numbers are lower bounds.")


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {state}" for state, number in sorted(counts.items()))
