"""Admission of a bulk's items to their queues: all at once, or only as many as there is room for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import Protocol

from mainspring.model.jobs.draft import Draft

Item = Draft | Exception
"""The draft of a requested job, or the error of an invalid item."""


class Admission(Protocol):
    """Hands out the items of one bulk, chunk by chunk."""

    @property
    def waits(self) -> bool:
        """Whether the next chunk may have to wait until items that were let in are written."""

    async def chunk(self, source: Iterator[Item], most: int) -> list[Item]:
        """The next items, in their order; none when there are no more."""

    def storing(self, drafts: Iterable[Draft]) -> AbstractContextManager[None]:
        """The time in which these items are written: at its end they have been stored, or could not be."""

    def give_back(self, draft: Draft) -> None:
        """Note that this item is invalid and will not be stored."""


class OpenAdmission:
    """Admits all items at once."""

    waits = False

    async def chunk(self, source: Iterator[Item], most: int) -> list[Item]:
        return list(islice(source, most))

    def storing(self, drafts: Iterable[Draft]) -> AbstractContextManager[None]:
        return nullcontext()

    def give_back(self, draft: Draft) -> None: ...
