"""Instants and durations in the output and the options of commands."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mainspring.clock import ServerClock
from mainspring.durations import duration_ms, duration_text
from mainspring.errors import ConfigurationError

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000


def now() -> datetime:
    """The time of this machine."""
    return ServerClock().now()


def ago(text: object) -> str | None:
    """An instant of an answer as its distance from now: `3m ago`, `in 2h`."""
    if not isinstance(text, str):
        return None
    distance = _read(text) - now()
    milliseconds = round(distance / timedelta(milliseconds=1))
    if abs(milliseconds) < _SECOND:
        return "now"
    return f"in {span(milliseconds)}" if milliseconds > 0 else f"{span(-milliseconds)} ago"


def both(text: object) -> str | None:
    """An instant of an answer, and its distance from now."""
    return None if not isinstance(text, str) else f"{text} ({ago(text)})"


def span(milliseconds: float | None) -> str | None:
    """A duration in its two largest units: 1h30m, 12.3s."""
    if milliseconds is None:
        return None
    whole = round(milliseconds)
    if whole < 10 * _SECOND:
        return f"{whole}ms" if whole < _SECOND else f"{whole / _SECOND:.1f}s"
    for least, unit in ((2 * _DAY, _HOUR), (2 * _HOUR, _MINUTE)):
        if whole >= least:
            return duration_text(whole // unit * unit)
    return duration_text(whole // _SECOND * _SECOND)


def past_instant(text: str | None, option: str) -> str | None:
    """An instant as an option names it: with its zone, or as a duration, which means that long ago."""
    if text is None:
        return None
    if text[:1].isdigit() and not text[:4].isdigit():
        return _instant(now() - timedelta(milliseconds=duration_ms(text, option, ConfigurationError)))
    return instant(text, option, ", or a time ago such as 1h")


def instant(text: str | None, option: str, or_else: str = "") -> str | None:
    """An instant as an option names it, which needs its zone. A refusal names what else there could be."""
    if text is None:
        return None
    try:
        found = _read(text)
    except ValueError:
        raise ConfigurationError(
            f"{option} must be an instant such as 2030-12-24T18:00:00Z or 2030-12-24T18:00+01:00{or_else}, "
            f"not {text!r}."
        ) from None
    if found.tzinfo is None:
        whole = found.isoformat(timespec="auto" if found.second or found.microsecond else "minutes")
        raise ConfigurationError(
            f"{option} {text!r} has no time zone; write {whole}Z for UTC, or end it with an offset: {whole}+02:00."
        )
    return _instant(found.astimezone(UTC))


def _read(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _instant(found: datetime) -> str:
    return found.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
