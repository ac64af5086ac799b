"""The reference is what the code says."""

from __future__ import annotations

from pathlib import Path

from mainspring.api.generate_reference import page

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "api.md"


def test_the_reference_of_the_api_is_made_from_the_code() -> None:
    assert REFERENCE.read_text(encoding="utf-8") == page(), "run: python -m mainspring.api.generate_reference " + str(
        REFERENCE.relative_to(Path(__file__).parents[2])
    )
