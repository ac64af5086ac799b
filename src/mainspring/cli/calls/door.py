"""A door to the HTTP API: what both ways to call it have in common.

A door is blocking: a command does one thing after the other. It is used as a context manager, which closes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one request."""

    status: int
    media_type: str
    body: bytes


class Door(Protocol):
    """One way to call the HTTP API. `target` is a path with its query."""

    place: str
    """The service or the database, for sentences; without any password."""
    keyed: bool | None
    """Whether an API key is sent; None where none is needed."""

    def send(self, method: str, target: str, body: bytes | None, once: str | None = None) -> Reply:
        """Send a request, with this idempotency key if it has one, and return the whole answer."""

    def stream(self, target: str) -> tuple[Reply, Iterator[bytes]]:
        """Begin to read an answer without an end. Return its head, with the body if it is an error, and its parts."""

    def sleep(self, seconds: float) -> None:
        """Do nothing for a time."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
