"""`mainspring up`: MongoDB, a worker and the HTTP service in one command, which shows the events of jobs live."""

from __future__ import annotations

import asyncio
import logging
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mainspring.cli.serve import on_signals
from mainspring.cli.support.builtin_jobs import MissingExtra, open_target, read_settings
from mainspring.cli.support.collector import spare_collector
from mainspring.cli.support.either_scheduler import Face, when_built
from mainspring.cli.support.environment import is_place_named
from mainspring.cli.support.exit_codes import say
from mainspring.cli.support.live import Live
from mainspring.cli.support.logs import set_up_logs
from mainspring.cli.support.service_options import (
    Data,
    Host,
    Port,
    Uri,
    describe,
    describe_place,
    embedded_folder,
    make_server,
    place,
    prepare,
    title,
)
from mainspring.cli.support.telemetry import switch_on
from mainspring.client.scheduler import Scheduler
from mainspring.config.settings import EMBEDDED, without_password
from mainspring.engine.service import cancel_task
from mainspring.errors import MainspringError
from mainspring.model.jobs.reserved_names import RESERVED

if TYPE_CHECKING:
    from mainspring.api.server import Server
    from mainspring.api.settings import ServiceSettings

logger = logging.getLogger("mainspring")

_SAMPLE_INTERVAL = 2.0


def up(
    target: Annotated[
        str | None,
        typer.Argument(metavar="[MODULE:SCHEDULER]", help="Your Scheduler; without it, a demonstration."),
    ] = None,
    host: Host = None,
    port: Port = None,
    data: Data = None,
    uri: Uri = None,
    concurrency: Annotated[int | None, typer.Option("--concurrency", "-c", help="How many jobs run at once.")] = None,
    seconds: Annotated[float | None, typer.Option("--for", min=0, help="Stop after this many seconds.")] = None,
    api: Annotated[
        bool, typer.Option("--api/--no-api", help="Whether to serve the HTTP API in addition to the worker.")
    ] = True,
) -> None:
    """Start MongoDB, a worker and the HTTP API, and watch the jobs run. Ctrl-C stops.

    Without your own Scheduler it runs webhooks and email. If neither an option nor the environment names a database, it
    also runs demonstration jobs on the embedded MongoDB.
    """
    named = place(data, uri)
    settings = _settings(host, port) if api else None
    playing = plays(target, named)
    face = _face(target, playing)
    prepare(face, named, settings, concurrency)
    set_up_logs("error")
    switch_on(face.inner)
    server = None if settings is None else make_server(face, settings, keyless=True)
    face.run_to_end(_Up(face, server, playing).run(seconds))


def plays(target: str | None, named: str | None) -> bool:
    """Whether the demonstration is run: only on the embedded server that the command chooses by itself, never in a
    database that the user named."""
    return target is None and named is None and not is_place_named()


def _settings(host: str | None, port: int | None) -> ServiceSettings | None:
    """The settings of the service, or None without its extra: then the worker runs alone. An error if the options ask
    for the service."""
    try:
        return read_settings(host=host, port=port)
    except MissingExtra as missing:
        if host is not None or port is not None:
            raise
        say(str(missing))
        return None


def _face(target: str | None, playing: bool) -> Face:
    if not playing:
        return open_target(target)
    from mainspring.cli.demo.handlers import scheduler

    return Face(scheduler)


class _Up:
    """One run of the command."""

    def __init__(self, face: Face, server: Server | None, samples: bool) -> None:
        self._face = face
        self._server = server
        self._samples = samples
        self._place = face.inner.uri
        self._told = asyncio.Event()
        self._live = Live(face.inner, self._told.set)

    async def run(self, seconds: float | None) -> None:
        on_signals(self._told, self._hurry)
        starting = asyncio.create_task(self._start())
        try:
            await self._or_told(starting)
            if starting.done():
                await starting
                spare_collector()
                self._show_the_way()
                await self._work(seconds)
        finally:
            starting.cancel()
            await self._stop()
        self._live.say(f"Stopped: {self._live.summary()}.")

    async def _work(self, seconds: float | None) -> None:
        """Run until the time is over or a signal stops it."""
        scheduling = asyncio.create_task(_schedule_samples(self._face.inner)) if self._samples else None
        try:
            async with asyncio.timeout(seconds):
                await self._told.wait()
        except TimeoutError:
            pass
        finally:
            if scheduling is not None:
                await cancel_task(scheduling)
        self._live.say("Stopping; waiting for running jobs (press Ctrl-C again to stop at once).", "dim")

    async def _or_told(self, task: asyncio.Task[Any]) -> None:
        told = asyncio.create_task(self._told.wait())
        await asyncio.wait({task, told}, return_when=asyncio.FIRST_COMPLETED)
        told.cancel()

    async def _start(self) -> None:
        if self._server is not None:
            start = self._server.start
            await when_built(lambda: self._face.run(start))
        if self._samples:
            await self._seed()
        await when_built(self._face.start)

    async def _seed(self) -> None:
        """Store the demonstration's day, in a database that is empty."""
        from mainspring.cli.demo.day import seed_day

        try:
            with self._live.muted():
                await seed_day(self._face.inner)
        except MainspringError as error:
            logger.warning("The demonstration data was not stored: %s", error)

    async def _stop(self) -> None:
        """Stop the service first: its requests need the connection."""
        if self._server is not None:
            await self._face.run(self._server.stop)
        await self._face.stop(self._face.inner.settings.grace)

    def _hurry(self) -> None:
        if self._server is not None:
            self._server.stop_now()
        self._face.stop_now()

    def _show_the_way(self) -> None:
        """Show the addresses, how to stop, and a command to try."""
        say = self._live.say
        inner = self._face.inner
        names = inner.workers.handler_names
        say(title("is up"), "bold")
        for line in (
            *([] if self._server is None else describe(self._server)),
            *describe_place(self._place, inner.uri),
        ):
            say(line)
        say(f"  jobs      {'any' if names is None else ', '.join(names)}")
        say("  stop      Ctrl-C")
        if inner.uri is not None:
            say("To schedule a job, in another terminal:")
            say(f"  {self._request() or self._snippet(inner.uri)}")
        say()

    def _request(self) -> str | None:
        """A command that creates a job over HTTP, if there are only the built-in handlers."""
        if self._server is None or self._own_names() != []:
            return None
        body = '{"endpoint": "https://example.com/hook", "body": {"hello": "world"}}'
        return f"curl {self._server.url}/api/jobs -H 'Content-Type: application/json' -d '{body}'"

    def _own_names(self) -> list[str] | None:
        """The names of the user's jobs; None means any."""
        names = self._face.inner.workers.handler_names
        return None if names is None else [name for name in names if not name.startswith(RESERVED)]

    def _snippet(self, uri: str) -> str:
        """A command that schedules one job."""
        settings = self._face.inner.settings
        # A process that joins the embedded server reads the password from its folder by itself.
        folder = embedded_folder(self._place)
        arguments = [repr(without_password(uri) if folder is None else f"{EMBEDDED}{folder}")]
        arguments += [f"database={settings.database!r}"] if settings.database is not None else []
        arguments += [f"collection={settings.collection!r}"] if settings.collection != "jobs" else []
        sample = self._sample()
        code = (
            f"from mainspring.sync import Scheduler; s = Scheduler({', '.join(arguments)}); "
            f"print(s.schedule({sample['name']!r}, {sample['data']!r}).id); s.stop()"
        )
        return f"{_python()} -c {_in_double_quotes(code)}"

    def _sample(self) -> Mapping[str, Any]:
        if self._samples:
            from mainspring.cli.demo.samples import FIRST_SAMPLE

            return FIRST_SAMPLE
        names = self._own_names()
        return {"name": names[0] if names else "anything", "data": {}}


def _python() -> str:
    """The command of this Python: `python` if the shell finds it so."""
    named, this = shutil.which("python"), Path(sys.executable)
    if named is not None and Path(named).parent == this.parent and Path(named).samefile(this):
        return "python"
    return shlex.quote(sys.executable)


def _in_double_quotes(code: str) -> str:
    """Python code as one word for the shell, in double quotes if possible, since the code itself has single quotes."""
    return shlex.quote(code) if set(code) & set('"$`\\!') else f'"{code}"'


async def _schedule_samples(scheduler: Scheduler) -> None:
    """Schedule jobs for the demonstration, now and then."""
    from mainspring.cli.demo.samples import samples

    for sample in samples():
        try:
            await scheduler.schedule(**sample)
        except MainspringError as error:
            logger.warning("A sample job was not scheduled: %s", error)
        await asyncio.sleep(_SAMPLE_INTERVAL / 4 if sample["name"] == "send-email" else _SAMPLE_INTERVAL)
