"""The reference is what the code says."""

from __future__ import annotations

from harness.pages import ROOT
from mainspring.api.generate_reference import page

REFERENCE = ROOT / "docs" / "reference" / "api.md"


def test_the_reference_of_the_api_is_made_from_the_code() -> None:
    assert REFERENCE.read_text(encoding="utf-8") == page(), "run: make docs"
