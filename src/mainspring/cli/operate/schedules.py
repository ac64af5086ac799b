"""`mainspring schedules`: looks at schedules, stores, pauses and triggers them, and makes up for missed firings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from mainspring.cli.calls.api import path
from mainspring.cli.calls.operating import Call, operating
from mainspring.cli.operate.backfill import make_up, nothing
from mainspring.cli.operate.body import POLICIES, RULE, WORK, bodied, one_of, with_name
from mainspring.cli.operate.choices import Limit, Name, Queue, Reason, Tag, hint_handler, suggesting
from mainspring.cli.support.exit_codes import TO_BE_CHANGED, CommandFailed
from mainspring.cli.terminal.output import Columns, print_fields, print_items, print_text
from mainspring.cli.terminal.times import ago, both, past_instant, span
from mainspring.model.fields import Fields
from mainspring.model.printable import printable
from mainspring.model.schedules.firing_plan import OVERLAPS

schedules = typer.Typer(help="Schedules: rules that make jobs repeatedly.", no_args_is_help=True)

ScheduleId = Annotated[str, typer.Argument(metavar="SCHEDULE", help="The id of the schedule.")]
Count = Annotated[int, typer.Option("--count", "-n", min=1, max=1000, help="How many firings.")]
_STATES = ("active", "paused", "ended", "failing")
_LIST: Columns = {
    "ID": lambda one: one["id"],
    "NAME": lambda one: one["name"],
    "STATE": lambda one: "failing" if one["failing"] and one["state"] == "active" else one["state"],
    "NEXT": lambda one: ago(one["nextAt"]),
    "LAST": lambda one: ago(one["lastAt"]),
    "RUNS": lambda one: one["runs"],
    "RULE": lambda one: f"{one['text']} {one['zone'] or ''}".rstrip(),
}
_SPARE = ("LAST", "NAME", "RUNS")
_FIRINGS: Columns = {
    "LOCAL": lambda one: one["local"],
    "UTC": lambda one: one["at"],
    "NOTES": lambda one: "; ".join(one["notes"]) or None,
}
_LEDGER: Columns = {
    "FIRING": lambda one: one["at"],
    "OUTCOME": lambda one: one["outcome"],
    "LATE": lambda one: span(one["lateByMs"]),
    "JOB": lambda one: one["jobId"],
    "REASON": lambda one: one["reason"],
}
_SPARE_IN_LEDGER = ("LATE",)


@schedules.command("list")
@operating
def list_schedules(
    call: Call,
    state: Annotated[str | None, typer.Option("--state", help=f"{', '.join(_STATES)}.")] = None,
    name: Name = None,
    queue: Queue = None,
    tag: Tag = None,
    text: Annotated[str | None, typer.Option("--text", help="A part of the id or the name.")] = None,
    soonest: Annotated[
        bool, typer.Option("--next", help="Order by next firing, earliest first, instead of by id.")
    ] = False,
    limit: Limit = 50,
) -> None:
    """List schedules."""
    order = "next" if soonest else "id"
    wanted = one_of(state, _STATES, "--state")
    filters: Fields = {"state": wanted, "name": name, "queue": queue, "tag": tag, "text": text, "order": order}
    call.first(call.api.items("/api/schedules", limit, **filters), limit, _LIST, "No schedule matches.", _SPARE)


@schedules.command()
@operating
def show(call: Call, schedule_id: ScheduleId) -> None:
    """Show a schedule: its rule, its policies, and its last and next firings."""
    with _known(call, schedule_id):
        call.document(call.api.get(path("schedules", schedule_id))["data"], _show)


@schedules.command()
@operating
@bodied(*RULE, *POLICIES, *WORK)
def add(
    call: Call,
    body: Fields,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The name of the jobs' handler.")] = None,
    schedule_id: Annotated[
        str | None,
        typer.Option(
            "--id", help="The id of the schedule (default: NAME); an existing schedule with this id is replaced."
        ),
    ] = None,
    paused: Annotated[bool, typer.Option("--paused", help="Store it paused.")] = False,
) -> None:
    """Store a schedule. Print its id."""
    _check_rule(body)
    named = name if schedule_id is None else schedule_id
    if not named:
        raise CommandFailed("Give the schedule an id: --id.", TO_BE_CHANGED)
    asked = with_name(body, name) | ({"enabled": False} if paused else {})
    call.document(call.api.put(path("schedules", named), asked)["data"], _show_stored)
    if name is not None:
        hint_handler(call.api, name, "its jobs wait for one")


@schedules.command()
@operating
def pause(call: Call, schedule_id: ScheduleId, reason: Reason = "") -> None:
    """Pause a schedule: it does not fire until it is resumed."""
    with _known(call, schedule_id):
        found = call.api.post(path("schedules", schedule_id, "pause"), {"reason": reason})["data"]
    call.done(found, f"The schedule {found['id']} is {found['state']}.")


@schedules.command()
@operating
def resume(call: Call, schedule_id: ScheduleId) -> None:
    """Resume a paused schedule: it fires again from now on."""
    with _known(call, schedule_id):
        found = call.api.post(path("schedules", schedule_id, "resume"))["data"]
    call.done(
        found, f"The schedule {found['id']} is {found['state']}; it fires next {ago(found['nextAt']) or 'never'}."
    )


@schedules.command()
@operating
def trigger(
    call: Call,
    schedule_id: ScheduleId,
    overlap: Annotated[
        str | None, typer.Option("--overlap", help=f"Override the overlap policy: {', '.join(OVERLAPS)}.")
    ] = None,
    reason: Reason = "",
) -> None:
    """Make a job of a schedule now, in addition to its firings. Print the job's id."""
    asked = {"reason": reason} | ({} if overlap is None else {"overlap": one_of(overlap, OVERLAPS, "--overlap")})
    with _known(call, schedule_id):
        job = call.api.post(path("schedules", schedule_id, "trigger"), asked)["data"]
    call.document(job, lambda one: print_text(one["id"]))


@schedules.command()
@operating
def skip(call: Call, schedule_id: ScheduleId, reason: Reason = "") -> None:
    """Skip the next firing of a schedule."""
    with _known(call, schedule_id):
        found = call.api.post(path("schedules", schedule_id, "skip"), {"reason": reason})["data"]
    call.done(found, f"The schedule {found['id']} fires next {ago(found['nextAt']) or 'never'}.")


@schedules.command()
@operating
def delete(call: Call, schedule_id: ScheduleId) -> None:
    """Delete a schedule and its ledger. Its jobs stay."""
    with _known(call, schedule_id):
        found = call.api.delete(path("schedules", schedule_id))["data"]
    call.done(found, f"The schedule {found['id']} is deleted.")


@schedules.command()
@operating
@bodied(*RULE)
def preview(
    call: Call,
    body: Fields,
    schedule_id: Annotated[
        str | None,
        typer.Argument(metavar="[SCHEDULE]", help="The id of a stored schedule; or describe a rule with the options."),
    ] = None,
    count: Count = 10,
) -> None:
    """Show the next firings of a schedule or a rule, in its time zone, with notes on clock changes."""
    if schedule_id is not None:
        if body:
            raise CommandFailed("Name a schedule or give a rule, not both.", TO_BE_CHANGED)
        with _known(call, schedule_id):
            found = call.api.get(path("schedules", schedule_id, "upcoming"), count=count)
        call.table(found["data"], _FIRINGS, "It will not fire again.")
        return
    _check_rule(body)
    call.document(call.api.post("/api/schedules/preview", {**body, "count": count}), _show_preview)


@schedules.command()
@operating
def ledger(
    call: Call,
    schedule_id: ScheduleId,
    since: Annotated[str | None, typer.Option("--since", help="Firings since this instant, or this long ago.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="Firings before this instant, or this long ago.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="The maximum number to list.")] = 100,
) -> None:
    """List the firings of a schedule with their outcomes; by default, those of the last and the next 24 hours."""
    window: Fields = {"start": past_instant(since, "--since"), "end": past_instant(until, "--until")}
    with _known(call, schedule_id):
        found = call.api.get(path("schedules", schedule_id, "ledger"), limit=limit, **window)["data"]
    call.table(found, _LEDGER, "No firings in this window.", _SPARE_IN_LEDGER)


@schedules.command()
@operating
def backfill(
    call: Call,
    schedule_id: ScheduleId,
    since: Annotated[str, typer.Option("--since", help="The start of the window: an instant, or this long ago.")],
    until: Annotated[str | None, typer.Option("--until", help="The end of the window; now by default.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Include all firings, not only those that were missed or skipped.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the firings that would get a job.")] = False,
) -> None:
    """Make the jobs of past firings. After an interruption, run the same command to continue; no job is made twice."""
    start, end = past_instant(since, "--since"), past_instant(until or "0s", "--until")
    window = {"start": start, "end": end, "which": "all" if everything else "not_run"}
    with _known(call, schedule_id):
        if dry_run:
            asked = {**window, "preview": True, "limit": 10_000}
            found = call.api.post(path("schedules", schedule_id, "backfill"), asked)["data"]["firings"]
            call.table(found, _LEDGER, nothing(window), _SPARE_IN_LEDGER)
        else:
            make_up(call, schedule_id, window)


@contextmanager
def _known(call: Call, schedule_id: str) -> Iterator[None]:
    """Add the closest id to the error about a schedule that does not exist."""
    with suggesting(schedule_id, lambda: [one["id"] for one in call.api.items("/api/schedules", 1000)]):
        yield


def _check_rule(body: Mapping[str, Any]) -> None:
    if (
        not {"cron", "every", "rrule", "at", "any"} & body.get("repeat", {}).keys()
        and not {"schedule", "every"} & body.keys()
    ):
        raise CommandFailed("Say when it fires: give one of --cron, --every, --rrule and --on.", TO_BE_CHANGED)


def _show(one: Mapping[str, Any]) -> None:
    policy, paused = one["policy"], one["paused"] or {}
    print_fields(
        [
            ("id", one["id"]),
            ("name", one["name"]),
            ("state", one["state"]),
            ("paused", f"{both(paused['at'])} {paused.get('reason') or ''}".rstrip() if paused else None),
            ("rule", one["text"]),
            ("in words", one["description"]),
            ("zone", one["zone"]),
            ("next", both(one["nextAt"])),
            ("last", both(one["lastAt"])),
            ("last job", f"{one['lastJobId']} ({one['lastState'] or 'unknown'})" if one["lastJobId"] else None),
            ("runs", one["runs"]),
            ("failures", f"{one['failures']} in a row" if one["failures"] else None),
            ("starts", both(one["startAt"])),
            ("ends", both(one["endAt"])),
            ("jitter", one["jitter"] if one["jitter"] != "0s" else None),
            ("misfire", f"{policy['misfire']}, after {policy['misfireGrace']}"),
            ("overlap", policy["overlap"]),
            ("most runs", policy["maxRuns"]),
            ("queue", one["queue"]),
            ("priority", one["priority"]),
            ("tags", one["tags"]),
            ("data", one["data"]),
            ("declared by", one["declaredBy"]),
            ("error", one["error"]),
        ]
    )


def _show_stored(one: Mapping[str, Any]) -> None:
    print_text(one["id"])


def _show_preview(found: Mapping[str, Any]) -> None:
    zone = f", {found['zone']}" if found["zone"] else ""
    print_text(printable(f"{found['text']}{zone}: {found['description']}"))
    print_items(found["data"], _FIRINGS, "It never fires.")
