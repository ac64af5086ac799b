"""What `serve`, `up` and `api-key` share: which database, which settings, and the HTTP service, if it is installed."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mainspring.cli.face import Face
from mainspring.cli.worker import chosen
from mainspring.config import EMBEDDED, URI_VARIABLES, without_password
from mainspring.errors import ConfigurationError
from mainspring.model.reserved import HTTP

if TYPE_CHECKING:
    from mainspring.api.server import Server
    from mainspring.api.settings import ServiceSettings

_EXTRA = ("fastapi", "starlette", "uvicorn", "pydantic_settings", "sse_starlette", "aiohttp", "aiosmtplib")
_OPEN = "anybody on this machine, until there is a key: mainspring api-key create NAME --role admin"

Host = Annotated[str | None, typer.Option("--host", help="The address to answer at (default: 127.0.0.1).")]
Port = Annotated[int | None, typer.Option("--port", help="The port (default: 3000); 0 takes any that is free.")]
Data = Annotated[Path | None, typer.Option("--data", help="Folder of the embedded MongoDB (default: .mainspring).")]
Uri = Annotated[str | None, typer.Option("--uri", help="A MongoDB of yours instead.")]


class MissingExtra(ConfigurationError):
    """The HTTP service is not installed."""


def place(data: Path | None, uri: str | None) -> str | None:
    """The database that the options name."""
    if data is not None and uri is not None:
        raise ConfigurationError("Give --data or --uri, not both.")
    return uri if data is None else f"{EMBEDDED}{data}"


def is_place_in_environment() -> bool:
    """Whether the environment, or `.env`, names a database."""
    return any(os.environ.get(name) for name in URI_VARIABLES)


def read_settings(**given: Any) -> ServiceSettings:
    """The settings of the service, with these options on top."""
    try:
        from mainspring.api.settings import service_settings
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    return service_settings(**given)


def make_server(face: Face, settings: ServiceSettings) -> Server:
    """The server over a scheduler."""
    try:
        from mainspring.api.server import Server
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    return Server(face.inner, settings)


def prepare(face: Face, uri: str | None, settings: ServiceSettings, concurrency: int | None = None) -> None:
    """Give a scheduler what the options and the environment say, and the handlers of webhooks and email."""
    try:
        from mainspring.builtin import add_builtin_handlers
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    poll = None if settings.poll_interval_ms is None else settings.poll_interval_ms / 1000
    at_once = settings.concurrency if concurrency is None else concurrency
    face.inner.configure(uri, **chosen(concurrency=at_once, poll_interval=poll))
    if HTTP not in (face.inner.handler_names or ()):
        add_builtin_handlers(face.inner, settings)


def describe(server: Server) -> list[str]:
    """Where to look."""
    return [
        f"  API       {server.url}",
        f"  docs      {server.url}/docs",
        f"  access    {'with an API key' if server.keyed else _OPEN}",
    ]


def describe_place(given: str | None, uri: str | None) -> list[str]:
    """Where the data is."""
    lines = [f"  MongoDB   {without_password(uri or 'a client of its own')}"]
    if given is not None and given.startswith(EMBEDDED):
        lines.append(f"  data      {Path(given[len(EMBEDDED) :]).expanduser().absolute()}")
    return lines


def title(what: str) -> str:
    """The first line of a command's output."""
    return f"Mainspring {version('mainspring')} {what}."


def _missing(error: ModuleNotFoundError) -> Exception:
    if error.name is None or error.name.partition(".")[0] not in _EXTRA:
        return error
    return MissingExtra("The HTTP service needs the extra 'api'; pip install \"mainspring[api]\"")
