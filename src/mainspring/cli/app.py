"""The commands as one application, and their common parts: `.env`, errors as sentences, exit codes."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Annotated

import typer

from mainspring.cli.alerts import alerts
from mainspring.cli.audit import audit
from mainspring.cli.bench import bench
from mainspring.cli.doctor import doctor
from mainspring.cli.flows import flows
from mainspring.cli.generate_key import generate_key
from mainspring.cli.import_jobs import import_jobs
from mainspring.cli.keys import keys
from mainspring.cli.mcp import mcp
from mainspring.cli.migrate import migrate
from mainspring.cli.operate.dead import dead
from mainspring.cli.operate.jobs import jobs
from mainspring.cli.operate.operations import operations
from mainspring.cli.operate.queues import queues
from mainspring.cli.operate.schedules import schedules
from mainspring.cli.operate.secrets import secrets
from mainspring.cli.operate.status import status
from mainspring.cli.operate.top import top
from mainspring.cli.operate.workers import workers
from mainspring.cli.probe import probe
from mainspring.cli.serve import serve
from mainspring.cli.support.dot_env import read_dot_env
from mainspring.cli.support.exit_codes import exit_code, report
from mainspring.cli.support.logs import logged
from mainspring.cli.up import up
from mainspring.cli.version import describe_versions, version
from mainspring.cli.worker import worker

app = typer.Typer(
    name="mainspring",
    help="A distributed job scheduler for Python on MongoDB.",
    epilog="A file .env in the current folder is read; variables of the environment win.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(describe_versions())
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    pass


app.command()(logged(up, "error"))
app.command()(logged(serve, "warning"))
app.command()(logged(worker, "info"))
app.command()(status)
app.command()(top)
app.add_typer(jobs, name="jobs")
app.add_typer(schedules, name="schedules")
app.add_typer(queues, name="queues")
app.add_typer(dead, name="dead")
app.add_typer(flows, name="flows")
app.add_typer(operations, name="operations")
app.add_typer(workers, name="workers")
app.add_typer(alerts, name="alerts")
app.add_typer(secrets, name="secrets")
app.add_typer(keys, name="keys")
app.add_typer(audit, name="audit")
app.command()(logged(doctor))
app.command()(logged(migrate))
app.command("import")(logged(import_jobs))
app.command()(logged(bench))
app.command()(logged(mcp))
app.command()(logged(probe))
app.command("generate-key")(logged(generate_key))
app.command()(logged(version))


def run() -> int:
    """Run the command that the arguments name, and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may lack a character of a job's name
    read_dot_env(Path.cwd() / ".env")
    if not (sys.stdout.isatty() and sys.stderr.isatty()):
        app.rich_markup_mode = None  # help and errors without boxes and colours
    try:
        app()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        report(error)
        return exit_code(error)
    return 0
