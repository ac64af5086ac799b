"""The decorator of the commands that call the HTTP API: it adds their common options, and opens the door."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import cached_property, wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from mainspring.cli.calls.api import Api
from mainspring.cli.calls.door import Door
from mainspring.cli.calls.place import KEY_VARIABLE, URL_VARIABLE, Place
from mainspring.cli.support.exit_codes import say
from mainspring.cli.support.logs import logged, set_up_logs
from mainspring.cli.terminal.output import Columns, print_items, print_json

_PANEL = "Service or database"
MOST = 10_000
"""The most items of a list that a command prints: the highest --limit."""


class Call:
    """One call of a command: the API, and how to print. The door is opened at the first use of the API, so that wrong
    arguments are refused before."""

    def __init__(
        self, door: Callable[[], Door], options: Collection[str], named: Mapping[str, str] | None, as_json: bool
    ) -> None:
        self._door = door
        self._options = options
        self._named = named
        self._opened = ExitStack()
        self.as_json = as_json

    @cached_property
    def api(self) -> Api:
        """The HTTP API of the service or the database."""
        return Api(self._opened.enter_context(self._door()), self._options, self._named)

    def close(self) -> None:
        """Close the door, if it was opened."""
        self._opened.close()

    def table(self, items: list[Any], columns: Columns, empty: str, spare: Sequence[str] = ()) -> None:
        """Print a list: a table, at a narrow terminal without its spare columns, or a JSON array."""
        if self.as_json:
            print_json(items)
        else:
            print_items(items, columns, empty, spare)

    def first(self, items: list[Any], limit: int, columns: Columns, empty: str, spare: Sequence[str] = ()) -> None:
        """Print the first items of a list that may be longer than the option --limit of the command."""
        self.table(items, columns, empty, spare)
        if len(items) == limit < MOST and not self.as_json:
            say(f"There may be more; use --limit {min(10 * limit, MOST)} to see them.")

    def document(self, value: Any, show: Callable[[Any], None]) -> None:
        """Print one thing, or its JSON."""
        if self.as_json:
            print_json(value)
        else:
            show(value)

    def done(self, value: Any, sentence: str) -> None:
        """Print what a change has made of a thing: its JSON, or a sentence."""
        if self.as_json:
            print_json(value)
        else:
            say(sentence)


def operating(
    command: Callable[..., None] | None = None, *, creates: bool = False, named: Mapping[str, str] | None = None
) -> Callable[..., Any]:
    """Make a command of a function that takes a Call. With `creates`, it may start a new embedded database. `named` are
    the options whose fields in the API have other names."""
    if command is None:
        return lambda function: operating(function, creates=creates, named=named)
    fields: Mapping[str, str] | None = named or getattr(command, "field_options", None)

    @wraps(command)
    def run(
        *,
        as_json: bool = False,
        url: str | None = None,
        key: str | None = None,
        uri: str | None = None,
        folder: Path | None = None,
        **given: Any,
    ) -> None:
        set_up_logs("warning")
        place = Place(url, key, uri, folder)
        with closing(Call(lambda: place.door(creates=creates), options, fields, as_json)) as call:
            command(call, **given)

    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    options = {name for one in own for name in _names(one)}
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [*own, *(_keyword(name, kind, default) for name, (kind, default) in _options(own).items())]
    )
    return logged(run)


def _options(own: list[inspect.Parameter]) -> dict[str, tuple[Any, Any]]:
    """The common options, beside those of the command."""
    taken = {name for one in own for name in _names(one)}
    folder = [name for name in ("--folder", "--data") if name not in taken]
    return {
        "as_json": (Annotated[bool, typer.Option("--json", help="Print JSON.")], False),
        "url": (_option("--url", help=f"The URL of a service ({URL_VARIABLE})."), None),
        "key": (_option("--key", help=f"The API key for the service ({KEY_VARIABLE})."), None),
        "uri": (_option("--uri", help="The URI of a MongoDB, instead of a service (MAINSPRING_URI)."), None),
        "folder": (
            Annotated[
                Path | None,
                typer.Option(
                    *folder, rich_help_panel=_PANEL, help="The folder of an embedded MongoDB, instead of a service."
                ),
            ],
            None,
        ),
    }


def _option(name: str, help: str) -> Any:
    return Annotated[str | None, typer.Option(name, rich_help_panel=_PANEL, help=help)]


def _names(parameter: inspect.Parameter) -> list[str]:
    """The names of a parameter's option. Typer has the first of them as the default of the option."""
    found = getattr(parameter.annotation, "__metadata__", ())
    names = [name for one in found for name in (one.default, *(one.param_decls or ()))]
    return [name for name in names if isinstance(name, str) and name.startswith("--")]


def _keyword(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
