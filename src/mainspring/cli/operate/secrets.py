"""`mainspring secrets`: values that webhooks and handlers refer to by name. No command shows a value."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from mainspring.cli.calls.api import path
from mainspring.cli.calls.operating import Call, operating
from mainspring.cli.operate.choices import suggesting
from mainspring.cli.support.exit_codes import TO_BE_CHANGED, CommandFailed, say
from mainspring.cli.terminal.output import Columns, print_json, print_text
from mainspring.cli.terminal.times import ago
from mainspring.model.fields import Fields

secrets = typer.Typer(help="Secrets for webhooks and handlers.", no_args_is_help=True)

SecretName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the secret.")]
_LIST: Columns = {
    "NAME": lambda one: one["name"],
    "VERSION": lambda one: one["version"],
    "UPDATED": lambda one: ago(one["updatedAt"]),
    "BY": lambda one: one["actor"],
    "QUEUES": lambda one: one["queues"] or "all",
    "ORIGINS": lambda one: one["origins"],
}


@secrets.command("list")
@operating
def list_secrets(call: Call) -> None:
    """List the secrets, without their values."""
    call.table(call.api.get("/api/secrets")["data"], _LIST, "There are no secrets.", ("UPDATED", "VERSION", "BY"))


@secrets.command("set")
@operating
def set_secret(
    call: Call,
    name: SecretName,
    origin: Annotated[
        list[str], typer.Option("--origin", help="Where webhooks may send it, such as https://api.example.com.")
    ],
    generate: Annotated[bool, typer.Option("--generate", help="Let the service generate a signing secret.")] = False,
    queue: Annotated[list[str] | None, typer.Option("--queue", help="Only jobs of this queue may use it.")] = None,
    prefix: Annotated[
        list[str] | None, typer.Option("--prefix", help="Only jobs whose names have this prefix may use it.")
    ] = None,
    keep_old: Annotated[
        str, typer.Option("--keep-old", help="How long webhooks are also signed with the previous value.")
    ] = "0s",
) -> None:
    """Store a secret, or a new value for it. The command reads the value from stdin, or asks for it on a terminal; an
    argument would be visible to other users of the machine."""
    value = {"generate": "signing"} if generate else {"value": _read_value()}
    limits = {"queues": queue or None, "prefixes": prefix or None}
    given = {field: names for field, names in limits.items() if names is not None}
    stored = call.api.put(path("secrets", name), {**value, "origins": origin, "keepOld": keep_old, **given})["data"]
    _show_stored(call, stored)


@secrets.command()
@operating
def delete(call: Call, name: SecretName) -> None:
    """Delete a secret with all its values."""
    unknown = f"There is no secret {name!r}; `mainspring secrets list` shows those that there are."
    with suggesting(name, lambda: [one["name"] for one in call.api.get("/api/secrets")["data"]], unknown):
        found = call.api.delete(path("secrets", name))
    call.done(found.get("data", found), f"The secret {name} is deleted.")


def _show_stored(call: Call, stored: Fields) -> None:
    if call.as_json:
        print_json(stored)
        return
    if stored.get("value"):
        print_text(stored["value"])
        say("This is the value; it is not shown again.")
    say(f"The secret {stored['name']} is stored, version {stored['version']}.")


def _read_value() -> str:
    if sys.stdin.isatty():
        return str(typer.prompt("Value", hide_input=True, err=True))
    value = sys.stdin.read().removesuffix("\n")
    if not value:
        raise CommandFailed("The value is empty; write it to stdin: printf %s VALUE | mainspring …", TO_BE_CHANGED)
    return value
