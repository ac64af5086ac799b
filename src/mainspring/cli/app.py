"""The commands as one application, and their common parts: `.env`, errors as sentences, exit codes."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Annotated

import typer

from mainspring.cli.command_table import CommandTable
from mainspring.cli.support.dot_env import read_dot_env
from mainspring.cli.support.exit_codes import exit_code, report

app = typer.Typer(
    name="mainspring",
    cls=CommandTable,
    help="A distributed job scheduler for Python on MongoDB.",
    epilog="Reads the file .env in the current folder; environment variables take precedence.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from mainspring.cli.version import describe_versions

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
