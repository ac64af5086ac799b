"""Findings of the doctor: what was looked at, how it is, in a sentence, and what to do. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

FindingStatus = Literal["ok", "skipped", "warning", "problem"]
STATUSES: tuple[FindingStatus, ...] = ("ok", "skipped", "warning", "problem")
"""From the best on. A check is skipped where the facts cannot be read."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check."""

    check: str
    status: FindingStatus
    text: str
    cure: str = ""
    """What to do about it; empty where nothing is to be done."""


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """The findings of all checks, in the order of the checks."""

    at: datetime
    findings: tuple[Finding, ...]

    @property
    def status(self) -> FindingStatus:
        """The worst status."""
        return max((finding.status for finding in self.findings), key=STATUSES.index, default="ok")

    @property
    def problems(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.status == "problem")
