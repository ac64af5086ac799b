"""The files in the folder of an embedded server, and which process writes each.

    users.lock      shared by every user; the guardian takes it exclusively, until its end, when it stops
    guardian.lock   held by the guardian for as long as it lives
    setup.lock      held by the user that initiates or reconfigures the replica set
    state.json      the guardian's state; written by the process that holds guardian.lock
    guardian.log    empty, unless the guardian itself failed
    mongod.log      mongod's log, with one predecessor (mongod.log.1)
    mongod.out      the output of mongod's latest start before it had a log
    mongod.key      the key of the server, made by the guardian; the password is derived from it (`credentials.py`)
    uri             the URI with the password, for mongosh and the like; written by every user that finds it outdated
    audit.key       the key that the audit log is signed with; made by the first user
    data/           MongoDB's own files

Users rely on the state only while guardian.lock is held, and on "running" only once mongod confirmed it: a file left
behind by a crash proves nothing. Standard library only, since the guardian imports this module.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mainspring.config.private_files import OTHERS, is_private, owner_only
from mainspring.errors import EmbeddedError

Phase = Literal["none", "starting", "running", "restarting", "failing", "failed", "stopping"]


@dataclass(frozen=True, slots=True)
class State:
    """The guardian's state, which the users read.

    `run` identifies one guardian process. `port` outlives it, so that the next one can use it again. `detail` says what
    the users wait for, or, in the phases `restarting`, `failing` and `failed`, explains the failure.
    """

    phase: Phase = "none"
    run: str = ""
    port: int | None = None
    guardian: int | None = None
    mongod: int | None = None
    detail: str = ""


_NAMES = {
    *("users.lock", "guardian.lock", "setup.lock", "state.json", "state.new", "guardian.log"),
    *("mongod.log", "mongod.log.1", "mongod.out", "mongod.key", "uri", "audit.key", "data"),
}
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_FIELDS = {field.name for field in dataclasses.fields(State)}


class Folder:
    """The paths in one folder, and the reading and writing of its state."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = path / "data"
        self.users_lock = path / "users.lock"
        self.guardian_lock = path / "guardian.lock"
        self.setup_lock = path / "setup.lock"
        self.guardian_log = path / "guardian.log"
        self.log = path / "mongod.log"
        self.output = path / "mongod.out"
        self.key = path / "mongod.key"
        self.uri = path / "uri"
        self.mongod_lock = self.data / "mongod.lock"
        self._state = path / "state.json"

    def prepare(self) -> None:
        """Make the folder, readable by its owner only. Raises OSError."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.data.mkdir(mode=0o700, exist_ok=True)

    def close_to_others(self) -> str | None:
        """Remove the rights of other users of the machine on a folder that existed before. A folder with other files in
        it keeps its rights: return a warning then, or raise EmbeddedError if others may write. Raises OSError."""
        if is_private(self.path):
            return None
        if self._is_ours_alone():
            self.path.chmod(self.path.stat().st_mode & ~OTHERS)
            return None
        if self.path.stat().st_mode & _WRITABLE_BY_OTHERS:
            raise EmbeddedError(
                f"Others may write in {self.path}, so that they could replace the files of the embedded MongoDB; "
                f"choose a folder of its own, or run: chmod go-w '{self.path}'"
            )
        return (
            f"Others may look into {self.path}, which holds other files as well; they can read nothing of the embedded "
            "MongoDB in it, but a folder of its own is safer"
        )

    def _is_ours_alone(self) -> bool:
        """Whether the folder has only files of the embedded server, and this process may change its mode."""
        names = {path.name for path in self.path.iterdir()}
        return names <= _NAMES and self.path.stat().st_uid == os.geteuid()

    def read_state(self) -> State:
        """The state last written, or an empty one if none can be read."""
        try:
            found = json.loads(self._state.read_text("utf-8"))
            return State(**{name: value for name, value in found.items() if name in _FIELDS})
        except (OSError, ValueError, TypeError, AttributeError):
            return State()

    def write_state(self, state: State) -> None:
        """Replace the state in one step, or, on a full disk, overwrite it, which needs no space. Raises OSError."""
        text = json.dumps(dataclasses.asdict(state))
        new = self._state.with_suffix(".new")
        try:
            with open(new, "w", encoding="ascii", opener=owner_only) as file:
                file.write(text)
            new.replace(self._state)
        except OSError:
            with self._state.open("r+", encoding="ascii") as file:
                file.write(text)
                file.truncate()

    def was_left_unclean(self) -> bool:
        """Whether the last mongod of the folder was killed: a mongod that stops cleanly empties its lock file."""
        try:
            return self.mongod_lock.stat().st_size > 0
        except OSError:
            return False

    def mongod_lock_owner(self) -> int | None:
        """The process id that the data's last mongod wrote into its lock file."""
        try:
            return int(self.mongod_lock.read_text("ascii").strip())
        except (OSError, ValueError):
            return None


_CAUSES = {
    errno.EACCES: "this user may not write there; allow it, or choose another folder",
    errno.EPERM: "this user may not write there; allow it, or choose another folder",
    errno.EROFS: "its file system is read-only; choose another folder",
    errno.ENOSPC: "there is no space left on its disk; free some space, or choose a folder on another disk",
    errno.EDQUOT: "the disk quota is used up; free some space, or choose a folder on another disk",
    errno.ENAMETOOLONG: "its path is too long; choose a folder with a shorter path",
    errno.ENOTDIR: "part of its path is a file; remove that file, or choose another folder",
    errno.EEXIST: "a file has its name; remove that file, or choose another folder",
    errno.ENOLCK: "its file system has no file locks; choose a folder on a local disk",
    errno.ENOTSUP: "its file system has no file locks; choose a folder on a local disk",
    errno.EMFILE: "this process has too many open files; close some, or raise its limit (ulimit -n)",
}


def folder_error(path: Path, error: OSError) -> EmbeddedError:
    """The sentence for a folder that cannot be used."""
    cause = _CAUSES.get(error.errno or 0, f"{error.strerror or error}; choose another folder")
    return EmbeddedError(f"The embedded MongoDB cannot use the folder {path}: {cause}.")
