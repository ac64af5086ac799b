"""`mainspring import`: brings jobs and schedules of other schedulers over; a dry run, unless `--apply` is given."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import Annotated

import typer

from mainspring.cli.support.database import on_database
from mainspring.cli.support.exit_codes import RUNTIME_FAILURE, say
from mainspring.cli.support.logs import without_loggers
from mainspring.cli.support.service_options import Data, Uri, place
from mainspring.cli.terminal.progress import Shown
from mainspring.client.importing import FATES, SOURCES, Outcome, outcomes
from mainspring.client.scheduler import Scheduler
from mainspring.engine.handlers import UNKNOWN_HANDLERS
from mainspring.errors import ConfigurationError
from mainspring.model.importing.plan import Choices
from mainspring.model.jobs.reserved_names import RESERVED
from mainspring.model.printable import printable

_WORDS = {
    "new": "to be created",
    "created": "created",
    "exists": "there already",
    "finished": "finished there",
    "refused": "cannot be imported",
}
_HERE = ("new", "created")
_NAMED = 5


def import_jobs(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help=f"{', '.join(SOURCES)}.")],
    origin: Annotated[
        str,
        typer.Option(
            "--from", metavar="URI|FILE", help="The source: a collection, mongodb://host/db.collection, or a dump file."
        ),
    ],
    apply: Annotated[
        bool, typer.Option("--apply", help="Create the jobs and schedules; without it, only show them.")
    ] = False,
    prefix: Annotated[
        str | None, typer.Option("--prefix", help="The prefix of the new ids (default: the source).")
    ] = None,
    timezone: Annotated[
        str, typer.Option("--timezone", help="The time zone of cron expressions that name none.")
    ] = "UTC",
    rename: Annotated[
        list[str] | None,
        typer.Option("--rename", metavar="OLD=NEW", help="The handler's name for a name in the source."),
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Option("--arguments", metavar="NAME=A,B", help="The names of a task's positional arguments."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="The maximum number of lines per kind; totals count all.")
    ] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line, the sums last.")] = False,
    data: Data = None,
    uri: Uri = None,
) -> None:
    """Import jobs and schedules from another scheduler. The source is not changed; repeating an import is safe.

    Exit code 1: some could not be imported.
    """
    if source not in SOURCES:
        raise ConfigurationError(f"There is no source {source!r}; the sources are {', '.join(SOURCES)}.")
    named = {name: _names(value) for name, value in _pairs(arguments, "--arguments")}
    choices = Choices(prefix or source, timezone, dict(_pairs(rename, "--rename")), named)
    counts: Counter[str] = Counter()
    names: set[str] = set()
    waiting: list[str] = []
    shown = Shown("records", None, quiet=as_json)

    async def work(scheduler: Scheduler) -> None:
        async with aclosing(outcomes(scheduler, source, origin, choices, apply=apply, tell=shown.update)) as found:
            async for batch in found:
                shown.hide()
                for outcome in batch:
                    counts[outcome.fate] += 1
                    if outcome.fate in _HERE and not outcome.name.startswith(RESERVED):
                        names.add(outcome.name)
                    _print(outcome, counts[outcome.fate] <= limit, as_json=as_json)
        if names:
            known = {one.name for one in await scheduler.workers.handlers()}
            waiting.extend(sorted(names - known) if "*" not in known else ())

    try:
        with shown, without_loggers(UNKNOWN_HANDLERS):
            on_database(place(data, uri), work)
    except BaseException:
        if counts:  # interrupted halfway: these are done. Without any, the error alone is the news
            _sum_up(counts, apply=apply, as_json=as_json)
        raise
    _sum_up(counts, apply=apply, as_json=as_json)
    if waiting and not as_json:
        _hint_handlers(waiting)
    if counts["refused"]:
        raise typer.Exit(RUNTIME_FAILURE)


def _print(outcome: Outcome, shown: bool, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(outcome)))
    elif shown:
        what = "" if outcome.kind == "nothing" else f"{outcome.kind} "
        print(f"{_WORDS[outcome.fate]:18}  {what}{printable(outcome.name)} ({printable(outcome.source_id)}): ", end="")
        print(printable(outcome.text, keep="\n").replace("\n", f"\n{'':20}"))
        for note in outcome.notes:
            print(f"{'':20}note: {printable(note)}")


def _sum_up(counts: Counter[str], *, apply: bool, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"counts": {fate: counts[fate] for fate in FATES}, "applied": apply}))
        return
    told = [f"{counts[fate]:,} {_WORDS[fate]}" for fate in FATES if counts[fate]]
    print(f"{', '.join(told) or 'Nothing was found; check the database and the collection in --from'}.")
    if counts["new"]:
        say("Nothing has been stored. Run it again with --apply.")


def _hint_handlers(names: Sequence[str]) -> None:
    """Say which imported names no live worker has a handler for."""
    told = ", ".join(repr(name) for name in names[:_NAMED])
    more = f" and {len(names) - _NAMED:,} others" if len(names) > _NAMED else ""
    say(f"No live worker has a handler for {told}{more}: such jobs wait for one. --rename OLD=NEW gives another name.")


def _pairs(given: Sequence[str] | None, option: str) -> list[tuple[str, str]]:
    pairs = [one.partition("=") for one in given or ()]
    if wrong := [left for left, sign, right in pairs if not (left and sign and right)]:
        raise ConfigurationError(f"{option} takes NAME=VALUE, not {wrong[0]!r}.")
    return [(left, right) for left, _, right in pairs]


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]
