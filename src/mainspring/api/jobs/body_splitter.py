"""The items of a body that is read piece by piece: the lines of an NDJSON stream, or the entries of a JSON array.

The splitter keeps only one item at a time. It skips an item that is too long, without keeping it, and reports it.
"""

from __future__ import annotations

import re
from typing import Protocol

_OUTSIDE = re.compile(rb'["\[\]{},]')
_INSIDE = re.compile(rb'["\\]')


class TooLong:
    """Stands for an item that was skipped because of its length."""


TOO_LONG = TooLong()
Item = bytes | TooLong


class BrokenArray(ValueError):
    """The body is not a JSON array; its entries are not checked."""


class Splitter(Protocol):
    """Takes a body piece by piece and returns its items."""

    def feed(self, piece: bytes) -> list[Item]:
        """The items that end in this piece."""

    def close(self) -> list[Item]:
        """The items that end with the body."""


class _Buffer:
    """The bytes of the item that is being read."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._bytes = bytearray()
        self._over = False

    def add(self, piece: bytes) -> None:
        self._over = self._over or len(self._bytes) + len(piece) > self._longest
        if self._over:
            self._bytes.clear()
        else:
            self._bytes += piece

    def take(self) -> Item:
        item = TOO_LONG if self._over else bytes(self._bytes)
        self._bytes.clear()
        self._over = False
        return item


class Lines:
    """Splits a body at its line ends. An empty line is an item too, so that lines can be counted."""

    def __init__(self, longest: int) -> None:
        self._buffer = _Buffer(longest)

    def feed(self, piece: bytes) -> list[Item]:
        *ended, rest = piece.split(b"\n")
        found: list[Item] = []
        for part in ended:
            self._buffer.add(part)
            found.append(self._buffer.take())
        self._buffer.add(rest)
        return found

    def close(self) -> list[Item]:
        last = self._buffer.take()
        return [last] if last else []


class Entries:
    """Splits a JSON array at the commas between its entries. The entries themselves are not parsed here."""

    def __init__(self, longest: int) -> None:
        self._buffer = _Buffer(longest)
        self._depth = 0
        self._quoted = False
        self._escaped = False
        self._ended = False
        self._any = False
        """Whether there was a comma already."""

    def feed(self, piece: bytes) -> list[Item]:
        if self._depth == 0:
            piece = self._open(piece)
        found: list[Item] = []
        start = at = 0
        if self._escaped and piece:
            at, self._escaped = 1, False
        while match := (_INSIDE if self._quoted else _OUTSIDE).search(piece, at):
            at = match.end()
            if self._takes(match[0]):
                continue
            if self._escaped:  # the byte after a backslash is part of the text
                self._escaped, at = at >= len(piece), at + 1
                continue
            self._buffer.add(piece[start : match.start()])
            start = at
            found += self._cut(match[0])
            if self._depth == 0:
                self._ended = True
                self._open(piece[at:])
                return found
        self._buffer.add(piece[start:])
        return found

    def close(self) -> list[Item]:
        if not self._ended:
            raise BrokenArray("The JSON array has no end.")
        return []

    def _open(self, piece: bytes) -> bytes:
        """The piece after the opening bracket. Refuse any other beginning, and any text after the array's end."""
        piece = piece.lstrip()
        if piece and (self._ended or not piece.startswith(b"[")):
            raise BrokenArray("The body is not a JSON array; send one, or NDJSON as application/x-ndjson.")
        if piece:
            self._depth = 1
        return piece[1:]

    def _takes(self, mark: bytes) -> bool:
        """Whether a mark belongs to the entry that is being read."""
        if mark == b"\\":
            self._escaped = True
            return False
        if mark == b'"':
            self._quoted = not self._quoted
            return True
        if mark in b"[{":
            self._depth += 1
            return True
        if mark in b"]}":
            self._depth -= 1
            return self._depth > 0
        return self._depth > 1

    def _cut(self, mark: bytes) -> list[Item]:
        """The entry that ends at a mark; none for an empty array."""
        item = self._buffer.take()
        if mark == b"}":
            raise BrokenArray("The JSON array ends with a brace.")
        if mark == b"]" and not self._any and isinstance(item, bytes) and not item.strip():
            return []
        self._any = True
        return [item]
