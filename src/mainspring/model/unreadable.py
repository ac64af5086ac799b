"""Stored documents that cannot be read, beside those that can. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A stored document that cannot be read: its id, and what is wrong with it, without its values."""

    id: str
    error: str


class Listed(list[T]):
    """A list of what could be read. `unreadable` names the documents of the same collection that could not."""

    def __init__(self, found: Iterable[T] = (), unreadable: Iterable[Unreadable] = ()) -> None:
        super().__init__(found)
        self.unreadable = list(unreadable)
