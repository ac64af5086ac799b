"""Intervals in words, as Agenda takes them: "3 minutes", "one hour and 30 minutes", "1.5 days". Pure."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

_UNITS = {
    "millisecond": 0.001,
    "second": 1,
    "sec": 1,
    "minute": 60,
    "min": 60,
    "hour": 3600,
    "day": 86_400,
    "week": 604_800,
    "month": 2_592_000,
    "year": 31_536_000,
}
_UP_TO_TWENTY = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
)
_NUMBERS = {word: float(number) for number, word in enumerate(_UP_TO_TWENTY)}
_NUMBERS |= {"a": 1, "an": 1, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "ninety": 90}
_WORD = re.compile(r"\d+(?:\.\d+)?|[a-z]+")


def read_interval(value: Any) -> timedelta | None:
    """The length of an interval: a number of milliseconds, or words; None for any other text, such as cron."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return timedelta(milliseconds=value)
    if not isinstance(value, str) or len(value) > 200:
        return None
    if value.strip().isdecimal():
        return timedelta(milliseconds=int(value))
    return _read_words(value.lower())


def _read_words(text: str) -> timedelta | None:
    words = [word for word in _WORD.findall(text) if word != "and"]
    if not words or re.sub(r"[\s,]|and", "", text) != re.sub(r"and", "", "".join(words)):
        return None
    total, number = 0.0, None
    for word in words:
        amount = float(word) if word[0].isdigit() else _NUMBERS.get(word)
        if amount is not None:
            number = amount if number is None else number + amount
            continue
        unit = _UNITS.get(word) or _UNITS.get(word.removesuffix("s"))
        if unit is None:
            return None
        total, number = total + unit * (1 if number is None else number), None
    return None if number is not None else timedelta(seconds=total)
