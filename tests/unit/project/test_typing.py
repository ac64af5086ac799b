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
def test_mypy_finds_every_misspelt_option_and_every_word_that_is_none_of_a_closed_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = {"mistakes": 36, "typed_jobs": 14}
    for page in pages:
        (tmp_path / f"{page}.py").write_text((TYPOS / f"{page}.txt").read_text("utf-8"), "utf-8")
    monkeypatch.chdir(ROOT)  # with the settings and the cache of `make check`
    report, problems, _ = api.run([str(tmp_path / f"{page}.py") for page in pages])
    assert problems == ""
    for page, least in pages.items():
        lines = (tmp_path / f"{page}.py").read_text("utf-8").splitlines()
        found = {int(line) for line in re.findall(rf"{page}\.py:(\d+): error", report)}
        wanted = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
        assert len(wanted) >= least
        assert found == wanted, report


def test_what_a_scheduler_and_a_job_can_be_told_is_typed() -> None:
    assert set(SchedulerOptions.__annotations__) == set(Settings.__dataclass_fields__)
    assert set(JobOptions.__annotations__) == OPTIONS | {"session"}
