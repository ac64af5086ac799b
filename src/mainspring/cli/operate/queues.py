"""`mainspring queues`: looks at queues, pauses and limits them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mainspring.cli.calls.api import Api, path
from mainspring.cli.calls.operating import Call, operating
from mainspring.cli.operate.choices import Reason, suggesting
from mainspring.cli.support.exit_codes import TO_BE_CHANGED, CommandFailed, say
from mainspring.cli.terminal.output import Columns
from mainspring.cli.terminal.times import ago, span
from mainspring.model.fields import Fields
from mainspring.spelling import did_you_mean

queues = typer.Typer(help="Queues.", no_args_is_help=True)

_MOST, _PAGE = 10_000, 20
QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="The name of the queue.")]


def _counted(field: str) -> Any:
    """A count of a queue; with a plus where counting has stopped."""
    return lambda one: f"{one[field]:,}{'+' if one[field] >= one['counted'] else ''}"


def _state(queue: Any) -> str:
    if queue["paused"]:
        return f"paused {queue['paused']['reason']}".rstrip()
    return "no worker" if queue["noWorker"] else "active"


QUEUES: Columns = {
    "QUEUE": lambda one: one["name"],
    "DUE": _counted("due"),
    "SCHEDULED": _counted("scheduled"),
    "WAITING": _counted("waiting"),
    "RUNNING": lambda one: one["running"],
    "WORKERS": lambda one: one["workers"],
    "SLOTS": lambda one: one["slots"],
    "PER MINUTE": lambda one: None if one["perMinute"] is None else f"{one['perMinute']:g}",
    "OLDEST DUE": lambda one: ago(one["oldestDueAt"]),
    "DONE IN": lambda one: span(one["drainMs"]),
    "STATE": _state,
}


SPARE = ("SLOTS", "DONE IN", "PER MINUTE", "OLDEST DUE")
"""The columns that are left out where a terminal is too narrow, the last one first."""


def read_queues(api: Api) -> list[Any]:
    """All queues, by name."""
    return api.items("/api/queues", _MOST, page=_PAGE)


@queues.command("list")
@operating
def list_queues(call: Call) -> None:
    """List the queues with their backlog and the workers that serve them."""
    call.table(read_queues(call.api), QUEUES, "No queue has jobs or workers.", SPARE)


@queues.command()
@operating
def pause(call: Call, queue: QueueName, reason: Reason = "") -> None:
    """Pause a queue: its jobs do not start until you resume it. Running jobs continue."""
    found = call.api.post("/api/pauses", {"queue": queue, "reason": reason})["data"]
    call.done(found, f"The queue {queue} is paused.{_note(call, queue, found)}")


@queues.command()
@operating
def resume(call: Call, queue: QueueName) -> None:
    """Resume a paused queue."""
    with suggesting(queue, lambda: [one["target"] for one in call.api.get("/api/pauses")["data"]]):
        found = call.api.post("/api/pauses/resume", {"queue": queue})["data"]
    call.done(found, f"The queue {queue} is not paused any more.")


@queues.command()
@operating
def limit(
    call: Call,
    queue: QueueName,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", "-c", help="How many jobs may run at once.")
    ] = None,
    rate: Annotated[
        str | None, typer.Option("--rate", help="How many jobs may start in a span of time, such as 100/minute.")
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove these limits; the limits declared in code apply again.")
    ] = False,
    reason: Reason = "",
) -> None:
    """Limit how many jobs of a queue run at once, or start in a span of time. Without options, show its limits."""
    if remove and (concurrency is not None or rate is not None):
        raise CommandFailed("Give limits or --remove, not both.", TO_BE_CHANGED)
    where = path("limits", "queue", queue)
    if remove:
        call.done(call.api.delete(where)["data"], f"The limits of the queue {queue} are removed.")
    elif concurrency is None and rate is None:
        _show_limits(call, queue)
    else:
        limits = {"concurrency": concurrency, "rate": rate}
        asked = {name: value for name, value in limits.items() if value is not None}
        found = call.api.put(where, {**asked, "reason": reason})["data"]
        call.done(found, f"The queue {queue} is limited.{_note(call, queue, found)}")


def _note(call: Call, queue: str, found: Fields) -> str:
    """The note of an answer that no job or worker has this queue, with the name of the queue that is close to it."""
    if not found["note"] or call.as_json:
        return ""
    others = [one["name"] for one in call.api.get("/api/queues")["data"] if one["name"] != queue]
    return f" {found['note']}{did_you_mean(queue, others)}"


def _of(limit: Fields | None, field: str) -> str | None:
    """A limit, and what it is counted by."""
    if limit is None:
        return None
    return f"{limit[field]} by {limit['key']}" if limit.get("key") else str(limit[field])


def _show_limits(call: Call, queue: str) -> None:
    found = [one for one in call.api.get("/api/limits")["data"] if (one["scope"], one["target"]) == ("queue", queue)]
    columns: Columns = {
        "QUEUE": lambda one: one["target"],
        "CONCURRENCY": lambda one: _of(one["counts"]["concurrency"], "limit"),
        "RATE": lambda one: _of(one["counts"]["rate"], "rate"),
        "SET BY": lambda one: (one["override"] or {}).get("actor") or ("code" if one["override"] is None else None),
    }
    call.table(found, columns, f"The queue {queue} has no limits.")
    if not call.as_json and any(use["full"] for one in found for use in one["uses"]):
        say("A limit is reached, so jobs wait.")
