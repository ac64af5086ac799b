"""Known advisories about MongoDB servers: which releases have the fix. Pure.

A small table of what concerns a job scheduler's database: what a client without a password can do, what a user can do
beyond its rights, and what harms unique indexes. The releases are those that the public records of each CVE name.
MongoDB's own list of alerts is complete, this one is not.
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
    needs_user: bool = False
    """Whether only a client with a password can use it. An embedded server has one user, its owner."""

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
    Advisory(
        "CVE-2025-6710",
        "a client without a password can crash the server with nested JSON",
        {(7, 0): 17, (8, 0): 5},
    ),
    Advisory(
        "CVE-2026-18691",
        "with access to the network between the members of a replica set, their credentials can be exposed",
        {(7, 0): 40, (8, 0): 29, (8, 3): 8},
    ),
    Advisory(
        "CVE-2026-8053",
        "a user with write rights can overwrite memory of the server through a time series collection",
        {(6, 0): 28, (7, 0): 34, (8, 0): 23, (8, 2): 9, (8, 3): 2},
        needs_user=True,
    ),
    Advisory(
        "CVE-2026-11933",
        "a user with read rights can read memory of the server, or crash it, by server-side JavaScript",
        {(6, 0): 29, (7, 0): 37, (8, 0): 26, (8, 2): 11, (8, 3): 4},
        needs_user=True,
    ),
    Advisory(
        "CVE-2026-13059",
        "a user with few rights can read and write data that its role protects at the level of queries",
        {(7, 0): 39, (8, 0): 28, (8, 2): 12, (8, 3): 7},
        needs_user=True,
    ),
    Advisory(
        "CVE-2024-10921",
        "a user can read memory of the server, or crash it, with malformed BSON",
        {(6, 0): 19, (7, 0): 15, (8, 0): 3},
        needs_user=True,
    ),
    Advisory(
        "CVE-2025-10060",
        "an upsert that is retried in a transaction can violate a unique index and crash the server",
        {(6, 0): 25, (7, 0): 22, (8, 0): 12},
        needs_user=True,
    ),
)
ENDED: Mapping[Series, str] = {(6, 0): "July 2025"}
"""The series that get no fixes any more, and since when."""
