"""The files that `mainspring worker --reload` watches."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mainspring.cli.supervision.watching import Watched


def test_a_changed_file_of_the_application_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "watched_app.py"
    module.write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "watched_app", raising=False)
    __import__("watched_app")
    watched = Watched()
    assert watched.changed() is None
    module.unlink()
    assert watched.changed() is None  # an editor replaces it
    module.write_text("")
    os.utime(module, (1, 1))
    assert (watched.changed(), watched.changed()) == (module.resolve(), None)
    sys.modules.pop("watched_app")


def test_neither_mainspring_nor_installed_packages_are_watched() -> None:
    paths = {str(path) for path in Watched()._times}
    assert not [path for path in paths if "site-packages" in path or "src/mainspring" in path]
