"""`mainspring operations`: what was asked for many jobs at once, and how far it is."""

from __future__ import annotations

from typing import Annotated

import typer

from mainspring.cli.calls.api import path
from mainspring.cli.calls.operating import Call, operating
from mainspring.cli.operate.choices import Limit
from mainspring.cli.operate.many import follow_operation
from mainspring.cli.terminal.output import Columns
from mainspring.cli.terminal.times import ago

operations = typer.Typer(help="Operations: one verb applied to many jobs.", no_args_is_help=True)

OperationId = Annotated[str, typer.Argument(metavar="OPERATION", help="The id, as shown by `list`.")]
_LIST: Columns = {
    "ID": lambda one: one["id"],
    "VERB": lambda one: one["verb"],
    "STATE": lambda one: one["state"],
    "CHANGED": lambda one: one["progress"]["changed"],
    "JOBS": lambda one: f"{one['count']:,}{'+' * one['capped']}",
    "CREATED": lambda one: ago(one["createdAt"]),
    "BY": lambda one: one["createdBy"],
    "REASON": lambda one: one["reason"],
}


@operations.command("list")
@operating
def list_operations(call: Call, limit: Limit = 50) -> None:
    """List the latest operations."""
    found = call.api.items("/api/operations", limit)
    call.first(found, limit, _LIST, "There are no operations.", ("CREATED", "BY"))


@operations.command()
@operating
def follow(call: Call, operation_id: OperationId) -> None:
    """Show the progress of an operation until it has ended."""
    follow_operation(call, call.api.get(path("operations", operation_id))["data"])


@operations.command()
@operating
def cancel(call: Call, operation_id: OperationId) -> None:
    """Stop an operation. This does not undo the changes it has already made."""
    found = call.api.post(path("operations", operation_id, "cancel"))["data"]
    call.done(found, f"The operation {found['id']} is {found['state']}.")
