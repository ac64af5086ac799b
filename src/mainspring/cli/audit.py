"""`mainspring audit`: reads and checks the audit log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from mainspring.cli.calls.operating import Call, operating
from mainspring.cli.support.database import actor, on_database
from mainspring.cli.support.exit_codes import RUNTIME_FAILURE, say
from mainspring.cli.support.logs import logged
from mainspring.cli.support.service_options import Data, Uri, existing_place
from mainspring.cli.terminal.output import Columns, print_json, print_text
from mainspring.cli.terminal.times import past_instant
from mainspring.client.scheduler import Scheduler
from mainspring.errors import ConfigurationError
from mainspring.model.access.audit import Row
from mainspring.model.fields import Fields
from mainspring.model.printable import printable

audit = typer.Typer(help="The audit log.", no_args_is_help=True)

_KNOWN = re.compile(r"([1-9][0-9]{0,15}):([0-9a-f]{64})")
_ROWS: Columns = {
    "ROW": lambda row: row["n"],
    "AT": lambda row: row["at"],
    "ACTOR": lambda row: row["actor"],
    "ADDRESS": lambda row: row["address"],
    "ACTION": lambda row: row["action"],
    "TARGET": lambda row: row["target"],
}


@audit.command("list")
@operating
def list_rows(
    call: Call,
    limit: Annotated[int, typer.Option("--limit", min=1, max=200, help="How many rows to list, newest first.")] = 50,
    before: Annotated[int | None, typer.Option("--before", min=1, help="Only rows with smaller numbers.")] = None,
    actor: Annotated[str | None, typer.Option("--actor", help="Only changes by this actor, such as key:4f2a….")] = None,
    target: Annotated[str | None, typer.Option("--target", help="Only changes to this object.")] = None,
    action: Annotated[
        str | None,
        typer.Option("--action", help="Only this action, such as job.cancel; job.* matches all actions on jobs."),
    ] = None,
    since: Annotated[str | None, typer.Option("--since", help="Since this instant, or this long ago.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="Before this instant, or this long ago.")] = None,
) -> None:
    """List the newest rows; --json includes all fields."""
    times: Fields = {"since": past_instant(since, "--since"), "until": past_instant(until, "--until")}
    rows: list[Any] = []
    while len(rows) < limit:  # a page may be short
        page = call.api.get(
            "/api/audit", before=before, limit=limit - len(rows), actor=actor, target=target, action=action, **times
        )
        rows += page["data"]
        before = page["next"]
        if before is None:
            break
    call.table(rows, _ROWS, "No row matches.", ("ADDRESS",))


@audit.command()
@operating
def head(call: Call) -> None:
    """Print the head of the log as ROW:HASH. Keep it elsewhere: `verify --known` uses it to prove which rows
    existed."""
    newest = call.api.get("/api/audit", limit=1)["data"]
    found = newest[0] if newest else call.api.get("/api/audit/verify")["data"]["last"]
    call.document({"n": found["n"], "hash": found["hash"]}, lambda one: print_text(_told(one)))


@audit.command()
@operating
def verify(
    call: Call,
    known: Annotated[
        str | None,
        typer.Option("--known", metavar="ROW:HASH", help="An earlier head of the log, as printed by `head`."),
    ] = None,
    first: Annotated[int, typer.Option("--first", min=1, help="The first row to check.")] = 1,
    last: Annotated[int | None, typer.Option("--last", min=1, help="The last row to check.")] = None,
) -> None:
    """Check the chain of the log, and report the first row that was edited, removed or added. Exit with 0 if all rows
    are valid, with 1 if not.
    """
    number, digest = (None, None) if known is None else _link(known)
    verdict = call.api.get("/api/audit/verify", first=first, last=last, knownN=number, knownHash=digest)["data"]
    call.document(verdict, lambda one: print_text(_sentence(one)))
    if not verdict["ok"]:
        raise typer.Exit(RUNTIME_FAILURE)


@audit.command()
@logged
def seal(
    reason: Annotated[str, typer.Option("--reason", help="A reason, stored in the log.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    data: Data = None,
    uri: Uri = None,
) -> None:
    """Accept the rows that were written without a key: from now on, the key also signs these rows as they are. Check
    them first against an earlier head of the log, with `verify --known`. The service cannot do this: name the database.
    """

    async def accept(scheduler: Scheduler) -> Row:
        return await scheduler.audit.seal(actor(), reason)

    row = on_database(existing_place(data, uri), accept)
    print_json({"n": row.n, "hash": row.hash}) if as_json else say(f"The rows up to {row.n} are accepted.")


def _link(text: str) -> tuple[int, str]:
    found = _KNOWN.fullmatch(text.strip())
    if found is None:
        raise ConfigurationError("--known takes a row's number and its hash, as `mainspring audit head` prints them.")
    return int(found[1]), found[2]


def _told(link: Mapping[str, Any]) -> str:
    return f"{link['n']}:{link['hash']}"


def _sentence(verdict: Mapping[str, Any]) -> str:
    checked = f"{verdict['checked']:,} rows"
    if not verdict["ok"]:
        return f"BROKEN at row {verdict['broken']}: {printable(verdict['reason'])}. {checked} before are fine."
    how = "signed with a key" if verdict["keyed"] else "not signed: set MAINSPRING_AUDIT_KEYS, or compare by --known"
    return f"OK: {checked}, {how}. The last one is {_told(verdict['last'])}"
