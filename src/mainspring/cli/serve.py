"""`mainspring serve`: the HTTP service alone. Jobs are run by workers elsewhere, on the same database."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from mainspring.cli.face import Face
from mainspring.cli.logs import set_up_logs
from mainspring.cli.service import (
    Data,
    Host,
    Port,
    Uri,
    describe,
    describe_place,
    make_server,
    place,
    prepare,
    read_settings,
    title,
)
from mainspring.cli.target import load
from mainspring.scheduler import Scheduler

if TYPE_CHECKING:
    from mainspring.api.server import Server


def serve(
    target: Annotated[
        str | None,
        typer.Argument(metavar="[MODULE:SCHEDULER]", help="Your Scheduler, so that jobs are checked by its handlers."),
    ] = None,
    host: Host = None,
    port: Port = None,
    data: Data = None,
    uri: Uri = None,
) -> None:
    """Serve the HTTP API, without running jobs. Ctrl-C or SIGTERM stops."""
    chosen_place = place(data, uri)
    settings = read_settings(host=host, port=port)
    face = Face(Scheduler(chosen_place)) if target is None else load(target, idle=True)
    prepare(face, chosen_place, settings)
    set_up_logs(logging.WARNING)
    face.run_to_end(_serve(face, make_server(face, settings)))


async def _serve(face: Face, server: Server) -> None:
    told = asyncio.Event()
    given = face.inner.uri
    on_signals(told, server.hurry)
    try:
        await face.run(server.start)
        for line in (title("serves"), *describe(server), *describe_place(given, face.inner.uri), "  stop      Ctrl-C"):
            print(line, flush=True)
        await told.wait()
    finally:
        await face.run(server.stop)
        await face.stop(0)
    print("Stopped.", flush=True)


def on_signals(told: asyncio.Event, hurry: Callable[[], None]) -> None:
    """Let the first signal tell, and every further one hurry."""

    def on_signal() -> None:
        if told.is_set():
            hurry()
        told.set()

    loop = asyncio.get_running_loop()
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        try:
            loop.add_signal_handler(getattr(signal, name), on_signal)
        except (AttributeError, NotImplementedError):
            pass  # Windows: Ctrl-C arrives as KeyboardInterrupt
