"""Finding secrets in texts and bytes and masking them: where secrets overlap or touch, they are masked as one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import AnyStr


def mask_secrets(text: AnyStr, secrets: Iterable[AnyStr], mask: AnyStr, limit: int | None = None) -> AnyStr:
    """The first `limit` characters of a text, or all of it, with a mask in place of each secret. The cut comes after
    the search: half a secret would not be found."""
    shown_to = len(text) if limit is None else limit
    parts: list[AnyStr] = []
    position = 0
    for start, end in _merged(span for secret in secrets for span in _occurrences(text, secret)):
        if start >= shown_to:
            break
        parts += [text[position:start], mask]
        position = end
    parts.append(text[position : max(position, shown_to)])
    return mask[:0].join(parts)


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans in order; spans that overlap or touch are merged."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _occurrences(text: AnyStr, secret: AnyStr) -> Iterator[tuple[int, int]]:
    at = text.find(secret)
    while at >= 0:
        yield at, at + len(secret)
        at = text.find(secret, at + 1)
