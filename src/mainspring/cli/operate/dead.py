"""`mainspring dead`: looks at dead letters, the jobs that have failed for good; runs them again or deletes them."""

from __future__ import annotations

from typing import Annotated

import typer

from mainspring.cli.calls.api import path
from mainspring.cli.calls.operating import Call, operating
from mainspring.cli.operate.body import read_object
from mainspring.cli.operate.choices import Limit, Name, Queue, Reason, Tag
from mainspring.cli.operate.job_view import note_of
from mainspring.cli.operate.many import confirm
from mainspring.cli.support.exit_codes import INTERRUPTED, RUNTIME_FAILURE, TO_BE_CHANGED, CommandFailed, say
from mainspring.cli.terminal.output import Columns, many
from mainspring.cli.terminal.progress import Shown
from mainspring.cli.terminal.times import ago, past_instant
from mainspring.model.fields import Fields

dead = typer.Typer(help="Dead letters: jobs whose last attempt failed.", no_args_is_help=True)

ErrorType = Annotated[str | None, typer.Option("--error", help="Only with this type of error, such as TimeoutError.")]
Text = Annotated[str | None, typer.Option("--text", help="Only with this text in the error's message.")]
Fingerprint = Annotated[str | None, typer.Option("--fingerprint", help="Only this group, as shown by `groups`.")]
Since = Annotated[str | None, typer.Option("--since", help="Failed since this instant, or this long ago, such as 1h.")]
Until = Annotated[str | None, typer.Option("--until", help="Failed before this instant, or this long ago.")]
JobIds = Annotated[
    list[str] | None, typer.Argument(metavar="[JOB]...", help="The ids of the jobs; or use the filters.")
]
All = Annotated[bool, typer.Option("--all", help="All dead letters.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
RedriveId = Annotated[str, typer.Argument(metavar="REDRIVE", help="The id, as printed by `retry` and `discard`.")]
_LETTERS: Columns = {
    "ID": lambda one: one["id"],
    "NAME": lambda one: one["name"],
    "QUEUE": lambda one: one["queue"],
    "FAILED": lambda one: ago(one["finishedAt"]),
    "TRIES": lambda one: one["tries"],
    "ERROR": note_of,
}
_SPARE = ("QUEUE", "TRIES")
_GROUPS: Columns = {
    "FINGERPRINT": lambda one: one["fingerprint"],
    "NAME": lambda one: one["name"],
    "JOBS": lambda one: f"{one['count']:,}{'+' * one['capped']}",
    "LAST": lambda one: ago(one["lastSeen"]),
    "ERROR": lambda one: f"{one['errorType']}: {one['message']}",
}
_RUNNING = "running"
_LOOK_EVERY = 0.5


def _filter(
    name: str | None = None,
    queue: str | None = None,
    tag: str | None = None,
    error: str | None = None,
    fingerprint: str | None = None,
    since: str | None = None,
    until: str | None = None,
    text: str | None = None,
) -> Fields:
    times = {"since": past_instant(since, "--since"), "until": past_instant(until, "--until")}
    words = {"name": name, "queue": queue, "tag": tag, "error": error, "fingerprint": fingerprint, "text": text}
    return {field: value for field, value in (words | times).items() if value is not None}


@dead.command("list")
@operating
def list_letters(
    call: Call,
    name: Name = None,
    queue: Queue = None,
    tag: Tag = None,
    error: ErrorType = None,
    fingerprint: Fingerprint = None,
    since: Since = None,
    until: Until = None,
    text: Text = None,
    limit: Limit = 50,
) -> None:
    """List dead letters, the latest first."""
    given = _filter(name, queue, tag, error, fingerprint, since, until, text)
    found = call.api.items("/api/dead-letters", limit, **given)
    call.first(found, limit, _LETTERS, "There are no dead letters.", _SPARE)


@dead.command()
@operating
def groups(
    call: Call,
    name: Name = None,
    queue: Queue = None,
    since: Since = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=200, help="The maximum number to list.")] = 50,
) -> None:
    """List dead letters, grouped by the cause of their failure."""
    given = _filter(name, queue, since=since)
    found = call.api.get("/api/dead-letters/groups", limit=limit, **given)["data"]
    call.table(found, _GROUPS, "No dead letters.", ("LAST",))


@dead.command()
@operating
def retry(
    call: Call,
    job_ids: JobIds = None,
    name: Name = None,
    queue: Queue = None,
    tag: Tag = None,
    error: ErrorType = None,
    fingerprint: Fingerprint = None,
    since: Since = None,
    until: Until = None,
    text: Text = None,
    everything: All = False,
    data: Annotated[str | None, typer.Option("--data", help="Fields of the data to replace, as JSON.")] = None,
    reason: Reason = "",
    yes: Yes = False,
) -> None:
    """Run dead letters again. If there are many, workers continue in the background, even after Ctrl-C."""
    given = _filter(name, queue, tag, error, fingerprint, since, until, text)
    edit = {} if data is None else {"data": read_object(data, "--data")}
    _redrive(call, "retry", _chosen(job_ids, given, everything) | edit | {"reason": reason}, yes)


@dead.command()
@operating
def discard(
    call: Call,
    job_ids: JobIds = None,
    name: Name = None,
    queue: Queue = None,
    tag: Tag = None,
    error: ErrorType = None,
    fingerprint: Fingerprint = None,
    since: Since = None,
    until: Until = None,
    text: Text = None,
    everything: All = False,
    reason: Reason = "",
    yes: Yes = False,
) -> None:
    """Delete dead letters."""
    given = _filter(name, queue, tag, error, fingerprint, since, until, text)
    _redrive(call, "discard", _chosen(job_ids, given, everything) | {"reason": reason}, yes)


@dead.command()
@operating
def follow(call: Call, redrive_id: RedriveId) -> None:
    """Show the progress of a retry or a discard until it has ended."""
    _follow(call, call.api.get(path("redrives", redrive_id))["data"])


@dead.command()
@operating
def stop(call: Call, redrive_id: RedriveId) -> None:
    """Stop a retry or a discard. This does not undo what it has already done."""
    found = call.api.post(path("redrives", redrive_id, "cancel"))["data"]
    call.done(
        found, f"The {found['kind']} {found['id']} is {found['state']}; {many(found['done'], 'dead letter')} done."
    )


def _chosen(ids: list[str] | None, given: Fields, everything: bool) -> Fields:
    if bool(ids) + bool(given) + everything != 1:
        raise CommandFailed("Say which dead letters: give their ids, a filter such as --name, or --all.", TO_BE_CHANGED)
    return {"ids": ids} if ids else {"everything": True} if everything else {"filter": given}


def _redrive(call: Call, verb: str, asked: Fields, yes: bool) -> None:
    if "ids" not in asked:
        which = "all" if asked.get("everything") else "all matching"
        sentence = (
            f"This runs {which} dead letters again." if verb == "retry" else f"This deletes {which} dead letters."
        )
        confirm(sentence, yes)
    _follow(call, call.api.post(f"/api/dead-letters/{verb}", asked)["data"])


def _follow(call: Call, redrive: Fields) -> None:
    """Show the progress of a redrive until it has ended."""
    try:
        with Shown(redrive["kind"], redrive["matched"], quiet=call.as_json) as shown:
            while redrive["state"] == _RUNNING:
                call.api.sleep(_LOOK_EVERY)
                redrive = call.api.get(path("redrives", redrive["id"]))["data"]
                shown.update(redrive["done"] + redrive["skipped"], redrive["matched"])
    except KeyboardInterrupt:
        say(
            f"It continues in the workers. mainspring dead follow {redrive['id']} shows it, mainspring dead stop "
            f"{redrive['id']} stops it."
        )
        raise typer.Exit(INTERRUPTED) from None
    verb = "to be run again" if redrive["kind"] == "retry" else "deleted"
    skipped = f"; {many(redrive['skipped'], 'was', 'were')} left as they are" if redrive["skipped"] else ""
    call.done(redrive, f"{many(redrive['done'], 'dead letter')} {verb}{skipped}.")
    if not call.as_json:
        for one in redrive["skips"][:5]:
            say(f"{one['jobId']}: {one['reason']}")
    if redrive["matched"] and not redrive["done"]:
        raise typer.Exit(RUNTIME_FAILURE)
