"""Choices of jobs and names in the commands: filters as options, and the closest name for a wrong one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from mainspring.cli.calls.api import Api
from mainspring.cli.calls.operating import MOST
from mainspring.cli.operate.body import one_of, read_pairs
from mainspring.cli.support.exit_codes import NOT_FOUND, CommandFailed, say
from mainspring.cli.terminal.times import past_instant
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import STATES
from mainspring.model.jobs.reserved_names import hint_for
from mainspring.spelling import did_you_mean

State = Annotated[str | None, typer.Option("--state", help=f"{', '.join(STATES)}.")]
Name = Annotated[str | None, typer.Option("--name", help="Only jobs with this name.")]
Queue = Annotated[str | None, typer.Option("--queue", help="Only this queue.")]
Tag = Annotated[str | None, typer.Option("--tag", help="Only with this tag.")]
Error = Annotated[str | None, typer.Option("--error", help="Only with this text in the error.")]
Since = Annotated[str | None, typer.Option("--since", help="Created since this instant, or this long ago, such as 1h.")]
Until = Annotated[str | None, typer.Option("--until", help="Created before this instant, or this long ago.")]
Where = Annotated[
    list[str] | None, typer.Option("--where", help="PATH=VALUE: only with this value in the data; may be repeated.")
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=MOST, help="The maximum number to list.")]
Reason = Annotated[str, typer.Option("--reason", help="A reason, stored with the change.")]


def job_filter(
    *,
    state: str | None = None,
    name: str | None = None,
    queue: str | None = None,
    tag: str | None = None,
    error: str | None = None,
    since: str | None = None,
    until: str | None = None,
    where: list[str] | None = None,
    **more: str | None,
) -> Fields:
    """The filter of jobs that the options give, as the body of an operation has it."""
    given: Fields = {
        "state": one_of(state, STATES, "--state"),
        "name": name,
        "queue": queue,
        "tag": tag,
        "error": error,
        "since": past_instant(since, "--since"),
        "until": past_instant(until, "--until"),
        "data": read_pairs(where, "--where") if where else None,
        **more,
    }
    return {field: value for field, value in given.items() if value is not None}


def as_query(given: Fields) -> Fields:
    """A filter of jobs as the parameters of a query."""
    data = given.pop("data", None) or {}
    return {**given, "key": [f"{path}:{value}" for path, value in data.items()] or None}


@contextmanager
def suggesting(wrong: str, known: Callable[[], list[str]], sentence: str | None = None) -> Iterator[None]:
    """Add the closest known name to the sentence that there is no such thing: that of the API, or the given one."""
    try:
        yield
    except CommandFailed as error:
        if error.code != NOT_FOUND:
            raise
        raise CommandFailed(f"{sentence or error}{did_you_mean(wrong, known())}", NOT_FOUND) from None


def hint_handler(api: Api, name: str, consequence: str) -> None:
    """Say if no live worker has a handler of this name, and what follows."""
    try:
        known = [one["name"] for one in api.get("/api/handlers")["data"]]
    except CommandFailed:
        return  # the job or schedule is stored; this was a convenience
    if name not in known and "*" not in known:
        say(f"No live worker has a handler for {name!r}: {consequence}.{hint_for(name, known)}")
