"""`mainspring migrate`: shows the schema version of a database, and raises it, beside the workers."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from mainspring.cli.support.database import on_database
from mainspring.cli.support.exit_codes import say
from mainspring.cli.support.service_options import Data, Uri, existing_place
from mainspring.cli.terminal.progress import Shown
from mainspring.client.migrating import migrate as run
from mainspring.client.migrating import schema_status
from mainspring.client.scheduler import Scheduler
from mainspring.model.fields import Fields
from mainspring.model.printable import printable
from mainspring.model.schema_versions import CURRENT, SchemaStatus


def migrate(
    only_status: Annotated[bool, typer.Option("--status", help="Show pending changes without making them.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    data: Data = None,
    uri: Uri = None,
) -> None:
    """Upgrade the database to the current schema version while workers run. You can interrupt it and run it again."""

    async def work(scheduler: Scheduler) -> SchemaStatus:
        if only_status:
            return await schema_status(scheduler)
        with Shown("documents", None, quiet=as_json) as shown:
            return await run(scheduler, lambda status: shown.update(status.seen, status.total))

    status = on_database(existing_place(data, uri), work)
    if as_json:
        print(json.dumps(_facts(status)))
    else:
        _print(status)


def _print(status: SchemaStatus) -> None:
    print(f"The database has schema version {status.version}; this Mainspring writes {CURRENT}.")
    for change in status.pending:
        print(f"  pending: {change.version}, {change.text}")
    if status.pending and (status.seen or status.walked):
        print(f"  {status.seen:,} documents were examined, {status.changed:,} changed.")
    if status.waits:
        workers = ", ".join(map(printable, status.earlier_workers))
        say(
            f"All documents are changed. Workers of an earlier version are still alive: {workers}. Run this command "
            "again when they have ended."
        )
    elif not status.pending:
        print("Nothing is pending.")
    sys.stdout.flush()


def _facts(status: SchemaStatus) -> Fields:
    return {**asdict(status), "current": CURRENT, "pending": [asdict(change) for change in status.pending]}
