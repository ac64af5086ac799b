"""Text from anywhere, made safe for a terminal.

A job's name, data and errors may come from untrusted clients. Escape sequences in them could move the cursor, change
colours or worse, so that characters that do not print are shown as their escapes.
"""

from __future__ import annotations


def printable(text: str, keep: str = "") -> str:
    """The text with characters that do not print, except those of `keep`, in Python's escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode("ascii") for c in text)


def shortened(text: str, limit: int) -> str:
    """At most `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
