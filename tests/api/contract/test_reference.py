"""The reference is what the code says."""

from __future__ import annotations

from harness.pages import ROOT
from mainspring.api.generate_reference import document_text, page

REFERENCE = ROOT / "docs" / "reference" / "api.md"
DOCUMENT = ROOT / "dashboard" / "openapi.json"


def test_the_reference_of_the_api_is_made_from_the_code() -> None:
    assert REFERENCE.read_text(encoding="utf-8") == page(), "run: make docs"


def test_the_types_of_the_dashboard_are_made_from_the_code() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document_text(), "run: make docs"
