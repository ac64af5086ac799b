"""`mainspring up`: the embedded server and a worker in one command, showing live what happens."""

from __future__ import annotations

import asyncio
import logging
import shlex
import shutil
import signal
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from mainspring.cli.face import Face
from mainspring.cli.live import Live
from mainspring.cli.logs import set_up_logs
from mainspring.cli.target import load
from mainspring.cli.worker import chosen
from mainspring.config import EMBEDDED, without_password
from mainspring.errors import ConfigurationError, MainspringError
from mainspring.scheduler import Scheduler

logger = logging.getLogger("mainspring")

_SAMPLE_INTERVAL = 2.0


def up(
    target: Annotated[
        str | None,
        typer.Argument(metavar="[MODULE:SCHEDULER]", help="Your Scheduler; a demonstration when left out."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", help="Folder of the embedded MongoDB (default: .mainspring).")
    ] = None,
    uri: Annotated[str | None, typer.Option("--uri", help="A MongoDB of yours instead.")] = None,
    concurrency: Annotated[int | None, typer.Option("--concurrency", "-c", help="Jobs at once.")] = None,
    seconds: Annotated[float | None, typer.Option("--for", min=0, help="Stop by itself after so many seconds.")] = None,
) -> None:
    """Start MongoDB and a worker, and watch the jobs run. Ctrl-C stops."""
    if data is not None and uri is not None:
        raise ConfigurationError("Give --data or --uri, not both.")
    if data is not None:
        uri = f"{EMBEDDED}{data}"
    if target is None:
        from mainspring.cli import demo

        face, samples = Face(demo.scheduler), True
    else:
        face, samples = load(target), False
    face.inner.configure(uri, **chosen(concurrency=concurrency))
    set_up_logs(logging.ERROR)
    asyncio.run(_Up(face, samples).run(seconds))


class _Up:
    """One run of the command."""

    def __init__(self, face: Face, samples: bool) -> None:
        self._face = face
        self._samples = samples
        self._place = face.inner.uri or ""
        self._told = asyncio.Event()
        self._live = Live(face.inner, self._told.set)

    async def run(self, seconds: float | None) -> None:
        self._catch_signals()
        starting = asyncio.create_task(self._face.start())
        try:
            await self._or_told(starting)
            if starting.done():
                await starting
                self._show_the_way()
                await self._work(seconds)
        finally:
            starting.cancel()
            await self._face.stop(self._face.inner.settings.grace)
        self._live.say(f"Stopped: {self._live.summary()}.")

    async def _work(self, seconds: float | None) -> None:
        """Let it run until the time is over or somebody stops it."""
        scheduling = asyncio.create_task(_schedule_samples(self._face.inner)) if self._samples else None
        try:
            async with asyncio.timeout(seconds):
                await self._told.wait()
        except TimeoutError:
            pass
        finally:
            if scheduling is not None:
                scheduling.cancel()
                await asyncio.wait({scheduling})
        self._live.say("Stopping; running jobs may finish (Ctrl-C again does not wait for them).", "dim")

    async def _or_told(self, task: asyncio.Task[Any]) -> None:
        told = asyncio.create_task(self._told.wait())
        await asyncio.wait({task, told}, return_when=asyncio.FIRST_COMPLETED)
        told.cancel()

    def _catch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            try:
                loop.add_signal_handler(getattr(signal, name), self._on_signal)
            except (AttributeError, NotImplementedError):
                pass  # Windows: Ctrl-C arrives as KeyboardInterrupt

    def _on_signal(self) -> None:
        if self._told.is_set():
            self._face.hurry()
        self._told.set()

    def _show_the_way(self) -> None:
        """Where to look, how to stop, and what to try."""
        say = self._live.say
        inner = self._face.inner
        names = inner.handler_names
        say(f"Mainspring {version('mainspring')} is up.", "bold")
        say(f"  MongoDB   {without_password(inner.uri or 'a client of its own')}")
        if self._place.startswith(EMBEDDED):
            say(f"  data      {Path(self._place[len(EMBEDDED) :]).expanduser().absolute()}")
        say(f"  jobs      {'any' if names is None else ', '.join(names)}")
        say("  stop      Ctrl-C")
        if inner.uri is not None:
            say("To schedule a job, in another terminal:")
            say(f"  {self._snippet(inner.uri)}")
        say()

    def _snippet(self, uri: str) -> str:
        """A command that schedules one job."""
        settings = self._face.inner.settings
        arguments = [repr(without_password(uri))]
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
            from mainspring.cli.demo import FIRST_SAMPLE

            return FIRST_SAMPLE
        names = self._face.inner.handler_names
        return {"name": names[0] if names else "anything", "data": {}}


def _python() -> str:
    """How to call this very Python: by name, where that finds it."""
    named, this = shutil.which("python"), Path(sys.executable)
    if named is not None and Path(named).parent == this.parent and Path(named).samefile(this):
        return "python"
    return shlex.quote(sys.executable)


def _in_double_quotes(code: str) -> str:
    """Python code as one word for the shell, readable where that is possible: it quotes with single quotes itself."""
    return shlex.quote(code) if set(code) & set('"$`\\!') else f'"{code}"'


async def _schedule_samples(scheduler: Scheduler) -> None:
    """Give the demonstration something to do, now and then."""
    from mainspring.cli.demo import samples

    for sample in samples():
        try:
            await scheduler.schedule(**sample)
        except MainspringError as error:
            logger.warning("A sample job was not scheduled: %s", error)
        await asyncio.sleep(_SAMPLE_INTERVAL / 4 if sample["name"] == "send-email" else _SAMPLE_INTERVAL)
