"""Combining a `Cron` with other rules. How that is done, the package of rules knows, which is built upon this one: it
says so when it is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_makers: dict[str, Callable[..., Any]] = {}


def combine_by(any_of: Callable[..., Any], except_: Callable[..., Any]) -> None:
    """Say what makes one rule of several, and what makes exceptions of a rule."""
    _makers.update(any_of=any_of, except_=except_)


class Combinable:
    """A rule that can be joined with others by `|`, and can make exceptions for the days of calendars."""

    __slots__ = ()

    def excluding(self, *calendars: str, then: str = "skip", timezone: str | None = None) -> Any:
        """This rule without the days of these stored calendars; see `Except`."""
        return _makers["except_"](self, *calendars, then=then, timezone=timezone)

    def __or__(self, other: object) -> Any:
        return _makers["any_of"](self, other) if callable(getattr(other, "next", None)) else NotImplemented
