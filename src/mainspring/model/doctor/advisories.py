"""Known advisories about MongoDB servers: which releases have the fix. Pure.

A small table of what concerns a job scheduler's database; MongoDB's own list of alerts is complete, this one is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Series = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Advisory:
    """An advisory: the first release of each series that has the fix, and its meaning for this server."""

    id: str
    text: str
    fixed: Mapping[Series, int]
    """By series: the number of the first release with the fix. Other series are not known to be affected."""
    needs_zlib: bool = False
    needs_tls: bool = False

    def affects(self, version: tuple[int, ...]) -> bool:
        """Whether a release lacks the fix."""
        series, patch = version[:2], version[2] if len(version) > 2 else 0
        return len(series) == 2 and patch < self.fixed.get((series[0], series[1]), 0)

    def cure(self, version: tuple[int, ...]) -> str:
        """The release to upgrade to."""
        fixed = self.fixed[version[0], version[1]]
        return f"upgrade the server to {version[0]}.{version[1]}.{fixed} or newer"


ADVISORIES = (
    Advisory(
        "CVE-2025-14847",
        "a client without a password can read parts of the server's memory through zlib compression",
        {(6, 0): 27, (7, 0): 28, (8, 0): 17, (8, 2): 3},
        needs_zlib=True,
    ),
    Advisory(
        "CVE-2026-9740",
        "a client without a password can crash the server with one message",
        {(7, 0): 35, (8, 0): 24, (8, 2): 10, (8, 3): 3},
    ),
    Advisory(
        "CVE-2024-1351",
        "with some settings of TLS the server accepts certificates without checking them",
        {(6, 0): 14, (7, 0): 6},
        needs_tls=True,
    ),
)
ENDED: Mapping[Series, str] = {(6, 0): "July 2025"}
"""The series that get no fixes any more, and since when."""
