"""`mainspring mcp`: the operations server for AI clients, over the standard streams."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

from mainspring.cli.support.logs import set_up_logs
from mainspring.errors import ConfigurationError

URL, KEY = "MAINSPRING_URL", "MAINSPRING_API_KEY"
_NEARBY = "http://127.0.0.1:3000"


def mcp(
    url: Annotated[
        str | None, typer.Option("--url", help=f"The address of the service (default: {URL}, then {_NEARBY}).")
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option("--key-file", help=f"A file with the API key (default: the variable {KEY})."),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer only tools that change nothing.")] = False,
) -> None:
    """Serve the operations of a running service as tools for an AI client (Model Context Protocol).

    The client starts this command and talks to it over stdin and stdout. Every call goes through the HTTP API with your
    API key, whose role and scope apply.
    """
    try:
        from mainspring.integrations.mcp.server import serve
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("mcp", "mcp_types", "aiohttp", "yarl"):
            raise
        raise ConfigurationError("The command mcp needs the extra 'mcp'; pip install 'mainspring[mcp]'.") from None
    set_up_logs("warning")
    asyncio.run(serve(url or os.environ.get(URL) or _NEARBY, _key(key_file), changing=not read_only))


def _key(file: Path | None) -> str | None:
    """The API key. It is no option: the arguments of a process can be read by others on its machine."""
    if file is None:
        return os.environ.get(KEY, "").strip() or None
    try:
        key = file.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"The API key cannot be read from {file}: {error}.") from None
    if not key:
        raise ConfigurationError(
            f"The file {file} is empty: it must have the API key, which bounds what a client can do."
        )
    return key
