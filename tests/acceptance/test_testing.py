"""The tests of the page "Test your jobs" and those of the example pass, in one run of pytest with two processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from harness.pages import ROOT, blocks
from mainspring.mongod.temporary import PREFIX, temporary_place

PAGE = ROOT / "docs" / "howto" / "test-your-jobs.md"
EXAMPLE = ROOT / "examples" / "testing"


def test_the_tests_of_the_page_and_of_the_example_pass_in_processes_that_share_a_server(tmp_path: Path) -> None:
    files = [block for block in blocks(PAGE) if block.mark == "file"]
    for block in files:
        (tmp_path / block.argument).write_text(block.text)
    shutil.copytree(EXAMPLE, tmp_path / "shop", ignore=shutil.ignore_patterns("pytest.ini", "__pycache__"))
    assert len(files) == 8
    before = _folders()
    assert _passed(tmp_path, "-n2") == 13 + 6
    assert _folders() <= before, "the folder of the server was left behind"


def _folders() -> set[Path]:
    """The folders of temporary servers."""
    return set(temporary_place().glob(f"{PREFIX}*"))


def _passed(folder: Path, *arguments: str) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", *arguments]
    command += ["-W", "ignore::pytest.PytestDeprecationWarning"]  # of pytest-asyncio, about a default that changes
    # Plugins of Mainspring's own tests, which take seconds to import in each process.
    command += [f"-pno:{one}" for one in ("cacheprovider", "schemathesis", "hypothesispytest")]
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "MAINSPRING_"))}
    done = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return int(done.stdout.rpartition(" passed")[0].split()[-1])
