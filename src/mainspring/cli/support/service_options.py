"""The shared options of the commands: the database, the settings, and the HTTP service, if it is installed."""

from __future__ import annotations

import shlex
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mainspring.cli.calls.place import existing
from mainspring.cli.support.builtin_jobs import add_builtins, missing
from mainspring.cli.support.either_scheduler import Face
from mainspring.cli.support.environment import worker_settings
from mainspring.config.settings import EMBEDDED, choose_uri, without_password
from mainspring.errors import ConfigurationError
from mainspring.model.fields import Fields

if TYPE_CHECKING:
    from mainspring.api.server import Server
    from mainspring.api.settings import ServiceSettings

_KEYLESS = "without a key, only for this user on this machine, until the first key: mainspring keys create NAME"
_KEYED = "with an API key"

Host = Annotated[str | None, typer.Option("--host", help="The address to listen on (default: 127.0.0.1).")]
Port = Annotated[
    int | None, typer.Option("--port", help="The port to listen on (default: 3000); 0 chooses a free port.")
]
Data = Annotated[
    Path | None, typer.Option("--folder", "--data", help="Folder of the embedded MongoDB (default: .mainspring).")
]
Uri = Annotated[str | None, typer.Option("--uri", help="The URI of your own MongoDB, instead of the embedded one.")]


def place(data: Path | None, uri: str | None) -> str | None:
    """The database that the options name."""
    if data is not None and uri is not None:
        raise ConfigurationError("Give --folder or --uri, not both.")
    return uri if data is None else f"{EMBEDDED}{data}"


def existing_place(data: Path | None, uri: str | None) -> str:
    """The database that the options or the environment name, for a command that creates none."""
    return existing(choose_uri(place(data, uri)))


def name_database(data: Path | None, uri: str | None) -> str:
    """The options by which another command reaches the same database, for a line that is to be copied. A password is
    left out: MAINSPRING_URI is the place for it."""
    if data is not None:
        return f" --folder {shlex.quote(str(data))}"
    if uri is None or without_password(uri) != uri:
        return ""
    return f" --uri {shlex.quote(uri)}"


def make_server(face: Face, settings: ServiceSettings, *, keyless: bool) -> Server:
    """The server of a scheduler; with `keyless`, this user on this machine needs no key while there is none."""
    try:
        from mainspring.api.server import Server
    except ModuleNotFoundError as error:
        raise missing(error) from None
    return Server(face.inner, settings, keyless=keyless)


def prepare(face: Face, uri: str | None, settings: ServiceSettings | None, concurrency: int | None = None) -> None:
    """Configure a scheduler from the options and the environment; with settings of the service, add the handlers of
    webhooks and email."""
    face.inner.configure(uri, **{**worker_settings(), **chosen(concurrency=concurrency)})
    if settings is not None:
        add_builtins(face, settings)


def describe(server: Server) -> list[str]:
    """Lines with the addresses of the service, and whether it needs an API key."""
    return [
        f"  dashboard {server.url}/",
        f"  API       {server.url}",
        f"  docs      {server.url}/docs",
        f"  access    {_KEYED if server.keyed else _KEYLESS}",
    ]


def describe_place(given: str | None, uri: str | None) -> list[str]:
    """Lines with the address of the database, and the folder of an embedded one."""
    lines = [f"  MongoDB   {without_password(uri or 'a client of its own')}"]
    folder = embedded_folder(given)
    if folder is not None:
        lines.append(f"  data      {folder} (the file uri in it has the password)")
    return lines


def embedded_folder(given: str | None) -> Path | None:
    """The folder of the embedded server that a URI names, if it does."""
    if given is None or not given.startswith(EMBEDDED):
        return None
    return Path(given[len(EMBEDDED) :]).expanduser().absolute()


def title(what: str) -> str:
    """The first line of a command's output."""
    return f"Mainspring {version('mainspring')} {what}."


def chosen(**options: Any) -> Fields:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}
