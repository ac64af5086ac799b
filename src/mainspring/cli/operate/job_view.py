"""A job on the screen: a line in a list, or all of it; and the reason why it does not run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from mainspring.cli.terminal.output import Columns, print_fields, print_heading, print_items, print_text
from mainspring.cli.terminal.times import ago, both, span
from mainspring.model.jobs.job import COMPLETED
from mainspring.model.printable import printable

Item = Mapping[str, Any]


def note_of(job: Item) -> str | None:
    """What is worth knowing of a job in a list: its error, its progress, the gate that it waits at, when it is due."""
    error, progress, waiting = job.get("error"), job.get("progress"), job.get("waitingFor")
    if error:
        return f"{error['type']}: {error['message']}" if isinstance(error, dict) else str(error)
    if progress and job["state"] != COMPLETED:  # the last report of a handler may be less than 100 %
        return _progress(progress)
    if waiting:
        return str(waiting["note"])
    return f"due {ago(job['runAt'])}" if job["state"] == "pending" else None


def _progress(progress: Item) -> str:
    return f"{progress['percent']:.0f} % {progress.get('note') or ''}".rstrip()


JOBS: Columns = {
    "ID": lambda job: job["id"],
    "NAME": lambda job: job["name"],
    "QUEUE": lambda job: job["queue"],
    "STATE": lambda job: job["state"],
    "TRIES": lambda job: job["tries"],
    "CREATED": lambda job: ago(job["createdAt"]),
    "NOTE": note_of,
}
SPARE = ("CREATED", "QUEUE", "TRIES")
"""The columns that are left out where a terminal is too narrow, the last one first, as in all tables."""
_ATTEMPTS: Columns = {
    "ATTEMPT": lambda one: one["number"],
    "OUTCOME": lambda one: one["outcome"],
    "STARTED": lambda one: one["startedAt"],
    "TOOK": lambda one: span(one["duration"]),
    "WORKER": lambda one: one["worker"],
    "ERROR": lambda one: note_of({**one, "state": ""}),
}


def show_job(job: Item) -> None:
    """Print a job in detail."""
    print_fields(
        [
            ("id", job["id"]),
            ("name", job["name"]),
            ("state", job["state"]),
            ("queue", job["queue"]),
            ("priority", job["priority"]),
            ("tags", job["tags"]),
            ("created", both(job["createdAt"])),
            ("due", both(job["runAt"])),
            ("started", both(job["startedAt"])),
            ("finished", both(job["finishedAt"])),
            ("expires", both(job["expiresAt"])),
            ("waits for", (job.get("waitingFor") or {}).get("note")),
            ("progress", _progress(job["progress"]) if job.get("progress") else None),
            ("worker", job["worker"]),
            ("guarantee", job["guarantee"]),
            ("timeout", job["timeout"]),
            ("schedule", job["scheduleId"]),
            ("firing", job["scheduledFor"]),
            ("parent", job["parentId"]),
            ("flow", job["flowId"]),
            ("dedupe key", job["dedupeKey"]),
            ("data", job["data"]),
            ("result", job["result"]),
            ("error", note_of(job) if job["error"] else None),
        ]
    )
    if job["attempts"]:
        print_heading("Attempts")
        print_items(job["attempts"], _ATTEMPTS, spare=("WORKER",))
    _show_log(job)
    stack = (job["error"] or {}).get("stack")
    if stack:
        print_heading("Stack of the error")
        print_text(printable(stack.rstrip(), keep="\n"))


def _show_log(job: Item) -> None:
    last = job["attempts"][-1]["log"] if job["attempts"] else []
    lines = job["log"] or last
    if lines:
        print_heading("Log of the last attempt")
        for line in lines:
            print_text(printable(line))


def show_explanation(found: Item) -> None:
    """Print why a job does not run."""
    print_text(printable(found["text"], keep="\n"))
    print_heading("Gates")
    for gate in found["gates"]:
        mark, style = ("open", "green") if gate["open"] else ("shut", "red")
        print_text(Text.assemble((f"{mark}  ", style), printable(gate["text"])))
