"""Network namespaces: a program, or a command, that runs in a network of its own, from which nothing leads out.

The kernel removes them when the processes in them have ended, however they have ended.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence

TOOLS = {"unshare": "util-linux", "ip": "iproute2"}
"""The programs that are needed, and the Debian packages that have them."""


def unshare(ready: str) -> list[str]:
    """What to put before a command, so that it runs in a network of its own, made ready by these shell commands."""
    root = [] if os.getuid() == 0 else ["--map-root-user"]
    return ["unshare", "--net", *root, "sh", "-c", f'{ready} && exec "$@"', "sh"]


def why_not(ready: str, tools: Mapping[str, str] = TOOLS) -> str | None:
    """Why there can be no such network on this machine; None where there can be."""
    missing = [f"{tool} (package {package})" for tool, package in tools.items() if shutil.which(tool) is None]
    if missing:
        return f"{', '.join(missing)} is missing"
    tried = subprocess.run([*unshare(ready), "true"], capture_output=True, text=True)
    return None if tried.returncode == 0 else f"no network namespace can be made ({tried.stderr.strip()})"


def enter(ready: str, module: str, arguments: Sequence[str], **environment: str) -> None:
    """Run a module again, instead of this program, in such a network. Does not return."""
    program = [*unshare(ready), sys.executable, "-m", module, *arguments]
    os.execvpe(program[0], program, {**os.environ, **environment})
