"""A stand-in for a stored rule that cannot be read, so that its schedule can be shown, repaired and deleted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mainspring.rules.rule import BaseRule


@dataclass(frozen=True)
class UnreadableRule(BaseRule):
    """Never fires, and describes the reason: a newer version of Mainspring may have stored the rule."""

    stored: str
    why: str

    @classmethod
    def of(cls, document: object, error: Exception) -> UnreadableRule:
        return cls(repr(document), str(error))

    def next(self, after: datetime) -> datetime | None:
        return None

    def previous(self, before: datetime) -> datetime | None:
        return None

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        return iter(())

    def count(self, start: datetime, end: datetime) -> int:
        return 0

    def describe(self) -> str:
        return f"a rule that cannot be read: {self.why}"

    def to_document(self) -> dict[str, Any]:
        return {"kind": "unreadable", "stored": self.stored}
