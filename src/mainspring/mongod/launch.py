"""Start a guardian, for a user that found none and has taken its lock.

The starter hands the lock over as an open file: it is never free between the starter and the guardian, so that no
second guardian can be started, and the system releases it if either dies.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

from mainspring.config.private_files import owner_only
from mainspring.errors import EmbeddedError
from mainspring.mongod.folder import Folder, State
from mainspring.mongod.locks import FileLock

CACHE_VARIABLE = "MAINSPRING_MONGOD_CACHE_GB"
_LEAST_CACHE_GB = 0.25


def start_guardian(folder: Folder, binary: Path, lock: FileLock) -> None:
    """Start the guardian and hand it the lock. Raises OSError if the folder cannot be written."""
    run = uuid.uuid4().hex
    before = folder.read_state()
    folder.write_state(State("starting", run, before.port, None, before.mongod, "its guardian starts"))
    hand_over = sys.platform != "win32"
    arguments = [str(folder.path), str(binary), run, cache_gb(), str(lock.fileno()) if hand_over else ""]
    if not hand_over:
        lock.close()
    try:
        code = _run(folder, arguments, (lock.fileno(),) if hand_over else ())
    finally:
        # Also after an interrupt: unlocking here would take the lock from a guardian that has it.
        lock.forget()
    if code != 0:
        raise EmbeddedError(
            f"The guardian of the embedded MongoDB could not be started with {sys.executable}; "
            f"see {folder.guardian_log}, or give the URI of a MongoDB server."
        )


def _run(folder: Folder, arguments: list[str], inherited: tuple[int, ...]) -> int:
    with open(folder.guardian_log, "wb", opener=owner_only) as log:
        script = str(Path(__file__).with_name("run_guardian.py"))
        return subprocess.run(
            [_python(), "-I", "-S", script, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder.path,
            pass_fds=inherited,
            start_new_session=True,
            check=False,
        ).returncode


def cache_gb() -> str:
    """The size of mongod's cache: small, unless the environment says otherwise."""
    text = os.environ.get(CACHE_VARIABLE) or str(_LEAST_CACHE_GB)
    try:
        size = float(text)
    except ValueError:
        size = 0.0
    if not _LEAST_CACHE_GB <= size <= 10_000:
        raise EmbeddedError(f"{CACHE_VARIABLE} is {text!r}; give a number of gigabytes from 0.25 up, such as 0.5.")
    return text


def _python() -> str:
    if not sys.executable:
        raise EmbeddedError(
            "The embedded MongoDB needs a Python program to run its guardian, and sys.executable names none; "
            "give the URI of a MongoDB server."
        )
    return sys.executable
