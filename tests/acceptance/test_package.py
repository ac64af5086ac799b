"""The wheel: what it carries, what it leaves out, and that the commands of these tests run from it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from harness.commands import clean_environment
from harness.wheel import Installed

VERSIONS = ("3.11", "3.12", "3.13", "3.14")


@pytest.fixture
def files(installed: Installed | None) -> dict[str, bytes]:
    """The files of the wheel."""
    if installed is None:
        pytest.skip("these tests run from the checkout")
    with zipfile.ZipFile(installed.wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_has_the_dashboard_and_the_types_and_nothing_but_the_package(files: dict[str, bytes]) -> None:
    names = set(files)
    assert {"mainspring/py.typed", "mainspring/sync.pyi", "mainspring/api/static/docs.html"} <= names
    page = files["mainspring/api/static/dashboard/index.html"].decode()
    scripts = [name for name in names if name.startswith("mainspring/api/static/dashboard/assets/")]
    assert len(scripts) > 10 and any(Path(name).name in page for name in scripts)
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"mainspring", "pytest_mainspring"}
    assert not [name for name in names if "test" in Path(name).name or "conftest" in name or "__pycache__" in name]


def test_the_wheel_names_the_pythons_that_it_is_for_and_the_command(files: dict[str, bytes]) -> None:
    (metadata,) = (Parser().parsestr(files[name].decode()) for name in files if name.endswith("/METADATA"))
    classifiers = metadata.get_all("Classifier") or []
    named = [one.rpartition(" ")[2] for one in classifiers if one.startswith("Programming Language :: Python :: 3.")]
    assert tuple(named) == VERSIONS and metadata["Requires-Python"] == ">=3.11"
    (entry,) = (files[name].decode() for name in files if name.endswith("/entry_points.txt"))
    assert "mainspring = mainspring.cli:main" in entry


def test_the_commands_of_these_tests_run_from_the_wheel(installed: Installed | None) -> None:
    if installed is None:
        pytest.skip("these tests run from the checkout")
    code = "import mainspring, importlib.metadata as m; print(mainspring.__file__, m.distribution('mainspring')._path)"
    said = subprocess.run(
        [sys.executable, "-c", code], env=clean_environment(), capture_output=True, text=True, check=True
    )
    assert said.stdout.split()[0] == str(installed.folder / "mainspring" / "__init__.py")
    assert all(Path(one).is_relative_to(installed.folder) for one in said.stdout.split())
