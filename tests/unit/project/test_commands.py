"""Every command in the documentation is run by a test, or is here with the reason why not.

| command | test |
|---|---|
| in a block with a mark such as `<!-- run -->` | the acceptance tests of the README and the tutorials run it |
| `curl` | tests/api/contract/test_written_calls.py sends it to a service |
| `mainspring` | here: the parser of the command line accepts it. tests/acceptance runs the commands themselves |
| `make` | here: there is such a target |
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main

from harness.pages import ROOT, Block, blocks, commands, pages
from mainspring.cli.app import app

PAGES = [*pages(), ROOT / "examples" / "README.md"]
COMMANDS: Any = typer.main.get_command(app)
SHELL = ("sh", "bash", "shell", "console")
NOT_RUN = {
    r"pip install|pipx |uv ": "fetches packages; tests run in an environment that has them",
    r"export [A-Z_]+=|[A-Z_]+=\S+$": "a setting for the commands after it",
    r"(mongod|mongosh|mongodump|mongorestore)\b": "MongoDB's own programs, which the wheel does not bring",
    r"\$\(python -c 'from mainspring\.mongod|python -c 'from pymongo": "the same, with the server of an extra",
    r"(docker|docker-compose|podman|kubectl|helm|kind|minikube)\b": "needs a container runtime or a cluster",
    r"(systemctl|journalctl|apt|apt-get|brew)\b": "needs the rights and the services of a machine",
    r"(git|cd|cp|cat|mkdir|echo|python -m venv|source|\.)\s": "the reader's own files",
    r"python examples/\w+\.py": "tests/acceptance/test_examples.py and others run the examples",
    r"sh examples/\w+\.sh": "tests/acceptance/test_more_examples.py runs it",
    r"(pytest|uvicorn|gunicorn|celery|python manage\.py|npm|promtool|openssl)\b": "a program of the reader's project",
    r"openapi-python-client\b": "a generator of the reader's project",
}


def written() -> list[tuple[Path, Block, str]]:
    """Every command of every block for the shell."""
    return [
        (page, block, command)
        for page in PAGES
        for block in blocks(page)
        if block.language in SHELL
        for command in commands(block)
    ]


def name(page: Path, command: str) -> str:
    return f"{page.relative_to(ROOT)}: {command}"


def words(command: str) -> list[str]:
    """The words of a command, without the variables that are set before it."""
    found = shlex.split(command, comments=True)
    while found and re.match(r"[A-Z_]+=", found[0]):
        found.pop(0)
    return found


def is_covered(block: Block, command: str) -> bool:
    program = (words(command) or [""])[0]
    return (
        bool(block.mark) or program in ("curl", "mainspring", "make") or any(re.match(one, command) for one in NOT_RUN)
    )


def test_every_command_is_run_or_has_a_reason_why_not() -> None:
    assert [name(page, command) for page, block, command in written() if not is_covered(block, command)] == []


def test_every_make_in_the_documentation_has_a_target() -> None:
    targets = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.M)
    made = [(page, words(command)[1:]) for page, _, command in written() if words(command)[:1] == ["make"]]
    assert len(made) > 3
    assert [name(page, "make " + rest[0]) for page, rest in made if rest and rest[0] not in targets] == []


def parsed(command: str) -> str | None:
    """What the parser of the command line has against a command; None if it accepts it."""
    group = COMMANDS
    rest = words(re.sub(r"[|>;&].*$", "", command))[1:]
    context = group.context_class(group, info_name="mainspring")
    while rest and hasattr(group, "commands") and not rest[0].startswith("-"):
        if rest[0] not in group.commands:
            return f"no command {rest[0]}"
        group, rest = group.commands[rest[0]], rest[1:]
        context = group.context_class(group, info_name=group.name, parent=context)
    return refusal(group, context, rest)


def refusal(command: Any, context: Any, rest: list[str]) -> str | None:
    """Missing or unknown options and arguments. Values are not converted: they may name files of the reader's."""
    try:
        values, left, _ = command.make_parser(context).parse_args(args=list(rest))
    except Exception as error:  # typer has its own copies of click's classes
        return str(error)
    missing = [one.name for one in command.params if one.required and not is_given(values.get(one.name))]
    return f"left over {left}, missing {missing}" if left or missing else None


def is_given(value: Any) -> bool:
    return isinstance(value, str | list | tuple) and len(value) > 0


def test_the_command_line_accepts_every_command_of_the_documentation() -> None:
    ours = [(page, command) for page, _, command in written() if words(command)[:1] == ["mainspring"]]
    assert len(ours) > 20
    found = {name(page, command): parsed(command) for page, command in ours}
    assert {command: refused for command, refused in found.items() if refused} == {}


@pytest.mark.parametrize(
    "command",
    ["mainspring nonsense", "mainspring worker --proceses 2", "mainspring api-key create", "mainspring up a b"],
)
def test_a_command_that_does_not_exist_is_found(command: str) -> None:
    assert parsed(command)
