"""What a type checker finds in a program that uses the library: every typing error, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mypy import api

from harness.pages import ROOT
from mainspring.config.settings import SchedulerOptions, Settings
from mainspring.model.jobs.draft import OPTIONS
from mainspring.model.jobs.options import JobOptions

TYPOS = ROOT / "tests" / "harness" / "typos"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("page", "least"), [("mistakes.txt", 36), ("typed_jobs.txt", 14)])
def test_mypy_finds_every_misspelt_option_and_every_word_that_is_none_of_a_closed_set(
    page: str, least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program.py"
    program.write_text((TYPOS / page).read_text("utf-8"), "utf-8")
    monkeypatch.chdir(ROOT)  # with the settings and the cache of `make check`
    report, problems, _ = api.run([str(program)])
    assert problems == ""
    found = {int(line) for line in re.findall(r"program\.py:(\d+): error", report)}
    wanted = {
        number for number, line in enumerate(program.read_text("utf-8").splitlines(), 1) if line.endswith("# wrong")
    }
    assert len(wanted) >= least
    assert found == wanted, report


def test_what_a_scheduler_and_a_job_can_be_told_is_typed() -> None:
    assert set(SchedulerOptions.__annotations__) == set(Settings.__dataclass_fields__)
    assert set(JobOptions.__annotations__) == OPTIONS | {"session"}
