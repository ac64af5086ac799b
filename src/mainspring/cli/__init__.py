"""The command line: `mainspring up`, `serve`, `worker`, and the commands that look at an installation and change it.

One file per command; those of `operate` call the HTTP API, as `docs/decisions/0050-one-api-for-commands.md` explains.

This module is the entry point and imports nothing of the extra `cli` by itself: worker processes
import it and do not need that extra, and without it the command names the package to install.
"""

from __future__ import annotations

import sys

_EXTRA = ("typer", "rich", "dotenv")


def main() -> None:
    """Run the command that the arguments name, and exit with its code."""
    try:
        from mainspring.cli.app import run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _EXTRA:
            raise
        sys.stderr.write("mainspring: The command line needs the extra 'cli'; pip install 'mainspring[cli]'\n")
        sys.exit(2)
    sys.exit(run())
