"""`mainspring version`: the versions of Mainspring, Python and pymongo."""

from __future__ import annotations

import platform
from importlib.metadata import version as version_of
from typing import Annotated

import typer

from mainspring.cli.terminal.output import print_json


def describe_versions() -> str:
    """One line with all versions, for bug reports."""
    return (
        f"mainspring {version_of('mainspring')} "
        f"(Python {platform.python_version()}, pymongo {version_of('pymongo')}, {platform.system()})"
    )


def version(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Print the version."""
    if not as_json:
        print(describe_versions())
        return
    parts = {"mainspring": version_of("mainspring"), "pymongo": version_of("pymongo")}
    print_json({**parts, "python": platform.python_version(), "system": platform.system()})
