"""Bursts of calls with one key: the last call counts (debounce), or the first in a window does (throttle). Pure.

Both use a dedupe key, by default the job's name. Throttling is a dedupe window under its own name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mainspring.errors import InvalidJob
from mainspring.model.jobs.retry import Seconds, seconds
from mainspring.model.limits.limits import window


@dataclass(frozen=True, slots=True)
class Debounce:
    """The last call of a burst runs `delay` seconds after it, and not later than `most` seconds after the first."""

    delay: float
    most: float | None = None
    given: frozenset[str] = frozenset()
    """The options that this call gives beside its data: they are changed too, and the others stay as they are."""


def make_debounce(delay: Seconds | None, most: Seconds | None, options: Mapping[str, object]) -> Debounce:
    """Check the options of a debounced job; `options` are those that a later call of a burst may change."""
    if delay is None:
        raise InvalidJob("debounce_max needs debounce.")
    pause = window(delay, "debounce")
    longest = None if most is None else seconds(most, "debounce_max")
    if longest is not None and longest < pause:
        raise InvalidJob(f"debounce_max ({longest:g} s) must not be shorter than debounce ({pause:g} s).")
    return Debounce(pause, longest, frozenset(key for key, value in options.items() if value is not None))


def choose_key(
    name: str,
    key: str | None,
    dedupe_window: Seconds | None,
    debounce: Seconds | None,
    throttle: Seconds | None,
) -> tuple[str | None, Seconds | None]:
    """The dedupe key and window, by `dedupe_window`, `debounce` or `throttle`."""
    if dedupe_window is not None and key is None:
        raise InvalidJob("dedupe_window needs a dedupe_key.")
    if throttle is not None and dedupe_window is not None:
        raise InvalidJob("Give throttle or dedupe_window, not both: throttle is a dedupe_window under its own name.")
    if debounce is not None and (throttle is not None or dedupe_window is not None):
        raise InvalidJob("Give debounce (the last of a burst runs) or throttle (the first in a window does), not both.")
    if debounce is None and throttle is None:
        return key, dedupe_window
    return name if key is None else key, None if throttle is None else window(throttle, "throttle")
