"""What is kept of a request that may come twice: its print, the id of what it makes, and its answer. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reply:
    """What is known of a request that came with a key. Without a status, nobody knows of an answer."""

    print: str
    """A hash of what was asked for."""
    seed: str
    """The id of what the request makes, 24 hexadecimal digits: the same however often it comes."""
    status: int | None = None
    body: str | None = None

    def is_for(self, print: str) -> bool:
        """Whether this very thing was asked for."""
        return self.print == print
