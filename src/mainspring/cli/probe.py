"""`mainspring probe`: the health check of a container, for orchestrators that run a command.

It answers for the service or the worker on the same machine: in a container, the one beside it. A database that cannot
be reached makes neither of them dead, since a restart would not help; it makes them not ready.
"""

from __future__ import annotations

import socket
from enum import Enum
from http.client import HTTPConnection, HTTPException
from typing import Annotated

import typer

from mainspring.cli.support.builtin_jobs import read_settings
from mainspring.cli.support.database import on_database
from mainspring.cli.support.exit_codes import RUNTIME_FAILURE
from mainspring.cli.support.service_options import Data, Uri, existing_place
from mainspring.client.scheduler import Scheduler
from mainspring.errors import Unavailable
from mainspring.model.workers import WorkerStatus

_TIMEOUT = 5.0
_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


class Part(Enum):
    """The part of the product that is probed."""

    SERVE = "serve"
    WORKER = "worker"


def probe(
    part: Annotated[Part, typer.Argument(help="The command that this machine runs: serve or worker.")],
    ready: Annotated[
        bool,
        typer.Option(
            "--ready", help="Also fail while MongoDB cannot be reached; by default, fail only if the process is dead."
        ),
    ] = False,
    data: Data = None,
    uri: Uri = None,
) -> None:
    """Check the service or the worker on this machine. Exit with 0 if it is healthy, with 1 if not.

    For the service, it requests /livez (with --ready, /readyz) at MAINSPRING_PORT. For the worker, it looks for a
    recent heartbeat from this host in the database.
    """
    well, words = _probe_service(ready) if part is Part.SERVE else _probe_worker(existing_place(data, uri), ready)
    print(words)
    if not well:
        raise typer.Exit(RUNTIME_FAILURE)


def _probe_service(ready: bool) -> tuple[bool, str]:
    settings = read_settings()
    host = _EVERYWHERE.get(settings.host, settings.host)
    path = f"{settings.prefix}/{'readyz' if ready else 'livez'}"
    connection = HTTPConnection(host, settings.port, timeout=_TIMEOUT)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status == 200, f"{path} answers with {answer.status}."
    except (OSError, HTTPException) as error:
        return False, f"{path} on port {settings.port} does not answer: {error or type(error).__name__}."
    finally:
        connection.close()


def _probe_worker(uri: str | None, ready: bool) -> tuple[bool, str]:
    async def find(scheduler: Scheduler) -> list[WorkerStatus]:
        return await scheduler.workers.all()

    try:
        here = [one for one in on_database(uri, find) if one.host == socket.gethostname()]
    except Unavailable as error:
        return not ready, f"MongoDB cannot be reached, so the worker cannot be checked: {error}"
    alive = sum(one.live for one in here)
    return alive > 0, f"Worker processes of the host {socket.gethostname()} with a recent heartbeat: {alive}."
