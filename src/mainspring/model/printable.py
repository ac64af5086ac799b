"""Text from anywhere, made safe for a terminal.

A job's name, data and errors may come from strangers. Escape sequences in them could move the cursor, change colours
or worse, so whatever does not print is shown as its escape.
"""

from __future__ import annotations


def printable(text: str, keep: str = "") -> str:
    """The text with everything that does not print, but for the characters of `keep`, as Python would escape it."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode("ascii") for c in text)


def shortened(text: str, limit: int) -> str:
    """At most `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
