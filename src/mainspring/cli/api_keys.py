"""`mainspring api-key`: the keys of the HTTP service, made and ended by whoever reaches the database."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Annotated, TypeVar

import typer

from mainspring.cli.failures import say
from mainspring.cli.printable import printable
from mainspring.cli.service import Data, Uri, place
from mainspring.model.access import Key
from mainspring.model.audit import Entry
from mainspring.model.rules.durations import duration_ms
from mainspring.scheduler import Scheduler

api_key = typer.Typer(help="API keys of the HTTP service.", no_args_is_help=True, add_completion=False)

T = TypeVar("T")
KeyId = Annotated[str, typer.Argument(metavar="ID", help="The key's id, as `list` shows it.")]


@api_key.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What you call it.")],
    role: Annotated[str, typer.Option("--role", help="viewer, operator or admin.")] = "operator",
    queue: Annotated[list[str] | None, typer.Option("--queue", help="Only this queue; may be repeated.")] = None,
    prefix: Annotated[
        list[str] | None, typer.Option("--prefix", help="Only jobs whose names begin so; may be repeated.")
    ] = None,
    expires_in: Annotated[str | None, typer.Option("--expires-in", help="How long it counts, such as 90d.")] = None,
    data: Data = None,
    uri: Uri = None,
) -> None:
    """Make an API key and print it, this once."""
    lasts = None if expires_in is None else _duration(expires_in, "--expires-in")

    async def make(scheduler: Scheduler) -> tuple[str, Key]:
        await scheduler.connect()  # its clock counts
        end = None if lasts is None else scheduler.now() + lasts
        made = await scheduler.create_api_key(
            name, role, queues=queue or None, prefixes=prefix or None, expires_at=end, actor=_actor()
        )
        await scheduler.note_change(_entry("key.create", made.key, after=_facts(made.key)))
        return made.text, made.key

    text, key = _on(place(data, uri), make)
    print(text)
    say(f"This is the {key.role} key {key.id}; it is not shown again.")


@api_key.command("list")
def list_keys(data: Data = None, uri: Uri = None) -> None:
    """List the API keys, without their secrets."""

    async def find(scheduler: Scheduler) -> tuple[list[Key], datetime]:
        return await scheduler.api_keys(), scheduler.now()

    keys, now = _on(place(data, uri), find)
    rows = [("ID", "NAME", "ROLE", "REACHES", "LAST USED", "STATE"), *(_row(key, now) for key in keys)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True)).rstrip())


@api_key.command()
def revoke(key_id: KeyId, data: Data = None, uri: Uri = None) -> None:
    """End an API key at once, and the sessions that stand for it."""

    async def end(scheduler: Scheduler) -> Key:
        key = await scheduler.revoke_api_key(key_id)
        await scheduler.note_change(_entry("key.revoke", key, after=_facts(key)))
        return key

    say(f"The key {_on(place(data, uri), end).id} is revoked.")


@api_key.command()
def rotate(
    key_id: KeyId,
    grace: Annotated[str, typer.Option("--grace", help="For how long the old secret counts too, such as 1h.")] = "0s",
    data: Data = None,
    uri: Uri = None,
) -> None:
    """Give an API key a new secret and print it, this once."""
    lasts = _duration(grace, "--grace")

    async def renew(scheduler: Scheduler) -> str:
        rotated = await scheduler.rotate_api_key(key_id, lasts)
        await scheduler.note_change(_entry("key.rotate", rotated.key, after=_facts(rotated.key)))
        return rotated.text

    print(_on(place(data, uri), renew))
    say(f"The key {key_id} has a new secret; it is not shown again.")


def _on(uri: str | None, work: Callable[[Scheduler], Awaitable[T]]) -> T:
    """Do something on a database, and let go of it."""

    async def run() -> T:
        scheduler = Scheduler(uri)
        try:
            return await work(scheduler)
        finally:
            await scheduler.stop()

    return asyncio.run(run())


def _duration(text: str, option: str) -> timedelta:
    return timedelta(milliseconds=duration_ms(text, option))


def _actor() -> str:
    """Whoever has a shell on this machine, by the name that he has here."""
    try:
        return f"cli:{getpass.getuser()}"
    except (OSError, KeyError, ImportError):
        return "cli"


def _entry(action: str, key: Key, after: dict[str, object]) -> Entry:
    return Entry(_actor(), action, key.id, after=after)


def _facts(key: Key) -> dict[str, object]:
    """A key as the audit log has it."""
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
