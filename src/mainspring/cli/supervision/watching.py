"""The files of an application, for `mainspring worker --reload`: which of them has changed.

They are the modules that the application has imported, except those of installed packages. They are looked at by their
times, twice a second: that works on every file system, and needs no further package.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

WATCH_EVERY = 0.5


class Watched:
    """The files of the modules that are imported now."""

    def __init__(self) -> None:
        self._times = {path: _time(path) for path in _files()}

    def __len__(self) -> int:
        return len(self._times)

    def changed(self) -> Path | None:
        """A file that has changed since the last call, or None. One that is gone for a moment, as editors do it, has
        not."""
        found = None
        for path, before in self._times.items():
            time = _time(path)
            if time is not None and time != before:
                self._times[path], found = time, path
        return found


def _files() -> set[Path]:
    named = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    installed = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib")]
    ours = Path(__file__).resolve().parents[2]
    paths = {Path(name).resolve() for name in named if name is not None and name.endswith(".py")}
    return {path for path in paths if not any(path.is_relative_to(one) for one in (*installed, ours))}


def _time(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None
