"""Writes the reference of the commands, docs/reference/cli.md: `python -m mainspring.cli.generate_reference PAGE`. A
test compares the page with the code."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from mainspring.cli.app import app
from mainspring.cli.support.exit_codes import EXIT_CODES

_HEAD = """# The commands

Made from the code by `python -m mainspring.cli.generate_reference`. `mainspring COMMAND --help` prints the same.
[The how-to](../howto/command-line.md) begins with examples.
"""
_COMMON = ("url", "key", "uri", "as_json", "log_level", "log_format")
"""The parameters that many commands have; the page explains them once."""
_ABOUT_COMMON = """## Options of many commands

| option | meaning |
|---|---|
| `--url`, `--key` | call a service with an API key; by default `MAINSPRING_URL` and `MAINSPRING_API_KEY` |
| `--uri` | work on a MongoDB; by default `MAINSPRING_URI`, `MONGODB_URI` or `MONGO_URI` |
| `--folder` | work on the embedded MongoDB in this folder; by default `.mainspring` |
| `--json` | print one JSON document; continuous commands, such as `jobs tail`, print one line per object |
| `--log-level`, `--log-format` | what is logged to stderr: debug to critical, as text or json |
| `--install-completion`, `--show-completion` | only for `mainspring` itself: install or print the shell completion |

`--data` is another name for `--folder`, except in commands where it is the data of a job.
"""


def page() -> str:
    """The page of all commands."""
    root = typer.main.get_command(app)
    codes = [f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items()]
    parts = [_HEAD, "## Exit codes\n", "| code | meaning |", "|---|---|", *codes, "", _ABOUT_COMMON]
    for name, command in getattr(root, "commands", {}).items():
        parts += _sections(f"mainspring {name}", command)
    return "\n".join(parts).rstrip() + "\n"


def _sections(name: str, command: Any) -> Iterator[str]:
    """The sections of a command, or of a group and its commands."""
    if not getattr(command, "commands", None):
        yield from _section(name, command, "##" if name.count(" ") == 1 else "###")
        return
    yield f"## {name}\n\n{_text(command.help)}\n"
    for verb, one in command.commands.items():
        yield from _section(f"{name} {verb}", one, "###")


def _section(name: str, command: Any, mark: str) -> Iterator[str]:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and not _is_common(one)]
    words = " ".join([name, *map(_metavar, arguments)])
    yield f"{mark} {name}\n\n`{words}`\n\n{_text(command.help)} {_place(command)}".rstrip() + "\n"
    rows = [*((_metavar(one), one) for one in arguments), *((_names(one), one) for one in options)]
    if rows:
        yield "| option | meaning |\n|---|---|"
        for told, one in rows:
            yield f"| `{told}`{'*' if one.required else ''} | {_text(one.help)} |"
        yield ""


def _is_common(option: Any) -> bool:
    return option.name in _COMMON or "--folder" in option.opts or option.name == "help"


def _place(command: Any) -> str:
    """What a command works on."""
    names = {name for one in command.params for name in one.opts}
    if "--url" in names:
        return "On a service or a database."
    return "On a database." if "--uri" in names else ""


def _metavar(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _names(option: Any) -> str:
    return "`, `".join([*option.opts, *option.secondary_opts])


def _text(help: str | None) -> str:
    return re.sub(r"\s+", " ", (help or "").split("\f")[0]).strip().replace("|", "\\|")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), "utf-8")
