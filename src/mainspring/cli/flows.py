"""`mainspring flows`: looks at flows, cancels and retries them, for an operator with access to the database."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

import typer

from mainspring.cli.support.database import actor, on_database
from mainspring.cli.support.exit_codes import say
from mainspring.cli.support.logs import logged
from mainspring.cli.support.service_options import Data, Uri, place
from mainspring.cli.support.tables import print_table
from mainspring.client.namespaces.flows import Flow
from mainspring.client.scheduler import Scheduler
from mainspring.client.service_backend import ServiceBackend
from mainspring.errors import ConfigurationError
from mainspring.model.access.audit import Entry
from mainspring.model.flows.flow import FlowNode
from mainspring.model.jobs.job import STATES, Job
from mainspring.model.printable import printable
from mainspring.rules.instants import instant_text

flows = typer.Typer(help="Flows: jobs that wait for jobs.", no_args_is_help=True, add_completion=False)

FlowId = Annotated[str, typer.Argument(metavar="FLOW", help="The id of the flow, which is that of its root job.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_SAME = ("id", "name", "kind", "state", "queue", "created_at", "started_at", "finished_at", "error", "because")
_OF_NODES = ("name", "job", "id", "state", "when", "after", "skipped", "at_least", "holding", "error", "because")


@flows.command("list")
@logged
def list_flows(
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many flows, the newest first.")] = 50,
    name: Annotated[str | None, typer.Option("--name", help="Only flows with this name.")] = None,
    state: Annotated[str | None, typer.Option("--state", help=f"Only flows that are {', '.join(STATES)}.")] = None,
    as_json: Json = False,
    data: Data = None,
    uri: Uri = None,
) -> None:
    """List the newest flows; with --json, one object per line."""

    async def find(scheduler: Scheduler) -> list[Flow]:
        return await scheduler.flows.all(limit, name=name, state=state)  # type: ignore[arg-type]

    found = on_database(place(data, uri), find)
    if as_json:
        for flow in found:
            print(json.dumps(_facts(flow), default=str))
        return
    lines = [(flow.id, flow.name, flow.kind, flow.state, flow.queue, instant_text(flow.created_at)) for flow in found]
    print_table(("ID", "NAME", "KIND", "STATE", "QUEUE", "CREATED"), [tuple(map(printable, line)) for line in lines])


@flows.command()
@logged
def show(
    flow_id: FlowId,
    exact: Annotated[bool, typer.Option("--exact", help="Count all jobs, however many there are.")] = False,
    as_json: Json = False,
    data: Data = None,
    uri: Uri = None,
) -> None:
    """Show a flow: its nodes, their states and numbers of jobs, and what holds each of them back."""

    async def find(scheduler: Scheduler) -> Flow:
        return await scheduler.flows.get(flow_id, exact=exact)

    _print(on_database(place(data, uri), find), as_json=as_json)


@flows.command()
@logged
def cancel(
    flow_id: FlowId,
    reason: Annotated[str, typer.Option("--reason", help="The reason; its jobs keep it.")] = "",
    as_json: Json = False,
    data: Data = None,
    uri: Uri = None,
) -> None:
    """Cancel a flow with all its jobs: those that wait at once; those that run are asked to stop."""
    flow = _change("flow.cancel", flow_id, {"reason": reason}, _canceller(flow_id, reason), data, uri)
    _print(flow, as_json=as_json)
    if flow.cancel_requested and not flow.finished:
        say("Jobs that run are asked to stop.")


@flows.command()
@logged
def retry(flow_id: FlowId, as_json: Json = False, data: Data = None, uri: Uri = None) -> None:
    """Run the failed and expired jobs of a flow again, and those that were cancelled because of them."""

    async def again(scheduler: Scheduler) -> Flow:
        return await scheduler.flows.retry(flow_id)

    _print(_change("flow.retry", flow_id, {}, again, data, uri), as_json=as_json)


@flows.command()
@logged
def signal(
    job_id: Annotated[str, typer.Argument(metavar="JOB", help="The id of the job whose handler waits.")],
    name: Annotated[str, typer.Argument(help="The name of the signal.")],
    payload: Annotated[str, typer.Option("--payload", metavar="JSON", help="What the handler gets.")] = "null",
    signal_id: Annotated[
        str | None, typer.Option("--id", help="A text of your choice: a second signal with it changes nothing.")
    ] = None,
    data: Data = None,
    uri: Uri = None,
) -> None:
    """Send a signal to a job, whose handler waits for it with ctx.wait_for(NAME)."""
    try:
        value = json.loads(payload)
    except ValueError as error:
        raise ConfigurationError(f"--payload is not valid JSON: {error}. Text needs quotes, as in '\"yes\"'.") from None

    async def send(scheduler: Scheduler) -> Job:
        await scheduler.audit.check()
        job = await scheduler.signal(job_id, name, value, id=signal_id)
        entry = Entry(actor(), "job.signal", job.id, after={"name": job.name, "state": job.state, "signal": name})
        await ServiceBackend(scheduler).note_change(entry)
        return job

    job = on_database(place(data, uri), send)
    say(f"The signal is stored; the job {job.id} is {job.state}.")


def _canceller(flow_id: str, reason: str) -> Callable[[Scheduler], Awaitable[Flow]]:
    async def end(scheduler: Scheduler) -> Flow:
        return await scheduler.flows.cancel(flow_id, reason)

    return end


def _change(
    action: str,
    flow_id: str,
    more: Mapping[str, Any],
    work: Callable[[Scheduler], Awaitable[Flow]],
    data: Any,
    uri: str | None,
) -> Flow:
    """Change a flow, and write the audit entry."""

    async def change(scheduler: Scheduler) -> Flow:
        await scheduler.audit.check()
        before = await scheduler.flows.get(flow_id)
        after = await work(scheduler)
        entry = Entry(actor(), action, after.id, None, _told(before), {**_told(after), **more})
        await ServiceBackend(scheduler).note_change(entry)
        return after

    return on_database(place(data, uri), change)


def _told(flow: Flow) -> dict[str, Any]:
    return {"name": flow.name, "queue": flow.queue, "state": flow.state, "counts": flow.counts}


# -- printing ----------------------------------------------------------------------------------------------------------


def _print(flow: Flow, *, as_json: bool) -> None:
    if as_json:
        nodes = [{**{name: getattr(node, name) for name in _OF_NODES}, **_of_node(node)} for node in flow.nodes]
        print(json.dumps({**_facts(flow), "counts": flow.counts, "nodes": nodes}, default=str))
        return
    print(f"{printable(flow.name)} ({flow.kind}) is {flow.state}: {_counts(flow.counts) or 'no jobs yet'}")
    if flow.error is not None:
        print(printable(flow.error))
    print_table(("NODE", "STATE", "JOBS", "AFTER", "NOTE"), [_row(node) for node in flow.nodes])
    if not flow.complete:
        say("Some nodes were not counted; --exact counts all.")


def _row(node: FlowNode) -> tuple[str, ...]:
    state = "skipped" if node.skipped else node.state or "-"
    counts = f"{'at least ' if node.at_least else ''}{_counts(node.counts)}" if node.counts else "-"
    note = node.holding or node.error or ""
    return tuple(map(printable, (node.name, state, counts, ", ".join(node.after) or "-", note)))


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {state}" for state, number in sorted(counts.items()))


def _facts(flow: Flow) -> dict[str, Any]:
    facts = {name: getattr(flow, name) for name in _SAME}
    times = {name: value.isoformat() for name, value in facts.items() if name.endswith("_at") and value is not None}
    return {**facts, **times}


def _of_node(node: FlowNode) -> dict[str, Any]:
    times = {name: None if (at := getattr(node, name)) is None else at.isoformat() for name in _TIMES}
    return {"map": node.is_map, "counts": dict(node.counts), **times}


_TIMES = ("started_at", "finished_at")
