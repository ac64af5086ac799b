"""`mainspring audit`: reads and checks the audit log, for an operator with access to the database and its key."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

import typer

from mainspring.cli.support.database import actor, on_database
from mainspring.cli.support.exit_codes import RUNTIME_FAILURE, say
from mainspring.cli.support.logs import logged
from mainspring.cli.support.service_options import Data, Uri, place
from mainspring.cli.support.tables import print_table
from mainspring.client.scheduler import Scheduler
from mainspring.errors import ConfigurationError
from mainspring.model.access.audit import Row
from mainspring.model.access.audit_chain import EPOCH, Link, Verdict
from mainspring.model.printable import printable

audit = typer.Typer(help="The audit log.", no_args_is_help=True, add_completion=False)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_KNOWN = re.compile(r"([1-9][0-9]{0,15}):([0-9a-f]{64})")


@audit.command("list")
@logged
def list_rows(
    limit: Annotated[int, typer.Option("--limit", min=1, max=200, help="How many rows, the newest first.")] = 50,
    before: Annotated[int | None, typer.Option("--before", min=1, help="Only rows with smaller numbers.")] = None,
    actor: Annotated[str | None, typer.Option("--actor", help="Only this actor's, such as key:4f2a….")] = None,
    target: Annotated[str | None, typer.Option("--target", help="Only changes of this object.")] = None,
    action: Annotated[
        str | None, typer.Option("--action", help="Only this action, such as job.cancel; job.* for all on jobs.")
    ] = None,
    as_json: Json = False,
    data: Data = None,
    uri: Uri = None,
) -> None:
    """List the newest rows; with --json, one object per line with all fields."""

    async def find(scheduler: Scheduler) -> list[Row]:
        found: list[Row] = []
        next: int | None = before
        while len(found) < limit:  # a page may be short
            page = await scheduler.audit.find(
                before=next, limit=limit - len(found), actor=actor, target=target, action=action
            )
            found += page
            next = page.next
            if next is None:
                break
        return found

    rows = on_database(place(data, uri), find)
    if as_json:
        for row in rows:
            print(json.dumps(_row(row)))
        return
    told = [(str(row.n), f"{row.at:%Y-%m-%d %H:%M:%S}Z", row.actor, row.address or "-", row.action) for row in rows]
    lines = [(*map(printable, line), printable(row.target)) for line, row in zip(told, rows, strict=True)]
    print_table(("ROW", "AT", "ACTOR", "ADDRESS", "ACTION", "TARGET"), lines)


@audit.command()
@logged
def head(data: Data = None, uri: Uri = None) -> None:
    """Print the head of the log as ROW:HASH. Keep it elsewhere: with it, `verify --known` proves which rows existed."""

    async def read(scheduler: Scheduler) -> Link:
        return await scheduler.audit.head()

    print(_told(on_database(place(data, uri), read)))


@audit.command()
@logged
def verify(
    known: Annotated[
        str | None,
        typer.Option("--known", metavar="ROW:HASH", help="An earlier head of the log, as `head` and the log print it."),
    ] = None,
    first: Annotated[int, typer.Option("--first", min=1, help="The first row to check.")] = 1,
    last: Annotated[int | None, typer.Option("--last", min=1, help="The last row to check.")] = None,
    as_json: Json = False,
    data: Data = None,
    uri: Uri = None,
) -> None:
    """Check the chain of the log, and report the first row that was edited, removed or added.

    The exit status is 0 if all rows are valid, and 1 if not.
    """
    passed = None if known is None else _link(known)

    async def check(scheduler: Scheduler) -> Verdict:
        return await scheduler.audit.verify(first=first, last=last, known=passed)

    verdict = on_database(place(data, uri), check)
    print(json.dumps(_verdict(verdict)) if as_json else _sentence(verdict))
    if not verdict.ok:
        raise typer.Exit(RUNTIME_FAILURE)


@audit.command()
@logged
def seal(
    reason: Annotated[str, typer.Option("--reason", help="The reason; it is kept in the log.")] = "",
    data: Data = None,
    uri: Uri = None,
) -> None:
    """Accept the rows that were written without a key: from now on, the key signs them, too, as they are.

    Check them first, with an earlier head of the log: `verify --known`.
    """

    async def accept(scheduler: Scheduler) -> Row:
        return await scheduler.audit.seal(actor(), reason)

    say(f"The rows up to {on_database(place(data, uri), accept).n} are accepted.")


def _link(text: str) -> Link:
    found = _KNOWN.fullmatch(text.strip())
    if found is None:
        raise ConfigurationError("--known takes a row's number and its hash, as `mainspring audit head` prints them.")
    return Link(int(found[1]), found[2], EPOCH)


def _told(link: Link) -> str:
    return f"{link.n}:{link.hash}"


def _sentence(verdict: Verdict) -> str:
    if not verdict.ok:
        return f"BROKEN at row {verdict.broken}: {printable(verdict.reason)}. {verdict.checked:,} rows before are fine."
    how = "signed with a key" if verdict.keyed else "not signed: set MAINSPRING_AUDIT_KEYS, or compare by --known"
    return f"OK: {verdict.checked:,} rows, {how}. The last one is {_told(verdict.last)}"


def _verdict(verdict: Verdict) -> dict[str, Any]:
    found = {name: getattr(verdict, name) for name in ("ok", "checked", "broken", "reason", "keyed")}
    return {**found, "last": {"n": verdict.last.n, "hash": verdict.last.hash}}


def _row(row: Row) -> dict[str, Any]:
    same = {name: getattr(row, name) for name in ("n", "id", "actor", "address", "action", "target")}
    values = {"before": row.value_before(), "after": row.value_after()}
    return {**same, "at": f"{row.at.isoformat()}", **values, "key": row.key, "prev": row.prev, "hash": row.hash}
