"""The page about rules does what it says."""

from __future__ import annotations

from typing import Any

import pytest

from harness.pages import ROOT, Block, blocks

PAGE = ROOT / "docs" / "reference" / "rules.md"


@pytest.mark.parametrize("block", blocks(PAGE), ids=lambda block: str(block.text.splitlines()[-1]))
def test_an_example_runs(block: Block) -> None:
    names: dict[str, Any] = {}
    exec(compile(block.text, str(PAGE), "exec"), names)
