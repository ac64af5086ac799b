"""Durations as text: "5m", "1h30m", "250ms". Reads them exactly, into whole milliseconds, and writes them.

Months and years are not durations, since they have no fixed length; Cron and RRule have those.
"""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from difflib import get_close_matches

_MS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_SPELLINGS = {
    "ms": "ms millisecond milliseconds",
    "s": "s sec second seconds",
    "m": "m min minute minutes",
    "h": "h hour hours",
    "d": "d day days",
    "w": "w week weeks",
}
_WORDS = {word: unit for unit, words in _SPELLINGS.items() for word in words.split()}
_NAMES = {"w": "week", "d": "day", "h": "hour", "m": "minute", "s": "second", "ms": "millisecond"}
_CALENDAR_UNITS = ("mo", "month", "months", "y", "yr", "year", "years", "quarter", "quarters")
_PIECE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([^\W\d_]*)\s*")
_LONGEST_TEXT = 60
Refusal = type[ValueError]
Duration = float | timedelta | str
"""A duration as an argument: seconds, a timedelta, or text with its unit, such as "5m"."""
_EXAMPLES = 'such as "5m", "1h30m", "90s", "2d" or "250ms"'


def duration_ms(value: object, name: str, error: Refusal = ValueError) -> int:
    """A duration given as text, timedelta or seconds, in whole milliseconds; finer ones are refused with `error`."""
    if isinstance(value, str):
        exact = _read(value, name, error)
    elif isinstance(value, timedelta):
        exact = Decimal(value // timedelta(microseconds=1)) / 1000
    elif isinstance(value, int | float) and not isinstance(value, bool):
        exact = _seconds(value, name, error)
    else:
        raise error(f"{name} must be a duration {_EXAMPLES}, a timedelta or seconds, not {value!r}.")
    if exact != int(exact):
        raise error(f"{name} is counted in whole milliseconds; {value!r} is finer than that.")
    return int(exact)


def _seconds(value: float, name: str, error: Refusal) -> Decimal:
    # By its shortest decimal form, in which 0.1 means a tenth.
    exact = Decimal(repr(value)) * 1000
    if not exact.is_finite():
        raise error(f"{name} must be a finite number of seconds, not {value!r}.")
    return exact


def _read(text: str, name: str, error: Refusal) -> Decimal:
    if len(text) > _LONGEST_TEXT:
        raise error(f"{name} is too long for a duration; write one {_EXAMPLES}.")
    total, place, largest = Decimal(0), 0, None
    while place < len(text):
        piece = _PIECE.match(text, place)
        if piece is None:
            raise error(f"{name}={text!r} is not a duration {_EXAMPLES}.{_meant(text)}")
        unit = _unit(piece[2], piece[1], text, name, error)
        if largest is not None and _MS[unit] >= _MS[largest]:
            raise error(f"{name}={text!r} has its units out of order; write the largest first, each once.")
        total, place, largest = total + Decimal(piece[1]) * _MS[unit], piece.end(), unit
    if largest is None:
        raise error(f"{name} is empty; write a duration {_EXAMPLES}.")
    return total


def _meant(text: str) -> str:
    """A hint at the duration within other words, as in "every 5 minutes"."""
    pieces = ((piece[1], _WORDS.get(piece[2].lower())) for piece in _PIECE.finditer(text))
    return next((f' Did you mean "{number}{unit}"?' for number, unit in pieces if unit is not None), "")


def _unit(word: str, number: str, text: str, name: str, error: Refusal) -> str:
    if not word:
        raise error(f"{name}={text!r} lacks a unit; write {number}s for seconds or {number}m for minutes.")
    unit = _WORDS.get(word) or (_WORDS.get(word.lower()) if len(word) > 1 else None)
    if unit is not None:
        return unit
    if word.lower() in _CALENDAR_UNITS:
        raise error(f"{name}={text!r}: months and years differ in length; use Cron or RRule for them.")
    close = [word.lower()] if word.lower() in _WORDS else get_close_matches(word.lower(), _WORDS, 1)
    hint = f"did you mean {close[0]!r}?" if close else f"the units are {', '.join(_MS)}."
    raise error(f"{name}={text!r}: {word!r} is not a unit; {hint}")


def duration_text(milliseconds: int) -> str:
    """A duration as short as it can be written: 1h30m."""
    return "".join(f"{number}{unit}" for number, unit in _parts(milliseconds)) or "0s"


def duration_words(milliseconds: int) -> str:
    """A duration in words: 1 hour 30 minutes."""
    return " ".join(f"{number} {_NAMES[unit]}{'' if number == 1 else 's'}" for number, unit in _parts(milliseconds))


def _parts(milliseconds: int) -> list[tuple[int, str]]:
    parts = []
    for unit, size in _MS.items():
        if unit == "w" and milliseconds % size:  # 10 days are written 10d, not 1w3d
            continue
        number, milliseconds = divmod(milliseconds, size)
        if number:
            parts.append((number, unit))
    return parts
