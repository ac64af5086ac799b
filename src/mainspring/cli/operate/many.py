"""Acting on jobs: on those that are named, one by one; on all that match a filter, by an operation.

Workers carry out an operation, so that it goes on when the command is interrupted. `mainspring operations follow`
shows it again.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import typer

from mainspring.cli.calls.api import path
from mainspring.cli.calls.operating import Call
from mainspring.cli.support.exit_codes import INTERRUPTED, RUNTIME_FAILURE, TO_BE_CHANGED, CommandFailed, report, say
from mainspring.cli.terminal.output import many, print_json
from mainspring.cli.terminal.progress import Shown
from mainspring.model.fields import Fields

_ENDED = ("completed", "failed", "cancelled")
_LOOK_EVERY = 0.5
_WORDS = {"cancel": "cancelled", "retry": "run again", "run": "made due"}


@dataclass(frozen=True, slots=True)
class Selection:
    """The jobs that a command means: by their ids, or by a filter."""

    ids: list[str] | None
    filter: Fields
    reason: str = ""
    yes: bool = False


def on_many(call: Call, verb: str, chosen: Selection, body: Mapping[str, Any] | None = None) -> None:
    """Do something to the chosen jobs."""
    if bool(chosen.ids) == bool(chosen.filter):
        raise CommandFailed(
            "Name jobs by their ids, or choose them with a filter such as --name or --queue, but not both.",
            TO_BE_CHANGED,
        )
    if chosen.ids:
        _one_by_one(call, verb, chosen.ids, body)
    else:
        _operate(call, verb, chosen)


def _one_by_one(call: Call, verb: str, ids: list[str], body: Mapping[str, Any] | None) -> None:
    done, failed = [], 0
    for job_id in ids:
        try:
            job = call.api.post(path("jobs", job_id, verb), body)["data"]
        except CommandFailed as error:
            if len(ids) == 1:
                raise
            report(error)
            failed += 1
            continue
        done.append(job)
        if not call.as_json:
            asked = verb == "cancel" and job["state"] == "running"
            say(f"The job {job['id']} ({job['name']}) is {'asked to stop' if asked else job['state']}.")
    if call.as_json:
        print_json(done[0] if len(ids) == 1 else done)
    if failed:
        raise CommandFailed(f"{failed} of {len(ids)} were left as they are.", RUNTIME_FAILURE)


def _operate(call: Call, verb: str, chosen: Selection) -> None:
    asked = {"verb": verb, "filter": chosen.filter}
    meant = call.api.post("/api/operations", {**asked, "dryRun": True})["data"]
    if meant["count"] == 0:
        raise CommandFailed(f"No job matches that could be {_WORDS[verb]}.", RUNTIME_FAILURE)
    number = f"{'At least ' if meant['capped'] else ''}{many(meant['count'], 'job')}"
    confirm(f"{number} will be {_WORDS[verb]}, such as {meant['sample'][0]['name']!r}.", chosen.yes)
    reason = chosen.reason or f"mainspring jobs {verb}"
    made = call.api.post("/api/operations", {**asked, "reason": reason, "startAfter": "0s"})["data"]
    follow_operation(call, made)


def confirm(sentence: str, yes: bool) -> None:
    """Ask before many jobs are changed; where no person can answer, --yes is needed."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandFailed(f"{sentence} Nothing was done: add --yes to do so.", TO_BE_CHANGED)
    if not typer.confirm(f"{sentence} Go on?", err=True):
        raise CommandFailed("Nothing was done.", TO_BE_CHANGED)


def follow_operation(call: Call, operation: Fields) -> None:
    """Show the progress of an operation until it has ended."""
    where = path("operations", operation["id"])
    try:
        with Shown(operation["verb"], _total(operation), quiet=call.as_json) as shown:
            told = False
            while operation["state"] not in _ENDED:
                told = told or _tell_without_workers(call)
                call.api.sleep(_LOOK_EVERY)
                operation = call.api.get(where)["data"]
                shown.update(operation["progress"]["examined"], _total(operation))
    except KeyboardInterrupt:
        say(
            f"The operation continues in the workers. mainspring operations follow {operation['id']} shows it, "
            f"mainspring operations cancel {operation['id']} stops it."
        )
        raise typer.Exit(INTERRUPTED) from None
    progress = operation["progress"]
    left = progress["skipped"] + progress["refused"]
    sentence = f"{many(progress['changed'], 'job')} changed" + (f", {left:,} left as they are" if left else "")
    call.done(operation, f"{sentence}. The operation {operation['id']} is {operation['state']}.")
    if operation["state"] == "failed":
        raise CommandFailed(f"The operation has failed: {operation['error']}", RUNTIME_FAILURE)


def _total(operation: Mapping[str, Any]) -> int | None:
    return None if operation["capped"] else max(operation["count"], operation["progress"]["examined"])


def _tell_without_workers(call: Call) -> bool:
    """Say that no worker is there to do it, if the key may know it; return True, so that it is said once."""
    with suppress(CommandFailed):
        if any(worker["live"] for worker in call.api.get("/api/workers")["data"]):
            return True
        say("No worker is alive; the operation starts when one does: mainspring worker MODULE:SCHEDULER")
    return True
