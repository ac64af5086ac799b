"""`mainspring api-key`: creates and revokes the keys of the HTTP service, for an operator that reaches the database."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, cast

import typer

from mainspring.cli.support.database import actor, on_database
from mainspring.cli.support.exit_codes import say
from mainspring.cli.support.key_files import find_key, forget_key, replace_key
from mainspring.cli.support.logs import logged
from mainspring.cli.support.service_options import Data, Uri, place
from mainspring.cli.support.tables import print_table
from mainspring.client.namespaces.api_keys import FIRST_KEY
from mainspring.client.scheduler import Scheduler
from mainspring.client.service_backend import ServiceBackend
from mainspring.durations import duration_ms
from mainspring.errors import ConfigurationError
from mainspring.model.access.api_keys import ADMIN, Key, Role
from mainspring.model.access.audit import Entry
from mainspring.model.printable import printable

api_key = typer.Typer(help="API keys of the HTTP service.", no_args_is_help=True, add_completion=False)

KeyId = Annotated[str, typer.Argument(metavar="ID", help="The key's id, as `list` shows it.")]


@api_key.command()
@logged
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name of your choice.")],
    role: Annotated[
        str | None,
        typer.Option("--role", help="viewer, operator or admin; by default admin for the first key, then operator."),
    ] = None,
    queue: Annotated[list[str] | None, typer.Option("--queue", help="Only this queue; may be repeated.")] = None,
    prefix: Annotated[
        list[str] | None, typer.Option("--prefix", help="Only job names with this prefix; may be repeated.")
    ] = None,
    expires_in: Annotated[str | None, typer.Option("--expires-in", help="How long it is valid, such as 90d.")] = None,
    data: Data = None,
    uri: Uri = None,
) -> None:
    """Create an API key and print it. It is not shown again."""
    lasts = None if expires_in is None else _duration(expires_in, "--expires-in")

    async def make(scheduler: Scheduler) -> tuple[str, Key]:
        await scheduler.audit.check()
        if (role not in (None, ADMIN) or queue or prefix) and not await ServiceBackend(scheduler).any_api_key():
            raise ConfigurationError(FIRST_KEY)
        end = None if lasts is None else scheduler.now() + lasts
        made = await scheduler.api_keys.create(
            name, cast(Role | None, role), queues=queue or None, prefixes=prefix or None, expires_at=end, actor=actor()
        )
        await ServiceBackend(scheduler).note_change(_entry("key.create", made.key, after=facts(made.key)))
        return made.text, made.key

    text, key = on_database(place(data, uri), make)
    print(text)
    say(f"This is the {key.role} key {key.id}; it is not shown again.")


@api_key.command("list")
@logged
def list_keys(data: Data = None, uri: Uri = None) -> None:
    """List the API keys, without their secrets."""

    async def find(scheduler: Scheduler) -> tuple[list[Key], datetime]:
        return await scheduler.api_keys.all(), scheduler.now()

    keys, now = on_database(place(data, uri), find)
    print_table(("ID", "NAME", "ROLE", "REACHES", "LAST USED", "STATE"), (_row(key, now) for key in keys))


@api_key.command()
@logged
def revoke(
    key_id: KeyId,
    made: Annotated[bool, typer.Option("--made", help="Also the keys that were made with it, and with those.")] = False,
    data: Data = None,
    uri: Uri = None,
) -> None:
    """Revoke an API key at once, and end its sessions and streams."""

    async def end(scheduler: Scheduler) -> list[Key]:
        await scheduler.audit.check()
        keys = [await scheduler.api_keys.revoke(key_id)]
        keys += await scheduler.api_keys.revoke_made_with(key_id) if made else ()
        await ServiceBackend(scheduler).note_change(*(_entry("key.revoke", key, after=facts(key)) for key in keys))
        return keys

    for key in on_database(place(data, uri), end):
        _in_files(partial(forget_key, key.id))
        say(f"The key {key.id} is revoked.")


@api_key.command()
@logged
def rotate(
    key_id: KeyId,
    grace: Annotated[str, typer.Option("--grace", help="How long the old secret stays valid, such as 1h.")] = "0s",
    data: Data = None,
    uri: Uri = None,
) -> None:
    """Give an API key a new secret and print it. It is not shown again."""
    lasts = _duration(grace, "--grace")

    async def renew(scheduler: Scheduler) -> str:
        await scheduler.audit.check()
        rotated = await scheduler.api_keys.rotate(key_id, lasts)
        await ServiceBackend(scheduler).note_change(_entry("key.rotate", rotated.key, after=facts(rotated.key)))
        return rotated.text

    text = on_database(place(data, uri), renew)
    print(text)
    _in_files(partial(replace_key, text))
    say(f"The key {key_id} has a new secret; it is not shown again.")


@api_key.command()
@logged
def show(data: Data = None, uri: Uri = None) -> None:
    """Print the API key that is stored on this machine for you. `mainspring serve` stores the first key so."""

    async def find(scheduler: Scheduler) -> str | None:
        keys = await scheduler.api_keys.all()
        return find_key(keys, scheduler.now())

    text = on_database(place(data, uri), find)
    if text is None:
        raise ConfigurationError(
            "No key of this database that counts is stored here for this user; "
            "make one: mainspring api-key create NAME --role admin"
        )
    print(text)


def _in_files(change: Callable[[], None]) -> None:
    """Update the stored keys of this user. They are a convenience: if this fails, the command goes on."""
    try:
        change()
    except (OSError, RuntimeError) as error:
        say(f"The file of the key could not be brought up to date: {error}")


def _duration(text: str, option: str) -> timedelta:
    return timedelta(milliseconds=duration_ms(text, option, ConfigurationError))


def _entry(action: str, key: Key, after: dict[str, object]) -> Entry:
    return Entry(actor(), action, key.id, after=after)


def facts(key: Key) -> dict[str, object]:
    """The audit entry of a key."""
    facts = {one: getattr(key, one) for one in ("name", "role", "expires_at", "rotated_at", "old_until", "revoked_at")}
    facts["scope"] = key.scope.to_document()
    return {name: value for name, value in facts.items() if value is not None}


def _row(key: Key, now: datetime) -> tuple[str, ...]:
    used = "never" if key.last_used_at is None else f"{key.last_used_at:%Y-%m-%d %H:%M}Z"
    return key.id, printable(key.name), key.role, printable(_reach(key)), used, _state(key, now)


def _reach(key: Key) -> str:
    queues, prefixes = key.scope.queues, key.scope.prefixes
    parts = [f"queue {one}" for one in queues or ()] + [f"{one}…" for one in prefixes or ()]
    return ", ".join(parts) or "everything"


def _state(key: Key, now: datetime) -> str:
    if key.revoked_at is not None:
        return "revoked"
    if key.expires_at is None:
        return "in force"
    return f"{'in force until' if key.is_live(now) else 'expired'} {key.expires_at:%Y-%m-%d %H:%M}Z"
