"""`mainspring serve`: the HTTP service alone. Workers elsewhere, on the same database, run the jobs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from mainspring.cli.support.builtin_jobs import read_settings
from mainspring.cli.support.collector import spare_collector
from mainspring.cli.support.either_scheduler import Face, when_built
from mainspring.cli.support.first_key import FirstKey
from mainspring.cli.support.logs import set_up_logs
from mainspring.cli.support.service_options import (
    Data,
    Host,
    Port,
    Uri,
    describe,
    describe_place,
    make_server,
    name_database,
    place,
    prepare,
    title,
)
from mainspring.cli.support.target import load
from mainspring.cli.support.telemetry import switch_on
from mainspring.client.scheduler import Scheduler
from mainspring.model.access.audit import AUDIT_LOG

if TYPE_CHECKING:
    from mainspring.api.server import Server


def serve(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODULE:SCHEDULER]", help="Your Scheduler; its handlers validate the data of new jobs."
        ),
    ] = None,
    host: Host = None,
    port: Port = None,
    data: Data = None,
    uri: Uri = None,
    keyless: Annotated[
        bool,
        typer.Option("--open", help="Until the first API key exists, let this user on this machine in without one."),
    ] = False,
) -> None:
    """Serve the HTTP API, without running jobs. Ctrl-C or SIGTERM stops.

    Every request needs an API key, whatever the --host. If there is no key yet, the command creates the first one,
    prints it on a terminal, and stores it for this user; `mainspring keys show` prints it again.
    """
    chosen_place = place(data, uri)
    settings = read_settings(host=host, port=port)
    face = Face(Scheduler(chosen_place)) if target is None else load(target, idle=True)
    prepare(face, chosen_place, settings)
    set_up_logs("warning", informing=AUDIT_LOG)
    switch_on(face.inner)
    options = name_database(data, uri)
    face.run_to_end(_serve(face, make_server(face, settings, keyless=keyless), FirstKey(options)))


async def _serve(face: Face, server: Server, first_key: FirstKey) -> None:
    told = asyncio.Event()
    given = face.inner.uri
    on_signals(told, server.stop_now)
    try:
        await when_built(lambda: face.run(lambda: server.start(lambda: first_key.make(face.inner))))
        spare_collector()
        access = (*describe(server), *first_key.describe())
        for line in (title("serves"), *access, *describe_place(given, face.inner.uri), "  stop      Ctrl-C"):
            print(line, flush=True)
        await told.wait()
    finally:
        await face.run(server.stop)
        await face.stop(0)
    print("Stopped.", flush=True)


def on_signals(told: asyncio.Event, stop_now: Callable[[], None]) -> None:
    """Set the event at the first signal, and call `stop_now` at every further one."""

    def on_signal() -> None:
        if told.is_set():
            stop_now()
        told.set()

    loop = asyncio.get_running_loop()
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        try:
            loop.add_signal_handler(getattr(signal, name), on_signal)
        except (AttributeError, NotImplementedError):
            pass  # Windows: Ctrl-C arrives as KeyboardInterrupt
