"""The commands by their names. A command's module is imported when the command is called: otherwise `mainspring
version` would wait for the imports of all others. The list that `mainspring --help` prints needs none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command_from_info, get_group_from_info
from typer.models import CommandInfo, TyperInfo

from mainspring.cli.support.logs import logged
from mainspring.model.fields import Fields


class ListedCommands(TyperGroup):
    """A group whose help has the whole first sentence of each command; click cuts it off at the end of the line. At a
    terminal it has the first paragraph, without the line breaks of the docstring."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for name in self.list_commands(ctx):
            if command := self.get_command(ctx, name):
                command.short_help = _first_paragraph(command)
        super().format_help(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, _first_sentence(self.get_command(ctx, name))) for name in self.list_commands(ctx)]
            )


def _first_sentence(command: Any) -> str:
    return _first_paragraph(command).partition(". ")[0].rstrip(".") + "."


def _first_paragraph(command: Any) -> str:
    return " ".join((command.help or "").split("\n\n")[0].split())


@dataclass(frozen=True, slots=True)
class Entry:
    """A command or a group of commands: its place, its first help line, and the default log level of a command."""

    module: str
    attribute: str
    about: str
    level: str | None = None

    def load(self, name: str, markup: Any) -> Any:
        """Import it, and make it a command for the terminal."""
        found = getattr(import_module(f"mainspring.cli.{self.module}"), self.attribute)
        if isinstance(found, typer.Typer):
            return get_group_from_info(
                TyperInfo(found, name=name, cls=ListedCommands),
                pretty_exceptions_short=True,
                suggest_commands=True,
                rich_markup_mode=markup,
            )
        called = found if self.level is None else logged(found, self.level)
        return get_command_from_info(
            CommandInfo(name=name, callback=called), pretty_exceptions_short=True, rich_markup_mode=markup
        )


COMMANDS = {
    "up": Entry("up", "up", "Start MongoDB, a worker and the HTTP API, and watch the jobs run. Ctrl-C stops.", "error"),
    "serve": Entry("serve", "serve", "Serve the HTTP API, without running jobs. Ctrl-C or SIGTERM stops.", "warning"),
    "worker": Entry("worker", "worker", "Run jobs in worker processes, and replace processes that die.", "info"),
    "status": Entry(
        "operate.status",
        "status",
        "Show whether jobs are running, and any problems. Exit with 1 if the installation is unhealthy.",
    ),
    "top": Entry(
        "operate.top",
        "top",
        "Watch problems, queues and running jobs in the terminal; in a pipe, print them once. Ctrl-C stops.",
    ),
    "doctor": Entry(
        "doctor",
        "doctor",
        "Check the server, the indexes, the workers, the jobs and the schedules, and say what to do about each "
        "finding.",
        "warning",
    ),
    "migrate": Entry(
        "migrate",
        "migrate",
        "Upgrade the database to the current schema version while workers run. You can interrupt it and run it again.",
        "warning",
    ),
    "import": Entry(
        "import_jobs",
        "import_jobs",
        "Import jobs and schedules from another scheduler. The source is not changed; repeating an import is safe.",
        "warning",
    ),
    "bench": Entry(
        "bench",
        "bench",
        "Measure enqueue, drain and latency against raw inserts, in a database that is dropped at the end.",
        "warning",
    ),
    "mcp": Entry(
        "mcp",
        "mcp",
        "Serve the operations of a running service as tools for an AI client (Model Context Protocol).",
        "warning",
    ),
    "probe": Entry(
        "probe",
        "probe",
        "Check the service or the worker on this machine. Exit with 0 if it is healthy, with 1 if not.",
        "warning",
    ),
    "generate-key": Entry(
        "generate_key",
        "generate_key",
        "Print a new key with its id, for MAINSPRING_KEYS or the file of MAINSPRING_KEYS_FILE, or for the audit log:\n"
        "MAINSPRING_AUDIT_KEYS or the file of MAINSPRING_AUDIT_KEYS_FILE.",
        "warning",
    ),
    "version": Entry("version", "version", "Print the version.", "warning"),
    "jobs": Entry("operate.jobs", "jobs", "Jobs."),
    "schedules": Entry("operate.schedules", "schedules", "Schedules: rules that make jobs repeatedly."),
    "queues": Entry("operate.queues", "queues", "Queues."),
    "dead": Entry("operate.dead", "dead", "Dead letters: jobs whose last attempt failed."),
    "flows": Entry("flows", "flows", "Flows: jobs that wait for other jobs."),
    "operations": Entry("operate.operations", "operations", "Operations: one verb applied to many jobs."),
    "workers": Entry("operate.workers", "workers", "Worker processes."),
    "alerts": Entry(
        "operate.alerts",
        "alerts",
        "Alert rules: messages about dead letters, missed firings, late queues, missing workers and open breakers.",
    ),
    "secrets": Entry("operate.secrets", "secrets", "Secrets for webhooks and handlers."),
    "keys": Entry("keys", "keys", "API keys for the HTTP service."),
    "audit": Entry("audit", "audit", "The audit log."),
}
"""All commands, in the order of the help text."""


class _Loaded(MutableMapping[str, Any]):
    """The commands, each imported when it is read."""

    def __init__(self, markup: Any) -> None:
        self._markup = markup
        self._found: Fields = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._found:
            self._found[name] = COMMANDS[name].load(name, self._markup)
        return self._found[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._found[name] = command

    def __delitem__(self, name: str) -> None:
        del self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class CommandTable(ListedCommands):
    """The group of all commands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = _Loaded(self.rich_markup_mode)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command for lists of commands, with its help text alone: the help and the completion read nothing else."""
        entry = COMMANDS.get(cmd_name)
        return entry and TyperCommand(
            name=cmd_name, help=" ".join(entry.about.split()), rich_markup_mode=self.rich_markup_mode
        )

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the arguments name, imported."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and self.commands[name or ""], rest
