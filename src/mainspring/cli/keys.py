"""`mainspring keys`: creates, lists, rotates and revokes the API keys for the HTTP service."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated

import typer

from mainspring.cli.calls.api import path
from mainspring.cli.calls.operating import Call, operating
from mainspring.cli.operate.body import one_of
from mainspring.cli.operate.choices import suggesting
from mainspring.cli.support.database import on_database
from mainspring.cli.support.exit_codes import say
from mainspring.cli.support.key_files import find_key, forget_key, replace_key
from mainspring.cli.support.logs import logged
from mainspring.cli.support.service_options import Data, Uri, existing_place
from mainspring.cli.terminal.output import Columns, print_json, print_text
from mainspring.cli.terminal.times import ago, now
from mainspring.client.scheduler import Scheduler
from mainspring.durations import duration_ms
from mainspring.errors import ConfigurationError
from mainspring.model.access.api_keys import ROLES, Key
from mainspring.model.fields import Fields

keys = typer.Typer(help="API keys for the HTTP service.", no_args_is_help=True)

KeyId = Annotated[str, typer.Argument(metavar="ID", help="The key's id, as shown by `list`.")]


def _state(key: Fields) -> str:
    if key["revokedAt"] is not None:
        return "revoked"
    if key["expiresAt"] is None:
        return "in force"
    return f"{'in force until' if datetime.fromisoformat(key['expiresAt']) > now() else 'expired'} {key['expiresAt']}"


_LIST: Columns = {
    "ID": lambda one: one["id"],
    "NAME": lambda one: one["name"],
    "ROLE": lambda one: one["role"],
    "STATE": _state,
    "LAST USED": lambda one: ago(one["lastUsedAt"]) or "never",
    "REACHES": lambda one: _reach(one["scope"]),
}


@keys.command()
@operating(creates=True)
def create(
    call: Call,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name of your choice.")],
    role: Annotated[
        str | None,
        typer.Option("--role", help="viewer, operator or admin; by default admin for the first key, then operator."),
    ] = None,
    queue: Annotated[list[str] | None, typer.Option("--queue", help="Only this queue; may be repeated.")] = None,
    prefix: Annotated[
        list[str] | None, typer.Option("--prefix", help="Only job names with this prefix; may be repeated.")
    ] = None,
    expires_in: Annotated[
        str | None, typer.Option("--expires-in", help="How long the key is valid, such as 90d.")
    ] = None,
) -> None:
    """Create an API key and print it. It is not shown again."""
    asked = {
        "name": name,
        "role": one_of(role, tuple(ROLES), "--role"),
        "queues": queue or None,
        "prefixes": prefix or None,
        "expiresAt": None if expires_in is None else _instant(now() + _duration(expires_in, "--expires-in")),
    }
    made = call.api.post("/api/keys", {field: value for field, value in asked.items() if value is not None})["data"]
    call.document(made, lambda one: print_text(one["key"]))
    if not call.as_json:
        say(f"This is the {made['role']} key {made['id']}; it is not shown again.")


@keys.command("list")
@operating
def list_keys(call: Call) -> None:
    """List the API keys, without their secrets."""
    empty = "There are no API keys: mainspring keys create NAME"
    call.table(call.api.get("/api/keys")["data"], _LIST, empty, ("LAST USED",))


@keys.command()
@operating
def revoke(
    call: Call,
    key_id: KeyId,
    made: Annotated[
        bool, typer.Option("--made", help="Also revoke the keys that were created with it, directly or indirectly.")
    ] = False,
) -> None:
    """Revoke an API key at once, and end its sessions and streams."""
    before = {one["id"] for one in call.api.get("/api/keys")["data"] if one["revokedAt"] is None}
    with suggesting(key_id, lambda: sorted(before), _unknown(key_id)):
        call.api.delete(path("keys", key_id), made=made)
    revoked = [one for one in call.api.get("/api/keys")["data"] if one["revokedAt"] is not None and one["id"] in before]
    for one in revoked:
        _in_files(partial(forget_key, one["id"]))
    if call.as_json:
        print_json(revoked)
        return
    for one in revoked:
        say(f"The key {one['id']} is revoked.")
    if not revoked:
        say(f"The key {key_id} was already revoked.")


@keys.command()
@operating
def rotate(
    call: Call,
    key_id: KeyId,
    grace: Annotated[str, typer.Option("--grace", help="How long the old secret stays valid, such as 1h.")] = "0s",
) -> None:
    """Give an API key a new secret and print it. It is not shown again."""
    with suggesting(key_id, lambda: [one["id"] for one in call.api.get("/api/keys")["data"]], _unknown(key_id)):
        rotated = call.api.post(path("keys", key_id, "rotate"), {"grace": grace})["data"]
    call.document(rotated, lambda one: print_text(one["key"]))
    _in_files(partial(replace_key, rotated["key"]))
    if not call.as_json:
        say(f"The key {key_id} has a new secret; it is not shown again.")


@keys.command()
@logged
def show(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    data: Data = None,
    uri: Uri = None,
) -> None:
    """Print the API key that is stored on this machine for your user. `mainspring serve` stores the first key there."""

    async def find(scheduler: Scheduler) -> str | None:
        known: list[Key] = await scheduler.api_keys.all()
        return find_key(known, scheduler.now())

    text = on_database(existing_place(data, uri), find)
    if text is None:
        raise ConfigurationError(
            "No valid key for this database is stored on this machine for your user; create one: mainspring keys "
            "create NAME --role admin"
        )
    print_json({"key": text}) if as_json else print(text)


def _unknown(key_id: str) -> str:
    return f"There is no valid API key {key_id!r}; `mainspring keys list` shows the ids."


def _in_files(change: Callable[[], None]) -> None:
    """Update the stored keys of this user. They are a convenience: if this fails, the command goes on."""
    try:
        change()
    except (OSError, RuntimeError) as error:
        say(f"The file of the key could not be updated: {error}")


def _duration(text: str, option: str) -> timedelta:
    return timedelta(milliseconds=duration_ms(text, option, ConfigurationError))


def _instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()


def _reach(scope: Fields) -> str:
    parts = [f"queue {one}" for one in scope["queues"] or ()] + [f"{one}…" for one in scope["prefixes"] or ()]
    return ", ".join(parts) or "everything"
