"""The product as its users have it: a wheel, built from this checkout once per run and installed into a folder.

The acceptance tests start their commands with this folder first on the path of modules, so that a file that is missing
in the wheel is missed by them too. MAINSPRING_ACCEPTANCE=checkout lets them use the checkout instead, which saves some
seconds.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.pages import ROOT

SWITCH = "MAINSPRING_ACCEPTANCE"


@dataclass(frozen=True, slots=True)
class Installed:
    """A wheel, and the folder that it is installed in."""

    wheel: Path
    folder: Path


def wanted() -> bool:
    """Whether the acceptance tests use the wheel."""
    return os.environ.get(SWITCH, "wheel") != "checkout"


def installed(factory: pytest.TempPathFactory) -> Installed:
    """The wheel of this run; the first process of the run that needs it builds it."""
    base = factory.getbasetemp()
    place = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "wheel"
    place.mkdir(exist_ok=True)
    folder = place / "installed"
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _install(build(place), folder)
    return Installed(next(place.glob("*.whl")), folder)


def build(place: Path) -> Path:
    """Build the wheel into a folder, with the dashboard as `make dashboard` has built it."""
    _run("-m", "hatchling", "build", "--target", "wheel", "--directory", str(place), MAINSPRING_DASHBOARD="built")
    return next(place.glob("*.whl"))


def _install(wheel: Path, folder: Path) -> None:
    unfinished = folder.with_name("unfinished")
    _run("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(unfinished), str(wheel))
    unfinished.rename(folder)


def _run(*arguments: str, **variables: str) -> None:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{SWITCH}=checkout runs these tests without a wheel."
