"""Lists of stored documents that name the unreadable ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A stored document that cannot be read: its id, and its error, without its values."""

    id: str
    error: str


class Listed(list[T]):
    """A list of decoded documents. `unreadable` names the documents of the same collection that cannot be read."""

    def __init__(self, found: Iterable[T] = (), unreadable: Iterable[Unreadable] = ()) -> None:
        super().__init__(found)
        self.unreadable = list(unreadable)
